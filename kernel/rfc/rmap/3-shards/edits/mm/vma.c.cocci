// A VMA that mmap() links may make the file busy. mmap() can allocate after it has unlocked.
@@
identifier hold_rmap_lock;
symbol file, mapping;
@@
 vma_link_file(struct vm_area_struct *vma, bool hold_rmap_lock)
 {
 	struct file *file = vma->vm_file;
 	struct address_space *mapping;
+	bool busy;
+	bool look;
 
 	if (file) {
 		mapping = file->f_mapping;
+		look = i_mmap_look(vma);
 		i_mmap_lock_write(mapping, vma->vm_mm);
 		__vma_link_file(vma, mapping);
-		if (!hold_rmap_lock)
+		if (!hold_rmap_lock) {
+			busy = look && i_mmap_is_busy(mapping, vma);
 			i_mmap_unlock_write(mapping, vma->vm_mm);
+			if (busy)
+				i_mmap_split(mapping);
+		}
 	}
 }

// So may one that replaces a part of another: the text of libraries.
@@
expression E;
symbol mapping;
@@
 mmap_replace(struct mmap_state *map, struct vm_area_struct *vma)
 {
 	...
 	struct address_space *mapping = E;
+	const bool look = i_mmap_look(vma);
+	bool busy;
 	...
+	busy = look && i_mmap_is_busy(mapping, vma);
 	i_mmap_unlock_write(mapping, map->mm);
+	if (busy)
+		i_mmap_split(mapping);
 	...
 }
