/^source "mm\/damon\/Kconfig"$/i\
config EXEC_ORDER_KUNIT_TEST\
	tristate "KUnit tests for the order that text is read in" if !KUNIT_ALL_TESTS\
	depends on KUNIT\
	default KUNIT_ALL_TESTS\
	help\
	  Enable this option to check what a fault on executable memory reads\
	  into the page cache: for which mappings, files, devices and states of\
	  memory it reads in folios that one page table entry can map.\
\
	  If unsure, say N.\

