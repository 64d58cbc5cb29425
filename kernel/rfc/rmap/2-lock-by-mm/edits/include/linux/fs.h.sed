# Moves the locks to <linux/i_mmap.h>. spatch cannot read this header.
/^static inline void i_mmap_lock_write\(/,/^ \* Might pages of this file have been modified in userspace\?$/{
	/^ \* Might pages of this file have been modified/!d
	i\
#include <linux/i_mmap.h>\
\
/*
}
