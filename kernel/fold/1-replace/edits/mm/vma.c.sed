# Adds functions and their calls. spatch would not keep the style of new functions.
/^struct mmap_state \{$/,/^\};$/{
	/^	\/\* Unmapping state\. \*\/$/i\
	/* The VMA that is replaced in part, and what is left of it behind. */\
	struct vm_area_struct *replaced, *tail;\

}
/^static void update_ksm_flags\(/i\
/*\
 * The VMA of which @map can replace a part without unmapping it, or NULL. The\
 * dynamic loader maps segments over parts of a mapping of the same file. To split\
 * and unlink these, and to link the new VMA, takes the i_mmap lock four times. One\
 * hold is enough where nothing is to be undone but page table entries.\
 */\
static struct vm_area_struct *mmap_find_replaced(struct mmap_state *map)\
{\
	const struct file *file = map->file;\
	struct vm_area_struct *vma = file ? vma_iter_load(map->vmi) : NULL;\
\
	vma_iter_set(map->vmi, map->addr);\
	if (!vma || vma->vm_end < map->end || !file->f_op->mmap_prepare ||\
	    !vma->vm_file || vma->vm_file->f_mapping != file->f_mapping)\
		return NULL;\
	/* Unmapping reports the error, as for sealed VMAs. */\
	if (vma->vm_start < map->addr && vma->vm_end > map->end &&\
	    map->mm->map_count >= get_sysctl_max_map_count())\
		return NULL;\
	if (vma->anon_vma || vma_policy(vma) || userfaultfd_armed(vma) ||\
	    is_vm_hugetlb_page(vma) || vma_is_sealed(vma) ||\
	    (vma->vm_ops && (vma->vm_ops->close || vma->vm_ops->may_split)) ||\
	    vma_test_any_mask(vma, VMA_SPECIAL_FLAGS) ||\
	    vma_test_any(vma, VMA_LOCKED_BIT, VMA_ACCOUNT_BIT))\
		return NULL;\
	return vma;\
}\
\
/* Unmap the part, but for its page tables: the new VMA uses them. */\
static void mmap_replace_clear(struct mmap_state *map)\
{\
	struct vm_area_struct *old = map->replaced;\
	/* There is no other VMA to unmap, so this begins where it ends. */\
	VMA_ITERATOR(vmi, map->mm, map->end);\
	UNMAP_STATE(unmap, &vmi, old, map->addr, map->end, NULL, NULL);\
	struct mmu_gather tlb;\
\
	unmap.tree_end = map->end;\
	tlb_gather_mmu(&tlb, map->mm);\
	update_hiwater_rss(map->mm);\
	unmap_vmas(&tlb, &unmap);\
	tlb_finish_mmu(&tlb);\
	vm_stat_account(map->mm, old->vm_flags, -(long)map->pglen);\
}\
\
/*\
 * Lock the old VMA. Sets *@vmap to it if the new one would merge with it. Returns\
 * -EAGAIN if the part must be unmapped: nothing would be left of the old VMA, another\
 * one would merge, or .mmap_prepare() asks for more.\
 */\
static int mmap_replace_prepare(struct mmap_state *map,\
				const struct vm_area_desc *desc,\
				struct vm_area_struct **vmap)\
{\
	struct vm_area_struct *old = map->replaced;\
	bool same;\
	VMG_MMAP_STATE(vmg, map, /* vma = */ NULL);\
\
	vmg.prev = old;\
	same = is_mergeable_vma(&vmg, /* merge_next = */ false) &&\
		linear_page_index(old, map->addr) == map->pgoff &&\
		(!needs_adjacent_anon_pgoff(&vmg) ||\
		 __linear_anon_page_index(old, map->addr) == map->anon_pgoff);\
	vma_iter_set(map->vmi, map->end);\
	vmg.next = vma_next(map->vmi);\
	vma_iter_set(map->vmi, map->addr);\
	vmg.prev = vma_prev(map->vmi);\
	vma_iter_set(map->vmi, map->addr);\
	if (map->file_doesnt_need_get || desc->action.type != MMAP_NOTHING ||\
	    desc->action.hide_from_rmap_until_complete ||\
	    (!same && (vma_pages(old) == map->pglen || can_vma_merge_left(&vmg) ||\
		       can_vma_merge_right(&vmg, /* can_merge_left = */ false))))\
		return -EAGAIN;\
\
	vma_start_write(old);\
	if (!same && old->vm_start < map->addr && old->vm_end > map->end) {\
		map->tail = vm_area_dup(old);\
		if (!map->tail)\
			return -ENOMEM;\
		map->tail->vm_start = map->end;\
		vma_add_pgoff(map->tail, linear_page_delta(old, map->end));\
	}\
\
	if (same) {\
		mmap_replace_clear(map);\
		*vmap = old;\
	}\
	return 0;\
}\
\
/*\
 * Make room for @vma, which is in the tree, and link it. Nothing fails here. Nothing\
 * is mapped there once it is cleared, so no huge page straddles its ends. Nothing\
 * can be: all VMAs are write-locked.\
 */\
static void mmap_replace(struct mmap_state *map, struct vm_area_struct *vma)\
{\
	struct vm_area_struct *old = map->replaced, *tail = map->tail;\
	struct address_space *mapping = old->vm_file->f_mapping;\
\
	mmap_replace_clear(map);\
	if (tail) {\
		map->mm->map_count++;\
		get_file(tail->vm_file);\
		if (tail->vm_ops && tail->vm_ops->open)\
			tail->vm_ops->open(tail);\
		vma_start_write(tail);\
		/* In the slot that @old still has there: allocates nothing. */\
		vma_iter_store_gfp(map->vmi, tail, GFP_KERNEL | __GFP_NOFAIL);\
	}\
\
	i_mmap_lock_write(mapping);\
	__vma_link_file(vma, mapping);\
	if (tail)\
		__vma_link_file(tail, mapping);\
	flush_dcache_mmap_lock(mapping);\
	mapping_rmap_tree_remove(old, mapping);\
	if (old->vm_start < map->addr) {\
		old->vm_end = map->addr;\
	} else {\
		vma_add_pgoff(old, linear_page_delta(old, map->end));\
		old->vm_start = map->end;\
	}\
	mapping_rmap_tree_insert(old, mapping);\
	flush_dcache_mmap_unlock(mapping);\
	i_mmap_unlock_write(mapping);\
	validate_mm(map->mm);\
}\

/^static int __mmap_setup\(/,/^}$/{
	s/^	if \(vms->vma\) \{$/	if (vms->vma \&\& !map->replaced) {/
	s/^	\} else \{$/	} else if (!map->replaced) {/
	s/^	if \(!may_expand_vm\(map->mm, &map->vma_flags, map->pglen - vms->nr_pages\)\)$/	if (!may_expand_vm(map->mm, \&map->vma_flags,\
			   map->replaced ? 0 : map->pglen - vms->nr_pages))/
	s/^	if \(accountable_mapping\(map\)\) \{$/	if (!map->charged \&\& accountable_mapping(map)) {/
}
/^static int __mmap_new_vma\(/,/^}$/{
	/^	vma_link_file\(vma, action->hide_from_rmap_until_complete\);$/{
		i\
	if (map->replaced)\
		mmap_replace(map, vma);\
	else
		s/^/	/
	}
}
/^static unsigned long __mmap_region\(/,/^}$/{
	/^	error = __mmap_setup\(&map, &desc, uf\);$/i\
	map.replaced = mmap_find_replaced(\&map);
	/^	\/\* Attempt to merge with adjacent VMAs\.\.\. \*\/$/i\
	if (map.replaced)\
		error = mmap_replace_prepare(\&map, \&desc, \&vma);\
	if (error == -EAGAIN) {\
		map.replaced = NULL;\
		error = __mmap_setup(\&map, \&desc, uf);\
	}\
	if (error)\
		goto unacct_error;\

	/^abort_munmap:$/i\
	if (map.tail)\
		vm_area_free(map.tail);
}
