# The declarations stand between others that spatch cannot read.
/^struct vm_area_struct \*$/{
	N
	/\nmapping_rmap_tree_iter_next\(/i\
#ifdef CONFIG_I_MMAP_SHARDS\
struct vm_area_struct *\
mapping_rmap_tree_next(struct address_space *mapping,\
		       struct vm_area_struct *vma,\
		       pgoff_t pgoff_start, pgoff_t pgoff_last);\
void mapping_rmap_tree_move(struct vm_area_struct *vma,\
			    struct rb_root_cached *from,\
			    struct rb_root_cached *to);\
#else
}
/^#define mapping_rmap_tree_foreach\(/i\
static inline struct vm_area_struct *\
mapping_rmap_tree_next(struct address_space *mapping,\
		       struct vm_area_struct *vma,\
		       pgoff_t pgoff_start, pgoff_t pgoff_last)\
{\
	return mapping_rmap_tree_iter_next(vma, pgoff_start, pgoff_last);\
}\
#endif\

/^	     vma; vma = mapping_rmap_tree_iter_next\(/{
	N
	s/.*/	     vma; vma = mapping_rmap_tree_next(mapping, vma, pgoff_start, \\\
					       pgoff_last))/
}
