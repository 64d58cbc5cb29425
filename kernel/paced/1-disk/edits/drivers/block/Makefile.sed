/^obj-\$\(CONFIG_BLK_DEV_RAM\)/a\
obj-$(CONFIG_BLK_DEV_PACED)	+= paced.o
