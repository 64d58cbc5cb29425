/^	unsigned long io_pages;/a\
	/* nanoseconds that faults on text wait for a page, 0: none did yet */\
	unsigned long exec_page_ns;\
	bool exec_waits;	/* one of them did not find it read already */
