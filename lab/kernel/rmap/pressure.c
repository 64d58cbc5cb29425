// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a storm of process starts, and the walks of reclaim, compaction and
 * migration over the same files, do to each other.
 *
 *	pressure LOAD SECONDS SHELLS WALKERS
 *			for SECONDS, SHELLS shells start programs, and if WALKERS
 *			is not 0, one process each reclaims, compacts and migrates
 *	pressure shell	one of the shells; it inherits what they share
 *
 * It is linked dynamically and executed by each shell, as a shell is: so each
 * fork copies mappings of libc, and each shell may have another shard of it.
 *
 * Prints a record, one line of JSON, of what was done within SECONDS. LOAD is
 * its name. A step that has not ended by then does not count.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SHARED		9	/* a descriptor */
#define RMAP_WALKS	"/sys/kernel/debug/rmap_walks"
#define COMPACT		"/proc/sys/vm/compact_memory"
#define RECLAIM		"/sys/devices/system/node/node%d/reclaim"
#define RECLAIM_STEP	"1M"

enum { STARTS, RECLAIMS, COMPACTIONS, MIGRATIONS, NR_DONE };

static const char * const done_names[NR_DONE] = {
	"starts", "reclaims", "compactions", "migrations",
};

/* Of /proc/vmstat, and the names in the record. */
enum { NR_EVENTS = 3 };

static const char * const event_names[NR_EVENTS][2] = {
	{ "pgsteal_file", "reclaimed" },
	{ "pgmigrate_success", "migrated" },
	{ "pgmigrate_fail", "not_migrated" },
};

static struct shared {
	long done[NR_DONE];
	int over;
} *shared;

static const char victim[] = "/bin/victim";

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED,
		      SHARED, 0);
	if (shared == MAP_FAILED)
		die("mmap");
}

static int is_over(void)
{
	return __atomic_load_n(&shared->over, __ATOMIC_ACQUIRE);
}

static void count(int what)
{
	__atomic_add_fetch(&shared->done[what], 1, __ATOMIC_RELAXED);
}

static int shell(void)
{
	int status;

	share();
	/* Its lock must not be one that all starts meet at. */
	if (madvise(shared, sizeof(*shared), MADV_DONTFORK))
		die("madvise");
	while (!is_over()) {
		const pid_t child = fork();

		if (child == 0) {
			execl(victim, victim, NULL);
			_exit(2);
		}
		if (child < 0 || waitpid(child, &status, 0) < 0 || status)
			return 2;
		count(STARTS);
	}
	return 0;
}

/* Reclaim that finds too little says so. It has looked at every page then. */
static void write_to(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY);

	if (fd < 0)
		die(path);
	if (write(fd, text, strlen(text)) < 0 && errno != EAGAIN && errno != EINTR)
		die(path);
	close(fd);
}

static void reclaim(long step)
{
	char path[64];

	snprintf(path, sizeof(path), RECLAIM, (int)(step % 2));
	write_to(path, RECLAIM_STEP);
	count(RECLAIMS);
}

static void compact(long step)
{
	(void)step;
	write_to(COMPACT, "1");
	count(COMPACTIONS);
}

static struct text {
	const char *path;
	void *at;
	size_t size;
} texts[] = {
	{ .path = "/bin/victim" },
	{ .path = "/lib64/ld-linux-x86-64.so.2" },
	{ .path = "/lib/x86_64-linux-gnu/libc.so.6" },
};

#define NR_TEXTS (sizeof(texts) / sizeof(texts[0]))

static void map_text(struct text *text)
{
	const int fd = open(text->path, O_RDONLY);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat))
		die(text->path);
	text->size = stat.st_size;
	text->at = mmap(NULL, text->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text->at == MAP_FAILED)
		die("mmap of text");
	close(fd);
}

/* Moves text that all programs of the storm map to the other node, or back. */
static void migrate(long step)
{
	const unsigned long from = 1UL << step % 2, to = 3 - from;
	unsigned int i;

	for (i = 0; i < NR_TEXTS; i++) {
		if (step == 0)
			map_text(&texts[i]);
		/* What this process maps is migrated, and reclaim takes it away. */
		if (madvise(texts[i].at, texts[i].size, MADV_POPULATE_READ))
			die("populate");
	}
	if (syscall(SYS_migrate_pages, 0, 8 * sizeof(from), &from, &to) < 0)
		die("migrate_pages");
	count(MIGRATIONS);
}

static void (* const walkers[])(long) = { reclaim, compact, migrate };

#define NR_WALKERS (sizeof(walkers) / sizeof(walkers[0]))

static void start(void (*step)(long))
{
	const pid_t pid = fork();
	long i;

	if (pid < 0)
		die("fork");
	if (pid > 0)
		return;
	if (!step) {
		execl("/proc/self/exe", "pressure", "shell", NULL);
		_exit(2);
	}
	for (i = 0; !is_over(); i++)
		step(i);
	_exit(0);
}

static void read_events(long long *events)
{
	FILE *vmstat = fopen("/proc/vmstat", "r");
	char name[64];
	long long value;
	int i;

	while (vmstat && fscanf(vmstat, "%63s %lld", name, &value) == 2) {
		for (i = 0; i < NR_EVENTS; i++) {
			if (!strcmp(name, event_names[i][0]))
				events[i] = value;
		}
	}
	if (vmstat)
		fclose(vmstat);
}

/* Appends the times of walks to a record. Only kernels with the set walk-lab have them. */
static void print_walks(void)
{
	FILE *walks = fopen(RMAP_WALKS, "r");
	unsigned long long number, ns, longest;
	char line[1024], name[32], below[900];

	while (walks && fgets(line, sizeof(line), walks)) {
		const int fields = sscanf(line, "%31s count %llu ns %llu longest_ns %llu below %899s",
					  name, &number, &ns, &longest, below);

		if (fields == 2)
			printf(", \"%s\": %llu", name, number);
		if (fields == 5)
			printf(", \"%s\": {\"count\": %llu, \"ns\": %llu, \"longest_ns\": %llu, \"below\": [%s]}",
			       name, number, ns, longest, below);
	}
	if (walks)
		fclose(walks);
}

static void print_record(const char *load, long long ns, const long *done,
			 const long long *before, const long long *after)
{
	int i;

	printf("record {\"what\": \"pressure\", \"load\": \"%s\", \"ns\": %lld", load, ns);
	for (i = 0; i < NR_DONE; i++)
		printf(", \"%s\": %ld", done_names[i], done[i]);
	for (i = 0; i < NR_EVENTS; i++)
		printf(", \"%s\": %lld", event_names[i][1], after[i] - before[i]);
	print_walks();
	printf("}\n");
}

static void run(const char *load, int seconds, int shells, int with_walkers)
{
	long long before[NR_EVENTS] = {}, after[NR_EVENTS] = {}, since, ns;
	long done[NR_DONE];
	int i;

	for (i = 0; i < shells; i++)
		start(NULL);
	for (i = 0; with_walkers && i < (int)NR_WALKERS; i++)
		start(walkers[i]);
	read_events(before);
	memset(shared, 0, sizeof(*shared));
	since = now();
	sleep(seconds);
	memcpy(done, shared->done, sizeof(done));
	ns = now() - since;
	read_events(after);
	print_record(load, ns, done, before, after);
}

int main(int argc, char **argv)
{
	int memory, status, failed = 0;

	if (argc == 2 && !strcmp(argv[1], "shell"))
		return shell();
	if (argc != 5) {
		fprintf(stderr, "usage: pressure LOAD SECONDS SHELLS WALKERS\n");
		return 2;
	}
	memory = memfd_create("shared", 0);
	if (memory < 0 || ftruncate(memory, sizeof(*shared)) || dup2(memory, SHARED) < 0)
		die("memfd");
	share();
	run(argv[1], atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
	__atomic_store_n(&shared->over, 1, __ATOMIC_RELEASE);
	while (wait(&status) > 0)
		failed += status != 0;
	/* Not at the start: what splits files may start before this process. */
	if (access(RMAP_WALKS, W_OK) == 0)
		write_to(RMAP_WALKS, "0");
	if (failed)
		printf("pressure %s failed %d\n", argv[1], failed);
	return failed ? 2 : 0;
}
