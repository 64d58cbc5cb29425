# Replaces the tree of a file by the tree of a VMA. A walk goes through all trees. This is a sed
# script because spatch does not keep to the kernel's style in functions that it adds.
/^#include <linux\/interval_tree_generic\.h>$/a\
#include "i_mmap.h"
s/^\/\* File-backed interval tree \(address_space->i_mmap\) \*\/$/\/* File-backed interval trees (one per file, or one per shard of it) *\//
s/^(	__mapping_rmap_tree_(insert|remove)\(vma, )&mapping->i_mmap_root\);$/\1i_mmap_vma_tree(mapping, vma));/
/^	VM_WARN_ON_ONCE_VMA\(vma_start_pgoff\(vma\) != vma_start_pgoff\(prev\), vma\);$/a\
	VM_WARN_ON_ONCE_VMA(i_mmap_vma_tree(mapping, vma) !=\
			    i_mmap_vma_tree(mapping, prev), vma);
s/^(	rb_insert_augmented\(&vma->shared\.rb,) &mapping->i_mmap_root\.rb_root,$/\1\
			    \&i_mmap_vma_tree(mapping, vma)->rb_root,/
/^struct vm_area_struct \*$/{
	N
	/\nmapping_rmap_tree_iter_first\(/i\
/* The first match in tree number @nr or a later one */\
static struct vm_area_struct *\
mapping_rmap_tree_first_from(struct address_space *mapping, unsigned int nr,\
			     pgoff_t pgoff_start, pgoff_t pgoff_last)\
{\
	struct vm_area_struct *vma;\
\
	for (; nr < i_mmap_nr_trees(mapping); nr++) {\
		vma = __mapping_rmap_tree_iter_first(i_mmap_tree(mapping, nr),\
						     pgoff_start, pgoff_last);\
		if (vma)\
			return vma;\
	}\
	return NULL;\
}\

	/\nmapping_rmap_tree_iter_next\(/i\
#ifdef CONFIG_I_MMAP_SHARDS\
/* The first match in a tree behind that of @vma */\
struct vm_area_struct *\
mapping_rmap_tree_next_tree(struct address_space *mapping,\
			    struct vm_area_struct *vma,\
			    pgoff_t pgoff_start, pgoff_t pgoff_last)\
{\
	const unsigned int nr = i_mmap_vma_tree_nr(mapping, vma);\
\
	return mapping_rmap_tree_first_from(mapping, nr + 1, pgoff_start,\
					    pgoff_last);\
}\
\
/* For i_mmap_split(): @vma changes trees while all of them are locked. */\
void mapping_rmap_tree_move(struct vm_area_struct *vma,\
			    struct rb_root_cached *from,\
			    struct rb_root_cached *to)\
{\
	__mapping_rmap_tree_remove(vma, from);\
	__mapping_rmap_tree_insert(vma, to);\
}\
#endif /* CONFIG_I_MMAP_SHARDS */\

}
/^	return __mapping_rmap_tree_iter_first\(&mapping->i_mmap_root,$/{
	N
	s/.*/	return mapping_rmap_tree_first_from(mapping, 0,\
					    pgoff_start, pgoff_last);/
}
