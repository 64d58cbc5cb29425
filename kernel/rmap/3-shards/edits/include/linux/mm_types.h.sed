# Behind mmap_lock, which is to stay where it is.
/^		struct uprobes_state uprobes_state;/i\
#ifdef CONFIG_I_MMAP_SHARDS\
		/* Which shard of each file this maps; see mm/i_mmap.c */\
		unsigned int i_mmap_shard_nr;\
#endif
