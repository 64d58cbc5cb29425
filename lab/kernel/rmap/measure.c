// SPDX-License-Identifier: GPL-2.0-only
/*
 * What starting processes and walking the mappings of a file cost. Prints
 * records, one line of JSON each, times in nanoseconds.
 *
 *	measure crowd PROCESSES [REPLICAS]
 *					start PROCESSES that wait, as on every system
 *	measure storm WORKERS STARTS [REPLICAS]
 *					run WORKERS shells at once; each starts STARTS programs
 *	measure execl WORKERS STARTS	run WORKERS programs at once; each executes itself STARTS times
 *	measure walk LIBRARY		walk over its text, truncate it, punch holes in it;
 *					its users must have ended
 *
 * With REPLICAS, process n has /disk/replica-(n modulo REPLICAS) as its root
 * directory: a copy of the shell, the loader and the libraries.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

#define PAGE		4096L
#define MAX_PAGES	256	/* of a library, that are walked */
#define TRUNCATIONS	21

static char victim[] = "/bin/victim";

static void record_time(const char *what, long count, long long ns)
{
	printf("record {\"what\": \"%s\", \"count\": %ld, \"ns\": %lld}\n",
	       what, count, ns);
}

static void record(const char *what, long count, long long since)
{
	record_time(what, count, now() - since);
}

/* Makes one of the replicas the root directory of this process. */
static void enter(long process, long replicas)
{
	char root[64];

	if (replicas == 0)
		return;
	snprintf(root, sizeof(root), "/disk/replica-%ld", process % replicas);
	if (chroot(root) || chdir("/"))
		_exit(3);
}

static int crowd(long processes, long replicas)
{
	const long long since = now();
	int ready[2], i;
	char byte;

	if (pipe(ready))
		die("pipe");
	for (i = 0; i < processes; i++) {
		const pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			dup2(ready[1], STDOUT_FILENO);
			enter(i, replicas);
			execl(victim, victim, "wait", NULL);
			_exit(2);
		}
	}
	for (i = 0; i < processes; i++) {
		if (read(ready[0], &byte, 1) != 1)
			die("read");
	}
	record("crowd", processes, since);
	return 0;
}

/* With @again, workers execute themselves instead of children. */
static int storm(long workers, const char *starts, long replicas, int again)
{
	const long long since = now();
	int i, status, failed = 0;

	for (i = 0; i < workers; i++) {
		const pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			enter(i, replicas);
			if (again)
				execl(victim, victim, "again", starts, NULL);
			else
				execl(victim, victim, starts, NULL);
			_exit(2);
		}
	}
	for (i = 0; i < workers; i++)
		failed += wait(&status) < 0 || status;
	if (failed)
		return 2;
	record("storm", workers * atol(starts), since);
	return 0;
}

/* Every idle bit that is set costs a walk over all mappings of the page. */
static void walk_text(int library, long pages)
{
	const int bitmap = open("/sys/kernel/mm/page_idle/bitmap", O_WRONLY);
	const int pagemap = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry, bit, pfns[MAX_PAGES];
	long long since;
	long i;
	char *text;

	text = mmap(NULL, pages * PAGE, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_POPULATE, library, 0);
	if (bitmap < 0 || pagemap < 0 || text == MAP_FAILED)
		die("walk");
	for (i = 0; i < pages; i++) {
		if (pread(pagemap, &entry, 8, ((uintptr_t)text / PAGE + i) * 8) != 8)
			die("pagemap");
		pfns[i] = entry & ((1ULL << 55) - 1);
	}
	since = now();
	for (i = 0; i < pages; i++) {
		bit = 1ULL << pfns[i] % 64;
		if (pwrite(bitmap, &bit, 8, pfns[i] / 64 * 8) != 8)
			die("bitmap");
	}
	record("rmap walk", pages, since);
}

static int compare(const void *a, const void *b)
{
	const long long *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

/* The median, because one commit of the journal costs more than all the others. */
static void truncate_end(int library, off_t size)
{
	long long took[TRUNCATIONS];
	long i;

	for (i = 0; i < TRUNCATIONS; i++) {
		const long long since = now();

		if (ftruncate(library, size - PAGE) || ftruncate(library, size))
			die("ftruncate");
		took[i] = now() - since;
	}
	qsort(took, TRUNCATIONS, sizeof(*took), compare);
	record_time("truncate", 1, took[TRUNCATIONS / 2]);
}

static void punch_text(int library, long pages)
{
	const long long since = now();
	long i;

	for (i = 0; i < pages; i++) {
		if (fallocate(library, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      i * PAGE, PAGE))
			die("fallocate");
	}
	record("hole punch", pages, since);
}

/* Every process of the crowd maps part of the second half. */
static void truncate_text(int library, off_t size)
{
	const long long since = now();

	if (ftruncate(library, size / 2 / PAGE * PAGE) || ftruncate(library, size))
		die("ftruncate");
	record("truncate half", 1, since);
}

static int walk(const char *path)
{
	const int library = open(path, O_RDWR);
	struct stat stat;
	long pages;

	if (library < 0 || fstat(library, &stat))
		die(path);
	pages = stat.st_size / PAGE < MAX_PAGES ? stat.st_size / PAGE : MAX_PAGES;
	walk_text(library, pages);
	truncate_end(library, stat.st_size);
	punch_text(library, pages);
	truncate_text(library, stat.st_size);
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if ((argc == 3 || argc == 4) && !strcmp(argv[1], "crowd"))
		return crowd(atol(argv[2]), argc == 4 ? atol(argv[3]) : 0);
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "storm"))
		return storm(atol(argv[2]), argv[3], argc == 5 ? atol(argv[4]) : 0, 0);
	if (argc == 4 && !strcmp(argv[1], "execl"))
		return storm(atol(argv[2]), argv[3], 0, 1);
	if (argc == 3 && !strcmp(argv[1], "walk"))
		return walk(argv[2]);
	fprintf(stderr, "usage: measure crowd PROCESSES [REPLICAS] | storm WORKERS STARTS [REPLICAS] | execl WORKERS STARTS | walk LIBRARY\n");
	return 2;
}
