// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps a file of the current folder as loaders do, so that the first window of its
 * text is read by a leaf, while another process takes pages of that window out of
 * the page cache: it writes to them directly. Both must go on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"
#include "text_leaf.h"

#define SECONDS		10
#define FILE_NAME	"exec_leaf_race.tmp"

static size_t leaf, page;

/* The descriptor for reading of a file of two leaves; *direct is one for writing. */
static int make_file(int *direct)
{
	int file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0700);
	char *data = calloc(2, leaf);

	if (!data || file < 0 ||
	    write(file, data, 2 * leaf) != (ssize_t)(2 * leaf) || fsync(file))
		ksft_exit_skip("cannot write " FILE_NAME "\n");
	free(data);
	*direct = open(FILE_NAME, O_WRONLY | O_DIRECT);
	unlink(FILE_NAME);
	if (*direct < 0)
		ksft_exit_skip("files cannot be written directly here\n");
	return file;
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

int main(void)
{
	const long before = event("exec_leaf_read");
	const time_t end = time(NULL) + SECONDS;
	unsigned long loads = 0;
	long leaves;
	const char *reason;
	int file, direct, status;
	pid_t writer;
	char *at;

	ksft_print_header();
	ksft_set_plan(1);
	page = getpagesize();
	leaf = text_leaf();
	if (before < 0 || !leaf)
		ksft_exit_skip("the kernel reads no leaves\n");
	file = make_file(&direct);
	reason = text_without_leaves(file);
	if (reason)
		ksft_exit_skip("%s\n", reason);
	at = mmap(NULL, 3 * leaf, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	at += -(unsigned long)at % leaf;
	writer = start_writer(direct);
	for (; time(NULL) < end; loads++)
		load(file, at);
	kill(writer, SIGKILL);
	if (waitpid(writer, &status, 0) != writer || WIFEXITED(status))
		ksft_exit_skip("files cannot be written directly here\n");
	leaves = event("exec_leaf_read") - before;
	ksft_print_msg("%lu times, %ld leaves\n", loads, leaves);
	if (!leaves)
		ksft_exit_skip("no leaf was read: see exec_leaf\n");
	ksft_test_result_pass("mapping text and writing to it go on\n");
	ksft_finished();
}
