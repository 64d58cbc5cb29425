# The functions go to the end of the file.
$a\
\
/* Pages of the largest leaf for text of the file that @vma maps, or 0. */\
static unsigned long exec_leaf_pages(struct vm_area_struct *vma)\
{\
	const struct address_space *mapping = vma->vm_file->f_mapping;\
	const unsigned int order = text_pmd_order(vma->vm_mm, mapping) ?:\
				   text_cont_order(vma->vm_mm, mapping);\
\
	return order ? 1UL << order : 0;\
}\
\
/**\
 * exec_readaround - keep read-around out of the windows of text beside a VMA\
 * @ra: what would be read around a page of @vma; is trimmed\
 * @vma: a mapping of a file that is not executable\
 *\
 * Data begins where text ends. A leaf cannot take the place of pages that were\
 * read around it. Loaders map privately; a shared mapping is not beside text.\
 */\
void exec_readaround(struct file_ra_state *ra, struct vm_area_struct *vma)\
{\
	const unsigned long pages = exec_leaf_pages(vma);\
	unsigned long start, end;\
\
	if (!pages || (vma->vm_flags \& VM_SHARED))\
		return;\
	start = max(ra->start, round_down(vma_start_pgoff(vma), pages));\
	end = min(ra->start + ra->size, round_up(vma_end_pgoff(vma), pages));\
	ra->start = start;\
	ra->size = end - start;\
	ra->async_size = min(ra->async_size, ra->size);\
}\
\
/**\
 * exec_async_in_window - whether text may be read ahead asynchronously\
 * @ra: readahead state of the file\
 * @vma: a VM_EXEC mapping of it\
 * @index: page of the file that was marked for readahead\
 *\
 * Return: false if small folios could take pages of the next window of @vma.\
 */\
bool exec_async_in_window(const struct file_ra_state *ra,\
			  struct vm_area_struct *vma, pgoff_t index)\
{\
	const unsigned long pages = exec_leaf_pages(vma);\
	pgoff_t next;\
\
	if (!pages)\
		return true;\
	next = round_down(index, pages) + pages;\
	/* Reading starts up to ra_pages behind the page, and has as many. */\
	return next >= vma_end_pgoff(vma) || next - index >= 2UL * ra->ra_pages;\
}
