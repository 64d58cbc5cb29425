# dup_mmap() collects the VMAs of one file; the batch links and fills them. spatch cannot read
# __latent_entropy between a function's type and its name.
/^__latent_entropy int dup_mmap\(/i\
/*\
 * Mappings of one file that fork has set up in the child, but neither linked to\
 * the file nor filled: the segments of a program or a library. One hold of the\
 * i_mmap lock links all of them. A VMA must be linked before it gets page tables,\
 * so that truncate and reclaim find them. Teardown needs it linked, too.\
 */\
struct fork_file_batch {\
	int count;\
	struct {\
		struct vm_area_struct *child;\
		struct vm_area_struct *parent;\
	} vmas[8];\
};\
\
static bool fork_file_batch_takes(const struct fork_file_batch *fb,\
				  const struct vm_area_struct *vma)\
{\
	return !fb->count || (fb->count < ARRAY_SIZE(fb->vmas) \&\&\
			      fb->vmas[0].parent->vm_file == vma->vm_file);\
}\
\
static void fork_file_batch_add(struct fork_file_batch *fb,\
				struct vm_area_struct *child,\
				struct vm_area_struct *parent)\
{\
	fb->vmas[fb->count].child = child;\
	fb->vmas[fb->count].parent = parent;\
	fb->count++;\
}\
\
static void fork_file_batch_link(struct fork_file_batch *fb)\
{\
	struct address_space *mapping = fb->vmas[0].child->vm_file->f_mapping;\
	int i;\
\
	i_mmap_lock_write(mapping);\
	for (i = 0; i < fb->count; i++) {\
		struct vm_area_struct *child = fb->vmas[i].child;\
\
		if (vma_is_shared_maywrite(child))\
			mapping_allow_writable(mapping);\
		flush_dcache_mmap_lock(mapping);\
		/* insert child into the share list, just after parent */\
		mapping_rmap_tree_insert_after(child, fb->vmas[i].parent,\
					       mapping);\
		flush_dcache_mmap_unlock(mapping);\
	}\
	i_mmap_unlock_write(mapping);\
}\
\
/* Link the VMAs of @fb, then copy their page tables. Leaves it empty. */\
static int fork_file_batch_process(struct fork_file_batch *fb)\
{\
	int i, retval = 0;\
\
	if (!fb->count)\
		return 0;\
\
	fork_file_batch_link(fb);\
	for (i = 0; i < fb->count \&\& !retval; i++) {\
		if (!vma_test(fb->vmas[i].child, VMA_WIPEONFORK_BIT))\
			retval = copy_page_range(fb->vmas[i].child,\
						 fb->vmas[i].parent);\
	}\
	fb->count = 0;\
	return retval;\
}\

/^__latent_entropy int dup_mmap\(/,/^}$/{
	/^	struct vm_area_struct \*mpnt, \*tmp;$/i\
	struct fork_file_batch fb = {};
	/^		struct file \*file;$/{
		N
		c\
		if (!fork_file_batch_takes(&fb, mpnt)) {\
			retval = fork_file_batch_process(&fb);\
			if (retval)\
				goto loop_out;\
		}\

	}
	/^		file = tmp->vm_file;$/,/^		}$/c\
		if (tmp->vm_file) {\
			get_file(tmp->vm_file);\
			fork_file_batch_add(&fb, tmp, mpnt);\
			continue;\
		}
	/^	\/\* a new mm has just been created \*\/$/i\
	retval = fork_file_batch_process(&fb);\
	if (retval)\
		goto loop_out;
	/^loop_out:$/a\
	/* The rest is torn down below, and must be linked for that. */\
	if (fb.count)\
		fork_file_batch_link(&fb);
}
