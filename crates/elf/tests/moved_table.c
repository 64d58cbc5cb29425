/* Says whether what the process is told of its program headers is true. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>

/* Windows of text, before the functions. */
asm(".text\n.fill 0x480000, 1, 0x90\n");

int in_library(int);

#ifdef LIBRARY
__attribute__((noinline)) int in_library(int n)
{
	return n + 1;
}
#else
static int texts;

/* Counts the objects that hold a function of which there is one in the program and one in its library. */
static int holds(struct dl_phdr_info *info, size_t size, void *function)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];
		ElfW(Addr) inside = (ElfW(Addr))function - info->dlpi_addr - load->p_vaddr;

		if (load->p_type == PT_LOAD && load->p_flags & PF_X && inside < load->p_memsz)
			texts++;
	}
	return 0;
}

static int own(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	return (unsigned long)info->dlpi_phdr == getauxval(AT_PHDR) && info->dlpi_phnum == getauxval(AT_PHNUM);
}

int main(void)
{
	dl_iterate_phdr(holds, main);
	dl_iterate_phdr(holds, in_library);
	printf("%d texts, own headers %d, %d\n", texts, dl_iterate_phdr(own, 0), in_library(41));
	return 0;
}
#endif
