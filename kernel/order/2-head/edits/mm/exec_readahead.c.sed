# The functions go to the end of the file.
s/^#include <linux\/cpuset\.h>$/&\
#include <linux\/dax.h>\
#include <linux\/file.h>\
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
/* Whether a leaf may be read for the first page of text that begins a file. */\
static bool exec_begins_file(const struct vm_area_struct *vma)\
{\
	const struct file *file = vma->vm_file;\
\
	return (vma->vm_flags \& VM_EXEC) \&\& !vma_start_pgoff(vma) \&\&\
	       file->f_ra.ra_pages \&\& !dax_mapping(file->f_mapping);\
}\
\
/*\
 * The facts of a fault on the first page of the text that lies in front of the\
 * mapping at @addr, and its file, with a reference; NULL if that is not the file\
 * of the mapping, or does not begin with text.\
 */\
static struct file *exec_head_init(struct exec_fault *f, unsigned long addr)\
{\
	struct mm_struct *mm = current->mm;\
	struct vm_area_struct *data, *text;\
	struct vma_iterator vmi;\
	struct file *file = NULL;\
\
	mmap_read_lock(mm);\
	vma_iter_init(\&vmi, mm, addr);\
	data = vma_next(\&vmi);\
	text = vma_prev(\&vmi);\
	/* glibc leaves a gap between them mapped, without permissions. */\
	if (text \&\& text->vm_file \&\& !(text->vm_flags \& VM_ACCESS_FLAGS))\
		text = vma_prev(\&vmi);\
	if (data \&\& text \&\& text->vm_file \&\& text->vm_file == data->vm_file \&\&\
	    exec_begins_file(text)) {\
		file = get_file(text->vm_file);\
		exec_fault_init(f, text, 0, \&file->f_ra);\
	}\
	mmap_read_unlock(mm);\
	return file;\
}\
\
/* Read the window of @f, if nothing but the head of the file is in its place. */\
static void exec_read_head(struct exec_fault *f, struct file *file)\
{\
	struct address_space *mapping = file->f_mapping;\
	struct exec_read read = exec_read(f);\
	DEFINE_READAHEAD(ractl, file, \&file->f_ra, mapping, 0);\
\
	if (read.order <= f->base_order ||\
	    !only_head_is_cached(mapping, 1UL << read.order))\
		return;\
	read.size = 1UL << read.order;\
	exec_aim(\&ractl, \&read);\
	page_cache_ra_folios(\&ractl, read.order, 1, true);\
}\
\
/**\
 * exec_readahead_head - read the first window of a file that begins with text\
 * @addr: where the current task mapped data of the file, behind the text\
 *\
 * A fault reads a leaf where nothing is cached. But to start a program, or to\
 * open a library, means to read its ELF header, and then the window is taken\
 * before anything is mapped. If a fault would read a leaf there otherwise, small\
 * folios that nobody maps make room for it. This does not wait for the device.\
 *\
 * How long the text is shows when the data behind it is mapped. Before that,\
 * glibc's mapping of the text has the length of the library. Neither loader\
 * touches the text before.\
 */\
void exec_readahead_head(unsigned long addr)\
{\
	struct exec_fault f;\
	struct file *file = exec_head_init(\&f, addr);\
\
	if (!file)\
		return;\
	exec_read_head(\&f, file);\
	fput(file);\
}
