// SPDX-License-Identifier: GPL-2.0-only
/*
 * fs/elf_text_leaf.h in user space. Reads images from stdin, as 64-bit numbers:
 * bytes of the page, of the PMD, of the contpte block, and four program headers
 * of type, flags, address, offset and size in the file. Writes the bytes of the
 * leaf of each image. include/ has what the header needs of the kernel.
 */
#include <stdbool.h>
#include <stdio.h>

#include "../align/1-load/files/fs/elf_text_leaf.h"

#define NR 4

int main(void)
{
	struct {
		uint64_t page, pmd, cont;
		struct elf_phdr phdrs[NR];
	} in;

	while (fread(&in, sizeof(in), 1, stdin) == 1) {
		const uint64_t leaf = elf_text_leaf(in.phdrs, NR, in.page,
						    in.pmd, in.cont);

		if (fwrite(&leaf, sizeof(leaf), 1, stdout) != 1)
			return 1;
	}
	return fflush(stdout) || ferror(stdin);
}
