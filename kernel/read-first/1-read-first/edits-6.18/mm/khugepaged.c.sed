# Adds a function and its call. spatch would not keep the style of a new function.
/^\/\*\*$/{
	N
	/\n \* collapse_file - /i\
/*\
 * Bring a range of @file into the page cache, up to date. Readahead takes the\
 * invalidate lock. Truncation waits for folio locks under that lock, so the\
 * caller must not hold the lock of a folio that others can find.\
 */\
static int collapse_read_file(struct file *file, pgoff_t start, pgoff_t end)\
{\
	struct address_space *mapping = file->f_mapping;\
	struct folio *folio;\
	pgoff_t index;\
\
	for (index = start; index < end;) {\
		folio = filemap_get_folio(mapping, index);\
		if (IS_ERR(folio)) {\
			page_cache_sync_readahead(mapping, \&file->f_ra, file,\
						  index, end - index);\
			/* drain lru cache to help folio_isolate_lru() */\
			lru_add_drain();\
			folio = filemap_get_folio(mapping, index);\
			if (IS_ERR(folio))\
				return SCAN_FAIL;\
		}\
		if (!folio_test_uptodate(folio))\
			folio_wait_locked(folio);\
		index = folio_next_index(folio);\
		folio_put(folio);\
		cond_resched();\
	}\
	return SCAN_SUCCEED;\
}\

}
s/^ \*  - allocate and lock a new huge page;$/ *  - read what is missing of a regular file, with no page locked;\
&/
/^static int collapse_file\(/,/^}$/{
	# The trace at the end looks at it.
	s/^	struct folio \*folio, \*tmp, \*new_folio;$/	struct folio *folio, *tmp, *new_folio = NULL;/
	/^	result = alloc_charge_folio\(&new_folio, mm, cc\);$/i\
	if (!is_shmem) {\
		result = collapse_read_file(file, start, end);\
		if (result != SCAN_SUCCEED)\
			goto out;\
	}\

	/^			if \(!folio \|\| xa_is_value\(folio\)\) \{$/,/^			\} else if \(folio_test_dirty/c\
			if (!folio || xa_is_value(folio)) {\
				/* Truncated or reclaimed since it was read. */\
				result = SCAN_PAGE_LOCK;\
				goto xa_locked;\
			} else if (folio_test_dirty(folio)) {
}
