/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _FS_ELF_TEXT_ALIGNMENT_H
#define _FS_ELF_TEXT_ALIGNMENT_H

#include <linux/binfmts.h>
#include <linux/sched.h>
#include <linux/text_leaf.h>

#include "elf_text_leaf.h"

/*
 * The alignment of the load bias with which leaves can map the text of an image
 * in the current address space; 0 if there is none. Address spaces of 32 bits
 * have no room for it, and short random addresses none to lose. A program that gets
 * more rights than its caller keeps every random bit of its address.
 */
static inline unsigned long elf_text_alignment(const struct linux_binprm *bprm,
					       const struct elf_phdr *phdrs, int nr)
{
	const struct address_space *mapping;
	unsigned int pmd, cont;

	if (bprm->secureexec || ELF_CLASS != ELFCLASS64)
		return 0;

	mapping = text_file_mapping(bprm->file);
	pmd = text_random_order(text_pmd_order(current->mm, mapping));
	cont = text_random_order(text_cont_order(current->mm, mapping));
	return elf_text_leaf(phdrs, nr, PAGE_SIZE, pmd ? PAGE_SIZE << pmd : 0,
			     cont ? PAGE_SIZE << cont : 0);
}

#endif /* _FS_ELF_TEXT_ALIGNMENT_H */
