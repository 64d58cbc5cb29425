// SPDX-License-Identifier: GPL-2.0-only
/*
 * Collapses the page cache of a file into huge folios while holes are punched
 * into it.
 *
 *	race SECONDS FILE
 *
 * Prints as JSON how often both were done, and whether they halted: whether
 * nothing was done for 20 seconds. Linux 7.3 deadlocks (kernel/collapse). The
 * file is opened for each hole: before 7.2 a file is not collapsed while it is
 * open for write.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lab.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PAGE		4096UL
#define SIZE		(2UL << 20)	/* one huge folio */
#define PATIENCE	20
#define PUNCHERS	2

enum { PUNCHED, TRIED, COLLAPSED, NR_COUNTS };

static unsigned long *counts;	/* shared */

static void count(int what)
{
	__atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED);
}

static void punch(const char *path, unsigned int seed)
{
	srandom(seed);
	for (;;) {
		const int fd = open(path, O_RDWR);

		if (fd < 0 ||
		    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      PAGE * (random() % 512), PAGE * (1 + random() % 64)))
			die(path);
		close(fd);
		count(PUNCHED);
	}
}

static void collapse(const char *path)
{
	const int fd = open(path, O_RDONLY);
	char *text = mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	text += -(unsigned long)text % SIZE;
	text = mmap(text, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0);
	if (text == MAP_FAILED)
		die("mmap");
	for (;;) {
		if (!madvise(text, SIZE, MADV_COLLAPSE))
			count(COLLAPSED);
		count(TRIED);
		posix_fadvise(fd, 0, SIZE, POSIX_FADV_DONTNEED);
	}
}

/* Where in the kernel a process waits. */
static void print_wait(pid_t pid)
{
	char path[64], where[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/wchan", pid);
	file = fopen(path, "r");
	if (file) {
		if (fgets(where, sizeof(where), file))
			printf("race: %d waits in %s\n", pid, where);
		fclose(file);
	}
}

/* Whether nothing was done for the last seconds. */
static int watch(int seconds)
{
	unsigned long before, now = 0;
	int halted = 0;

	while (seconds-- > 0 && halted < PATIENCE) {
		before = now;
		sleep(1);
		now = counts[PUNCHED] + counts[TRIED];
		halted = now == before ? halted + 1 : 0;
	}
	printf("record {\"what\": \"race\", \"punched\": %lu, \"tried\": %lu, \"collapsed\": %lu, \"halted\": %s}\n",
	       counts[PUNCHED], counts[TRIED], counts[COLLAPSED],
	       halted == PATIENCE ? "true" : "false");
	return halted == PATIENCE;
}

int main(int argc, char **argv)
{
	static char data[SIZE];
	pid_t pids[PUNCHERS + 1];
	int fd, i;

	if (argc != 3) {
		fprintf(stderr, "usage: race SECONDS FILE\n");
		return 2;
	}
	fd = open(argv[2], O_RDWR | O_CREAT, 0755);
	memset(data, 1, SIZE);
	if (fd < 0 || write(fd, data, SIZE) != SIZE || fsync(fd))
		die(argv[2]);
	counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		die("mmap");
	close(fd);
	for (i = 0; i <= PUNCHERS; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die("fork");
		if (!pids[i] && i < PUNCHERS)
			punch(argv[2], i);
		else if (!pids[i])
			collapse(argv[2]);
	}
	if (watch(atoi(argv[1]))) {
		for (i = 0; i <= PUNCHERS; i++)
			print_wait(pids[i]);
	}
	/* Deadlocked processes cannot be killed. */
	for (i = 0; i <= PUNCHERS; i++)
		kill(pids[i], SIGKILL);
	return 0;
}
