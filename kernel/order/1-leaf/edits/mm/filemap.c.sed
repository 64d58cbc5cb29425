# The range and order for VM_EXEC come from the policy. spatch would lose the comment in the branch.
/^#include "internal\.h"$/i\
#include "exec_readahead.h"
/^static struct file \*do_sync_mmap_readahead\(/,/^}$/{
	/^	if \(vm_flags & VM_EXEC\) \{$/,/^	fpin = maybe_unlock_mmap_for_io\(vmf, fpin\);$/c\
	if (vm_flags \& VM_EXEC) {\
		struct exec_fault f;\
\
		/* The facts about the VMA, while it cannot change. */\
		exec_fault_init(\&f, vmf->vma, vmf->pgoff, ra);\
		fpin = maybe_unlock_mmap_for_io(vmf, fpin);\
		exec_readahead(\&f, file, fpin);\
		return fpin;\
	}\
\
	/*\
	 * mmap read-around\
	 */\
	ra->start = max_t(long, 0, vmf->pgoff - ra->ra_pages / 2);\
	ra->size = ra->ra_pages;\
	ra->async_size = ra->ra_pages / 4;\
	ra->order = 0;\
\
	fpin = maybe_unlock_mmap_for_io(vmf, fpin);
}
