# The functions go to the end of the file.
$a\
\
/*\
 * Pages of the largest leaf that a fault on text of the file would read, as far as\
 * that does not depend on the text; 0 if it would read what it read before. A\
 * device may be fast until a fault has waited for it: the first program of a\
 * machine touches its data before its text. @index is a page of the file beside\
 * the text.\
 */\
static unsigned long exec_leaf_pages(const struct vm_area_struct *vma,\
				     pgoff_t index)\
{\
	struct address_space *mapping = vma->vm_file->f_mapping;\
	struct exec_fault f = {\
		.index = index,\
		.end = ULONG_MAX,\
		.pmd_order = text_pmd_order(vma->vm_mm, mapping),\
		.cont_order = text_cont_order(vma->vm_mm, mapping),\
		.random = !!(vma->vm_file->f_mode \& FMODE_RANDOM),\
	};\
\
	exec_fault_facts(\&f, mapping, \&vma->vm_file->f_ra);\
	f.page_ns = f.page_ns ?: 1;\
	if (exec_leaf_limit(\&f, 0, f.pmd_order) == EXEC_LIMIT_NONE)\
		return 1UL << f.pmd_order;\
	if (exec_leaf_limit(\&f, 0, f.cont_order) == EXEC_LIMIT_NONE)\
		return 1UL << f.cont_order;\
	return 0;\
}\
\
/**\
 * exec_readaround - keep read-around out of the windows of text beside a VMA\
 * @around: what would be read around a page of @vma, which it holds\
 * @vma: a mapping of a file that is not executable\
 *\
 * Loaders map privately; a shared mapping is not beside text.\
 *\
 * Return: the part of @around to read. The page is in it.\
 */\
struct exec_span exec_readaround(struct exec_span around,\
				 const struct vm_area_struct *vma)\
{\
	const struct exec_span mapped = {\
		.start = vma_start_pgoff(vma),\
		.end = vma_end_pgoff(vma),\
	};\
	unsigned long pages;\
\
	/* VM_SHARED is not set for a file that is open for reading only. */\
	if (vma->vm_flags \& VM_MAYSHARE)\
		return around;\
	pages = exec_leaf_pages(vma, around.start);\
	return pages ? exec_spare_text(around, mapped, pages) : around;\
}\
\
/*\
 * Whether the next read ahead is one of whole leaves, as that of MADV_HUGEPAGE is.\
 * page_cache_async_ra() reads ra_pages behind what is cached after the page. If\
 * the page is the first of what was read ahead last, it goes on behind that, with\
 * at least the size of that, twice or four times the size, or ra_pages.\
 */\
static bool exec_ahead_by_leaves(const struct file_ra_state *ra,\
				 const struct folio *folio,\
				 const struct exec_fault *f)\
{\
	const unsigned long pages = 1UL << max(f->pmd_order, f->cont_order);\
	const pgoff_t next = ra->start + ra->size;\
\
	if (pages >> ra->order > 1)\
		return false;\
	if (f->index < next \&\&\
	    f->index == round_down(next - ra->async_size, folio_nr_pages(folio)))\
		return IS_ALIGNED(next, pages) \&\& IS_ALIGNED(ra->size, pages) \&\&\
		       (f->ra_pages <= ra->size ||\
			IS_ALIGNED(f->ra_pages, pages));\
	return folio_nr_pages(folio) >= pages \&\& f->ra_pages >= pages \&\&\
	       IS_ALIGNED(f->ra_pages, pages);\
}\
\
/**\
 * exec_async_in_window - whether text may be read ahead asynchronously\
 * @ra: readahead state of the file\
 * @vma: a VM_EXEC mapping of it\
 * @folio: was marked for readahead\
 * @index: page of it that faulted\
 *\
 * Return: false if small folios could take pages of the next window of @vma.\
 */\
bool exec_async_in_window(const struct file_ra_state *ra,\
			  const struct vm_area_struct *vma,\
			  const struct folio *folio, pgoff_t index)\
{\
	struct exec_fault f;\
\
	/* No fault on it reads a leaf. */\
	if (vma->vm_flags \& VM_SEQ_READ)\
		return true;\
	exec_fault_init(\&f, vma, index, ra);\
	f.page_ns = f.page_ns ?: 1;\
	return exec_ahead_in_window(\&f) || exec_ahead_by_leaves(ra, folio, \&f);\
}
