/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_I_MMAP_H
#define __MM_I_MMAP_H

/*
 * The trees behind a file's reverse map, for mm/interval_tree.c and code that
 * links VMAs. Other code uses <linux/i_mmap.h> and mapping_rmap_tree_*().
 *
 * A file has one tree (address_space::i_mmap_root) or, once many address
 * spaces execute it, one per shard. Trees are numbered: 0 is i_mmap_root, which
 * is empty if there are shards. All VMAs of one mm are in the same tree.
 */

#include <linux/fs.h>
#include <linux/mm_types.h>

#ifdef CONFIG_I_MMAP_SHARDS

/**
 * struct i_mmap_shard - the mappings of a file by some of the address spaces
 * @rwsem: Protects @root. Nests inside address_space::i_mmap_root_rwsem.
 * @root: Tree of their private and shared mappings.
 */
struct i_mmap_shard {
	struct rw_semaphore	rwsem;
	struct rb_root_cached	root;
} ____cacheline_aligned_in_smp;

unsigned int i_mmap_shard_count(unsigned int cpus);
bool i_mmap_shards_pay(unsigned int shards, unsigned int online);
unsigned int i_mmap_cpu_shard(unsigned int cpu);
void i_mmap_draw_shard(struct mm_struct *mm);
unsigned int i_mmap_nr_trees(struct address_space *mapping);
struct rb_root_cached *i_mmap_tree(struct address_space *mapping,
				   unsigned int nr);
unsigned int i_mmap_tree_nr(struct address_space *mapping,
			    const struct mm_struct *mm);
unsigned int i_mmap_vma_tree_nr(struct address_space *mapping,
				struct vm_area_struct *vma);

bool i_mmap_look(const struct vm_area_struct *vma);
bool i_mmap_is_busy(struct address_space *mapping, struct vm_area_struct *vma);
void i_mmap_split(struct address_space *mapping);

#else /* !CONFIG_I_MMAP_SHARDS */

static inline void i_mmap_draw_shard(struct mm_struct *mm)
{
}

static inline unsigned int i_mmap_nr_trees(struct address_space *mapping)
{
	return 1;
}

static inline struct rb_root_cached *
i_mmap_tree(struct address_space *mapping, unsigned int nr)
{
	return &mapping->i_mmap_root;
}

static inline unsigned int i_mmap_tree_nr(struct address_space *mapping,
					  const struct mm_struct *mm)
{
	return 0;
}

static inline bool i_mmap_look(const struct vm_area_struct *vma)
{
	return false;
}

static inline bool i_mmap_is_busy(struct address_space *mapping,
				  struct vm_area_struct *vma)
{
	return false;
}

static inline void i_mmap_split(struct address_space *mapping)
{
}

#endif /* CONFIG_I_MMAP_SHARDS */

static inline struct rb_root_cached *
i_mmap_vma_tree(struct address_space *mapping, struct vm_area_struct *vma)
{
	return i_mmap_tree(mapping, i_mmap_tree_nr(mapping, vma->vm_mm));
}

#endif /* __MM_I_MMAP_H */
