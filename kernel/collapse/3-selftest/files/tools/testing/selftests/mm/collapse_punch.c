// SPDX-License-Identifier: GPL-2.0-only
/*
 * Collapses the page cache of a file in the current folder into huge folios
 * while holes are punched into it. Both must go on: kernels where collapse reads
 * with folios locked stop for ever, and the processes cannot be killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "vm_util.h"

#define SECONDS		20	/* unless the first argument says otherwise */
#define PATIENCE	60	/* seconds without progress; a slow disk needs many */
#define PUNCHERS	2
#define TRIES		100	/* to collapse a file; each may find a page busy */
#define LARGEST		(32UL << 20)	/* PMD that any disk reads in that time */
#define FILE_NAME	"collapse_punch.tmp"

enum { PUNCHED, TRIED, COLLAPSED, NR_COUNTS };

static unsigned long *counts;	/* shared by the processes */
static size_t size;

static void count(int what)
{
	__atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED);
}

/*
 * Kernels before 7.2 do not collapse a file that is open for write, so it is open
 * for each hole only, and not all the time.
 */
static void punch(int fd, unsigned int seed)
{
	const long page = sysconf(_SC_PAGESIZE);
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	srandom(seed);
	for (;;) {
		const int writable = open(name, O_RDWR);

		if (writable < 0 ||
		    fallocate(writable, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      page * (random() % (size / page)),
			      page * (1 + random() % 64)))
			_exit(KSFT_SKIP);
		close(writable);
		count(PUNCHED);
		usleep(random() % 1000);
	}
}

/* Maps the file where huge folios fit. */
static char *map_file(int fd)
{
	char *area = mmap(NULL, 2 * size, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		ksft_exit_skip("cannot map " FILE_NAME "\n");
	area += -(unsigned long)area % size;
	area = mmap(area, size, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED,
		    fd, 0);
	if (area == MAP_FAILED)
		ksft_exit_skip("cannot map " FILE_NAME "\n");
	return area;
}

/*
 * Whether the file can be collapsed while nobody punches holes. Kernels before
 * 7.2 may say EINVAL first, of a page that was dirty or missing.
 */
static bool is_collapsible(int fd)
{
	char *area = map_file(fd);
	bool done = false;

	for (int i = 0; i < TRIES && !done; i++) {
		done = !madvise(area, size, MADV_COLLAPSE);
		if (!done && errno != EAGAIN && errno != EINVAL)
			break;
	}
	munmap(area, size);
	return done;
}

static void collapse(int fd, unsigned int seed)
{
	char *area = map_file(fd);

	for (;;) {
		if (!madvise(area, size, MADV_COLLAPSE))
			count(COLLAPSED);
		count(TRIED);
		posix_fadvise(fd, 0, size, POSIX_FADV_DONTNEED);
	}
}

/*
 * Starts a process. What cannot be killed must not hold the output of the test
 * open, which whoever runs many tests reads to its end.
 */
static pid_t start(void (*work)(int fd, unsigned int seed), int fd, int seed)
{
	const pid_t pid = fork();
	int null;

	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (pid)
		return pid;
	null = open("/dev/null", O_WRONLY);
	if (dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
		_exit(KSFT_SKIP);
	work(fd, seed);
	_exit(KSFT_SKIP);
}

/* KSFT_FAIL if one did nothing for too long or was killed, KSFT_SKIP if one ended. */
static int watch(int seconds)
{
	unsigned long before[NR_COUNTS] = {};
	int idle = 0;

	/* Whoever is idle at the end gets the same patience. */
	for (int i = 0; (i < seconds || idle) && idle < PATIENCE; i++) {
		int status;

		sleep(1);
		if (waitpid(-1, &status, WNOHANG) > 0)
			return WIFEXITED(status) ? KSFT_SKIP : KSFT_FAIL;
		if (counts[PUNCHED] == before[PUNCHED] ||
		    counts[TRIED] == before[TRIED])
			idle++;
		else
			idle = 0;
		memcpy(before, counts, sizeof(before));
	}
	return idle == PATIENCE ? KSFT_FAIL : KSFT_PASS;
}

/* A descriptor for reading of a file of @size bytes that has no name. */
static int make_file(void)
{
	int fd = open(FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	char *data = calloc(1, size);
	struct statfs fs;

	if (!data)
		ksft_exit_fail_perror("memory");
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || fsync(fd))
		ksft_exit_skip("cannot write " FILE_NAME "\n");
	free(data);
	close(fd);
	fd = open(FILE_NAME, O_RDONLY);
	unlink(FILE_NAME);
	if (fd < 0 || fstatfs(fd, &fs))
		ksft_exit_skip("cannot read " FILE_NAME "\n");
	if (fs.f_type == TMPFS_MAGIC)
		ksft_exit_skip("nothing is read from a tmpfs\n");
	return fd;
}

int main(int argc, char **argv)
{
	const int seconds = argc > 1 ? atoi(argv[1]) : SECONDS;
	pid_t pids[PUNCHERS + 1];
	int fd, result;

	ksft_print_header();
	ksft_set_plan(1);

	size = read_pmd_pagesize();
	if (!size || size > LARGEST)
		ksft_exit_skip("no huge pages that are read in seconds\n");
	counts = mmap(NULL, sizeof(*counts) * NR_COUNTS, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		ksft_exit_fail_perror("memory");
	fd = make_file();
	if (!is_collapsible(fd))
		ksft_exit_skip("no huge folios in this file\n");

	for (int i = 0; i < PUNCHERS; i++)
		pids[i] = start(punch, fd, i);
	pids[PUNCHERS] = start(collapse, fd, 0);
	result = watch(seconds);
	for (int i = 0; i <= PUNCHERS; i++)
		kill(pids[i], SIGKILL);
	ksft_print_msg("%lu holes; %lu calls of MADV_COLLAPSE, %lu did it\n",
		       counts[PUNCHED], counts[TRIED], counts[COLLAPSED]);
	if (result == KSFT_SKIP)
		ksft_exit_skip("no holes in this file\n");
	ksft_test_result_report(result, "collapse and punching go on\n");
	ksft_finished();
}
