# exec draws the shard of its new address space on the CPU that will map files into it.
/^#include "internal\.h"$/a\
#include "../mm/i_mmap.h"
/^static int exec_mmap\(/,/^}$/{
	/^	membarrier_exec_mmap\(mm\);$/a\
	i_mmap_draw_shard(mm);
}
