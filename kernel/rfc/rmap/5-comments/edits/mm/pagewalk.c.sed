s/@mapping->i_mmap_rwsem\b/the i_mmap lock of @mapping/
