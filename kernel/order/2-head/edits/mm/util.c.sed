/^#include "internal\.h"$/i\
#include "exec_readahead.h"
/^unsigned long vm_mmap_pgoff\(/,/^}$/{
	/^			mm_populate\(ret, populate\);$/a\
		/* Loaders map data privately, at a place behind its text. */\
		if (file \&\& pgoff \&\& !(prot \& PROT_EXEC) \&\&\
		    (flag \& MAP_TYPE) == MAP_PRIVATE \&\&\
		    (flag \& (MAP_FIXED | MAP_FIXED_NOREPLACE)) \&\&\
		    !IS_ERR_VALUE(ret))\
			exec_readahead_head(ret);
}
