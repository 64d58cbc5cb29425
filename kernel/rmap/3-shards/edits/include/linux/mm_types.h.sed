# Beside the other count that changes with the VMAs only.
/^		int map_count;/a\
#ifdef CONFIG_I_MMAP_SHARDS\
		unsigned int i_mmap_shard;	/* of every file it maps */\
#endif
