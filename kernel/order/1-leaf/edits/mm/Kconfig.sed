/^source "mm\/damon\/Kconfig"$/i\
config EXEC_ORDER_KUNIT_TEST\
	tristate "KUnit tests for the folio order of text" if !KUNIT_ALL_TESTS\
	depends on KUNIT\
	default KUNIT_ALL_TESTS\
	help\
	  Enable this option to check what a fault on executable memory reads\
	  into the page cache. The tests vary the mapping, the file, the device\
	  and the state of memory, and expect folios that one page table entry\
	  can map where all of them allow it.\
\
	  If unsure, say N.\

