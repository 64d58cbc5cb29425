/^#include "internal\.h"$/i\
#include "exec_readahead.h"
/^unsigned long vm_mmap_pgoff\(/,/^}$/{
	s/^	unsigned long populate;$/&\
	struct exec_fault head;\
	struct file *text = NULL;/
	/^		mmap_write_unlock\(mm\);$/i\
		/* Loaders map data privately, at a place behind its text. */\
		if (file \&\& pgoff \&\& !(prot \& PROT_EXEC) \&\&\
		    (flag \& MAP_TYPE) == MAP_PRIVATE \&\&\
		    (flag \& (MAP_FIXED | MAP_FIXED_NOREPLACE)) \&\&\
		    !IS_ERR_VALUE(ret))\
			text = exec_head_init(\&head, mm, ret);
	/^			mm_populate\(ret, populate\);$/a\
		if (text)\
			exec_readahead_head(\&head, text);
}
