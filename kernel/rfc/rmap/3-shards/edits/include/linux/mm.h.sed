# The declarations stand between others that spatch cannot read. Most steps of a walk stay in a tree.
/^#define mapping_rmap_tree_foreach\(/i\
#ifdef CONFIG_I_MMAP_SHARDS\
struct vm_area_struct *\
mapping_rmap_tree_next_tree(struct address_space *mapping,\
			    struct vm_area_struct *vma,\
			    pgoff_t pgoff_start, pgoff_t pgoff_last);\
void mapping_rmap_tree_move(struct vm_area_struct *vma,\
			    struct rb_root_cached *from,\
			    struct rb_root_cached *to);\
#else\
static inline struct vm_area_struct *\
mapping_rmap_tree_next_tree(struct address_space *mapping,\
			    struct vm_area_struct *vma,\
			    pgoff_t pgoff_start, pgoff_t pgoff_last)\
{\
	return NULL;\
}\
#endif\
\
static inline struct vm_area_struct *\
mapping_rmap_tree_next(struct address_space *mapping,\
		       struct vm_area_struct *vma,\
		       pgoff_t pgoff_start, pgoff_t pgoff_last)\
{\
	return mapping_rmap_tree_iter_next(vma, pgoff_start, pgoff_last) ?:\
	       mapping_rmap_tree_next_tree(mapping, vma, pgoff_start,\
					   pgoff_last);\
}\

/^	     vma; vma = mapping_rmap_tree_iter_next\(/{
	N
	s/.*/	     vma; vma = mapping_rmap_tree_next(mapping, vma, pgoff_start, \\\
					       pgoff_last))/
}
