# mm_take_all_locks() excludes walks, and takes no shard.
s/\b(aka mapping->)i_mmap_rwsem\b/\1i_mmap_root_rwsem/
s/all i_mmap_rwsem locks/all i_mmap_root_rwsem locks, which exclude walks/
s/(inode->i_mapping->|mapping->)?\bi_mmap_rwsem( lock)?\b/i_mmap lock/
