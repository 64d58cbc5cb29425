/^	unsigned long io_pages;/a\
	/* Faults on text; see mm/exec_readahead.c. */\
	unsigned int exec_page_ns;	/* they wait for a page, 0: none did yet */\
	unsigned int exec_leaf_pause;	/* faults until a leaf is tried */\
	unsigned char exec_leaf_late;	/* leaves that took too long, in a row */
