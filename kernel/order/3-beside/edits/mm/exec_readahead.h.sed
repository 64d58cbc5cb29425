/^void exec_fault_init\(/i\
void exec_readaround(struct file_ra_state *ra, const struct vm_area_struct *vma);\
bool exec_async_in_window(const struct file_ra_state *ra,\
			  const struct vm_area_struct *vma,\
			  const struct folio *folio, pgoff_t index);
