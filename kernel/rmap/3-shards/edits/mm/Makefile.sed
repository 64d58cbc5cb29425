/^obj-\$\(CONFIG_MEM_ALLOC_PROFILING\)/i\
obj-$(CONFIG_I_MMAP_SHARDS) += i_mmap.o\
obj-$(CONFIG_I_MMAP_SHARDS_KUNIT_TEST) += tests/i_mmap_kunit.o
