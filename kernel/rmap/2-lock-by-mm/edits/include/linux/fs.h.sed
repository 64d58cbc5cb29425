# Moves the locks to <linux/i_mmap.h>. spatch cannot read this header.
s/^ \* @i_mmap: Tree of private and shared mappings\.$/ * @i_mmap_root: Tree of private and shared mappings./
s/^ \* @i_mmap_rwsem: Protects @i_mmap and @i_mmap_writable\.$/ * @i_mmap_root_rwsem: Protects @i_mmap_root and @i_mmap_writable./
s/^(	struct rb_root_cached	)i_mmap;$/\1i_mmap_root;/
s/^(	struct rw_semaphore	)i_mmap_rwsem;$/\1i_mmap_root_rwsem;/
/^static inline void i_mmap_lock_write\(/,/^ \* Might pages of this file have been modified in userspace\?$/{
	/^ \* Might pages of this file have been modified/!d
	i\
#include <linux/i_mmap.h>\
\
/*
}
