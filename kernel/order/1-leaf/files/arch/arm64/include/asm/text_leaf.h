/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __ASM_TEXT_LEAF_H
#define __ASM_TEXT_LEAF_H

#include <linux/kconfig.h>
#include <asm/page.h>
#include <asm/pgtable-hwdef.h>

/* 64K with 4K pages, 2M with 16K and 64K pages. */
static inline unsigned int arch_text_cont_order(void)
{
	return IS_ENABLED(CONFIG_ARM64_CONTPTE) ? CONT_PTE_SHIFT - PAGE_SHIFT : 0;
}

#define arch_text_cont_order arch_text_cont_order

#include <asm-generic/text_leaf.h>

#endif /* __ASM_TEXT_LEAF_H */
