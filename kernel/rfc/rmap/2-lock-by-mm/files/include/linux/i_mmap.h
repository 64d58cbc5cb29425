/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_I_MMAP_H
#define _LINUX_I_MMAP_H

/*
 * The reverse map of a file: the VMAs that map it, and their locks.
 * Included by <linux/fs.h> after struct address_space; include that instead.
 *
 * Two ways to take the lock:
 *
 *  i_mmap_lock_read(mapping), i_mmap_lock_write_all(mapping)
 *	All of it. No VMA of any mm enters, leaves or moves. Walks need this;
 *	hugetlb needs it to share and unshare page tables.
 *
 *  i_mmap_lock_write(mapping, mm)
 *	What @mm maps, to link, unlink or change its VMAs, and to move its
 *	page tables. Excludes every walk, and the same for any mm of the same
 *	fork family. Whether it excludes other mms must not matter.
 *
 * Today both are one rwsem.
 */

static inline void i_mmap_lock_read(struct address_space *mapping)
{
	down_read(&mapping->i_mmap_root_rwsem);
}

static inline int i_mmap_trylock_read(struct address_space *mapping)
{
	return down_read_trylock(&mapping->i_mmap_root_rwsem);
}

static inline void i_mmap_unlock_read(struct address_space *mapping)
{
	up_read(&mapping->i_mmap_root_rwsem);
}

static inline void i_mmap_lock_write_all(struct address_space *mapping)
{
	down_write(&mapping->i_mmap_root_rwsem);
}

static inline int i_mmap_trylock_write_all(struct address_space *mapping)
{
	return down_write_trylock(&mapping->i_mmap_root_rwsem);
}

static inline void i_mmap_unlock_write_all(struct address_space *mapping)
{
	up_write(&mapping->i_mmap_root_rwsem);
}

static inline void i_mmap_lock_write(struct address_space *mapping,
				     struct mm_struct *mm)
{
	i_mmap_lock_write_all(mapping);
}

static inline void i_mmap_unlock_write(struct address_space *mapping,
				       struct mm_struct *mm)
{
	i_mmap_unlock_write_all(mapping);
}

static inline void i_mmap_assert_write_all_locked(struct address_space *mapping)
{
	lockdep_assert_held_write(&mapping->i_mmap_root_rwsem);
}

/*
 * Might pages of this file be mapped into userspace?
 */
static inline int mapping_mapped(const struct address_space *mapping)
{
	return !RB_EMPTY_ROOT(&mapping->i_mmap_root.rb_root);
}

#endif /* _LINUX_I_MMAP_H */
