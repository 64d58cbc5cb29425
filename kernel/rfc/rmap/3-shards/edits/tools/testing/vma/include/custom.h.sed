$a\
\
static inline void mapping_rmap_tree_insert(struct vm_area_struct *vma,\
					    struct address_space *mapping)\
{\
	if (i_mmap_taken.holder != vma->vm_mm)\
		i_mmap_taken.unlocked = true;\
	nr_rmap_linked++;\
}\
\
static inline void mapping_rmap_tree_remove(struct vm_area_struct *vma,\
					    struct address_space *mapping)\
{\
	if (i_mmap_taken.holder != vma->vm_mm)\
		i_mmap_taken.unlocked = true;\
	nr_rmap_linked--;\
}
