# The body of the walk changes nr.
/^void flush_dcache_folio\(/,/^}$/{
	s/^	pgoff_t pgoff;$/	pgoff_t pgoff, last;/
	s/^	pgoff = folio->index;$/&\
	last = pgoff + nr - 1;/
	s/^(	vma_interval_tree_foreach\(vma, &mapping->i_mmap, pgoff, )pgoff \+ nr - 1\) \{$/\1last) {/
}
