s/^ \* Today both are one rwsem\.$/ * Without CONFIG_I_MMAP_SHARDS and for files that are not split, both\
 * are one rwsem./
/^static inline void i_mmap_lock_read\(/i\
#ifdef CONFIG_I_MMAP_SHARDS\
\
void i_mmap_lock_read(struct address_space *mapping);\
int i_mmap_trylock_read(struct address_space *mapping);\
void i_mmap_unlock_read(struct address_space *mapping);\
\
void i_mmap_lock_write_all(struct address_space *mapping);\
int i_mmap_trylock_write_all(struct address_space *mapping);\
void i_mmap_unlock_write_all(struct address_space *mapping);\
\
void i_mmap_lock_write(struct address_space *mapping, struct mm_struct *mm);\
void i_mmap_unlock_write(struct address_space *mapping, struct mm_struct *mm);\
\
void i_mmap_free_shards(struct address_space *mapping);\
\
#else /* !CONFIG_I_MMAP_SHARDS */\

/^static inline void i_mmap_assert_write_all_locked\(/i\
static inline void i_mmap_free_shards(struct address_space *mapping)\
{\
}\
\
#endif /* CONFIG_I_MMAP_SHARDS */\

/^ \* Might pages of this file be mapped into userspace\?$/c\
 * Might pages of this file be mapped into userspace? Always yes for a file that\
 * is split: looking at every shard, without a lock, does not pay.
/^	return !RB_EMPTY_ROOT\(&mapping->i_mmap_root\.rb_root\);$/{
	i\
#ifdef CONFIG_I_MMAP_SHARDS\
	if (!RB_EMPTY_ROOT(\&mapping->i_mmap_root.rb_root))\
		return 1;\
	/* Pairs with smp_wmb() in i_mmap_split(). */\
	smp_rmb();\
	return !!READ_ONCE(mapping->i_mmap_shards);\
#else
	a\
#endif
}
