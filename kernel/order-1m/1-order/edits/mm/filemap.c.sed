/^static unsigned int exec_large_order\(/,/^}$/s/get_order\(SZ_2M\)/get_order(SZ_1M)/
/^static bool exec_fits_folio\(/,/^}$/{
	s/ end - first < nr \|\|$/ end - first < nr)/
	/^	    \(\(\(vma->vm_start/d
}
