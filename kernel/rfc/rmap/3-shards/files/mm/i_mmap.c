// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reverse map of a file, in shards
 *
 * exec, fork and exit link and unlink every segment of libc and the dynamic
 * loader. With one rwsem per file, many CPUs that start processes spend most
 * of their time waiting for those two files. So a file that many address
 * spaces execute gets one tree and one rwsem per shard, and an address space
 * uses one shard of each file.
 *
 * Which shard
 *
 * mm_struct::i_mmap_shard_nr is drawn where exec gives a task its new, empty
 * address space, and copied where one is duplicated (fork). Hence all VMAs of an
 * mm, and of all mms forked from it, are in one tree, and two rules that rest on
 * tree order stay as they are:
 *
 *  - fork inserts the child's VMA behind the parent's, so that a walk never
 *    sees the child before and the parent after the page tables are copied;
 *  - mremap() may skip rmap locks when the new VMA sorts behind the old.
 *
 * Locks
 *
 *	mmap_lock
 *	  i_mmap_root_rwsem
 *	    i_mmap_shard::rwsem, in ascending order
 *	      anon_vma::rwsem
 *
 * While i_mmap_shards is NULL, i_mmap_root_rwsem protects the one tree. Once it is
 * set:
 *
 *  - to change what one mm maps: its shard's rwsem for write, nothing else;
 *  - to walk: i_mmap_root_rwsem, then every shard's rwsem, for read. A shard
 *    without VMAs is locked, too: that its tree is empty means nothing without
 *    its lock, because a VMA leaves its tree for a moment where it is split,
 *    merged or grown. So a walk over few VMAs may pay more for the locks than
 *    for these;
 *  - mm_take_all_locks(): i_mmap_root_rwsem for write. That excludes walks and
 *    the split; mmap_lock protects what its own mm maps;
 *  - the flush_dcache_mmap_lock() of architectures that walk under it covers
 *    every tree of a file, and is held for each change, as before. It is dropped
 *    now and then while a file is split. Walks under it find VMAs in
 *    i_mmap_root and in the shards then.
 *
 * From one tree to shards
 *
 * i_mmap_shards goes from NULL to a pointer once in the life of an inode and
 * is freed with it, when nobody can hold or want a lock of the file. Else it
 * changes only under i_mmap_root_rwsem held for write together with all shards,
 * so while any lock of the file is held it is constant: unlock and tree lookups
 * need not know how the lock was taken. A task that waited for i_mmap_root_rwsem
 * to change what one mm maps looks again after getting it, and continues with the
 * shard. Since the pointer never goes back, looking twice is enough.
 */

#include <linux/cacheflush.h>
#include <linux/fs.h>
#include <linux/hugetlb_inline.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include "i_mmap.h"

/*
 * A walk takes all of them, and a walk over few mappings pays for each. A lock
 * that a dozen CPUs share is rarely contended.
 */
#define I_MMAP_MAX_SHARDS	32U

/* Fewer mappings than this never cause much contention. */
#define I_MMAP_MIN_USERS	16U

/* One of so many executable mappings looks whether its file is busy. */
#define I_MMAP_LOOK_EVERY	16U

/* So many VMAs move to their shards before others may run. */
#define I_MMAP_MOVE_BATCH	64U

static struct lock_class_key i_mmap_shard_key;

/* 0 until i_mmap_init(): no file is split before that. */
static unsigned int i_mmap_nr_shards __ro_after_init;

/**
 * i_mmap_shard_count() - How many shards a file gets on a machine.
 * @cpus: Possible CPUs, at least 1.
 *
 * Return: A power of two from 1 (never split) to %I_MMAP_MAX_SHARDS.
 */
unsigned int i_mmap_shard_count(unsigned int cpus)
{
	return min_t(unsigned int, roundup_pow_of_two(cpus), I_MMAP_MAX_SHARDS);
}

static void i_mmap_init_shard(struct i_mmap_shard *shard)
{
	init_rwsem(&shard->rwsem);
	lockdep_set_class_and_name(&shard->rwsem, &i_mmap_shard_key,
				   "i_mmap_shard");
	shard->root = RB_ROOT_CACHED;
}

/* Reclaim walks. Teach lockdep before it does, as dma-resv does for the root. */
static void __init i_mmap_prime_lockdep(void)
{
	struct i_mmap_shard shard;

	i_mmap_init_shard(&shard);
	fs_reclaim_acquire(GFP_KERNEL);
	down_write(&shard.rwsem);
	up_write(&shard.rwsem);
	fs_reclaim_release(GFP_KERNEL);
}

static int __init i_mmap_init(void)
{
	i_mmap_nr_shards = i_mmap_shard_count(num_possible_cpus());
	if (IS_ENABLED(CONFIG_LOCKDEP))
		i_mmap_prime_lockdep();
	return 0;
}
core_initcall(i_mmap_init);

/**
 * i_mmap_cpu_shard() - The shard of what a CPU starts.
 * @cpu: Its number.
 *
 * The numbers of CPUs that are in use may have a common factor, if threads of a
 * core are off or work is bound to a node. So the numbers are folded.
 *
 * Return: A number to be taken modulo the shards of a file. Of up to
 * %I_MMAP_MAX_SHARDS CPUs that are a power of two apart, and at most that many,
 * each has its own.
 */
unsigned int i_mmap_cpu_shard(unsigned int cpu)
{
	return cpu ^ cpu / I_MMAP_MAX_SHARDS;
}

/**
 * i_mmap_draw_shard() - Give a new address space its shard.
 * @mm: Maps no file yet.
 *
 * exec calls this behind sched_exec(), on the CPU that will map the program and
 * its libraries. CPUs that start programs at the same time mostly get different
 * shards. Which CPU runs them later does not matter for correctness.
 */
void i_mmap_draw_shard(struct mm_struct *mm)
{
	mm->i_mmap_shard_nr = i_mmap_cpu_shard(raw_smp_processor_id());
}

static struct i_mmap_shard *i_mmap_load_shards(const struct address_space *mapping)
{
	/* Pairs with smp_store_release() in i_mmap_split(). */
	return smp_load_acquire(&mapping->i_mmap_shards);
}

static unsigned int i_mmap_shard_nr(const struct mm_struct *mm)
{
	return mm->i_mmap_shard_nr & (i_mmap_nr_shards - 1);
}

static struct i_mmap_shard *i_mmap_shard_of(struct i_mmap_shard *shards,
					    const struct mm_struct *mm)
{
	return &shards[i_mmap_shard_nr(mm)];
}

/* The number of trees: i_mmap_root, and those of the shards. */
unsigned int i_mmap_nr_trees(struct address_space *mapping)
{
	return i_mmap_load_shards(mapping) ? 1 + i_mmap_nr_shards : 1;
}

struct rb_root_cached *i_mmap_tree(struct address_space *mapping,
				   unsigned int nr)
{
	return nr ? &i_mmap_load_shards(mapping)[nr - 1].root :
		    &mapping->i_mmap_root;
}

/* The tree that the VMAs of @mm belong to. */
unsigned int i_mmap_tree_nr(struct address_space *mapping,
			    const struct mm_struct *mm)
{
	return i_mmap_load_shards(mapping) ? 1 + i_mmap_shard_nr(mm) : 0;
}

/*
 * The tree that @vma is in. While a file is split, some VMAs are not yet where
 * they belong; only walks under flush_dcache_mmap_lock() meet them.
 */
unsigned int i_mmap_vma_tree_nr(struct address_space *mapping,
				struct vm_area_struct *vma)
{
	struct rb_node *node = &vma->shared.rb;

	if (!RB_EMPTY_ROOT(&mapping->i_mmap_root.rb_root)) {
		while (rb_parent(node))
			node = rb_parent(node);
		if (node == mapping->i_mmap_root.rb_root.rb_node)
			return 0;
	}
	return i_mmap_tree_nr(mapping, vma->vm_mm);
}

void i_mmap_lock_write(struct address_space *mapping, struct mm_struct *mm)
{
	struct i_mmap_shard *shards = i_mmap_load_shards(mapping);

	if (!shards) {
		down_write(&mapping->i_mmap_root_rwsem);
		shards = i_mmap_load_shards(mapping);
		if (!shards)
			return;
		up_write(&mapping->i_mmap_root_rwsem);
	}
	down_write(&i_mmap_shard_of(shards, mm)->rwsem);
}

void i_mmap_unlock_write(struct address_space *mapping, struct mm_struct *mm)
{
	struct i_mmap_shard *shards = i_mmap_load_shards(mapping);

	if (shards)
		up_write(&i_mmap_shard_of(shards, mm)->rwsem);
	else
		up_write(&mapping->i_mmap_root_rwsem);
}

void i_mmap_lock_read(struct address_space *mapping)
{
	struct i_mmap_shard *shards;
	unsigned int i;

	down_read(&mapping->i_mmap_root_rwsem);
	shards = i_mmap_load_shards(mapping);
	for (i = 0; shards && i < i_mmap_nr_shards; i++)
		down_read_nest_lock(&shards[i].rwsem,
				    &mapping->i_mmap_root_rwsem);
}

int i_mmap_trylock_read(struct address_space *mapping)
{
	struct i_mmap_shard *shards;
	unsigned int i;

	if (!down_read_trylock(&mapping->i_mmap_root_rwsem))
		return 0;

	shards = i_mmap_load_shards(mapping);
	for (i = 0; shards && i < i_mmap_nr_shards; i++) {
		if (!down_read_trylock_nest_lock(&shards[i].rwsem,
						 &mapping->i_mmap_root_rwsem))
			goto undo;
	}
	return 1;

undo:
	while (i--)
		up_read(&shards[i].rwsem);
	up_read(&mapping->i_mmap_root_rwsem);
	return 0;
}

void i_mmap_unlock_read(struct address_space *mapping)
{
	struct i_mmap_shard *shards = i_mmap_load_shards(mapping);
	unsigned int i;

	for (i = 0; shards && i < i_mmap_nr_shards; i++)
		up_read(&shards[i].rwsem);
	up_read(&mapping->i_mmap_root_rwsem);
}

static void i_mmap_lock_shards(struct address_space *mapping,
			       struct i_mmap_shard *shards)
{
	unsigned int i;

	for (i = 0; i < i_mmap_nr_shards; i++)
		down_write_nest_lock(&shards[i].rwsem,
				     &mapping->i_mmap_root_rwsem);
}

void i_mmap_lock_write_all(struct address_space *mapping)
{
	struct i_mmap_shard *shards;

	down_write(&mapping->i_mmap_root_rwsem);
	shards = i_mmap_load_shards(mapping);
	if (shards)
		i_mmap_lock_shards(mapping, shards);
}

int i_mmap_trylock_write_all(struct address_space *mapping)
{
	if (!down_write_trylock(&mapping->i_mmap_root_rwsem))
		return 0;
	if (likely(!i_mmap_load_shards(mapping)))
		return 1;
	/* Only hugetlb asks, and its files are never split. */
	up_write(&mapping->i_mmap_root_rwsem);
	return 0;
}

void i_mmap_unlock_write_all(struct address_space *mapping)
{
	struct i_mmap_shard *shards = i_mmap_load_shards(mapping);
	unsigned int i;

	for (i = 0; shards && i < i_mmap_nr_shards; i++)
		up_write(&shards[i].rwsem);
	up_write(&mapping->i_mmap_root_rwsem);
}

/**
 * i_mmap_shards_pay() - Are so many shards worth their locks?
 * @shards: Shards that a file would get.
 * @online: CPUs online, at least 1.
 *
 * Guests may have few of their possible CPUs online. There walks would lock many
 * shards that nobody uses.
 *
 * Return: False if no file is to be split.
 */
bool i_mmap_shards_pay(unsigned int shards, unsigned int online)
{
	return shards > 1 && shards / 4 <= online;
}

/*
 * A mapping may be split only if it lives and dies with an inode, because the
 * inode frees the shards. Files of hugetlb are not split: hugetlb holds the
 * whole lock for write, and would gain nothing.
 */
static bool i_mmap_may_split(const struct address_space *mapping,
			     const struct vm_area_struct *vma)
{
	return i_mmap_shards_pay(i_mmap_nr_shards, num_online_cpus()) &&
	       !mapping->i_mmap_shards &&
	       (vma->vm_flags & VM_EXEC) && !is_vm_hugetlb_page(vma) &&
	       mapping->host && mapping == &mapping->host->i_data;
}

/**
 * i_mmap_is_busy() - Do enough address spaces execute a file to split it?
 * @mapping: The file, locked by i_mmap_lock_write().
 * @vma: A mapping of it that was just linked, but not by fork.
 *
 * Looks for executable mappings like @vma that would be in different shards.
 * Forks of one process do not count: they would go on waiting for each other.
 * One address space that maps the page often does not count either. Looks
 * back, from the newest: forks stand behind their parent, and other mappings
 * behind all forks, so a parent of many children hides nobody. The look is
 * short, because it is limited, and because busy files are split.
 * i_mmap_look() keeps it rare for files that never get busy.
 *
 * Return: True if the caller should call i_mmap_split() after unlocking.
 */
bool i_mmap_is_busy(struct address_space *mapping, struct vm_area_struct *vma)
{
	unsigned int wanted = min(i_mmap_nr_shards, num_online_cpus()) / 2;
	unsigned int looks = 2 * max(i_mmap_nr_shards, I_MMAP_MIN_USERS);
	struct rb_node *node = &vma->shared.rb;
	unsigned long shards = 0;
	unsigned int found = 0;

	if (!i_mmap_may_split(mapping, vma))
		return false;

	for (; node && looks--; node = rb_prev(node)) {
		struct vm_area_struct *other;

		other = rb_entry(node, struct vm_area_struct, shared.rb);
		if (vma_start_pgoff(other) != vma_start_pgoff(vma))
			break;
		/* mprotect() of another process may change it. This is a guess. */
		if (data_race(other->vm_flags) & VM_EXEC) {
			found++;
			shards |= BIT(i_mmap_shard_nr(other->vm_mm));
		}
		if (found >= I_MMAP_MIN_USERS &&
		    hweight_long(shards) >= max(wanted, 2U))
			return true;
	}
	return false;
}

/**
 * i_mmap_look() - Should a new mapping call i_mmap_is_busy()?
 * @vma: The mapping, executable or not.
 *
 * A look reads up to twice as many VMAs as there are shards, or 32, under the
 * lock. So few executable mappings look, by chance: with a count, the file that a
 * program maps last could be the only one that is ever looked at. No memory is
 * spent on files that do not get busy.
 */
bool i_mmap_look(const struct vm_area_struct *vma)
{
	return (vma->vm_flags & VM_EXEC) &&
	       get_random_u8() % I_MMAP_LOOK_EVERY == 0;
}

/*
 * Move some VMAs to their shards, in tree order, which equal keys keep. There
 * may be many VMAs, if only a fork family executed the file until others came.
 * Between two calls the CPU and the lock of flush_dcache_mmap_lock() are free.
 * All other locks stay held, and whoever wants one waits for the whole move.
 * Returns false when none is left.
 */
static bool i_mmap_move_some(struct address_space *mapping,
			     struct i_mmap_shard *shards)
{
	unsigned int left = I_MMAP_MOVE_BATCH;
	struct vm_area_struct *vma;
	struct rb_node *node;

	while ((node = rb_first_cached(&mapping->i_mmap_root)) && left--) {
		vma = rb_entry(node, struct vm_area_struct, shared.rb);
		mapping_rmap_tree_move(vma, &mapping->i_mmap_root,
				       &i_mmap_shard_of(shards, vma->vm_mm)->root);
	}
	return node;
}

/**
 * i_mmap_split() - Split the reverse map of a busy file.
 * @mapping: The file. The caller holds no lock of it, but maps it.
 *
 * If memory is short, nothing changes. The next such mapping tries again.
 */
void i_mmap_split(struct address_space *mapping)
{
	struct i_mmap_shard *shards;
	unsigned int i;
	bool more;

	shards = kzalloc_objs(*shards, i_mmap_nr_shards,
			      GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN);
	if (!shards)
		return;

	for (i = 0; i < i_mmap_nr_shards; i++)
		i_mmap_init_shard(&shards[i]);

	down_write(&mapping->i_mmap_root_rwsem);
	if (mapping->i_mmap_shards) {
		up_write(&mapping->i_mmap_root_rwsem);
		kfree(shards);
		return;
	}

	/*
	 * A task that sees the pointer waits for a shard: hold them all while
	 * VMAs move. Publish first: if i_mmap_root is empty, shards are seen.
	 * Between two batches each VMA is in one tree, and all trees are walked.
	 */
	i_mmap_lock_shards(mapping, shards);
	/* Pairs with smp_load_acquire() in i_mmap_load_shards(). */
	smp_store_release(&mapping->i_mmap_shards, shards);
	/* Pairs with smp_rmb() in mapping_mapped(). */
	smp_wmb();
	do {
		flush_dcache_mmap_lock(mapping);
		more = i_mmap_move_some(mapping, shards);
		flush_dcache_mmap_unlock(mapping);
		cond_resched();
	} while (more);
	i_mmap_unlock_write_all(mapping);
}

/**
 * i_mmap_free_shards() - Free the shards of a file, if it has any.
 * @mapping: Of an inode that is being destroyed: not mapped, and not reachable
 *	     through a file, so nobody holds or wants its locks. Who flushes a
 *	     folio that was truncated may have looked up the mapping before, and
 *	     walks it under flush_dcache_mmap_lock(), on parisc.
 */
void i_mmap_free_shards(struct address_space *mapping)
{
	struct i_mmap_shard *shards = mapping->i_mmap_shards;
	unsigned int i;

	if (!shards)
		return;
	for (i = 0; i < i_mmap_nr_shards; i++)
		WARN_ON_ONCE(!RB_EMPTY_ROOT(&shards[i].root.rb_root));
	flush_dcache_mmap_lock(mapping);
	mapping->i_mmap_shards = NULL;
	flush_dcache_mmap_unlock(mapping);
	kfree(shards);
}
