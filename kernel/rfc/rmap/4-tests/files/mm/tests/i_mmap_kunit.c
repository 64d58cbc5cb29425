// SPDX-License-Identifier: GPL-2.0-only
/* Tests how the reverse map of a file is split, locked and walked. */

#include <kunit/test.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include "../i_mmap.h"

#define NR_MMS		48
#define FAMILY		32
#define FAMILY_SHARD	3
#define SEGMENTS	5

struct i_mmap_test {
	struct inode inode;
	struct mm_struct mms[NR_MMS];
	struct vm_area_struct vmas[NR_MMS][SEGMENTS];
};

static void segment_init(struct i_mmap_test *t, int mm, int segment)
{
	struct vm_area_struct *vma = &t->vmas[mm][segment];

	vma->vm_mm = &t->mms[mm];
	vma->vm_start = (0x1000UL + segment * 4) << PAGE_SHIFT;
	vma->vm_end = vma->vm_start + (4 << PAGE_SHIFT);
	vma->vm_pgoff = segment * 4;
	if (segment == 1)
		vm_flags_init(vma, VM_READ | VM_EXEC);
}

static int i_mmap_test_init(struct kunit *test)
{
	struct i_mmap_test *t;
	int mm, segment;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	if (!t)
		return -ENOMEM;
	address_space_init_once(&t->inode.i_data);
	t->inode.i_data.host = &t->inode;
	for (mm = 0; mm < NR_MMS; mm++) {
		t->mms[mm].i_mmap_shard_nr = mm;
		for (segment = 0; segment < SEGMENTS; segment++)
			segment_init(t, mm, segment);
	}
	test->priv = t;
	return 0;
}

static void i_mmap_test_exit(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;

	/* KUnit also calls this if there was no memory for the test. */
	if (t)
		kfree(t->inode.i_data.i_mmap_shards);
}

static bool map_segments(struct i_mmap_test *t, int mm)
{
	struct address_space *mapping = &t->inode.i_data;
	bool busy = false;
	int segment;

	i_mmap_lock_write(mapping, &t->mms[mm]);
	for (segment = 0; segment < SEGMENTS; segment++) {
		mapping_rmap_tree_insert(&t->vmas[mm][segment], mapping);
		busy |= i_mmap_is_busy(mapping, &t->vmas[mm][segment]);
	}
	i_mmap_unlock_write(mapping, &t->mms[mm]);
	return busy;
}

static void unmap_segments(struct i_mmap_test *t, int mm)
{
	struct address_space *mapping = &t->inode.i_data;
	int segment;

	i_mmap_lock_write(mapping, &t->mms[mm]);
	for (segment = 0; segment < SEGMENTS; segment++)
		mapping_rmap_tree_remove(&t->vmas[mm][segment], mapping);
	i_mmap_unlock_write(mapping, &t->mms[mm]);
}

/* Links what a fork of @parent maps; the first of a family is its own parent. */
static void fork_segment(struct i_mmap_test *t, int parent, int mm)
{
	struct address_space *mapping = &t->inode.i_data;
	struct vm_area_struct *vma = &t->vmas[mm][1];

	t->mms[mm].i_mmap_shard_nr = FAMILY_SHARD;
	if (mm == parent)
		mapping_rmap_tree_insert(vma, mapping);
	else
		mapping_rmap_tree_insert_after(vma, &t->vmas[parent][1], mapping);
}

/* How often a walk over page @pgoff meets each address space. */
static void walk(struct i_mmap_test *t, pgoff_t pgoff, int *seen)
{
	struct address_space *mapping = &t->inode.i_data;
	struct vm_area_struct *vma;

	memset(seen, 0, NR_MMS * sizeof(*seen));
	i_mmap_lock_read(mapping);
	mapping_rmap_tree_foreach(vma, mapping, pgoff, pgoff)
		seen[vma->vm_mm - t->mms]++;
	i_mmap_unlock_read(mapping);
}

static void shard_counts(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, i_mmap_shard_count(1), 1);
	KUNIT_EXPECT_EQ(test, i_mmap_shard_count(2), 2);
	KUNIT_EXPECT_EQ(test, i_mmap_shard_count(6), 8);
	KUNIT_EXPECT_EQ(test, i_mmap_shard_count(32), 32);
	KUNIT_EXPECT_EQ(test, i_mmap_shard_count(384), 32);
}

/* A guest may have many possible CPUs, and few of them online. */
static void few_cpus_split_nothing(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, i_mmap_shards_pay(1, 1));
	KUNIT_EXPECT_TRUE(test, i_mmap_shards_pay(2, 1));
	KUNIT_EXPECT_TRUE(test, i_mmap_shards_pay(32, 8));
	KUNIT_EXPECT_FALSE(test, i_mmap_shards_pay(32, 7));
}

/* Whether this machine splits busy files. */
static bool splits(void)
{
	return i_mmap_shards_pay(i_mmap_shard_count(num_possible_cpus()),
				 num_online_cpus());
}

/* CPUs a power of two apart: one thread of each core, or one node. */
static void cpus_apart_have_shards_of_their_own(struct kunit *test)
{
	unsigned int apart, nr, used;

	for (apart = 1; apart <= 16; apart *= 2) {
		used = 0;
		for (nr = 0; nr < 32; nr++)
			used |= BIT(i_mmap_cpu_shard(nr * apart) % 32);
		KUNIT_EXPECT_EQ(test, used, U32_MAX);
	}
}

/* The help text in Kconfig promises this size. */
static void a_shard_is_a_cache_line(struct kunit *test)
{
	if (IS_ENABLED(CONFIG_DEBUG_LOCK_ALLOC) || IS_ENABLED(CONFIG_DEBUG_RWSEMS) ||
	    IS_ENABLED(CONFIG_DEBUG_SPINLOCK))
		kunit_skip(test, "debugging makes locks larger");
	KUNIT_EXPECT_LE(test, sizeof(struct i_mmap_shard), max(SMP_CACHE_BYTES, 64));
}

static void few_are_not_busy(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;
	int i;

	/* One address space that maps the file many times. */
	for (i = 0; i < NR_MMS; i++) {
		int segment;

		for (segment = 0; segment < SEGMENTS; segment++)
			t->vmas[i][segment].vm_mm = &t->mms[0];
		KUNIT_EXPECT_FALSE(test, map_segments(t, i));
	}
}

/* Forks of one process would all have the same shard. */
static void a_family_is_not_busy(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;
	int mm;

	for (mm = 0; mm < NR_MMS; mm++) {
		t->mms[mm].i_mmap_shard_nr = FAMILY_SHARD;
		KUNIT_EXPECT_FALSE(test, map_segments(t, mm));
	}
}

/* A server that was started before, with many children. */
static void a_family_hides_nobody(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;
	bool busy = false;
	int mm;

	for (mm = 0; mm < FAMILY; mm++)
		fork_segment(t, 0, mm);
	for (; mm < NR_MMS; mm++)
		busy |= map_segments(t, mm);
	KUNIT_EXPECT_EQ(test, busy, splits());
}

static void splitting_keeps_every_vma(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;
	struct address_space *mapping = &t->inode.i_data;
	bool busy = false;
	int *seen, mm, pgoff;

	seen = kunit_kcalloc(test, NR_MMS, sizeof(*seen), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, seen);
	if (num_possible_cpus() == 1)
		kunit_skip(test, "one CPU, nothing to split");

	for (mm = 0; mm < NR_MMS / 2; mm++)
		busy |= map_segments(t, mm);
	KUNIT_EXPECT_EQ(test, busy, splits());
	i_mmap_split(mapping);
	KUNIT_ASSERT_NOT_NULL(test, mapping->i_mmap_shards);
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&mapping->i_mmap_root.rb_root));
	KUNIT_EXPECT_TRUE(test, mapping_mapped(mapping));
	for (; mm < NR_MMS; mm++)
		KUNIT_EXPECT_FALSE(test, map_segments(t, mm));

	for (pgoff = 0; pgoff < SEGMENTS * 4; pgoff++) {
		walk(t, pgoff, seen);
		for (mm = 0; mm < NR_MMS; mm++)
			KUNIT_EXPECT_EQ(test, seen[mm], 1);
	}
	for (mm = 0; mm < NR_MMS; mm += 2)
		unmap_segments(t, mm);
	walk(t, 5, seen);
	for (mm = 0; mm < NR_MMS; mm++)
		KUNIT_EXPECT_EQ(test, seen[mm], mm % 2);
	for (mm = 1; mm < NR_MMS; mm += 2)
		unmap_segments(t, mm);
	i_mmap_free_shards(mapping);
	KUNIT_EXPECT_NULL(test, mapping->i_mmap_shards);
	KUNIT_EXPECT_FALSE(test, mapping_mapped(mapping));
}

static void a_family_keeps_its_order(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;
	struct address_space *mapping = &t->inode.i_data;
	struct vm_area_struct *vma;
	int mm, last = -1;

	if (num_possible_cpus() == 1)
		kunit_skip(test, "one CPU, nothing to split");
	/* Parents before children: mm, then mm + 1. */
	for (mm = 0; mm < NR_MMS; mm++) {
		fork_segment(t, max(mm - 1, 0), mm);
		if (mm == NR_MMS / 2)
			i_mmap_split(mapping);
	}
	mapping_rmap_tree_foreach(vma, mapping, 4, 4) {
		KUNIT_EXPECT_EQ(test, vma->vm_mm - t->mms, last + 1);
		last = vma->vm_mm - t->mms;
	}
	KUNIT_EXPECT_EQ(test, last, NR_MMS - 1);
}

/* Every lock is taken and released, before and after the split. */
static void locks_exclude_walks(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;
	struct address_space *mapping = &t->inode.i_data;
	int round, mm;

	if (num_possible_cpus() == 1)
		kunit_skip(test, "one CPU, nothing to split");
	for (round = 0; round < 2; round++) {
		for (mm = 0; mm < NR_MMS; mm++) {
			i_mmap_lock_write(mapping, &t->mms[mm]);
			KUNIT_EXPECT_FALSE(test, i_mmap_trylock_read(mapping));
			i_mmap_unlock_write(mapping, &t->mms[mm]);
		}
		KUNIT_ASSERT_TRUE(test, i_mmap_trylock_read(mapping));
		i_mmap_unlock_read(mapping);
		i_mmap_lock_write_all(mapping);
		KUNIT_EXPECT_FALSE(test, i_mmap_trylock_read(mapping));
		i_mmap_unlock_write_all(mapping);
		i_mmap_split(mapping);
	}
}

/* Changes to what two address spaces map do not wait for each other. */
static void a_change_locks_one_shard(struct kunit *test)
{
	struct i_mmap_test *t = test->priv;
	struct address_space *mapping = &t->inode.i_data;

	if (num_possible_cpus() == 1)
		kunit_skip(test, "one CPU, nothing to split");
	i_mmap_split(mapping);
	KUNIT_ASSERT_NOT_NULL(test, mapping->i_mmap_shards);
	i_mmap_lock_write(mapping, &t->mms[1]);
	KUNIT_EXPECT_TRUE(test, rwsem_is_locked(&mapping->i_mmap_shards[1].rwsem));
	KUNIT_EXPECT_FALSE(test, rwsem_is_locked(&mapping->i_mmap_shards[0].rwsem));
	KUNIT_EXPECT_FALSE(test, rwsem_is_locked(&mapping->i_mmap_root_rwsem));
	i_mmap_unlock_write(mapping, &t->mms[1]);
}

static struct kunit_case i_mmap_test_cases[] = {
	KUNIT_CASE(shard_counts),
	KUNIT_CASE(few_cpus_split_nothing),
	KUNIT_CASE(cpus_apart_have_shards_of_their_own),
	KUNIT_CASE(a_shard_is_a_cache_line),
	KUNIT_CASE(few_are_not_busy),
	KUNIT_CASE(a_family_is_not_busy),
	KUNIT_CASE(a_family_hides_nobody),
	KUNIT_CASE(splitting_keeps_every_vma),
	KUNIT_CASE(a_family_keeps_its_order),
	KUNIT_CASE(locks_exclude_walks),
	KUNIT_CASE(a_change_locks_one_shard),
	{}
};

static struct kunit_suite i_mmap_test_suite = {
	.name = "i_mmap_shards",
	.init = i_mmap_test_init,
	.exit = i_mmap_test_exit,
	.test_cases = i_mmap_test_cases,
};

kunit_test_suite(i_mmap_test_suite);

MODULE_DESCRIPTION("KUnit tests for shards of the reverse map");
MODULE_LICENSE("GPL");
