/* SPDX-License-Identifier: GPL-2.0-only */
/* A program header of 64 bits, of the fields that fs/elf_text_leaf.h reads. */
#include <elf.h>
#include <stdint.h>

struct elf_phdr {
	uint64_t p_type, p_flags, p_vaddr, p_offset, p_filesz;
};
