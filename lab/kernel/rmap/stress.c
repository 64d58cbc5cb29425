// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stress for the reverse map of files: many address spaces that come, go, fork
 * and move mappings of a few files, while others walk those files' mappings by
 * truncating, dropping, collapsing and reclaiming them.
 *
 *	stress SECONDS DIRECTORY…	files are made in each DIRECTORY
 *	stress worker NUMBER FILES	a worker of it; files and memory are inherited
 *
 * Workers are executed, not only forked, so that they do not all have the same
 * shard of a file.
 *
 * Prints how often each step ran. It fails only where a step that must work
 * did not. Defects of the kernel are in the reports of the kernel.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define WORKERS		24	/* more than I_MMAP_MIN_USERS */
#define MAX_FILES	4
#define FILE_SIZE	(4UL << 20)
#define PAGE		4096UL
#define FIRST_FILE	10	/* descriptors */
#define SHARED		9

static const char *victim = "/bin/victim";
static const char * const libraries[] = {
	"/lib64/ld-linux-x86-64.so.2",
	"/lib/x86_64-linux-gnu/libc.so.6",
};
static char library[] = "libm.so.6";

#define DROP_CACHES	"/proc/sys/vm/drop_caches"
#define COMPACT		"/proc/sys/vm/compact_memory"
#define RECLAIM_0	"/sys/devices/system/node/node0/reclaim"
#define RECLAIM_1	"/sys/devices/system/node/node1/reclaim"
#define PROBES		"/sys/kernel/tracing/events/rmap/enable"

/* Files that a kernel must have for the steps to work. */
static const char * const controls[] = {
	DROP_CACHES, COMPACT, RECLAIM_0, RECLAIM_1, PROBES,
};

enum { PROBE, PRESSURE, NR_ALONE };

static int files[MAX_FILES];	/* the same descriptors in every process, from FIRST_FILE */
static int nr_files;
static unsigned long *ran;	/* shared: how often each step ran */
static int *alone;		/* shared: the worker of steps that one at a time may do */
static int *over;		/* shared: workers come to their end */
static char *map;		/* this worker's executable mapping */
static int map_file;
static sigjmp_buf bus;

static unsigned int draw(unsigned int below)
{
	return random() % below;
}

/* Truncation removes mapped pages, so SIGBUS is expected. */
static void on_bus(int signal)
{
	siglongjmp(bus, signal);
}

static void write_to(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0) {
		/* compact_memory and drop_caches may be interrupted */
	}
	close(fd);
}

static void remap(void)
{
	if (map && munmap(map, FILE_SIZE))
		die("munmap");
	map_file = files[draw(nr_files)];
	map = mmap(NULL, FILE_SIZE, PROT_READ | PROT_EXEC,
		   draw(2) ? MAP_SHARED : MAP_PRIVATE, map_file, 0);
	if (map == MAP_FAILED)
		die("mmap");
}

static void touch(void)
{
	volatile char sum = 0;
	unsigned long at;

	for (at = 0; at < FILE_SIZE; at += PAGE << draw(4))
		sum += map[at];
}

static void reap(pid_t child)
{
	if (child < 0 || waitpid(child, NULL, 0) < 0)
		die("fork");
}

static void step_exec(void)
{
	const pid_t child = draw(2) ? vfork() : fork();

	if (child == 0) {
		if (draw(4))
			execl(victim, victim, NULL);
		else
			execl(victim, victim, "open", library, NULL);
		_exit(2);
	}
	reap(child);
}

static void step_exec_from_dynamic(void)
{
	const pid_t child = fork();

	if (child == 0) {
		execl(victim, victim, "1", "open", library, NULL);
		_exit(2);
	}
	reap(child);
}

static void step_fork(void)
{
	const pid_t child = fork();

	if (child == 0) {
		const pid_t grandchild = draw(2) ? fork() : -1;

		if (!sigsetjmp(bus, 1))
			touch();
		if (grandchild > 0)
			waitpid(grandchild, NULL, 0);
		_exit(0);
	}
	reap(child);
}

static void step_touch(void)
{
	if (!sigsetjmp(bus, 1))
		touch();
}

/* Move half of the mapping elsewhere and back: page tables change VMAs. */
static void step_mremap(void)
{
	const size_t half = FILE_SIZE / 2;
	char *away = mmap(NULL, half, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (away == MAP_FAILED)
		return;
	if (mremap(map + half, half, half, MREMAP_MAYMOVE | MREMAP_FIXED,
		   away) == MAP_FAILED)
		goto again;
	if (!sigsetjmp(bus, 1))
		*(volatile char *)away;
	if (mremap(away, half, half, MREMAP_MAYMOVE | MREMAP_FIXED,
		   map + half) != MAP_FAILED)
		return;
again:
	/* Not every kernel moves several VMAs at once. */
	munmap(away, half);
	remap();
}

/* Split the mapping and let it merge again. */
static void step_split(void)
{
	char *middle = map + PAGE * draw(FILE_SIZE / PAGE - 16);

	if (mprotect(middle, 8 * PAGE, PROT_READ) ||
	    mprotect(middle, 8 * PAGE, PROT_READ | PROT_EXEC))
		die("mprotect");
	if (munmap(middle, 4 * PAGE) ||
	    mmap(middle, 4 * PAGE, PROT_READ | PROT_EXEC,
		 MAP_SHARED | MAP_FIXED, map_file, middle - map) == MAP_FAILED)
		die("mmap in the middle");
}

static void step_remap(void)
{
	remap();
}

static void step_truncate(void)
{
	const int fd = files[draw(nr_files)];

	if (ftruncate(fd, draw(FILE_SIZE)) || ftruncate(fd, FILE_SIZE))
		die("ftruncate");
}

static void step_punch(void)
{
	const int fd = files[draw(nr_files)];

	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      PAGE * draw(512), PAGE * (1 + draw(256))) &&
	    errno != EOPNOTSUPP && errno != ENOSYS)
		die("fallocate");
}

static void step_write(void)
{
	static const char page[PAGE] = "text";

	/* A full file system is no failure: the pages are read. */
	if (pwrite(files[draw(nr_files)], page, PAGE, PAGE * draw(1024)) < 0 &&
	    errno != ENOSPC)
		die("pwrite");
}

static void step_advise(void)
{
	static const int advices[] = {
		MADV_DONTNEED, MADV_PAGEOUT, MADV_COLD, MADV_COLLAPSE,
		MADV_WILLNEED, MADV_HUGEPAGE,
	};

	madvise(map, FILE_SIZE, advices[draw(6)]);
}

static void step_drop_caches(void)
{
	write_to(DROP_CACHES, draw(8) ? "1" : "3");
}

static void step_compact(void)
{
	write_to(COMPACT, "1");
}

/* Pages of any file, of either node. */
static void step_reclaim(void)
{
	write_to(draw(2) ? RECLAIM_0 : RECLAIM_1, "8M");
}

/* Break points come into every mapping of libc, and go. */
static void step_probe(void)
{
	if (__atomic_exchange_n(&alone[PROBE], 1, __ATOMIC_ACQUIRE))
		return;
	write_to(PROBES, "1");
	step_exec();
	write_to(PROBES, "0");
	__atomic_store_n(&alone[PROBE], 0, __ATOMIC_RELEASE);
}

/* Move all pages of this worker, also those that others map, to the other node. */
static void step_migrate(void)
{
	unsigned long from = 1 + draw(2), to = 3 - from;

	if (syscall(SYS_migrate_pages, 0, 8 * sizeof(from), &from, &to) < 0 && errno == ENOSYS)
		die("migrate_pages");
}

/* Private pages in a mapping of a file, all of them equal, for KSM to merge. */
static void step_merge(void)
{
	static char *food;
	const size_t size = 64 * PAGE;

	if (food)
		munmap(food, size);
	food = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		    files[draw(nr_files)], 0);
	if (food == MAP_FAILED)
		die("mmap to merge");
	madvise(food, size, MADV_MERGEABLE);
	if (!sigsetjmp(bus, 1))
		memset(food, 1, size);
}

/* Take half of the free memory for a moment, so that file pages must go. */
static void step_pressure(void)
{
	const long pages = sysconf(_SC_AVPHYS_PAGES);
	const size_t size = PAGE * (pages > 0 ? pages : 1) / 2;
	char *hog;

	if (__atomic_exchange_n(&alone[PRESSURE], 1, __ATOMIC_ACQUIRE))
		return;
	hog = mmap(NULL, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (hog != MAP_FAILED) {
		memset(hog, 1, size);
		munmap(hog, size);
	}
	__atomic_store_n(&alone[PRESSURE], 0, __ATOMIC_RELEASE);
}

static const struct {
	const char *name;
	void (*run)(void);
	unsigned int weight;
} steps[] = {
	{ "exec", step_exec, 30 },
	{ "exec-from-dynamic", step_exec_from_dynamic, 15 },
	{ "fork", step_fork, 20 },
	{ "touch", step_touch, 20 },
	{ "mremap", step_mremap, 20 },
	{ "split", step_split, 20 },
	{ "remap", step_remap, 10 },
	{ "truncate", step_truncate, 6 },
	{ "punch", step_punch, 10 },
	{ "write", step_write, 10 },
	{ "advise", step_advise, 12 },
	{ "drop-caches", step_drop_caches, 2 },
	{ "compact", step_compact, 1 },
	{ "reclaim", step_reclaim, 4 },
	{ "probe", step_probe, 2 },
	{ "migrate", step_migrate, 2 },
	{ "merge", step_merge, 4 },
	{ "pressure", step_pressure, 1 },
};

#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))

/* Keep a page of every file: all workers together crowd the file, and it is split. */
static void join_crowd(void)
{
	int i;

	for (i = 0; i < nr_files; i++) {
		if (mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, files[i], 0) == MAP_FAILED)
			die("mmap of a file");
	}
	for (i = 0; i < (int)(sizeof(libraries) / sizeof(libraries[0])); i++) {
		const int fd = open(libraries[i], O_RDONLY);

		if (fd < 0 ||
		    mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			die(libraries[i]);
		close(fd);
	}
}

/* What all processes see of each other. */
static void share(void)
{
	ran = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED, 0);
	if (ran == MAP_FAILED)
		die("mmap");
	alone = (int *)(ran + NR_STEPS);
	over = alone + NR_ALONE;
}

static int work(unsigned int seed)
{
	unsigned int total = 0, i, at;

	share();
	for (i = 0; i < (unsigned int)nr_files; i++)
		files[i] = FIRST_FILE + i;
	srandom(seed);
	join_crowd();
	for (i = 0; i < NR_STEPS; i++)
		total += steps[i].weight;
	remap();
	while (!__atomic_load_n(over, __ATOMIC_ACQUIRE)) {
		at = draw(total);
		for (i = 0; at >= steps[i].weight; i++)
			at -= steps[i].weight;
		steps[i].run();
		__atomic_add_fetch(&ran[i], 1, __ATOMIC_RELAXED);
	}
	/* Wait, with all that is mapped, for the audit. */
	raise(SIGSTOP);
	return 0;
}

static void start_worker(int number)
{
	char worker[16], count[16];

	snprintf(worker, sizeof(worker), "%d", number);
	snprintf(count, sizeof(count), "%d", nr_files);
	execl("/proc/self/exe", "stress", "worker", worker, count, NULL);
	die("exec of a worker");
}

/* Print the audit of the kernel: it looks at every process and every file. */
static void print_audit(void)
{
	FILE *audit = fopen("/sys/kernel/debug/i_mmap_audit", "r");
	char line[256];

	while (audit && fgets(line, sizeof(line), audit))
		printf("audit %s", line);
	if (audit)
		fclose(audit);
}

/*
 * Sleep until the workers have had @seconds. A guest is paused with its host,
 * and its clock goes on: a second that takes longer counts as two at most.
 */
static void let_work(double seconds)
{
	struct timespec before, now;
	double took;

	clock_gettime(CLOCK_MONOTONIC, &before);
	while (seconds > 0) {
		sleep(1);
		clock_gettime(CLOCK_MONOTONIC, &now);
		took = now.tv_sec - before.tv_sec + (now.tv_nsec - before.tv_nsec) / 1e9;
		seconds -= took < 2 ? took : 2;
		before = now;
	}
}

static void make_file(const char *directory)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/stressed-%d", directory, nr_files);
	fd = open(path, O_RDWR | O_CREAT, 0755);
	if (fd < 0 || ftruncate(fd, FILE_SIZE) ||
	    dup2(fd, FIRST_FILE + nr_files) < 0 || close(fd))
		die(path);
	nr_files++;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_bus };
	int i, shared, status, stopped = 0, failed = 0;
	pid_t pids[WORKERS];

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	if (argc == 4 && !strcmp(argv[1], "worker")) {
		nr_files = atoi(argv[3]);
		return work(atoi(argv[2]));
	}
	if (argc < 3 || argc - 2 > MAX_FILES) {
		fprintf(stderr, "usage: stress SECONDS DIRECTORY... (at most 4)\n");
		return 2;
	}
	for (i = 0; i < (int)(sizeof(controls) / sizeof(controls[0])); i++) {
		if (access(controls[i], W_OK))
			die(controls[i]);
	}
	for (i = 2; i < argc; i++)
		make_file(argv[i]);
	shared = memfd_create("shared", 0);
	if (shared < 0 || ftruncate(shared, PAGE) || dup2(shared, SHARED) < 0)
		die("memfd");
	share();
	for (i = 0; i < WORKERS; i++) {
		const pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0)
			start_worker(i + 1);
		pids[i] = pid;
	}
	let_work(atoi(argv[1]));
	__atomic_store_n(over, 1, __ATOMIC_RELEASE);
	for (i = 0; i < WORKERS; i++) {
		if (waitpid(pids[i], &status, WUNTRACED) == pids[i] && WIFSTOPPED(status))
			stopped++;
		else
			failed++;
	}
	printf("stopped %d\n", stopped);
	print_audit();
	for (i = 0; i < WORKERS; i++)
		kill(pids[i], SIGCONT);
	while (wait(&status) > 0)
		failed += !WIFEXITED(status) || WEXITSTATUS(status);
	for (i = 0; i < (int)NR_STEPS; i++)
		printf("step %s %lu\n", steps[i].name, ran[i]);
	printf("stress workers %d failed %d\n", WORKERS, failed);
	return failed ? 1 : 0;
}
