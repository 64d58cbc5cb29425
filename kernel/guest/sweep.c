// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps a file of return instructions at an address that the kernel chooses, and
 * calls the first instruction of each page.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const long page = sysconf(_SC_PAGESIZE);
	const int fd = open(argv[argc - 1], O_RDONLY);
	struct stat stat;
	char *text;

	if (fd < 0 || fstat(fd, &stat))
		return 1;
	text = mmap(NULL, stat.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return 1;
	for (off_t at = 0; at < stat.st_size; at += page)
		((void (*)(void))(text + at))();
	return 0;
}
