// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which faults on executable mappings read large folios. Maps a file of the current
 * folder with a cold page cache, and touches one page in each range of a PMD, or of
 * 2M where that is less: if a large folio was read, all of the range is in the page
 * cache then.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kselftest.h"
#include "vm_util.h"

#define RANGES		4
#define FILE_NAME	"exec_large.tmp"

static size_t large, page;
static int file;
static char *cache;	/* a mapping of the file that nothing touches */

struct text {
	const char *name;
	int prot;
	int flags;
	int advice;		/* 0: none */
	size_t offset;		/* of the mapping in the file, in pages */
	size_t shift;		/* of its address from a multiple of the size, in pages */
	size_t pages;		/* 0: all */
	bool thp_off;		/* by prctl() */
	bool data_behind;	/* half is text; the data behind it is used first */
	bool head;		/* a folio at the begin of the last range is cached */
	bool store;		/* instead of reading */
	bool is_large;		/* is expected */
};

static const struct text texts[] = {
	{ "text", PROT_EXEC, MAP_PRIVATE, .is_large = true },
	{ "an offset congruent to the address", PROT_EXEC, MAP_PRIVATE,
	  .offset = 3, .shift = 3, .is_large = true },
	{ "an address that is not congruent", PROT_EXEC, MAP_PRIVATE, .shift = 1,
	  .is_large = true },
	{ "text in front of data that was used", PROT_EXEC, MAP_PRIVATE,
	  .data_behind = true, .is_large = true },
	{ "text behind a folio that is cached", PROT_EXEC, MAP_PRIVATE, .head = true,
	  .is_large = true },
	{ "less than a large folio", PROT_EXEC, MAP_PRIVATE, .pages = 16 },
	{ "data", PROT_READ, MAP_PRIVATE },
	{ "private text that may be written", PROT_EXEC | PROT_WRITE, MAP_PRIVATE },
	{ "MADV_NOHUGEPAGE", PROT_EXEC, MAP_PRIVATE, .advice = MADV_NOHUGEPAGE },
	{ "MADV_RANDOM", PROT_EXEC, MAP_PRIVATE, .advice = MADV_RANDOM },
	{ "PR_SET_THP_DISABLE", PROT_EXEC, MAP_PRIVATE, .thp_off = true },
	/* A store into a large folio would make all of it dirty. */
	{ "stores into a shared mapping", PROT_EXEC | PROT_WRITE, MAP_SHARED,
	  .store = true },
};

static size_t size_of(const struct text *text)
{
	if (text->data_behind)
		return RANGES / 2 * large;
	if (text->pages)
		return text->pages * page;
	return RANGES * large - text->offset * page;
}

/* Map the rest of the file behind text that ends at @at, and use it. */
static void use_data(char *at, size_t offset)
{
	char *data = mmap(at, RANGES * large - offset, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_FIXED, file, offset);

	if (data == MAP_FAILED)
		ksft_exit_fail_perror("mmap of data");
	FORCE_READ(*data);
}

/* Pages of the range at @offset that are cached, up to the first that is not. */
static size_t pages_cached(size_t offset)
{
	unsigned char cached[large / page];
	size_t pages = 0;

	if (mincore(cache + offset, large, cached))
		ksft_exit_fail_perror("mincore");
	while (pages < sizeof(cached) && (cached[pages] & 1))
		pages++;
	return pages;
}

/*
 * Of the file, only the folio at @offset stays in the page cache, which readahead has
 * made. Returns its pages.
 */
static size_t cache_folio(size_t offset)
{
	char *data = malloc(page);

	if (!data)
		ksft_exit_fail_perror("malloc");
	for (size_t at = 0; at < RANGES * large; at += page)
		if (pread(file, data, page, at) != (ssize_t)page)
			ksft_exit_fail_perror("read");
	free(data);
	if (posix_fadvise(file, 0, offset, POSIX_FADV_DONTNEED) ||
	    posix_fadvise(file, offset + page, 0, POSIX_FADV_DONTNEED))
		ksft_exit_fail_perror("dropping the page cache");
	return pages_cached(offset);
}

/* Ranges of the file that one fault on @text reads whole; -1 if that cannot be tried. */
static int large_folios_of(const struct text *text)
{
	const size_t start = text->offset * page, end = start + size_of(text);
	const size_t first = text->head ? (RANGES - 1) * large : 0;
	char *room, *at;
	int found = 0;

	if (fsync(file) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		ksft_exit_fail_perror("dropping the page cache");
	if (text->head && cache_folio(first) > large / page / 8)
		return -1;
	room = mmap(NULL, (RANGES + 2) * large, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	at = room + -(unsigned long)room % large + text->shift * page;
	at = mmap(at, size_of(text), text->prot | PROT_READ, text->flags | MAP_FIXED,
		  file, start);
	if (at == MAP_FAILED)
		ksft_exit_fail_perror("mmap of the file");
	if (text->advice && madvise(at, size_of(text), text->advice))
		ksft_exit_fail_perror("madvise");
	if (text->thp_off && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		ksft_exit_fail_perror("prctl");
	if (text->data_behind)
		use_data(at + end, end);
	for (size_t range = first; range < end; range += large) {
		const size_t middle = range + large / 2;
		char *touched = &at[(middle < end ? middle : end - page) - start];

		if (text->store)
			*touched = 1;
		else
			FORCE_READ(*touched);
		found += pages_cached(range) == large / page;
	}
	if (text->thp_off)
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	munmap(room, (RANGES + 2) * large);
	return found;
}

static void make_file(void)
{
	char *data = calloc(RANGES, large);

	file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0700);
	if (!data || file < 0 ||
	    write(file, data, RANGES * large) != (ssize_t)(RANGES * large))
		ksft_exit_skip("cannot write " FILE_NAME "\n");
	unlink(FILE_NAME);
	free(data);
	cache = mmap(NULL, RANGES * large, PROT_EXEC, MAP_SHARED, file, 0);
	if (cache == MAP_FAILED)
		ksft_exit_skip("cannot execute " FILE_NAME "\n");
}

/* Whether the file lies on an eMMC or SD card. */
static bool is_on_card(void)
{
	char link[64], device[PATH_MAX] = "";
	struct stat st;

	if (fstat(file, &st))
		ksft_exit_fail_perror("fstat");
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st.st_dev),
		 minor(st.st_dev));
	return readlink(link, device, sizeof(device) - 1) > 0 && strstr(device, "/mmcblk");
}

/*
 * Skip where the administrator, the filesystem, the device or memory allow no large
 * folio, and where as much is read without one.
 */
static void expect_large_folios(void)
{
	static const struct text advised = {
		.prot = PROT_READ, .flags = MAP_PRIVATE, .advice = MADV_HUGEPAGE,
	};
	static const struct text small = {
		.prot = PROT_READ, .flags = MAP_PRIVATE, .advice = MADV_NOHUGEPAGE,
	};
	char mode[64] = "";
	FILE *setting = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

	if (!setting || !fgets(mode, sizeof(mode), setting) || strstr(mode, "[never]"))
		ksft_exit_skip("THP is off\n");
	fclose(setting);
	if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0))
		ksft_exit_skip("THP is off for this process\n");
	if (is_on_card())
		ksft_exit_skip("text is not read by large folios from cards\n");
	if (large_folios_of(&small))
		ksft_exit_skip("readahead reads as much as a large folio\n");
	if (!large_folios_of(&advised))
		ksft_exit_skip("files have no folios of that size here\n");
	if (sysconf(_SC_AVPHYS_PAGES) / 64 < (long)(large / page))
		ksft_exit_skip("memory is short\n");
}

int main(void)
{
	ksft_print_header();
	page = getpagesize();
	large = read_pmd_pagesize();
	if (!large)
		ksft_exit_skip("no huge pages\n");
	if (large > 2UL << 20)
		large = 2UL << 20;
	make_file();
	expect_large_folios();

	ksft_set_plan(ARRAY_SIZE(texts));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const int found = large_folios_of(&texts[i]);

		if (found < 0) {
			ksft_test_result_skip("%s: it is too large\n", texts[i].name);
			continue;
		}
		ksft_print_msg("%d large folios\n", found);
		ksft_test_result(!found == !texts[i].is_large, "%s\n", texts[i].name);
	}
	ksft_finished();
}
