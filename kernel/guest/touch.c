// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long faults on text wait: maps a file executable at an address that is
 * congruent to its offset modulo 2 MiB, touches pages of a cold page cache, and
 * prints as JSON what the touches cost, in microseconds.
 *
 *	touch FILE NAME PART	one of PART windows of 64K is touched, not in order
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

#define LEAF	(2UL << 20)
#define WINDOW	(64UL << 10)

static int compare(const void *a, const void *b)
{
	const long one = *(const long *)a, other = *(const long *)b;

	return (one > other) - (one < other);
}

int main(int argc, char **argv)
{
	const int fd = argc == 4 ? open(argv[1], O_RDONLY) : -1;
	const unsigned long part = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	unsigned long windows, step, at = 0, n = 0;
	struct rusage usage;
	struct stat stat;
	long *took, begin, total;
	char *text;

	if (fd < 0 || !part || fstat(fd, &stat))
		return 1;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	windows = stat.st_size / WINDOW;
	took = calloc(windows, sizeof(*took));
	text = mmap(NULL, stat.st_size + LEAF, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!took || text == MAP_FAILED)
		return 1;
	text += -(unsigned long)text % LEAF;
	text = mmap(text, stat.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
	if (text == MAP_FAILED)
		return 1;
	/* An odd step visits every window of a power of two once. */
	step = part * 37;
	begin = now();
	for (; n < windows / part; n++) {
		const long since = now();

		*(volatile char *)(text + at * WINDOW);
		took[n] = now() - since;
		at = (at + step) % windows;
	}
	total = now() - begin;
	qsort(took, n, sizeof(*took), compare);
	getrusage(RUSAGE_SELF, &usage);
	printf("record {\"kind\":\"touch\",\"name\":\"%s\",\"part\":%lu,\"touches\":%lu,\"total_us\":%ld,\"p50_us\":%ld,\"p90_us\":%ld,\"longest_us\":%ld,\"major\":%ld}\n",
	       argv[2], part, n, total, took[n / 2], took[n * 9 / 10], took[n - 1],
	       usage.ru_majflt);
	return 0;
}
