// SPDX-License-Identifier: GPL-2.0-only
/*
 * What must hold while two tasks use text, or what lies beside it, at once.
 *
 * One maps a file of the current folder as loaders do, so that the first window of
 * its text is read by a leaf, while another takes pages of that window out of the
 * page cache: it writes to them directly. Both must go on.
 *
 * Two fault on data of a file at once, far from each other. They share its readahead
 * state. Nothing is read that is not around these pages.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"
#include "text_leaf.h"
#include "vm_util.h"

#define SECONDS		10
#define FILE_LEAVES	32
#define FILE_NAME	"exec_leaf_race.tmp"

static size_t leaf, page;

/* A file that begins with two leaves of data. */
static int make_file(void)
{
	int file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0700);
	char *data = calloc(2, leaf);

	if (!data || file < 0 ||
	    write(file, data, 2 * leaf) != (ssize_t)(2 * leaf) ||
	    ftruncate(file, FILE_LEAVES * leaf) || fsync(file))
		ksft_exit_skip("cannot write " FILE_NAME "\n");
	free(data);
	unlink(FILE_NAME);
	return file;
}

/* Opens the file again. */
static int open_again(int file, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return open(path, flags);
}

/* Starts a process that writes the first page again and again. */
static pid_t start_writer(int direct)
{
	const pid_t pid = fork();
	void *zeroes;

	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (pid)
		return pid;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    posix_memalign(&zeroes, page, page))
		_exit(KSFT_SKIP);
	memset(zeroes, 0, page);
	while (pwrite(direct, zeroes, page, 0) == (ssize_t)page)
		;
	_exit(KSFT_SKIP);
}

/* Read the ELF header, map text and data, and give both back. */
static void load(int file, char *at)
{
	char header[64];

	if (pread(file, header, sizeof(header), 0) < 0 ||
	    mmap(at, 2 * leaf, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
		 file, 0) == MAP_FAILED ||
	    mmap(at + leaf, leaf, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_FIXED, file, leaf) == MAP_FAILED ||
	    mmap(at, 2 * leaf, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		ksft_exit_fail_perror("mmap of the file");
}

static void test_direct_writes(int file)
{
	static const char *name = "mapping text and writing to it go on";
	const int direct = open_again(file, O_WRONLY | O_DIRECT);
	const long before = event("exec_leaf_read");
	const time_t end = time(NULL) + SECONDS;
	unsigned long loads = 0;
	pid_t writer;
	long leaves;
	int status;
	char *at;

	at = mmap(NULL, 3 * leaf, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	at += -(unsigned long)at % leaf;
	writer = start_writer(direct);
	for (; time(NULL) < end; loads++)
		load(file, at);
	kill(writer, SIGKILL);
	if (waitpid(writer, &status, 0) != writer)
		ksft_exit_fail_perror("waitpid");
	close(direct);
	leaves = event("exec_leaf_read") - before;
	ksft_print_msg("%lu times, %ld leaves\n", loads, leaves);
	if (WIFEXITED(status))
		ksft_test_result_skip("%s: no direct writes here\n", name);
	else if (!leaves)
		ksft_test_result_skip("%s: no leaf was read, see exec_leaf\n", name);
	else
		ksft_test_result_pass("%s\n", name);
}

/* Rounds. */
static atomic_uint started, ended;
/* The page on which the other thread faults in the round that starts; NULL ends it. */
static char *other_page;

static void *fault_in_rounds(void *unused)
{
	for (unsigned int round = 1;; round++) {
		char *at;

		while (started < round)
			;
		at = other_page;
		if (!at)
			return NULL;
		FORCE_READ(*at);
		ended = round;
	}
}

/* Whether the end of the file is read by faults at its begin and in its middle. */
static bool round_reads_end(int data, unsigned int round)
{
	const size_t size = FILE_LEAVES * leaf;
	/* Without the misses of before: after many, nothing is read around a fault. */
	int file = open_again(data, O_RDONLY);
	char *near = mmap(NULL, leaf / 2, PROT_READ, MAP_PRIVATE, file, 0);
	char *far = mmap(NULL, leaf / 2, PROT_READ, MAP_PRIVATE, file, size / 2);
	char *last = mmap(NULL, page, PROT_READ, MAP_SHARED, file, size - page);
	unsigned char cached;

	if (file < 0 || near == MAP_FAILED || far == MAP_FAILED || last == MAP_FAILED)
		ksft_exit_fail_perror("mmap of data");
	other_page = far;
	started = round;
	FORCE_READ(*near);
	while (ended < round)
		;
	if (mincore(last, page, &cached))
		ksft_exit_fail_perror("mincore");
	munmap(near, leaf / 2);
	munmap(far, leaf / 2);
	munmap(last, page);
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	close(file);
	return cached & 1;
}

static void test_faults_on_data(int file)
{
	const time_t end = time(NULL) + SECONDS;
	unsigned int round = 0, wrong = 0;
	pthread_t other;

	if (pthread_create(&other, NULL, fault_in_rounds, NULL))
		ksft_exit_fail_msg("no thread\n");
	while (time(NULL) < end)
		wrong += round_reads_end(file, ++round);
	other_page = NULL;
	started = round + 1;
	pthread_join(other, NULL);
	ksft_print_msg("%u rounds, %u read too much\n", round, wrong);
	ksft_test_result(!wrong, "two faults on data read around them\n");
}

int main(void)
{
	const char *reason;
	int file;

	ksft_print_header();
	page = getpagesize();
	leaf = text_leaf();
	if (event("exec_leaf_read") < 0 || !leaf)
		ksft_exit_skip("the kernel reads no leaves\n");
	file = make_file();
	reason = text_without_leaves(file);
	if (reason)
		ksft_exit_skip("%s\n", reason);
	ksft_set_plan(2);
	test_direct_writes(file);
	test_faults_on_data(file);
	ksft_finished();
}
