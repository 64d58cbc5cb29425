/^source "mm\/damon\/Kconfig"/i\
config I_MMAP_SHARDS_AUDIT\
	bool "Check the reverse map of every file on request"\
	depends on I_MMAP_SHARDS \&\& DEBUG_VM \&\& DEBUG_FS\
	help\
	  Reading i_mmap_audit in debugfs checks that every file mapping of\
	  every process is in the tree that it belongs to, and that the trees\
	  hold nothing else.\
\
	  If unsure, say N.\

