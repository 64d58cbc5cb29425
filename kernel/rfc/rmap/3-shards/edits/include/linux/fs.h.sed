# Adds one pointer to a structure that every cached inode has.
/^ \* @i_mmap_root_rwsem:/{
	s/ and @i_mmap_writable\./, and whether there are shards./
	a\
 * @i_mmap_shards: The mappings of a file that many address spaces execute; see\
 *   mm/i_mmap.c. NULL for others.
}
/^	struct rw_semaphore	i_mmap_root_rwsem;$/a\
#ifdef CONFIG_I_MMAP_SHARDS\
	struct i_mmap_shard	*i_mmap_shards;\
#endif
