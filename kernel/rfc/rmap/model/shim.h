/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the kernel that mm/i_mmap.c and mm/interval_tree.c use, on pthreads.
 * Force-included; the headers that they name are empty here.
 */
#ifndef SHIM_H
#define SHIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/export.h>
#include <linux/rbtree_augmented.h>

#define CONFIG_I_MMAP_SHARDS
#define CONFIG_MMU

typedef unsigned long pgoff_t;
typedef unsigned long vm_flags_t;

#define PAGE_SHIFT 12
#define VM_EXEC 4UL

#define __init
#define __ro_after_init
#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))
#define core_initcall(fn)
#define IS_ENABLED(option) 0
#define GFP_KERNEL 0
#define fs_reclaim_acquire(gfp)
#define fs_reclaim_release(gfp)
#define cond_resched() usleep(500)	/* a chance for walks halfway through a split */
#define GFP_KERNEL_ACCOUNT 0
#define __GFP_NORETRY 0
#define __GFP_NOWARN 0

#ifndef min
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif

#define BIT(n) (1UL << (n))
#define hweight_long(word) ((unsigned int)__builtin_popcountl(word))
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)

#define WARN_ON_ONCE(cond) \
	((cond) ? (fprintf(stderr, "model: %s\n", #cond), abort(), 1) : 0)
#define VM_WARN_ON_ONCE_VMA(cond, vma) ((void)WARN_ON_ONCE(cond))

#define kzalloc_objs(p, count, gfp) \
	zeroed(__alignof__(p), sizeof(p) * (count))
#define kfree free

static inline void *zeroed(size_t align, size_t size)
{
	void *p = aligned_alloc(align, size);

	return p ? memset(p, 0, size) : NULL;
}

static inline unsigned int roundup_pow_of_two(unsigned int n)
{
	unsigned int power = 1;

	while (power < n)
		power *= 2;
	return power;
}

struct rw_semaphore {
	pthread_rwlock_t lock;
};

struct lock_class_key {
	int unused;
};

#define init_rwsem(sem) pthread_rwlock_init(&(sem)->lock, NULL)
#define lockdep_set_class_and_name(sem, key, name) ((void)(key))
#define lockdep_assert_held(sem)
#define lockdep_assert_held_write(sem)
#define down_read(sem) pthread_rwlock_rdlock(&(sem)->lock)
#define down_write(sem) pthread_rwlock_wrlock(&(sem)->lock)
#define down_read_trylock(sem) (!pthread_rwlock_tryrdlock(&(sem)->lock))
#define down_write_trylock(sem) (!pthread_rwlock_trywrlock(&(sem)->lock))
#define up_read(sem) pthread_rwlock_unlock(&(sem)->lock)
#define up_write(sem) pthread_rwlock_unlock(&(sem)->lock)
#define down_read_nest_lock(sem, nest) down_read(sem)
#define down_write_nest_lock(sem, nest) down_write(sem)
#define down_read_trylock_nest_lock(sem, nest) down_read_trylock(sem)

struct i_mmap_shard;
struct inode;

struct address_space {
	struct inode *host;
	struct rb_root_cached i_mmap_root;
	struct rw_semaphore i_mmap_root_rwsem;
	struct i_mmap_shard *i_mmap_shards;
	pthread_mutex_t flush;
};

struct inode {
	struct address_space i_data;
};

struct mm_struct {
	unsigned int i_mmap_shard_nr;
};

struct vm_area_struct {
	struct mm_struct *vm_mm;
	vm_flags_t vm_flags;
	pgoff_t vm_pgoff;
	unsigned long pages;
	struct {
		struct rb_node rb;
		unsigned long rb_subtree_last;
	} shared;
};

/* Only for the anonymous half of interval_tree.c, which is not used. */
struct anon_vma {
	struct rb_root_cached rb_root;
};

struct anon_vma_chain {
	struct vm_area_struct *vma;
	struct rb_node rb;
	unsigned long rb_subtree_last;
};

#define vma_start_anon_pgoff vma_start_pgoff
#define vma_last_anon_pgoff vma_last_pgoff

static inline pgoff_t vma_start_pgoff(const struct vm_area_struct *vma)
{
	return vma->vm_pgoff;
}

static inline pgoff_t vma_last_pgoff(const struct vm_area_struct *vma)
{
	return vma->vm_pgoff + vma->pages - 1;
}

static inline bool is_vm_hugetlb_page(const struct vm_area_struct *vma)
{
	return false;
}

#define flush_dcache_mmap_lock(mapping) pthread_mutex_lock(&(mapping)->flush)
#define flush_dcache_mmap_unlock(mapping) pthread_mutex_unlock(&(mapping)->flush)

unsigned int num_possible_cpus(void);
#define num_online_cpus() num_possible_cpus()
#define data_race(expr) (expr)
unsigned int raw_smp_processor_id(void);
unsigned char get_random_u8(void);

void mapping_rmap_tree_insert(struct vm_area_struct *vma,
			      struct address_space *mapping);
void mapping_rmap_tree_insert_after(struct vm_area_struct *vma,
				    struct vm_area_struct *prev,
				    struct address_space *mapping);
void mapping_rmap_tree_remove(struct vm_area_struct *vma,
			      struct address_space *mapping);
void mapping_rmap_tree_move(struct vm_area_struct *vma,
			    struct rb_root_cached *from,
			    struct rb_root_cached *to);
struct vm_area_struct *
mapping_rmap_tree_iter_first(struct address_space *mapping,
			     pgoff_t pgoff_start, pgoff_t pgoff_last);
struct vm_area_struct *
mapping_rmap_tree_iter_next(struct vm_area_struct *vma, pgoff_t pgoff_start,
			    pgoff_t pgoff_last);
struct vm_area_struct *
mapping_rmap_tree_next_tree(struct address_space *mapping,
			    struct vm_area_struct *vma,
			    pgoff_t pgoff_start, pgoff_t pgoff_last);

static inline struct vm_area_struct *
mapping_rmap_tree_next(struct address_space *mapping, struct vm_area_struct *vma,
		       pgoff_t pgoff_start, pgoff_t pgoff_last)
{
	return mapping_rmap_tree_iter_next(vma, pgoff_start, pgoff_last) ?:
	       mapping_rmap_tree_next_tree(mapping, vma, pgoff_start,
					   pgoff_last);
}

#define mapping_rmap_tree_foreach(vma, mapping, pgoff_start, pgoff_last)	 \
	for (vma = mapping_rmap_tree_iter_first(mapping, pgoff_start, pgoff_last); \
	     vma; vma = mapping_rmap_tree_next(mapping, vma, pgoff_start,	 \
					       pgoff_last))

#include <linux/i_mmap.h>

#endif
