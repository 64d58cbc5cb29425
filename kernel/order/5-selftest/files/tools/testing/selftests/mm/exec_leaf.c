// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which faults on executable mappings read leaves. Maps a file of the current
 * folder with a cold page cache, and touches one page in each window of a leaf:
 * if a leaf was read, all of the window is in the page cache then. What other
 * processes read changes nothing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kselftest.h"
#include "text_leaf.h"
#include "vm_util.h"

#define LEAVES		4
#define FILE_NAME	"exec_leaf.tmp"

static size_t leaf, page;
static int file;
static char *cache;	/* a mapping of the file that nothing touches */

/* How often memory was the reason for no leaf. */
static long no_memory(void)
{
	return event("exec_leaf_memory") + event("exec_leaf_alloc");
}

/* The same, or the device: one fault may have waited long for other work of it. */
static long excuses(void)
{
	return no_memory() + event("exec_leaf_device");
}

struct text {
	const char *name;
	int prot;
	int advice;		/* 0: none */
	size_t offset;		/* of the mapping in the file, in pages */
	size_t shift;		/* of its address from a leaf, in pages */
	size_t pages;		/* 0: all */
	bool thp_off;		/* by prctl() */
	bool data_behind;	/* half is text; the data behind it is used first */
	bool header;		/* of ELF is in the page cache */
	bool leaves;		/* is expected */
};

static const struct text texts[] = {
	{ "whole leaves are read", .prot = PROT_EXEC, .leaves = true },
	{ "an offset congruent to the address", .prot = PROT_EXEC, .offset = 3,
	  .shift = 3, .leaves = true },
	{ "an address that no leaf fits", .prot = PROT_EXEC, .shift = 1 },
	{ "less than a leaf", .prot = PROT_EXEC, .pages = 16 },
	{ "data", .prot = PROT_READ },
	{ "MADV_NOHUGEPAGE", .prot = PROT_EXEC, .advice = MADV_NOHUGEPAGE },
	{ "MADV_RANDOM", .prot = PROT_EXEC, .advice = MADV_RANDOM },
	{ "PR_SET_THP_DISABLE", .prot = PROT_EXEC, .thp_off = true },
	{ "all leaves in front of data", .prot = PROT_EXEC, .data_behind = true,
	  .leaves = true },
};

/* Bytes that a fault reads if no leaf is read, or 0 if this is not known. */
static size_t readahead_bytes(void)
{
	char name[64], number[32] = "";
	struct stat status;
	FILE *setting;

	if (fstat(file, &status))
		return 0;
	snprintf(name, sizeof(name), "/sys/class/bdi/%u:%u/read_ahead_kb",
		 major(status.st_dev), minor(status.st_dev));
	setting = fopen(name, "r");
	if (!setting)
		return 0;
	if (!fgets(number, sizeof(number), setting))
		number[0] = 0;
	fclose(setting);
	return strtoul(number, NULL, 10) << 10;
}

static size_t size_of(const struct text *text)
{
	if (text->data_behind)
		return LEAVES / 2 * leaf;
	if (text->pages)
		return text->pages * page;
	return LEAVES * leaf - text->offset * page;
}

/* Map the rest of the file behind text that ends at @at, and use it. */
static void use_data(char *at, size_t offset)
{
	char *data = mmap(at, LEAVES * leaf - offset, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_FIXED, file, offset);

	if (data == MAP_FAILED)
		ksft_exit_fail_perror("mmap of data");
	FORCE_READ(*data);
}

/* Map @text with a cold page cache, in *@room, which the caller unmaps. */
static char *map_text(const struct text *text, char **room)
{
	const size_t size = size_of(text);
	char header[64], *at;

	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	if (text->header && pread(file, header, sizeof(header), 0) < 0)
		ksft_exit_fail_perror("pread");
	*room = mmap(NULL, (LEAVES + 2) * leaf, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*room == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	at = *room + -(unsigned long)*room % leaf + text->shift * page;
	at = mmap(at, size, text->prot | PROT_READ, MAP_PRIVATE | MAP_FIXED,
		  file, text->offset * page);
	if (at == MAP_FAILED)
		ksft_exit_fail_perror("mmap of the file");
	if (text->advice && madvise(at, size, text->advice))
		ksft_exit_fail_perror("madvise");
	return at;
}

/* Pages of the window at @offset of the file that are in the page cache. */
static size_t cached_pages(size_t offset)
{
	unsigned char cached[leaf / page];
	size_t pages = 0;

	if (mincore(cache + offset, leaf, cached))
		ksft_exit_fail_perror("mincore");
	for (size_t i = 0; i < sizeof(cached); i++)
		pages += cached[i] & 1;
	return pages;
}

static bool is_cached(size_t offset)
{
	return cached_pages(offset) == leaf / page;
}

/* Windows of the file that are read whole by one fault on @text each. */
static long leaves_of(const struct text *text)
{
	const size_t start = text->offset * page, end = start + size_of(text);
	char *room, *at = map_text(text, &room);
	long leaves = 0;

	if (text->thp_off && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		ksft_exit_fail_perror("prctl");
	if (text->data_behind)
		use_data(at + end, end);
	for (size_t window = 0; window < end; window += leaf) {
		const size_t middle = window + leaf / 2;

		FORCE_READ(at[(middle < end ? middle : end - page) - start]);
		leaves += is_cached(window);
	}
	if (text->thp_off)
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	munmap(room, (LEAVES + 2) * leaf);
	return leaves;
}

static void make_file(void)
{
	char *data = calloc(LEAVES, leaf);

	file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0700);
	if (!data || file < 0 ||
	    write(file, data, LEAVES * leaf) != (ssize_t)(LEAVES * leaf) ||
	    fsync(file))
		ksft_exit_skip("cannot write " FILE_NAME "\n");
	unlink(FILE_NAME);
	free(data);
	cache = mmap(NULL, LEAVES * leaf, PROT_NONE, MAP_SHARED, file, 0);
	if (cache == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
}

/*
 * Skip where the machine has no leaves. The first faults tell the kernel how fast
 * the device is.
 */
static void expect_leaves(void)
{
	const char *reason = text_without_leaves(file);
	const size_t readahead = readahead_bytes();
	long slow, memory;

	if (reason)
		ksft_exit_skip("%s\n", reason);
	if (is_on_dax(file))
		ksft_exit_skip("no faults read here\n");
	if (!readahead || readahead >= leaf)
		ksft_exit_skip("the readahead of the device is none, or a leaf\n");
	leaves_of(&texts[0]);
	slow = event("exec_leaf_device");
	memory = no_memory();
	if (leaves_of(&texts[0]))
		return;
	/* Each fault counts. One that counts may be that of another process. */
	if (event("exec_leaf_device") >= slow + LEAVES)
		ksft_exit_skip("the device is too slow for leaves\n");
	if (no_memory() >= memory + LEAVES)
		ksft_exit_skip("memory is short\n");
}

/* A test in which leaves are read fails, unless something excuses it since @before. */
static void report(const char *name, bool passed, bool leaves, long before)
{
	if (!passed && leaves && excuses() > before)
		ksft_test_result_skip("%s: memory is short, or the device slow\n",
				      name);
	else
		ksft_test_result(passed, "%s\n", name);
}

/*
 * MADV_HUGEPAGE reads two folios. A fault on the last page of the second must
 * not read small folios of the third.
 */
static void test_third_of_advised(void)
{
	static const struct text text = {
		"nothing of the third folio of advised text", .prot = PROT_EXEC,
		.advice = MADV_HUGEPAGE,
	};
	const long before = excuses();
	bool two, third;
	char *room, *at;

	if (leaf != read_pmd_pagesize()) {
		ksft_test_result_skip("%s: PMDs are larger\n", text.name);
		return;
	}
	at = map_text(&text, &room);
	FORCE_READ(at[0]);
	FORCE_READ(at[2 * leaf - page]);
	two = check_huge_file(at, LEAVES * leaf, 2, leaf);
	third = cached_pages(2 * leaf);
	munmap(room, (LEAVES + 2) * leaf);
	if (!two)
		ksft_test_result_skip("%s: no memory for the first two\n", text.name);
	/* No event counts this decision. Other faults on the text count theirs. */
	else if (third && !leaves_of(&texts[0]))
		ksft_test_result_skip("%s: no leaf is read now\n", text.name);
	else
		report(text.name, !third, true, before);
}

/*
 * A loader reads the ELF header, maps the whole image as text, and then data in
 * place of all but the first @size bytes and a gap behind them. The first window is
 * read by a leaf if these hold it.
 */
static void test_head(const char *name, size_t size, size_t gap, bool leaves)
{
	static const struct text text = { .prot = PROT_EXEC, .header = true };
	char *room, *at = map_text(&text, &room);
	const long before = excuses();

	if (gap && mprotect(at + size, gap, PROT_NONE))
		ksft_exit_fail_perror("mprotect");
	use_data(at + size + gap, size + gap);
	FORCE_READ(at[leaves ? leaf / 2 : 0]);
	report(name, is_cached(0) == leaves, leaves, before);
	munmap(room, (LEAVES + 2) * leaf);
}

int main(void)
{
	ksft_print_header();
	page = getpagesize();
	leaf = text_leaf();
	if (event("exec_leaf_read") < 0 || !leaf)
		ksft_exit_skip("the kernel reads no leaves\n");
	make_file();
	expect_leaves();

	ksft_set_plan(ARRAY_SIZE(texts) + 4);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const long before = excuses();
		const long leaves = leaves_of(&texts[i]);
		const long most = texts[i].data_behind ? LEAVES / 2 : 1;

		ksft_print_msg("%ld leaves\n", leaves);
		report(texts[i].name, texts[i].leaves ? leaves >= most : !leaves,
		       texts[i].leaves, before);
	}
	test_third_of_advised();
	test_head("the first window, behind the ELF header", 2 * leaf, 0, true);
	test_head("the first window, with a gap in front of data", leaf, leaf, true);
	test_head("no leaf where the text is shorter than the image", leaf / 2, 0, false);
	ksft_finished();
}
