# The declarations stand between others that spatch cannot read.
/^mapping_rmap_tree_iter_next\(struct vm_area_struct \*vma,$/{
	s/struct vm_area_struct/struct address_space *mapping,\
			    struct vm_area_struct/
	n
	a\
void mapping_rmap_tree_move(struct vm_area_struct *vma,\
			    struct rb_root_cached *from,\
			    struct rb_root_cached *to);
}
/^	     vma; vma = mapping_rmap_tree_iter_next\(/{
	N
	s/.*/	     vma; vma = mapping_rmap_tree_iter_next(mapping, vma,	 \\\
						    pgoff_start, pgoff_last))/
}
