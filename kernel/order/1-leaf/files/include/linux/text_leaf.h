/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_TEXT_LEAF_H
#define _LINUX_TEXT_LEAF_H

#include <linux/fs.h>
#include <linux/huge_mm.h>
#include <linux/mm_types.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/sizes.h>
#include <linux/stat.h>

#include <asm/text_leaf.h>

/*
 * A leaf is what one page table entry, or one block of PTEs that shares a TLB
 * entry, can map. Two of them are larger than a page: the PMD and the contpte
 * block. What places text in the address space and what reads it into the page
 * cache ask here, so that no address is aligned to a leaf that the file or the
 * process never gets. The device and memory may still prevent it.
 */

/* As MADV_HUGEPAGE readahead: a fault on text never reads a larger folio. */
#define TEXT_LEAF_MAX	SZ_2M

/* The largest order of folios that a fault on text of @mapping may read. */
static inline unsigned int text_max_order(const struct address_space *mapping)
{
	/*
	 * Devices may have the orders of the filesystem that has their inode. Faults
	 * on shmem do not read. It has a policy of its own.
	 */
	if (!S_ISREG(mapping->host->i_mode) || shmem_mapping(mapping))
		return 0;
	return mapping_max_folio_order(mapping);
}

/*
 * Whether @order is a leaf for text of @mapping in @mm. A folio of the page
 * cache is mapped by one entry in every THP mode. But where the administrator
 * chose "never", or the process opted out, nothing is placed or read for it.
 */
static inline unsigned int text_leaf_order(unsigned int order,
					   const struct mm_struct *mm,
					   const struct address_space *mapping)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	if ((PAGE_SIZE << order) <= TEXT_LEAF_MAX &&
	    order <= text_max_order(mapping) &&
	    !thp_disabled_by_hw() && hugepage_global_enabled() &&
	    !mm_flags_test(MMF_DISABLE_THP_COMPLETELY, mm) &&
	    !mm_flags_test(MMF_DISABLE_THP_EXCEPT_ADVISED, mm))
		return order;
#endif
	return 0;
}

/**
 * text_pmd_order - order of the PMD as a leaf for text
 * @mm: the address space that maps the text
 * @mapping: the page cache of the text
 *
 * Return: the order, or 0 if PMDs should not map this text.
 */
static inline unsigned int text_pmd_order(const struct mm_struct *mm,
					  const struct address_space *mapping)
{
	return text_leaf_order(PMD_SHIFT - PAGE_SHIFT, mm, mapping);
}

/**
 * text_cont_order - order of the contpte block as a leaf for text
 * @mm: the address space that maps the text
 * @mapping: the page cache of the text
 *
 * Return: the order, or 0 if such blocks should not map this text.
 */
static inline unsigned int text_cont_order(const struct mm_struct *mm,
					   const struct address_space *mapping)
{
	/* DAX has no folios for blocks of PTEs. */
	if (IS_DAX(mapping->host))
		return 0;
	return text_leaf_order(arch_text_cont_order(), mm, mapping);
}

#endif /* _LINUX_TEXT_LEAF_H */
