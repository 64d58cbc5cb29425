@@
expression mapping;
@@
 vma_prepare(struct vma_prepare *vp)
 {
 <...
-i_mmap_lock_write(mapping)
+i_mmap_lock_write(mapping, vp->vma->vm_mm)
 ...>
 }

@@
expression mapping;
@@
 vma_complete(...)
 {
 <...
-i_mmap_unlock_write(mapping)
+i_mmap_unlock_write(mapping, mm)
 ...>
 }

// All VMAs of a batch belong to one mm, whose page tables are being freed.
@@
identifier vb;
symbol mapping;
@@
 unlink_file_vma_batch_process(struct unlink_vma_file_batch *vb)
 {
+	struct mm_struct *mm = vb->vmas[0]->vm_mm;
 	...
-	i_mmap_lock_write(mapping);
+	i_mmap_lock_write(mapping, mm);
 	for (...;...;...) {
+		VM_WARN_ON_ONCE(vb->vmas[i]->vm_mm != mm);
 		...
 	}
-	i_mmap_unlock_write(mapping);
+	i_mmap_unlock_write(mapping, mm);
 	...
 }

@@
expression mapping;
@@
 vma_link_file(struct vm_area_struct *vma, ...)
 {
 <...
(
-i_mmap_lock_write(mapping)
+i_mmap_lock_write(mapping, vma->vm_mm)
|
-i_mmap_unlock_write(mapping)
+i_mmap_unlock_write(mapping, vma->vm_mm)
)
 ...>
 }

// Every walk takes i_mmap_root_rwsem first, whether the file has shards or not.
@@
@@
 vm_unlock_mapping(struct address_space *mapping)
 {
 <...
-i_mmap_unlock_write(mapping);
+up_write(&mapping->i_mmap_root_rwsem);
 ...>
 }

@@
expression mapping;
@@
 mmap_replace(struct mmap_state *map, ...)
 {
 <...
(
-i_mmap_lock_write(mapping)
+i_mmap_lock_write(mapping, map->mm)
|
-i_mmap_unlock_write(mapping)
+i_mmap_unlock_write(mapping, map->mm)
)
 ...>
 }
