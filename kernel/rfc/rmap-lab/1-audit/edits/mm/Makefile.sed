/^obj-\$\(CONFIG_I_MMAP_SHARDS\)/a\
obj-$(CONFIG_I_MMAP_SHARDS_AUDIT) += i_mmap_audit.o
