@@
expression mapping;
@@
 dup_mmap(struct mm_struct *mm, ...)
 {
 <...
(
-i_mmap_lock_write(mapping)
+i_mmap_lock_write(mapping, mm)
|
-i_mmap_unlock_write(mapping)
+i_mmap_unlock_write(mapping, mm)
)
 ...>
 }
