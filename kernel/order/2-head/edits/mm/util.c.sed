/^#include "internal\.h"$/i\
#include "exec_readahead.h"
/^unsigned long vm_mmap_pgoff\(/,/^}$/{
	/^			mm_populate\(ret, populate\);$/a\
		if (file \&\& (prot \& PROT_EXEC) \&\& !pgoff \&\& !IS_ERR_VALUE(ret))\
			exec_readahead_head(file, ret, len);
}
