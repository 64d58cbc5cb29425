/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _FS_ELF_TEXT_LEAF_H
#define _FS_ELF_TEXT_LEAF_H

#include <linux/elf.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/types.h>

/* Decides where to load an ET_DYN image so that leaves can map its text. Pure. */

/*
 * Whether the mapping of a PT_LOAD holds a whole @leaf of the file, at an
 * offset congruent to its address, if the load bias is a multiple of @leaf. Only
 * faults on executable memory read leaves, and writable segments become anonymous
 * memory where written.
 */
static inline bool elf_segment_gains(const struct elf_phdr *phdr,
				     unsigned long page, unsigned long leaf)
{
	unsigned long start, end;

	if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X) ||
	    (phdr->p_flags & PF_W))
		return false;
	/* No image is linked that high. Below that, sums cannot wrap. */
	if (phdr->p_vaddr > LONG_MAX || phdr->p_filesz > LONG_MAX - page - leaf)
		return false;
	if ((phdr->p_vaddr - phdr->p_offset) & (leaf - 1))
		return false;

	start = round_up(round_down(phdr->p_vaddr, page), leaf);
	end = round_up(phdr->p_vaddr + phdr->p_filesz, page);
	return start < end && end - start >= leaf;
}

/**
 * elf_text_leaf - the largest leaf that an image gains if aligned to it
 * @phdrs: its program headers
 * @nr: their number
 * @page: bytes of the base page
 * @pmd: bytes that a PMD maps, 0 if it should not map text
 * @cont: bytes that a block of contiguous PTEs maps, 0 if there is none
 *
 * Return: bytes of the leaf; 0 if the image gains none.
 */
static inline unsigned long elf_text_leaf(const struct elf_phdr *phdrs, int nr,
					  unsigned long page, unsigned long pmd,
					  unsigned long cont)
{
	int i;

	for (i = 0; pmd && i < nr; i++) {
		if (elf_segment_gains(&phdrs[i], page, pmd))
			return pmd;
	}
	for (i = 0; cont && i < nr; i++) {
		if (elf_segment_gains(&phdrs[i], page, cont))
			return cont;
	}
	return 0;
}

/**
 * elf_place - the address at which to load the first segment
 * @addr: the highest address that is allowed
 * @alignment: a power of two
 * @skew: to align the load bias, the address of the segment in the image modulo
 *        @alignment; to align the address itself, 0
 *
 * Return: the largest address up to @addr that is congruent to @skew.
 */
static inline unsigned long elf_place(unsigned long addr,
				      unsigned long alignment, unsigned long skew)
{
	return round_down(addr - skew, alignment) + skew;
}

#endif /* _FS_ELF_TEXT_LEAF_H */
