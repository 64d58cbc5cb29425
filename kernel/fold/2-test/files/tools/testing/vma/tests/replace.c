// SPDX-License-Identifier: GPL-2.0-or-later

/*
 * Mappings of a file over a part of another mapping of it: what is left of that,
 * and how often the i_mmap lock is taken.
 */

#define REPLACE_START	0x300000UL
#define REPLACE_END	0x30a000UL

static int prepare_error;

static int replace_mmap_prepare(struct vm_area_desc *desc)
{
	return prepare_error;
}

static const struct file_operations replace_fops = {
	.mmap_prepare = replace_mmap_prepare,
};

static struct address_space replace_mapping;
static struct file replace_file = {
	.f_mapping = &replace_mapping,
	.f_op = &replace_fops,
};

static vma_flags_t read_flags(void)
{
	return mk_vma_flags(VMA_READ_BIT, VMA_MAYREAD_BIT, VMA_MAYWRITE_BIT,
			    VMA_MAYEXEC_BIT);
}

static vma_flags_t exec_flags(void)
{
	vma_flags_t flags = read_flags();

	vma_flags_set(&flags, VMA_EXEC_BIT);
	return flags;
}

static vma_flags_t shared_flags(void)
{
	vma_flags_t flags = read_flags();

	vma_flags_set(&flags, VMA_SHARED_BIT);
	return flags;
}

static unsigned long replace(unsigned long start, unsigned long end,
			     pgoff_t pgoff, vma_flags_t flags)
{
	nr_i_mmap_locks = 0;
	nr_unmaps = 0;
	return __mmap_region(&replace_file, start, end - start, flags, pgoff, NULL);
}

/* Maps ten pages. Returns their VMA. */
static struct vm_area_struct *replace_begin(struct mm_struct *mm,
					    struct vma_iterator *vmi,
					    vma_flags_t flags)
{
	current->mm = mm;
	prepare_error = 0;
	nr_rmap_linked = 0;
	atomic_set(&replace_mapping.i_mmap_writable, 0);
	vma_iter_init(vmi, mm, REPLACE_START);
	if (replace(REPLACE_START, REPLACE_END, 0, flags) != REPLACE_START)
		return NULL;
	return vma_next(vmi);
}

/* Is there a VMA of exactly this range, with this offset? */
static bool has_vma(struct mm_struct *mm, unsigned long start, unsigned long end,
		    pgoff_t pgoff, bool exec)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma = vma_next(&vmi);

	return vma && vma->vm_start == start && vma->vm_end == end &&
	       vma_start_pgoff(vma) == pgoff && vma->vm_file == &replace_file &&
	       vma_start_anon_pgoff(vma) == start >> PAGE_SHIFT &&
	       vma_is_attached(vma) && vma_test(vma, VMA_EXEC_BIT) == exec;
}

static bool test_replace_parts(void)
{
	struct mm_struct mm = {};
	struct vma_iterator vmi;

	/* In the middle. */
	ASSERT_NE(replace_begin(&mm, &vmi, read_flags()), NULL);
	ASSERT_EQ(nr_i_mmap_locks, 1);
	ASSERT_EQ(replace(0x303000, 0x306000, 3, exec_flags()), 0x303000);
	ASSERT_EQ(nr_i_mmap_locks, 1);
	ASSERT_EQ(nr_unmaps, 1);
	ASSERT_EQ(nr_rmap_linked, 3);
	ASSERT_EQ(mm.map_count, 3);
	ASSERT_EQ(mm.total_vm, 10);
	ASSERT_EQ(mm.exec_vm, 3);
	ASSERT_TRUE(has_vma(&mm, REPLACE_START, 0x303000, 0, false));
	ASSERT_TRUE(has_vma(&mm, 0x303000, 0x306000, 3, true));
	ASSERT_TRUE(has_vma(&mm, 0x306000, REPLACE_END, 6, false));
	/* All of one is unmapped. free_pgtables(), which unlinks it, is a stub here. */
	ASSERT_EQ(replace(0x303000, 0x306000, 0x13, exec_flags()), 0x303000);
	ASSERT_EQ(nr_rmap_linked--, 4);
	ASSERT_EQ(mm.map_count, 3);
	ASSERT_EQ(mm.total_vm, 10);
	ASSERT_EQ(mm.exec_vm, 3);
	ASSERT_TRUE(has_vma(&mm, 0x303000, 0x306000, 0x13, true));
	/* The begin and the end of what is left. */
	ASSERT_EQ(replace(0x306000, 0x308000, 0x16, read_flags()), 0x306000);
	ASSERT_EQ(nr_i_mmap_locks, 1);
	ASSERT_EQ(replace(0x302000, 0x303000, 0x22, read_flags()), 0x302000);
	ASSERT_EQ(nr_i_mmap_locks, 1);
	ASSERT_EQ(nr_rmap_linked, 5);
	ASSERT_EQ(mm.map_count, 5);
	ASSERT_EQ(mm.total_vm, 10);
	ASSERT_TRUE(has_vma(&mm, REPLACE_START, 0x302000, 0, false));
	ASSERT_TRUE(has_vma(&mm, 0x302000, 0x303000, 0x22, false));
	ASSERT_TRUE(has_vma(&mm, 0x306000, 0x308000, 0x16, false));
	ASSERT_TRUE(has_vma(&mm, 0x308000, REPLACE_END, 8, false));

	ASSERT_EQ(cleanup_mm(&mm, &vmi), 5);
	return true;
}

/* A mapping of what is there already changes no VMA. */
static bool test_replace_same(void)
{
	struct mm_struct mm = {};
	struct vma_iterator vmi;

	ASSERT_NE(replace_begin(&mm, &vmi, read_flags()), NULL);
	ASSERT_EQ(replace(0x303000, 0x306000, 3, read_flags()), 0x303000);
	ASSERT_EQ(nr_i_mmap_locks, 0);
	ASSERT_EQ(nr_unmaps, 1);
	ASSERT_EQ(replace(REPLACE_START, REPLACE_END, 0, read_flags()), REPLACE_START);
	ASSERT_EQ(nr_i_mmap_locks, 0);
	ASSERT_EQ(mm.map_count, 1);
	ASSERT_EQ(mm.total_vm, 10);
	ASSERT_TRUE(has_vma(&mm, REPLACE_START, REPLACE_END, 0, false));

	ASSERT_EQ(cleanup_mm(&mm, &vmi), 1);
	return true;
}

/* VMAs are merged with those around the replaced one, as they were. */
static bool test_replace_merge(void)
{
	struct mm_struct mm = {};
	struct vma_iterator vmi;

	ASSERT_NE(replace_begin(&mm, &vmi, read_flags()), NULL);
	ASSERT_EQ(replace(REPLACE_START, 0x303000, 0x10, exec_flags()), REPLACE_START);
	ASSERT_EQ(replace(0x303000, 0x305000, 0x13, exec_flags()), 0x303000);
	ASSERT_EQ(mm.map_count, 2);
	ASSERT_TRUE(has_vma(&mm, REPLACE_START, 0x305000, 0x10, true));
	ASSERT_TRUE(has_vma(&mm, 0x305000, REPLACE_END, 5, false));
	/* Behind it, too. */
	ASSERT_EQ(replace(0x309000, REPLACE_END, 0x29, exec_flags()), 0x309000);
	ASSERT_EQ(replace(0x307000, 0x309000, 0x27, exec_flags()), 0x307000);
	ASSERT_EQ(mm.map_count, 3);
	ASSERT_EQ(mm.total_vm, 10);
	ASSERT_TRUE(has_vma(&mm, 0x305000, 0x307000, 5, false));
	ASSERT_TRUE(has_vma(&mm, 0x307000, REPLACE_END, 0x27, true));

	ASSERT_EQ(cleanup_mm(&mm, &vmi), 3);
	return true;
}

/* Mappings that may be written are counted for each VMA. */
static bool test_replace_shared(void)
{
	struct mm_struct mm = {};
	struct vma_iterator vmi;

	ASSERT_NE(replace_begin(&mm, &vmi, shared_flags()), NULL);
	ASSERT_EQ(atomic_read(&replace_mapping.i_mmap_writable), 1);
	ASSERT_EQ(replace(0x303000, 0x306000, 0x13, shared_flags()), 0x303000);
	ASSERT_EQ(nr_i_mmap_locks, 1);
	ASSERT_EQ(mm.map_count, 3);
	ASSERT_EQ(atomic_read(&replace_mapping.i_mmap_writable), 3);

	ASSERT_EQ(cleanup_mm(&mm, &vmi), 3);
	return true;
}

/* What fails leaves one VMA, with its end and with what is mapped there. */
static bool test_replace_fails(void)
{
	const int limit = sysctl_max_map_count;
	struct mm_struct mm = {};
	struct vma_iterator vmi;

	ASSERT_NE(replace_begin(&mm, &vmi, read_flags()), NULL);
	prepare_error = -EACCES;
	ASSERT_EQ(replace(0x303000, 0x306000, 3, exec_flags()), -EACCES);
	ASSERT_EQ(nr_unmaps, 0);
	prepare_error = 0;
	fail_prealloc = true;
	ASSERT_EQ(replace(0x303000, 0x306000, 3, exec_flags()), -ENOMEM);
	fail_prealloc = false;
	ASSERT_EQ(nr_unmaps, 0);
	sysctl_max_map_count = 1;
	ASSERT_EQ(replace(0x303000, 0x306000, 3, exec_flags()), -ENOMEM);
	sysctl_max_map_count = limit;
	ASSERT_EQ(nr_unmaps, 0);
	ASSERT_EQ(nr_i_mmap_locks, 0);
	ASSERT_EQ(nr_rmap_linked, 1);
	ASSERT_EQ(mm.map_count, 1);
	ASSERT_EQ(mm.total_vm, 10);
	ASSERT_TRUE(has_vma(&mm, REPLACE_START, REPLACE_END, 0, false));

	ASSERT_EQ(cleanup_mm(&mm, &vmi), 1);
	return true;
}

static int replace_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	return 0;
}

/* Is it unmapped first? That splits it: at both ends, and there is a link. */
static bool is_unmapped(struct mm_struct *mm, struct vma_iterator *vmi)
{
	ASSERT_EQ(replace(0x303000, 0x306000, 3, exec_flags()), 0x303000);
	ASSERT_EQ(nr_i_mmap_locks, 3);
	ASSERT_EQ(cleanup_mm(mm, vmi), 3);
	return true;
}

static bool test_replace_unmaps(void)
{
	const struct vm_operations_struct close_ops = { .close = dummy_close };
	const struct vm_operations_struct split_ops = {
		.may_split = replace_may_split,
	};
	struct address_space other = {};
	struct file other_file = { .f_mapping = &other, .f_op = &replace_fops };
	struct anon_vma_chain avc = {};
	struct mm_struct mm = {};
	struct vm_area_struct *vma;
	struct vma_iterator vmi;

	vma = replace_begin(&mm, &vmi, read_flags());
	vma->vm_ops = &close_ops;
	ASSERT_TRUE(is_unmapped(&mm, &vmi));

	vma = replace_begin(&mm, &vmi, read_flags());
	vma->vm_ops = &split_ops;
	ASSERT_TRUE(is_unmapped(&mm, &vmi));

	vma = replace_begin(&mm, &vmi, read_flags());
	vma->vm_file = &other_file;
	ASSERT_TRUE(is_unmapped(&mm, &vmi));

	vma = replace_begin(&mm, &vmi, read_flags());
	vma_set_flags(vma, VMA_LOCKED_BIT);
	ASSERT_TRUE(is_unmapped(&mm, &vmi));

	vma = replace_begin(&mm, &vmi, read_flags());
	vma_set_dummy_anon_vma(vma, &avc);
	ASSERT_TRUE(is_unmapped(&mm, &vmi));

	vma = replace_begin(&mm, &vmi, read_flags());
	vma_set_flags(vma, VMA_SEALED_BIT);
	ASSERT_EQ(replace(0x303000, 0x306000, 3, exec_flags()), -EPERM);
	ASSERT_EQ(cleanup_mm(&mm, &vmi), 1);
	return true;
}

static void run_replace_tests(int *num_tests, int *num_fail)
{
	TEST(replace_parts);
	TEST(replace_same);
	TEST(replace_merge);
	TEST(replace_shared);
	TEST(replace_fails);
	TEST(replace_unmaps);
}
