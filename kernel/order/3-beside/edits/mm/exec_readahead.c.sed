# The functions go to the end of the file.
$a\
\
/*\
 * Pages of the largest leaf that a fault on text of the file would read, as far as\
 * that depends on the file and its device; 0 if it would read what it read before.\
 * A device may be fast until a fault has waited for it: the first program of a\
 * machine touches its data before its text. @skew is that of the text, as in\
 * struct exec_fault, or 0 if it is not known.\
 */\
static unsigned long exec_leaf_pages(const struct vm_area_struct *vma,\
				     unsigned long skew)\
{\
	struct address_space *mapping = vma->vm_file->f_mapping;\
	const struct exec_fault f = {\
		.ra_pages = READ_ONCE(vma->vm_file->f_ra.ra_pages),\
		.page_ns = READ_ONCE(inode_to_bdi(mapping->host)->exec_page_ns) ?: 1,\
	};\
	const unsigned int orders[] = {\
		text_pmd_order(vma->vm_mm, mapping),\
		text_cont_order(vma->vm_mm, mapping),\
	};\
\
	for (int i = 0; i < ARRAY_SIZE(orders); i++) {\
		const unsigned long pages = 1UL << orders[i];\
\
		if (orders[i] > exec_folio_order() \&\& !(skew \& (pages - 1)) \&\&\
		    !exec_leaf_slow(\&f, pages))\
			return pages;\
	}\
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
	const unsigned long pages = exec_leaf_pages(vma, 0);\
	const struct exec_span mapped = {\
		.start = vma_start_pgoff(vma),\
		.end = vma_end_pgoff(vma),\
	};\
\
	if (!pages || (vma->vm_flags \& VM_SHARED))\
		return around;\
	return exec_spare_text(around, mapped, pages);\
}\
\
/*\
 * Whether the next read ahead is one of whole leaves, as that of MADV_HUGEPAGE is.\
 * page_cache_async_ra() goes on behind the last read if the marked folio begins\
 * what was read ahead, with at least its size, twice or four times that, or\
 * ra_pages.\
 */\
static bool exec_ahead_by_leaves(const struct file_ra_state *ra,\
				 const struct folio *folio, pgoff_t index,\
				 unsigned long pages)\
{\
	const pgoff_t next = ra->start + ra->size;\
\
	return index < next \&\&\
	       index == round_down(next - ra->async_size, folio_nr_pages(folio)) \&\&\
	       IS_ALIGNED(next, pages) \&\& IS_ALIGNED(ra->size, pages) \&\&\
	       (ra->ra_pages <= ra->size || IS_ALIGNED(ra->ra_pages, pages)) \&\&\
	       pages >> ra->order <= 1;\
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
	unsigned long pages;\
\
	/* No fault on these reads a leaf. */\
	if (vma->vm_flags \& (VM_NOHUGEPAGE | VM_SEQ_READ))\
		return true;\
	pages = exec_leaf_pages(vma, exec_skew(vma));\
	return !pages || exec_ahead_by_leaves(ra, folio, index, pages) ||\
	       exec_ahead_in_window(index, vma_end_pgoff(vma),\
				    READ_ONCE(ra->ra_pages), pages);\
}
