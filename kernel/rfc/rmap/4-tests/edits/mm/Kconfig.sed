/^source "mm\/damon\/Kconfig"/i\
config I_MMAP_SHARDS_KUNIT_TEST\
	bool "KUnit tests for shards of the reverse map" if !KUNIT_ALL_TESTS\
	depends on I_MMAP_SHARDS \&\& KUNIT=y\
	default KUNIT_ALL_TESTS\
	help\
	  Enable this option to check how the reverse map of a file is split,\
	  locked and walked. The tests run at boot, and take no noticeable\
	  time.\
\
	  If unsure, say N.\

