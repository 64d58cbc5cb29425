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
	  online than a quarter of the shards. There this costs some\
	  instructions where a mapping of a file is linked, unlinked or walked.\
\
	  If unsure, say Y.\

