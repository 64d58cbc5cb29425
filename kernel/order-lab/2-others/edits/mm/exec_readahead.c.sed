/^core_param\(exec_leaf_reads, /i\
unsigned int exec_leaf_memory_shift = 6;\
static unsigned int exec_leaf_inactive_shift, exec_leaf_guess_ns, exec_leaf_any_tells;\
core_param(exec_leaf_memory_shift, exec_leaf_memory_shift, uint, 0644);\
core_param(exec_leaf_inactive_shift, exec_leaf_inactive_shift, uint, 0644);\
core_param(exec_leaf_guess_ns, exec_leaf_guess_ns, uint, 0644);\
core_param(exec_leaf_any_tells, exec_leaf_any_tells, uint, 0644);
s/^	return pgdat \? pages \+ node_page_state\(pgdat, NR_INACTIVE_FILE\) : 0;$/	return pgdat ? pages + (node_page_state(pgdat, NR_INACTIVE_FILE) >> exec_leaf_inactive_shift) : 0;/
s/^	f->page_ns = READ_ONCE\(bdi->exec_page_ns\);$/	f->page_ns = READ_ONCE(bdi->exec_page_ns) ?: exec_leaf_guess_ns;/
s/^	if \(read->size < f->ra_pages \|\| f->file_pages < read->start \|\|$/	if (exec_leaf_any_tells \&\& !f->page_ns)\
		return true;\
&/
