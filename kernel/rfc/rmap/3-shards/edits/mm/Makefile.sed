/^obj-\$\(CONFIG_MMU_NOTIFIER\)/a\
obj-$(CONFIG_I_MMAP_SHARDS) += i_mmap.o
