/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_GENERIC_TEXT_LEAF_H
#define _ASM_GENERIC_TEXT_LEAF_H

/*
 * Order of the naturally aligned block of PTEs that shares one TLB entry when
 * it maps one folio of the page cache; 0 if there is no such block.
 */
#ifndef arch_text_cont_order
static inline unsigned int arch_text_cont_order(void)
{
	return 0;
}
#endif

#endif /* _ASM_GENERIC_TEXT_LEAF_H */
