/^obj-\$\(CONFIG_MMU_NOTIFIER\)/a\
obj-$(CONFIG_I_MMAP_SHARDS) += i_mmap.o\
obj-$(CONFIG_I_MMAP_SHARDS_KUNIT_TEST) += tests/i_mmap_kunit.o
