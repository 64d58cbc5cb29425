/^unsigned long thp_get_unmapped_area_vmaflags\(/,/^}$/{
	s/^	unsigned long ret;$/	const unsigned long pmd = PMD_SIZE;\
&/
	/^		return ret;$/a\
\
	/*\
	 * Where a PMD is larger, hardly any library holds one. Contiguous PTEs, or\
	 * one fault, can map the folios of 2M that the page cache has for text.\
	 */\
	if (pmd > SZ_2M \&\& filp \&\& hugepage_global_enabled()) {\
		ret = __thp_get_unmapped_area(filp, addr, len, off, flags, SZ_2M,\
					      vma_flags);\
		if (ret)\
			return ret;\
	}
}
