s/(inode->i_mapping->|mapping->)?\bi_mmap_rwsem( lock)?\b/i_mmap lock/
