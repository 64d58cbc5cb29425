/^	\[I\(UNEVICTABLE_PGCULLED\)\]/i\
#ifdef CONFIG_MMU\
	[I(EXEC_LEAF_READ)]			= "exec_leaf_read",\
	[I(EXEC_LEAF_SHAPE)]			= "exec_leaf_shape",\
	[I(EXEC_LEAF_DEVICE)]			= "exec_leaf_device",\
	[I(EXEC_LEAF_MEMORY)]			= "exec_leaf_memory",\
	[I(EXEC_LEAF_CACHED)]			= "exec_leaf_cached",\
	[I(EXEC_LEAF_ALLOC)]			= "exec_leaf_alloc",\
#endif
