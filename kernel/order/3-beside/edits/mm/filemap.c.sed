/^static struct file \*do_sync_mmap_readahead\(/,/^}$/{
	s/^	ra->start = max_t\(long, 0, vmf->pgoff - ra->ra_pages \/ 2\);$/	ra->start = vmf->pgoff - min_t(pgoff_t, vmf->pgoff, ra->ra_pages \/ 2);/
	/^	ra->async_size = ra->ra_pages \/ 4;$/{
		n
		a\
	exec_readaround(ra, vmf->vma);
	}
}
/^static struct file \*do_async_mmap_readahead\(/,/^}$/{
	/^	if \(folio_test_readahead\(folio\)\) \{$/a\
		if ((vmf->vma->vm_flags \& VM_EXEC) \&\&\
		    !exec_async_in_window(ra, vmf->vma, folio, vmf->pgoff)) {\
			/* Pages that are marked are not mapped by others' faults. */\
			if (!folio_test_writeback(folio))\
				folio_clear_readahead(folio);\
			return fpin;\
		}\

}
