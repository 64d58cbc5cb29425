// For code that locks all mappings of a file.
@@
expression mapping;
@@
-i_mmap_lock_write(mapping)
+i_mmap_lock_write_all(mapping)

@@
expression mapping;
@@
-i_mmap_trylock_write(mapping)
+i_mmap_trylock_write_all(mapping)

@@
expression mapping;
@@
-i_mmap_unlock_write(mapping)
+i_mmap_unlock_write_all(mapping)

@@
expression mapping;
@@
-i_mmap_assert_write_locked(mapping)
+i_mmap_assert_write_all_locked(mapping)
