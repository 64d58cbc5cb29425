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
 * Loaders map privately; a shared mapping is not beside text.\
 */\
void exec_readaround(struct file_ra_state *ra, struct vm_area_struct *vma)\
{\
	const unsigned long pages = exec_leaf_pages(vma);\
	const struct exec_span mapped = {\
		.start = vma_start_pgoff(vma),\
		.end = vma_end_pgoff(vma),\
	};\
	struct exec_span around = {\
		.start = ra->start,\
		.end = ra->start + ra->size,\
	};\
\
	if (!pages || (vma->vm_flags \& VM_SHARED))\
		return;\
	around = exec_spare_text(around, mapped, pages);\
	ra->start = around.start;\
	ra->size = around.end - around.start;\
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
\
	return !pages || exec_ahead_in_window(index, vma_end_pgoff(vma),\
					      ra->ra_pages, pages);\
}
