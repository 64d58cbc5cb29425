/^obj-\$\(CONFIG_I_MMAP_SHARDS\)/a\
obj-$(CONFIG_I_MMAP_SHARDS_KUNIT_TEST) += tests/i_mmap_kunit.o
