@@
symbol mapping;
@@
 fork_file_batch_link(struct fork_file_batch *fb)
 {
 	struct address_space *mapping = ...;
+	struct mm_struct *mm = fb->vmas[0].child->vm_mm;
 	...
-	i_mmap_lock_write(mapping);
+	i_mmap_lock_write(mapping, mm);
 	...
-	i_mmap_unlock_write(mapping);
+	i_mmap_unlock_write(mapping, mm);
 }
