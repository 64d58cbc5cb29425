s/(inode->i_mapping->|mapping->)?\bi_mmap_rwsem( lock)?\b/i_mmap lock/
# Only all of the lock keeps the number of mappings of a file.
s/\bi_mmap_lock_write is needed to check the number of mappings/i_mmap_lock_write_all is needed to check the number of mappings/
