# The first is the lock order of mm.
s/^( \*             )mapping->i_mmap_rwsem$/\1i_mmap lock (of one mm or all; see mm\/i_mmap.c)/
s/(inode->i_mapping->|mapping->)?\bi_mmap_rwsem( lock)?\b/i_mmap lock/
