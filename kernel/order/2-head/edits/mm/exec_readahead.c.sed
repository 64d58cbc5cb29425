# The functions go to the end of the file.
s/^#include <linux\/cpuset\.h>$/&\
#include <linux\/dax.h>\
#include <linux\/file.h>\
#include <linux\/folio_batch.h>/
/^void exec_readahead\(/,/^}$/s/read\.size >> read\.order, &since\);$/read.size >> read.order, \&since,\
					     false);/
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
/* Whether a leaf may be read for the first page of text that begins a file. */\
static bool exec_begins_file(const struct vm_area_struct *vma)\
{\
	const struct file *file = vma->vm_file;\
\
	return (vma->vm_flags \& (VM_EXEC | VM_SEQ_READ)) == VM_EXEC \&\&\
	       !vma_start_pgoff(vma) \&\& file->f_ra.ra_pages \&\&\
	       !dax_mapping(file->f_mapping);\
}\
\
/**\
 * exec_head_init - the facts about text in front of a mapping of data\
 * @f: is filled for a fault on the first page of the text\
 * @mm: the address space, locked\
 * @addr: where the data begins\
 *\
 * How long the text is shows when the data behind it is mapped. Before that,\
 * glibc's mapping of the text has the length of the library. Neither loader\
 * touches the text before.\
 *\
 * Return: the file, with a reference; NULL if the text does not begin the file of\
 * the data, or nothing is read for it by leaves.\
 */\
struct file *exec_head_init(struct exec_fault *f, struct mm_struct *mm,\
			    unsigned long addr)\
{\
	struct vm_area_struct *data, *text;\
	struct vma_iterator vmi;\
\
	vma_iter_init(\&vmi, mm, addr);\
	data = vma_next(\&vmi);\
	text = vma_prev(\&vmi);\
	/* glibc leaves a gap between them mapped, without permissions. */\
	if (text \&\& text->vm_file \&\& !(text->vm_flags \& VM_ACCESS_FLAGS))\
		text = vma_prev(\&vmi);\
	if (!data || !text || !text->vm_file ||\
	    text->vm_file != data->vm_file || !exec_begins_file(text))\
		return NULL;\
	exec_fault_init(f, text, 0, \&text->vm_file->f_ra);\
	return get_file(text->vm_file);\
}\
\
/* What to read for @f. The header was read again; the rest of the window was not. */\
static struct exec_read exec_decide_head(struct exec_fault *f,\
					 struct address_space *mapping)\
{\
	struct exec_read read = exec_read(f);\
\
	if (read.order > f->base_order \&\&\
	    evicted_recently(mapping, (1UL << read.order) - 1)) {\
		f->refault = true;\
		read = exec_read(f);\
	}\
	return read;\
}\
\
/**\
 * exec_readahead_head - read the first window of a file that begins with text\
 * @f: what exec_head_init() found; changes\
 * @file: the file; drops the reference\
 *\
 * A fault reads a leaf where nothing is cached. But to start a program, or to\
 * open a library, means to read its ELF header, and then the window is taken\
 * before anything is mapped. If a fault would read a leaf there otherwise, small\
 * folios that nobody maps make room for it. This does not wait for the data. No\
 * lock is held.\
 */\
void exec_readahead_head(struct exec_fault *f, struct file *file)\
{\
	struct address_space *mapping = file->f_mapping;\
	struct exec_read read = exec_decide_head(f, mapping);\
	struct file_ra_state ra = { .ra_pages = f->ra_pages };\
	DEFINE_READAHEAD(ractl, file, \&ra, mapping, 0);\
\
	if (read.order > f->base_order \&\&\
	    only_head_is_cached(mapping, 1UL << read.order)) {\
		read.size = 1UL << read.order;\
		exec_aim(\&ractl, \&read);\
		page_cache_ra_folios(\&ractl, read.order, 1, NULL, true);\
	}\
	fput(file);\
}
