s/^ \* Today both are one rwsem\.$/ * Without CONFIG_I_MMAP_SHARDS both are one rwsem./
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
bool i_mmap_shards_mapped(const struct address_space *mapping);\
void i_mmap_free_shards(struct address_space *mapping);\
\
#else /* !CONFIG_I_MMAP_SHARDS */\

/^static inline void i_mmap_assert_locked\(/i\
static inline bool i_mmap_shards_mapped(const struct address_space *mapping)\
{\
	return false;\
}\
\
static inline void i_mmap_free_shards(struct address_space *mapping)\
{\
}\
\
#endif /* CONFIG_I_MMAP_SHARDS */\

s/^	return !RB_EMPTY_ROOT\(&mapping->i_mmap_root\.rb_root\);$/	return !RB_EMPTY_ROOT(\&mapping->i_mmap_root.rb_root) ||\
	       i_mmap_shards_mapped(mapping);/
