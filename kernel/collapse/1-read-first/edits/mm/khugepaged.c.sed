# Adds a function and its call. spatch would not keep the style of a new function.
/^\/\*\*$/{
	N
	/\n \* collapse_file - /i\
/*\
 * Wait for a read of @folio, but not for other holders of its lock. The read may\
 * never end, on a server that is gone: a signal ends the wait of MADV_COLLAPSE,\
 * and khugepaged, which serves everyone, does not wait but comes again.\
 */\
static enum scan_result collapse_wait_read(struct folio *folio,\
					   struct collapse_control *cc)\
{\
	if (folio_test_uptodate(folio))\
		return SCAN_SUCCEED;\
	if (!folio_test_locked(folio)) {\
		/* A read ended here. Or it failed, or a part was written. */\
		return folio_test_uptodate(folio) ? SCAN_SUCCEED : SCAN_FAIL;\
	}\
	if (cc->is_khugepaged)\
		return SCAN_PAGE_LOCK;\
	if (folio_wait_locked_killable(folio))\
		return SCAN_FAIL;\
	/* It may have been truncated, or written in part, meanwhile. */\
	return folio_test_uptodate(folio) ? SCAN_SUCCEED : SCAN_PAGE_LOCK;\
}\
\
/*\
 * Bring a range of @file into the page cache, up to date. Readahead takes the\
 * invalidate lock. Truncation waits for folio locks under that lock, so the\
 * caller must not hold the lock of a folio that others can find. For khugepaged\
 * this starts all reads, and says that it should come again.\
 */\
static enum scan_result collapse_read_file(struct file *file, pgoff_t start,\
					   pgoff_t end,\
					   struct collapse_control *cc)\
{\
	struct address_space *mapping = file->f_mapping;\
	enum scan_result result = SCAN_SUCCEED;\
	struct folio *folio;\
	pgoff_t index;\
\
	for (index = start; index < end \&\& result != SCAN_FAIL;) {\
		folio = filemap_get_folio(mapping, index);\
		if (IS_ERR(folio)) {\
			page_cache_sync_readahead(mapping, \&file->f_ra, file,\
						  index, end - index);\
			/* Help folio_isolate_lru(), on this CPU. */\
			lru_add_drain();\
			folio = filemap_get_folio(mapping, index);\
			if (IS_ERR(folio))\
				return SCAN_FAIL;\
		}\
		/*\
		 * The collapse fails at this folio; read no further. Trigger\
		 * async flush for read-only files and hope the writeback is\
		 * done when khugepaged revisits this page. Writable files can\
		 * have their folios dirty at any time; blindly flushing them\
		 * would cause undesirable system-wide writeback.\
		 *\
		 * This is a one-off situation. We are not forcing writeback in\
		 * loop.\
		 */\
		if (folio_test_dirty(folio) || folio_test_writeback(folio)) {\
			if (folio_test_dirty(folio) \&\&\
			    !inode_is_open_for_write(mapping->host))\
				filemap_flush(mapping);\
			folio_put(folio);\
			return SCAN_PAGE_DIRTY_OR_WRITEBACK;\
		}\
		if (result == SCAN_SUCCEED)\
			result = collapse_wait_read(folio, cc);\
		index = folio_next_index(folio);\
		folio_put(folio);\
		cond_resched();\
	}\
	return result;\
}\

}
s/^ \*  - allocate and lock a new huge page;$/ *  - allocate a new huge page;\
 *  - read what is missing of a regular file, with no page locked;\
 *  - lock the new page;/
/^static enum scan_result collapse_file\(/,/^}$/{
	/^	new_pfn = folio_pfn\(new_folio\);$/a\
\
	if (!is_shmem) {\
		result = collapse_read_file(file, start, end, cc);\
		if (result != SCAN_SUCCEED) {\
			folio_put(new_folio);\
			goto out;\
		}\
	}
	/^			if \(!folio \|\| xa_is_value\(folio\)\) \{$/,/^			\} else if \(folio_test_dirty/c\
			if (!folio || xa_is_value(folio)) {\
				/* Truncated or reclaimed since it was read. */\
				result = SCAN_PAGE_LOCK;\
				goto xa_locked;\
			} else if (folio_test_dirty(folio)) {
	/^				 \* This page is dirty because it hasn't$/,/^				 \*\/$/c\
				 * Dirty since it was read. To flush may wait\
				 * for who waits for the folios locked here, so\
				 * that is left to the next visit.\
				 */
	/^				if \(!inode_is_open_for_write\(mapping->host\)\)$/,/^					filemap_flush\(mapping\);$/d
}
