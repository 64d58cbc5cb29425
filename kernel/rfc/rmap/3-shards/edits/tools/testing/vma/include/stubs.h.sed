# The stubs of the locks note what mm/vma.c does with them.
/^static inline void i_mmap_unlock_write\(/i\
/* What mm/vma.c did with the i_mmap locks, for tests. */\
struct i_mmap_taken {\
	const struct mm_struct *holder;	/* whose mappings may change, or NULL */\
	int locked;			/* how often a lock was taken */\
	int split;			/* how often a file was split */\
	bool unlocked;			/* something was done without its lock */\
	bool busy;			/* what i_mmap_is_busy() says */\
};\
\
static struct i_mmap_taken i_mmap_taken;\

/^static inline void i_mmap_unlock_write\(/,/^}$/s/^\{$/&\
	if (i_mmap_taken.holder != mm)\
		i_mmap_taken.unlocked = true;\
	i_mmap_taken.holder = NULL;/
# These need to know what a VMA is: see custom.h.
/^static inline void mapping_rmap_tree_(insert|remove)\(/,/^$/d
/^static inline void i_mmap_lock_write\(/,/^}$/s/^\{$/&\
	if (i_mmap_taken.holder)\
		i_mmap_taken.unlocked = true;\
	i_mmap_taken.holder = mm;\
	i_mmap_taken.locked++;/
/^static inline void anon_vma_lock_write\(/i\
static inline bool i_mmap_look(const struct vm_area_struct *vma)\
{\
	return true;\
}\
\
static inline bool i_mmap_is_busy(struct address_space *mapping,\
				  struct vm_area_struct *vma)\
{\
	if (!i_mmap_taken.holder)\
		i_mmap_taken.unlocked = true;\
	return i_mmap_taken.busy;\
}\
\
static inline void i_mmap_split(struct address_space *mapping)\
{\
	if (i_mmap_taken.holder)\
		i_mmap_taken.unlocked = true;\
	i_mmap_taken.split++;\
}\

