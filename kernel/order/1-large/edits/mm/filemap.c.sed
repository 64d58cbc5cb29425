# spatch would lose the comment in the branch of VM_EXEC.
/^static int lock_folio_maybe_drop_mmap\(/,/^}$/{
	/^}$/a\
\
/*\
 * The order of the folios by which text of @vma may be read: that of a PMD, but at\
 * most 2M, as for VM_HUGEPAGE. 0 if it is read as without THP.\
 */\
static unsigned int exec_large_order(struct vm_area_struct *vma)\
{\
#ifdef CONFIG_TRANSPARENT_HUGEPAGE\
	const struct file *file = vma->vm_file;\
	const unsigned int order = min_t(unsigned int, PMD_ORDER, get_order(SZ_2M));\
\
	/* One store into a shared mapping would make all of the folio dirty. */\
	if (hugepage_global_enabled() \&\& !thp_disabled_by_hw() \&\&\
	    !vma_thp_disabled(vma, vma->vm_flags, false) \&\&\
	    !(vma->vm_flags \& (VM_SHARED | VM_RAND_READ)) \&\&\
	    !(file->f_mode \& FMODE_RANDOM) \&\&\
	    !(inode_to_bdi(file->f_mapping->host)->capabilities \& BDI_CAP_SLOW) \&\&\
	    order >= mapping_min_folio_order(file->f_mapping) \&\&\
	    order <= mapping_max_folio_order(file->f_mapping))\
		return order;\
#endif\
	return 0;\
}\
\
/*\
 * Whether a fault on page @index may read the range of @order around it at once: @vma\
 * holds all of it, and nothing is cached of it but an eighth at its begin, as the ELF\
 * header is. Sets @from to the first page that is not cached.\
 */\
static bool exec_reads_range(const struct vm_area_struct *vma, pgoff_t index,\
			     unsigned int order, pgoff_t *from)\
{\
	struct address_space *mapping = vma->vm_file->f_mapping;\
	const unsigned long nr = 1UL << order;\
	const pgoff_t first = round_down(index, nr);\
	const pgoff_t start = vma_start_pgoff(vma);\
	const pgoff_t end = min_t(pgoff_t, vma_end_pgoff(vma),\
		DIV_ROUND_UP_ULL(i_size_read(mapping->host), PAGE_SIZE));\
\
	/* A store into a private mapping needs a copy of one page only. */\
	if (!order || (vma->vm_flags \& VM_WRITE) ||\
	    first < start || first >= end || end - first < nr)\
		return false;\
	/* It should be small beside what is free or cheap to reclaim. */\
	if (nr > (global_zone_page_state(NR_FREE_PAGES) +\
		  global_node_page_state(NR_INACTIVE_FILE)) / 64)\
		return false;\
	*from = first;\
	while (*from - first <= nr / 8) {\
		struct folio *folio = filemap_get_folio(mapping, *from);\
\
		if (IS_ERR(folio))\
			break;\
		*from = folio_next_index(folio);\
		folio_put(folio);\
	}\
	return *from <= index \&\& *from - first <= nr / 8 \&\&\
	       !filemap_range_has_page(mapping, (loff_t)*from << PAGE_SHIFT,\
				       ((loff_t)(first + nr) << PAGE_SHIFT) - 1);\
}
}
/^static struct file \*do_sync_mmap_readahead\(/,/^}$/{
	s/^	bool force_thp_readahead = false;$/	unsigned int large = exec_large_order(vmf->vma);\
	pgoff_t from;\
&/
	/^		ra->size = ra_end - ra->start;$/{
		i\
		if (!exec_reads_range(vma, vmf->pgoff, large, \&from))\
			large = 0;
	}
	/^		ra->async_size = ra->ra_pages \/ 4;$/a\
		/*\
		 * Mostly text lies in front of private data: leave its last range whole.\
		 * Nothing checks that it is text.\
		 */\
		from = round_down(vma_start_pgoff(vmf->vma), 1UL << large);\
		if (large \&\& !(vm_flags \& VM_MAYSHARE))\
			ra->start = max_t(pgoff_t, ra->start, from);\
		large = 0;
	s/^	ractl\._index = ra->start;$/	if (large) {\
		ractl._index = from;\
		if (page_cache_ra_folios(\&ractl, large))\
			return fpin;\
	}\
&/
}
