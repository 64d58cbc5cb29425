// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nothing is mapped in the holes between the segments of an image, not even while
 * it is loaded: a program whose last segment is far away starts under an
 * RLIMIT_AS that its segments fit into.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"

#define COPY	"load_hole.tmp"
#define LIMIT	0x10000000UL	/* bytes */
#define FAR	0x40000000UL	/* virtual address of the last segment */

/* Whether nothing is mapped at @place. */
static bool is_free(unsigned long place)
{
	return mmap((void *)place, sysconf(_SC_PAGESIZE), PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		    0) == (void *)place;
}

/* Called for the program, which is the first image. 1: as it should be; 2: not so. */
static int probe(struct dl_phdr_info *info, size_t size, void *unused)
{
	return is_free(info->dlpi_addr + FAR / 2) &&
	       !is_free(info->dlpi_addr + FAR) ? 1 : 2;
}

/*
 * In the copy of the program in @image, makes a segment of zeros of a note that
 * comes behind the segments. 1: done; 2: there is no such note.
 */
static int add_segment(struct dl_phdr_info *info, size_t size, void *image)
{
	const size_t length = sysconf(_SC_PAGESIZE);
	const typeof(*info->dlpi_phdr) zeros = {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_W,
		.p_vaddr = FAR, .p_memsz = length, .p_align = length,
	};
	bool behind = false;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const unsigned long phdr = (unsigned long)&info->dlpi_phdr[i];

		behind |= info->dlpi_phdr[i].p_type == PT_LOAD;
		if (!behind || info->dlpi_phdr[i].p_type != PT_NOTE)
			continue;
		memcpy(image + (phdr - info->dlpi_addr), &zeros, sizeof(zeros));
		return 1;
	}
	return 2;
}

static bool make_copy(void)
{
	const int from = open("/proc/self/exe", O_RDONLY);
	const int to = open(COPY, O_RDWR | O_CREAT | O_TRUNC, 0700);
	struct stat status;
	bool added;
	char *image;

	if (to < 0)
		ksft_exit_skip("cannot write " COPY "\n");
	if (from < 0 || fstat(from, &status))
		ksft_exit_fail_perror("/proc/self/exe");
	image = malloc(status.st_size);
	if (!image || read(from, image, status.st_size) != status.st_size)
		ksft_exit_fail_perror("/proc/self/exe");
	added = dl_iterate_phdr(add_segment, image) == 1;
	if (write(to, image, status.st_size) != status.st_size)
		ksft_exit_fail_perror(COPY);
	free(image);
	close(to);
	close(from);
	return added;
}

/* Whether the copy of the program starts, with LIMIT if it @is_limited. */
static bool runs(bool is_limited)
{
	const struct rlimit limit = { LIMIT, LIMIT };
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (is_limited && setrlimit(RLIMIT_AS, &limit))
			_exit(2);
		execl(COPY, COPY, "probe", NULL);
		_exit(3);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
	char self[PATH_MAX] = "";

	if (argc > 1)
		return dl_iterate_phdr(probe, NULL) != 1;

	ksft_print_header();
	if (sizeof(long) == 4)
		ksft_exit_skip("addresses of 32 bits\n");
	/* The filesystem of the program can hold programs. */
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
	    chdir(dirname(self)))
		ksft_exit_fail_perror("chdir to the program's folder");
	if (!make_copy()) {
		unlink(COPY);
		ksft_exit_skip("the linker wrote no note behind the segments\n");
	}
	ksft_set_plan(2);
	ksft_test_result(runs(false), "an image with a hole: the hole is free\n");
	ksft_test_result(runs(true), "an image with a hole: RLIMIT_AS covers segments\n");
	unlink(COPY);
	ksft_finished();
}
