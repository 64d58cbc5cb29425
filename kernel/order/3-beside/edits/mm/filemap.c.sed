/^static struct file \*do_sync_mmap_readahead\(/,/^}$/{
	s/^	unsigned short mmap_miss;$/&\
	struct exec_span around, spared;\
	unsigned int ra_pages;/
	s/^	 \* mmap read-around$/&: other faults on the file change @ra meanwhile/
	s/^	ra->start = max_t\(long, 0, vmf->pgoff - ra->ra_pages \/ 2\);$/	ra_pages = max(READ_ONCE(ra->ra_pages), 1U);\
	around.start = vmf->pgoff - min_t(pgoff_t, vmf->pgoff, ra_pages \/ 2);\
	around.end = around.start + ra_pages;\
	spared = exec_readaround(around, vmf->vma);\
	ra->start = spared.start;/
	s/^	ra->size = ra->ra_pages;$/	ra->size = spared.end - spared.start;/
	s/^	ra->async_size = ra->ra_pages \/ 4;$/	\/* Nor is anything marked that would be read ahead into text. *\/\
	ra->async_size = spared.end < around.end ? 0 :\
			 min(spared.end - spared.start, ra_pages \/ 4);/
	s/^	ractl\._index = ra->start;$/	ractl._index = spared.start;/
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
