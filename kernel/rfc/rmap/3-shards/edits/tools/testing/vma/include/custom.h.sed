$a\
\
static inline void mapping_rmap_tree_insert(struct vm_area_struct *vma,\
					    struct address_space *mapping)\
{\
	if (i_mmap_trips.holder != vma->vm_mm)\
		i_mmap_trips.unlocked = true;\
}\
\
static inline void mapping_rmap_tree_remove(struct vm_area_struct *vma,\
					    struct address_space *mapping)\
{\
	if (i_mmap_trips.holder != vma->vm_mm)\
		i_mmap_trips.unlocked = true;\
}
