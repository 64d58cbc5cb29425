// SPDX-License-Identifier: GPL-2.0-only

/*
 * Which i_mmap locks mm/vma.c takes: for the mappings of which mm, and how
 * often. The stubs note every acquisition, and whether a tree changed without its lock.
 */

static struct vm_area_struct *link_file(struct mm_struct *mm, struct file *file,
					unsigned long addr, vma_flags_t vma_flags)
{
	const pgoff_t pgoff = addr >> PAGE_SHIFT;
	struct vm_area_struct *vma = alloc_vma(mm, addr, addr + 0x3000, pgoff,
					       vma_flags);

	if (!vma)
		return NULL;
	vma->vm_file = file;
	vma_set_anon_pgoff(vma, pgoff);
	if (attach_vma(mm, vma)) {
		detach_free_vma(vma);
		return NULL;
	}
	return vma;
}

static struct vm_area_struct *link_text(struct mm_struct *mm, struct file *file,
					unsigned long addr)
{
	const vma_flags_t vma_flags = mk_vma_flags(VMA_READ_BIT, VMA_EXEC_BIT,
			VMA_MAYREAD_BIT, VMA_MAYEXEC_BIT);

	return link_file(mm, file, addr, vma_flags);
}

static void start_mm(struct mm_struct *mm, struct vma_iterator *vmi)
{
	current->mm = mm;
	vma_iter_init(vmi, mm, 0);
}

/* To link or to split a mapping of a file is one acquisition of its lock. */
static bool test_i_mmap_change(void)
{
	struct address_space mapping = {};
	struct file file = { .f_mapping = &mapping };
	struct mm_struct mm = {};
	struct vma_iterator vmi;
	struct vm_area_struct *vma;

	start_mm(&mm, &vmi);
	i_mmap_taken = (struct i_mmap_taken){};

	vma = link_text(&mm, &file, 0x100000);
	ASSERT_NE(vma, NULL);
	ASSERT_EQ(i_mmap_taken.locked, 1);

	vma_iter_set(&vmi, 0x100000);
	ASSERT_EQ(vma_find(&vmi, ULONG_MAX), vma);
	ASSERT_EQ(split_vma(&vmi, vma, 0x101000, 0), 0);
	ASSERT_EQ(mm.map_count, 2);
	ASSERT_EQ(i_mmap_taken.locked, 2);

	ASSERT_FALSE(i_mmap_taken.unlocked);
	ASSERT_EQ(i_mmap_taken.holder, NULL);

	cleanup_mm(&mm, &vmi);
	return true;
}

/* Consecutive mappings of one file are unlinked under one lock. */
static bool test_i_mmap_unlink(void)
{
	const vma_flags_t vma_flags = mk_vma_flags(VMA_READ_BIT, VMA_MAYREAD_BIT);
	struct address_space mappings[2] = {};
	struct file files[2] = {
		{ .f_mapping = &mappings[0] }, { .f_mapping = &mappings[1] },
	};
	struct unlink_vma_file_batch batch;
	struct mm_struct mm = {};
	struct vma_iterator vmi;
	struct vm_area_struct *vma;

	start_mm(&mm, &vmi);
	ASSERT_NE(link_file(&mm, &files[0], 0x100000, vma_flags), NULL);
	ASSERT_NE(link_file(&mm, &files[0], 0x200000, vma_flags), NULL);
	ASSERT_NE(link_file(&mm, &files[1], 0x300000, vma_flags), NULL);
	ASSERT_NE(link_file(&mm, NULL, 0x400000, vma_flags), NULL);

	i_mmap_taken = (struct i_mmap_taken){};
	unlink_file_vma_batch_init(&batch);
	for_each_vma(vmi, vma)
		unlink_file_vma_batch_add(&batch, vma);
	unlink_file_vma_batch_final(&batch);
	ASSERT_EQ(i_mmap_taken.locked, 2);
	ASSERT_FALSE(i_mmap_taken.unlocked);
	ASSERT_EQ(i_mmap_taken.holder, NULL);

	cleanup_mm(&mm, &vmi);
	return true;
}

/* A busy file is split once its lock is free, and no other is. */
static bool test_i_mmap_busy(void)
{
	struct address_space mapping = {};
	struct file file = { .f_mapping = &mapping };
	struct mm_struct mm = {};
	struct vma_iterator vmi;

	start_mm(&mm, &vmi);
	i_mmap_taken = (struct i_mmap_taken){};
	ASSERT_NE(link_text(&mm, &file, 0x100000), NULL);
	ASSERT_EQ(i_mmap_taken.split, 0);

	i_mmap_taken.busy = true;
	ASSERT_NE(link_text(&mm, &file, 0x200000), NULL);
	ASSERT_EQ(i_mmap_taken.split, 1);
	ASSERT_NE(link_text(&mm, NULL, 0x300000), NULL);
	ASSERT_EQ(i_mmap_taken.split, 1);
	ASSERT_FALSE(i_mmap_taken.unlocked);

	cleanup_mm(&mm, &vmi);
	return true;
}

/* A mapping that is hidden from walks until it is complete keeps the lock. */
static bool test_i_mmap_hidden(void)
{
	struct address_space mapping = {};
	struct file file = { .f_mapping = &mapping };
	struct mm_struct mm = {};
	struct vma_iterator vmi;
	struct vm_area_struct *vma;

	start_mm(&mm, &vmi);
	vma = link_text(&mm, &file, 0x100000);
	ASSERT_NE(vma, NULL);

	i_mmap_taken = (struct i_mmap_taken){ .busy = true };
	vma_link_file(vma, true);
	ASSERT_EQ(i_mmap_taken.holder, &mm);
	ASSERT_EQ(i_mmap_taken.split, 0);
	i_mmap_unlock_write(&mapping, &mm);
	ASSERT_FALSE(i_mmap_taken.unlocked);

	cleanup_mm(&mm, &vmi);
	return true;
}

static void run_i_mmap_tests(int *num_tests, int *num_fail)
{
	TEST(i_mmap_change);
	TEST(i_mmap_unlink);
	TEST(i_mmap_busy);
	TEST(i_mmap_hidden);
}
