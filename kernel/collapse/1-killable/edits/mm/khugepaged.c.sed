/^ \* Bring a range of @file into the page cache, up to date\. Readahead takes the$/,/^ \*\/$/s/^ \* caller must not hold the lock of a folio that others can find\.$/&\
 *\
 * A read may never end, on a server that is gone: a signal ends the wait of\
 * MADV_COLLAPSE. khugepaged, which serves everyone, only starts all reads, and\
 * comes again./
/^static enum scan_result collapse_read_file\(/,/^}$/{
	s/^					   pgoff_t end\)$/					   pgoff_t end,\
					   struct collapse_control *cc)/
	s/^	struct folio \*folio;$/	enum scan_result result = SCAN_SUCCEED;\
&/
	/^		if \(!folio_test_uptodate\(folio\)\)$/,/^			folio_wait_locked\(folio\);$/c\
		if (!folio_test_uptodate(folio)) {\
			if (cc->is_khugepaged)\
				result = SCAN_PAGE_LOCK;\
			else if (folio_wait_locked_killable(folio))\
				result = SCAN_FAIL;\
		}
	s/^	for \(index = start; index < end;\) \{$/	for (index = start; index < end \&\& result != SCAN_FAIL;) {/
	s/^	return SCAN_SUCCEED;$/	return result;/
}
s/^		result = collapse_read_file\(file, start, end\);$/		result = collapse_read_file(file, start, end, cc);/
