/^static enum scan_result collapse_read_file\(/,/^}$/{
	/^		if \(!folio_test_uptodate\(folio\)\) \{$/i\
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
		}
}
/^static enum scan_result collapse_file\(/,/^}$/{
	/^				 \* This page is dirty because it hasn't$/,/^				 \*\/$/c\
				 * Dirty since it was read. To flush may wait\
				 * for who waits for the folios locked here, so\
				 * that is left to the next visit.\
				 */
	/^				if \(!inode_is_open_for_write\(mapping->host\)\)$/,/^					filemap_flush\(mapping\);$/d
}
