/^source "mm\/damon\/Kconfig"/i\
config I_MMAP_SHARDS\
	bool "Split the reverse map of files that many processes execute" if EXPERT\
	depends on MMU \&\& SMP\
	default y\
	help\
	  Give files that many address spaces execute, such as libc and the\
	  dynamic loader, one lock and one tree of mappings for each of a number\
	  of shards, so that starting and ending processes on many CPUs does not\
	  serialize on them. Such a file takes one cache line for each possible\
	  CPU, rounded up to a power of two and at most 32, until its inode is\
	  evicted; other files take a pointer.\
\
	  No file is split where one CPU is possible, or where fewer CPUs are\
	  online than a quarter of the shards. There this costs a test for each\
	  walk of the mappings of a file.\
\
	  If unsure, say Y.\
\
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

