/^core_initcall\(i_mmap_init\);$/a\
\
/* i_mmap_shards=N, to compare a kernel with itself. With 1 no file is split. */\
static int __init i_mmap_set_shards(char *str)\
{\
	unsigned int wanted;\
\
	if (kstrtouint(str, 0, \&wanted) || !wanted)\
		return -EINVAL;\
	i_mmap_nr_shards = i_mmap_shard_count(wanted);\
	return 0;\
}\
early_param("i_mmap_shards", i_mmap_set_shards);
s/^	i_mmap_nr_shards = i_mmap_shard_count\(num_possible_cpus\(\)\);$/	\/* The command line may have set it. *\/\
	if (!i_mmap_nr_shards)\
		i_mmap_nr_shards = i_mmap_shard_count(num_possible_cpus());/
