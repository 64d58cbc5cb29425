s/^(static inline void i_mmap_lock_write\(struct address_space \*mapping)\)$/\1,\
				     struct mm_struct *mm)/
s/^(static inline void i_mmap_unlock_write\(struct address_space \*mapping)\)$/\1,\
				       struct mm_struct *mm)/
/^#define down_write_nest_lock\(sem, nest_lock\)$/a\
#define up_write(sem)
