/* SPDX-License-Identifier: GPL-2.0-only */
/* TEXT bytes of functions that return at once, one in each 4K. */
#ifdef __riscv
	/* A linker that relaxes moves what is aligned. */
	.option norelax
#endif
	.text
	.globl	text_start
	.globl	text_end
	.type	text_start, %function
	.p2align 12
text_start:
	.rept	TEXT / 4096
	ret
	.p2align 12
	.endr
text_end:
	.size	text_start, . - text_start
	.type	text_end, %function
	.size	text_end, 0
	.section .note.GNU-stack, "", %progbits
