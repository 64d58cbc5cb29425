# After mmap_lock, so that the offset of mmap_lock does not change.
/^		struct uprobes_state uprobes_state;/i\
#ifdef CONFIG_I_MMAP_SHARDS\
		/* The shard of this mm in each file; see mm/i_mmap.c */\
		unsigned int i_mmap_shard_nr;\
#endif
