# The stubs count. Tests read that.
/^static inline void anon_vma_unlock_write\(/i\
/* How often the i_mmap lock was taken and a range unmapped; linked VMAs of files. */\
static int nr_i_mmap_locks, nr_unmaps, nr_rmap_linked;\

/^static inline void i_mmap_lock_write\(/,/^}$/s/^\{$/&\
	nr_i_mmap_locks++;/
/^static inline void mapping_rmap_tree_insert\(/,/^}$/s/^\{$/&\
	nr_rmap_linked++;/
/^static inline void mapping_rmap_tree_remove\(/,/^}$/s/^\{$/&\
	nr_rmap_linked--;/
/^static inline void unmap_vmas\(/,/^}$/s/^\{$/&\
	nr_unmaps++;/
