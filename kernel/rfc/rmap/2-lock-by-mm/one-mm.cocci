// For functions that lock what the mm of their VMA maps.
@@
identifier function, vma;
expression mapping;
@@
 function(struct vm_area_struct *vma, ...)
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
