# A new function, whose style spatch would not keep, and the one that calls it.
/^\/\*\*$/{
	N
	/\n \* collapse_file - /i\
/*\
 * Bring a range of @file into the page cache, up to date. Readahead takes the\
 * invalidate lock, under which truncation waits for locked folios: the caller\
 * must not hold any that others can find.\
 */\
static enum scan_result collapse_read_file(struct file *file, pgoff_t start,\
					   pgoff_t end)\
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
			folio = filemap_get_folio(mapping, index);\
			if (IS_ERR(folio))\
				return SCAN_FAIL;\
		}\
		/* Locked for reading: anybody else is not worth the wait. */\
		if (!folio_test_uptodate(folio))\
			folio_wait_locked(folio);\
		index = folio_next_index(folio);\
		folio_put(folio);\
		cond_resched();\
	}\
	/* Help folio_isolate_lru(). */\
	lru_add_drain();\
	return SCAN_SUCCEED;\
}\

}
/^static enum scan_result collapse_file\(/,/^}$/{
	/^	new_folio->mapping = mapping;$/a\
\
	if (!is_shmem) {\
		result = collapse_read_file(file, start, end);\
		if (result != SCAN_SUCCEED)\
			goto rollback;\
	}
	/^			if \(!folio \|\| xa_is_value\(folio\)\) \{$/,/^			\} else if \(folio_test_dirty/c\
			if (!folio || xa_is_value(folio)) {\
				/* Truncated or reclaimed since it was read. */\
				result = SCAN_FAIL;\
				goto xa_locked;\
			} else if (folio_test_dirty(folio)) {
}
