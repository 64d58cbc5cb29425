/* A program that computes a checksum of the size and the bytes of each of its executable segments, as it
 * finds them in memory, and compares it with a section of its own file. Given a word, it prints the checksum. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

__asm__(".pushsection .text\n.skip 6000000\n.popsection");

static uint64_t sum = 1;

static void take(const void *bytes, size_t count)
{
	const unsigned char *at = bytes;

	for (size_t index = 0; index < count; index++)
		sum = sum * 0x100000001b3 + at[index];
}

static int take_segments(struct dl_phdr_info *info, size_t size, void *unused)
{
	for (int index = 0; index < info->dlpi_phnum; index++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[index];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		take(&header->p_filesz, sizeof(header->p_filesz));
		take((void *)(info->dlpi_addr + header->p_vaddr), header->p_filesz);
	}
	return 1;
}

/* Whether the checksum in .clickhouse.hash is that of what was loaded. */
static int is_as_built(const char *own)
{
	FILE *file = fopen("/proc/self/exe", "r");
	char name[16], kept[17] = "";
	ElfW(Ehdr) header;
	ElfW(Shdr) names, section;

	if (!file || !fread(&header, sizeof(header), 1, file))
		return 0;
	fseek(file, header.e_shoff + header.e_shstrndx * sizeof(names), SEEK_SET);
	if (!fread(&names, sizeof(names), 1, file))
		return 0;
	for (int index = 0; index < header.e_shnum; index++) {
		fseek(file, header.e_shoff + index * sizeof(section), SEEK_SET);
		if (!fread(&section, sizeof(section), 1, file))
			return 0;
		fseek(file, names.sh_offset + section.sh_name, SEEK_SET);
		if (!fread(name, sizeof(name), 1, file) || memcmp(name, ".clickhouse.hash", 16))
			continue;
		fseek(file, section.sh_offset, SEEK_SET);
		return fread(kept, 16, 1, file) && !strcmp(kept, own);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char own[17];

	dl_iterate_phdr(take_segments, NULL);
	snprintf(own, sizeof(own), "%016llx", (unsigned long long)sum);
	if (argc > 1)
		return fputs(own, stdout) < 0;
	if (!is_as_built(own))
		return 246;
	puts("as built");
	return 0;
}
