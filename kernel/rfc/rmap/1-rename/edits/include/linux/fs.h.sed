# spatch cannot read this header.
s/^ \* @i_mmap: Tree of private and shared mappings\.$/ * @i_mmap_root: Tree of private and shared mappings./
s/^ \* @i_mmap_rwsem: Protects @i_mmap and @i_mmap_writable\.$/ * @i_mmap_root_rwsem: Protects @i_mmap_root and @i_mmap_writable./
s/^(	struct rb_root_cached	)i_mmap;$/\1i_mmap_root;/
s/^(	struct rw_semaphore	)i_mmap_rwsem;$/\1i_mmap_root_rwsem;/
s/&mapping->i_mmap_rwsem\);$/\&mapping->i_mmap_root_rwsem);/
s/&mapping->i_mmap\.rb_root\);$/\&mapping->i_mmap_root.rb_root);/
