/^static unsigned int exec_large_order\(/,/^}$/s/get_order\(SZ_2M\)/get_order(SZ_1M)/
/^static bool exec_reads_range\(/,/^}$/{
	s/ end - first < nr \|\|$/ end - first < nr)/
	/^	    \(\(\(vma->vm_start/d
}
