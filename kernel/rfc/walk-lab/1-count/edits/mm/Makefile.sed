/ rmap\.o /a\
mmu-$(CONFIG_MMU)	+= rmap_walks.o
