/^obj-\$\(CONFIG_LAZY_MMU_MODE_KUNIT_TEST\)/a\
obj-$(CONFIG_MMU) += exec_readahead.o\
obj-$(CONFIG_EXEC_ORDER_KUNIT_TEST) += tests/exec_order_kunit.o
