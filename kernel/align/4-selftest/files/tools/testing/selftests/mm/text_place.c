// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which mappings the kernel places for leaves, and which keep all random bits of
 * their addresses. Maps each kind several times: their lengths are such that two
 * neighbours are not aligned both, unless the kernel aligns them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest.h"
#include "text_leaf.h"

#define TIMES		4
#define FILE_NAME	"text_place.tmp"
#define LAYERS		"text_place.layers"
#define ANONYMOUS	(MAP_PRIVATE | MAP_ANONYMOUS)

static size_t leaf, page;
static int file;	/* with room for two leaves */
static int overlaid;	/* the same on overlayfs, or -1 */

struct place {
	const char *name;
	int prot;
	int flags;
	size_t offset;		/* of the mapping in the file, in pages */
	size_t pages;		/* 0: a leaf and a half */
	size_t more;		/* bytes in addition */
	bool overlay;		/* the file is on overlayfs */
	bool thp_off;		/* by prctl() */
	bool not_dumpable;	/* the process, as after setuid */
	bool aligned;		/* is expected */
};

static const struct place places[] = {
	{ "text", PROT_READ | PROT_EXEC, MAP_PRIVATE, .aligned = true },
	{ "text from the middle of a file", PROT_READ | PROT_EXEC, MAP_PRIVATE,
	  .offset = 3, .more = TEXT_LEAF_MAX, .aligned = true },
	{ "a library as glibc maps it", PROT_READ, MAP_PRIVATE | MAP_DENYWRITE,
	  .more = TEXT_LEAF_MAX, .aligned = true },
	{ "text on overlayfs", PROT_READ | PROT_EXEC, MAP_PRIVATE,
	  .overlay = true, .aligned = true },
	{ "a library on overlayfs", PROT_READ, MAP_PRIVATE | MAP_DENYWRITE,
	  .overlay = true, .more = TEXT_LEAF_MAX, .aligned = true },
	{ "a library of headers and less than a leaf on overlayfs", PROT_READ,
	  MAP_PRIVATE | MAP_DENYWRITE, .overlay = true },
	{ "less text than a leaf", PROT_READ | PROT_EXEC, MAP_PRIVATE,
	  .pages = 17 },
	{ "a reservation", PROT_NONE, ANONYMOUS, .aligned = true },
	{ "a reservation without swap", PROT_NONE, ANONYMOUS | MAP_NORESERVE },
	{ "a stack", PROT_NONE, ANONYMOUS | MAP_STACK },
	{ "memory", PROT_READ | PROT_WRITE, ANONYMOUS },
	{ "a small reservation", PROT_NONE, ANONYMOUS, .pages = 17 },
#if __SIZEOF_SIZE_T__ > 4
	{ "a reservation that no image fills", PROT_NONE, ANONYMOUS,
	  .more = 4UL << 30 },
#endif
#ifdef MAP_32BIT
	{ "text at a low address", PROT_READ | PROT_EXEC,
	  MAP_PRIVATE | MAP_32BIT, .overlay = true },
#endif
	/* On overlayfs, because other filesystems align by themselves. */
	{ "text, PR_SET_THP_DISABLE", PROT_READ | PROT_EXEC, MAP_PRIVATE,
	  .overlay = true, .thp_off = true },
	{ "text, PR_SET_DUMPABLE", PROT_READ | PROT_EXEC, MAP_PRIVATE,
	  .overlay = true, .not_dumpable = true },
};

/* Whether loaders reserve room for images: linkers align these to 64K there. */
static bool loaders_reserve(void)
{
#ifdef __aarch64__
	return page < 65536;
#else
	return false;
#endif
}

static bool all_aligned(const struct place *place)
{
	const size_t size = (place->pages ? place->pages * page : leaf / 2 * 3) +
			    place->more;
	const size_t offset = place->offset * page;
	char *at[TIMES];
	bool all = true;

	for (int i = 0; i < TIMES; i++) {
		at[i] = mmap(NULL, size, place->prot, place->flags,
			     place->flags & MAP_ANONYMOUS ? -1 :
			     place->overlay ? overlaid : file, offset);
		if (at[i] == MAP_FAILED)
			ksft_exit_fail_perror("mmap");
		if (((unsigned long)at[i] - offset) % leaf)
			all = false;
	}
	for (int i = 0; i < TIMES; i++)
		munmap(at[i], size);
	return all;
}

static int make_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0700);

	if (fd < 0 || ftruncate(fd, 2 * leaf))
		ksft_exit_skip("cannot write %s\n", path);
	return fd;
}

/* The lower layer has a file, which is opened by way of the overlay. */
static int open_overlay(void)
{
	int fd = -1;

	if (mkdir(LAYERS, 0700) || mkdir(LAYERS "/lower", 0700) ||
	    mkdir(LAYERS "/upper", 0700) || mkdir(LAYERS "/work", 0700) ||
	    mkdir(LAYERS "/merged", 0700))
		return -1;
	close(make_file(LAYERS "/lower/" FILE_NAME));
	if (!unshare(CLONE_NEWNS) &&
	    !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	    !mount("overlay", LAYERS "/merged", "overlay", 0, "lowerdir=" LAYERS
		   "/lower,upperdir=" LAYERS "/upper,workdir=" LAYERS "/work,index=off"))
		fd = open(LAYERS "/merged/" FILE_NAME, O_RDONLY);
	umount2(LAYERS "/merged", MNT_DETACH);
	return fd;
}

static void remove_layers(void)
{
	unlink(LAYERS "/lower/" FILE_NAME);
	rmdir(LAYERS "/lower");
	rmdir(LAYERS "/upper");
	rmdir(LAYERS "/work/work");
	rmdir(LAYERS "/work");
	rmdir(LAYERS "/merged");
	rmdir(LAYERS);
}

int main(void)
{
	const char *reason;

	ksft_print_header();
	page = getpagesize();
	leaf = text_leaf();
	/* No address is aligned where they are short. */
	if (!leaf || sizeof(long) == 4)
		ksft_exit_skip("no huge pages\n");
	file = make_file(FILE_NAME);
	unlink(FILE_NAME);
	overlaid = open_overlay();
	remove_layers();
	reason = text_without_leaves(file);
	if (reason)
		ksft_exit_skip("%s\n", reason);
	if (addresses_are_short())
		ksft_exit_skip("addresses have few random bits\n");

	ksft_set_plan(ARRAY_SIZE(places));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const struct place *place = &places[i];
		const bool aligned = place->aligned &&
			(loaders_reserve() || !(place->flags & MAP_ANONYMOUS));

		if (place->overlay && overlaid < 0) {
			ksft_test_result_skip("%s: no mount\n", place->name);
			continue;
		}
		if (place->thp_off && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
			ksft_exit_fail_perror("prctl");
		if (place->not_dumpable && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
			ksft_exit_fail_perror("prctl");
		ksft_test_result(all_aligned(place) == aligned, "%s: %s\n",
				 place->name, aligned ? "aligned" : "random");
		if (place->thp_off)
			prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
		if (place->not_dumpable)
			prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	}
	ksft_finished();
}
