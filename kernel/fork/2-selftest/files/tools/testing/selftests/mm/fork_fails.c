// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fork that fails half-way leaves the files that it had mapped as they were:
 * none is mapped by the child, and each is as writable as before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"

static size_t page_size;

/* Whether memory of that many bytes may be mapped. */
static bool is_allowed(size_t size)
{
	void *place = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (place == MAP_FAILED)
		return false;
	munmap(place, size);
	return true;
}

/* A size of memory that may be mapped, while twice the size may not. */
static size_t allowed_once(void)
{
	size_t size = page_size;

	while (is_allowed(2 * size))
		size *= 2;
	return size;
}

/*
 * Two mappings of @file that are allowed become one that is not, because they are
 * neighbours. fork asks for the whole of it, and fails. Nothing is touched.
 */
static void map_what_fork_refuses(char *place, int file, off_t offset, size_t half)
{
	for (int i = 0; i < 2; i++) {
		if (mmap(place + i * half, half, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_FIXED, file,
			 offset + i * half) == MAP_FAILED)
			ksft_exit_fail_perror("mmap");
	}
}

/* Maps the first @count pages of @file, each by a mapping of its own. */
static void map_pages(char *place, int file, int count)
{
	for (int i = 0; i < count; i++) {
		const int prot = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE;

		if (mmap(place + i * page_size, page_size, prot,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, file,
			 i * page_size) == MAP_FAILED)
			ksft_exit_fail_perror("mmap");
	}
}

/* Whether fork fails. */
static bool fork_refuses(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return pid < 0 && errno == ENOMEM;
}

/* Whether a file can be mapped to be written. It cannot where fewer map it than none. */
static bool maps_writable(int file)
{
	void *page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (page == MAP_FAILED)
		return false;
	munmap(page, page_size);
	return true;
}

/* Whether nobody maps a file to write to it. */
static bool is_unmapped(int file)
{
	return fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0;
}

/*
 * Maps @count pages of each of @nr_files files, and more of the last of them, which
 * fork refuses, if it @fails. Of one file fork collects the mappings.
 */
static void test_fork(int count, int nr_files, bool fails)
{
	const size_t half = allowed_once();
	const size_t length = count * page_size;
	const size_t size = nr_files * length + 2 * half;
	char *place = mmap(NULL, size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int files[2];
	bool ok;

	if (place == MAP_FAILED)
		ksft_exit_skip("addresses end before memory does\n");
	for (int i = 0; i < nr_files; i++) {
		files[i] = memfd_create("fork_fails", MFD_ALLOW_SEALING);
		if (files[i] < 0 || ftruncate(files[i], length + 2 * half))
			ksft_exit_fail_perror("memfd_create");
		map_pages(place + i * length, files[i], count);
	}
	if (fails)
		map_what_fork_refuses(place + nr_files * length,
				      files[nr_files - 1], length, half);
	ok = fork_refuses() == fails;
	munmap(place, size);
	for (int i = 0; i < nr_files; i++) {
		ok = ok && maps_writable(files[i]) && is_unmapped(files[i]);
		close(files[i]);
	}
	ksft_test_result(ok, "fork %s after %d mappings of each of %d files\n",
			 fails ? "fails" : "returns", count, nr_files);
}

/* Only then is each mapping compared with the size of memory, and not their sum. */
static bool memory_is_guessed(void)
{
	FILE *setting = fopen("/proc/sys/vm/overcommit_memory", "r");
	const int mode = setting ? fgetc(setting) : EOF;

	if (setting)
		fclose(setting);
	return mode == '0';
}

static bool has_limit(int resource)
{
	struct rlimit limit;

	return getrlimit(resource, &limit) || limit.rlim_cur != RLIM_INFINITY;
}

int main(void)
{
	static const int counts[] = { 1, 7, 8, 9, 17 };

	ksft_print_header();
	page_size = sysconf(_SC_PAGESIZE);
	if (sizeof(long) == 4)
		ksft_exit_skip("addresses of 32 bits\n");
	if (has_limit(RLIMIT_AS) || has_limit(RLIMIT_DATA))
		ksft_exit_skip("memory is limited by RLIMIT_AS or RLIMIT_DATA\n");
	if (!memory_is_guessed())
		ksft_exit_skip("vm.overcommit_memory is not 0\n");
	ksft_set_plan(4 * ARRAY_SIZE(counts));
	for (int i = 0; i < ARRAY_SIZE(counts); i++) {
		for (int nr_files = 1; nr_files <= 2; nr_files++) {
			test_fork(counts[i], nr_files, false);
			test_fork(counts[i], nr_files, true);
		}
	}
	ksft_finished();
}
