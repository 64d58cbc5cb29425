// For code that locks all mappings of a file, or only names the fields.
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

@@
expression mapping;
@@
-mapping->i_mmap_rwsem
+mapping->i_mmap_root_rwsem

@@
expression mapping;
@@
-mapping->i_mmap
+mapping->i_mmap_root
