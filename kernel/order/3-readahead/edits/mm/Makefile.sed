/^obj-\$\(CONFIG_EXEC_ORDER_KUNIT_TEST\)/i\
obj-$(CONFIG_MMU) += exec_readahead.o
