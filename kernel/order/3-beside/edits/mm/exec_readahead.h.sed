/^void exec_fault_init\(/i\
struct exec_span exec_readaround(struct exec_span around,\
				 const struct vm_area_struct *vma);\
bool exec_async_in_window(const struct file_ra_state *ra,\
			  const struct vm_area_struct *vma,\
			  const struct folio *folio, pgoff_t index);
