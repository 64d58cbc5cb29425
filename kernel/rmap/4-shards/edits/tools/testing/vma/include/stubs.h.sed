/^static inline void anon_vma_lock_write\(/i\
static inline bool i_mmap_look(void)\
{\
	return false;\
}\
\
static inline bool i_mmap_crowded(struct address_space *mapping,\
				  struct vm_area_struct *vma)\
{\
	return false;\
}\
\
static inline void i_mmap_split(struct address_space *mapping)\
{\
}\

