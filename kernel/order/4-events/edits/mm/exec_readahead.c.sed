s/^#include <linux\/vmstat\.h>$/&\
#include <trace\/events\/readahead.h>/
/^void exec_readahead_head\(/,/^}$/{
	s/^	struct exec_read read = exec_decide_head\(f, mapping\);$/&\
	unsigned long pages;/
	s/^		page_cache_ra_folios\(&ractl, read\.order, 1, NULL, true\);$/		pages = page_cache_ra_folios(\&ractl, read.order, 1, NULL, true);\
		if (!pages)\
			read.limit = EXEC_LIMIT_ALLOC;\
		read.size = pages;\
		exec_account(mapping->host, f, \&read, pages);/
}
# In front of the function that reads.
/^\/\*\*$/{
	N
	/\n \* exec_readahead - /i\
/* @pages of @read were read by leaves. */\
static void exec_account(struct inode *inode, const struct exec_fault *f,\
			 const struct exec_read *read, unsigned long pages)\
{\
	static const enum vm_event_item why_not[] = {\
		[EXEC_LIMIT_SHAPE] = EXEC_LEAF_SHAPE,\
		[EXEC_LIMIT_DEVICE] = EXEC_LEAF_DEVICE,\
		[EXEC_LIMIT_MEMORY] = EXEC_LEAF_MEMORY,\
		[EXEC_LIMIT_CACHED] = EXEC_LEAF_CACHED,\
		[EXEC_LIMIT_ALLOC] = EXEC_LEAF_ALLOC,\
	};\
\
	if (read->order > f->base_order)\
		count_vm_events(EXEC_LEAF_READ, pages >> read->order);\
	if (read->limit != EXEC_LIMIT_NONE \&\& read->limit != EXEC_LIMIT_LEAF)\
		count_vm_event(why_not[read->limit]);\
	trace_exec_readahead(inode, f->index, read->start, read->size, read->order,\
			     read->limit, f->page_ns, f->pause);\
}\

}
/^void exec_readahead\(/,/^}$/{
	s/^		read = exec_decide\(f, mapping\);$/&\
		read.limit = EXEC_LIMIT_ALLOC;/
	/^	if \(!pages\) \{$/i\
	exec_account(mapping->host, f, \&read, pages);
}
