# The functions go to the end of the file.
s/^#include <linux\/cpuset\.h>$/&\
#include <linux\/folio_batch.h>/
$a\
\
/* A window is read again as a whole if at most this part of it is cached. */\
#define EXEC_HEAD_PART	8\
\
/*\
 * Whether the first window of @pages of a file holds something, but little, and\
 * nobody maps, writes or reads it: the ELF header, and what was read ahead with it.\
 */\
static bool only_head_is_cached(struct address_space *mapping,\
				unsigned long pages)\
{\
	struct folio_batch batch;\
	unsigned long cached = 0;\
	bool unused = true;\
	pgoff_t start = 0;\
\
	folio_batch_init(\&batch);\
	while (unused \&\& filemap_get_folios(mapping, \&start, pages - 1, \&batch)) {\
		for (int i = 0; i < folio_batch_count(\&batch); i++) {\
			struct folio *folio = batch.folios[i];\
\
			cached += folio_nr_pages(folio);\
			if (folio_mapped(folio) || folio_test_dirty(folio) ||\
			    folio_test_writeback(folio) ||\
			    folio_test_locked(folio) ||\
			    cached > pages / EXEC_HEAD_PART)\
				unused = false;\
		}\
		folio_batch_release(\&batch);\
	}\
	return unused \&\& cached;\
}\
\
/**\
 * exec_readahead_head - read the first window of a file that begins with text\
 * @file: the file\
 * @addr: where its first page was mapped by a VM_EXEC mapping\
 * @len: bytes that were mapped\
 *\
 * A fault reads a leaf where nothing is cached. But to start a program, or to\
 * open a library, means to read its ELF header, and then the window is taken\
 * before anything is mapped. If a fault would read a leaf there otherwise, small\
 * folios that nobody maps make room for it. This does not wait for the device.\
 *\
 * A file of overlayfs has no leaves in its own page cache, and is left alone.\
 */\
void exec_readahead_head(struct file *file, unsigned long addr,\
			 unsigned long len)\
{\
	struct address_space *mapping = file->f_mapping;\
	struct mm_struct *mm = current->mm;\
	struct exec_fault f = {\
		.end = PAGE_ALIGN(len) >> PAGE_SHIFT,\
		.skew = addr >> PAGE_SHIFT,\
		.pmd_order = text_pmd_order(mm, mapping),\
		.cont_order = text_cont_order(mm, mapping),\
	};\
	struct exec_read read;\
	DEFINE_READAHEAD(ractl, file, \&file->f_ra, mapping, 0);\
\
	if (!file->f_ra.ra_pages)\
		return;\
	exec_fault_facts(\&f, mapping, \&file->f_ra);\
	read = exec_read(\&f);\
	if (read.order <= f.base_order ||\
	    !only_head_is_cached(mapping, 1UL << read.order))\
		return;\
	page_cache_ra_folios(\&ractl, read.order, 1, true);\
}
