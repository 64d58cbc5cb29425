// For code that names the fields.
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
