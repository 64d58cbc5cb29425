/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_TEXT_LEAF_H
#define _LINUX_TEXT_LEAF_H

#include <linux/huge_mm.h>
#include <linux/mm_types.h>
#include <linux/sizes.h>

#include <asm/text_leaf.h>

/*
 * A leaf is what one page table entry, or one block of PTEs that shares a TLB
 * entry, can map. Text is placed and read for two of them: the PMD and the
 * contpte block, text_cont_order().
 *
 * Text is not laid out for a larger PMD than this. Alignment to it would cost
 * too much randomness of addresses, and reading it would take too much memory.
 */
#define TEXT_LEAF_MAX	SZ_32M

/**
 * text_pmd_order - order of the PMD as a leaf for text
 * @mm: the address space that maps the text
 *
 * A PMD may map a folio of the page cache in every THP mode. But where the
 * administrator chose "never", or the process opted out, no text is placed or
 * read for PMDs.
 *
 * Return: the order, or 0 if text should not be laid out for PMDs.
 */
static inline unsigned int text_pmd_order(struct mm_struct *mm)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	const bool small_enough = PMD_SIZE <= TEXT_LEAF_MAX;

	if (small_enough && !thp_disabled_by_hw() &&
	    hugepage_global_enabled() &&
	    !mm_flags_test(MMF_DISABLE_THP_COMPLETELY, mm) &&
	    !mm_flags_test(MMF_DISABLE_THP_EXCEPT_ADVISED, mm))
		return PMD_SHIFT - PAGE_SHIFT;
#endif
	return 0;
}

#endif /* _LINUX_TEXT_LEAF_H */
