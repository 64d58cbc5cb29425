/^		UNEVICTABLE_PGCULLED,/i\
#ifdef CONFIG_MMU\
		EXEC_LEAF_READ,		/* a fault on text read leaves */\
		EXEC_LEAF_SHAPE,	/* why it was not the largest leaf */\
		EXEC_LEAF_DEVICE,\
		EXEC_LEAF_MEMORY,\
		EXEC_LEAF_CACHED,\
		EXEC_LEAF_ALLOC,\
#endif
