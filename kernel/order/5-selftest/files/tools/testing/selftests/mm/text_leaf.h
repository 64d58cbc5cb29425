/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SELFTESTS_TEXT_LEAF_H
#define _SELFTESTS_TEXT_LEAF_H

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TEXT_LEAF_MAX	(2UL << 20)	/* of the kernel */
#define THP_FOLDER	"/sys/kernel/mm/transparent_hugepage/"

/* A counter of /proc/vmstat, or -1 if the kernel has none of this name. */
static inline long event(const char *name)
{
	char line[128];
	long value = -1;
	FILE *vmstat = fopen("/proc/vmstat", "r");

	while (vmstat && fgets(line, sizeof(line), vmstat)) {
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ' ')
			value = atol(line + strlen(name));
	}
	if (vmstat)
		fclose(vmstat);
	return value;
}

/* Bytes of a PMD, or 0. */
static inline unsigned long pmd_bytes(void)
{
	FILE *setting = fopen(THP_FOLDER "hpage_pmd_size", "r");
	unsigned long bytes = 0;

	if (!setting)
		return 0;
	if (fscanf(setting, "%lu", &bytes) != 1)
		bytes = 0;
	fclose(setting);
	return bytes;
}

/* Bytes of the largest leaf for text, or 0. */
static inline unsigned long text_leaf(void)
{
	const unsigned long bytes = pmd_bytes();

	if (bytes <= TEXT_LEAF_MAX)
		return bytes;
#ifdef __aarch64__
	/* With larger pages, contpte blocks are below the PMD. */
	return TEXT_LEAF_MAX;
#else
	return 0;
#endif
}

/* Maps a new file of the current folder, which has no blocks and no name. */
static inline char *map_empty_file(size_t size, int prot)
{
	int fd = open("text_leaf.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *at = MAP_FAILED;

	unlink("text_leaf.tmp");
	if (fd < 0)
		return MAP_FAILED;
	if (!ftruncate(fd, size))
		at = mmap(NULL, size, prot, MAP_PRIVATE, fd, 0);
	close(fd);
	return at;
}

/* Decisions about leaves that all faults on text were counted for. */
static inline long text_decisions(void)
{
	return event("exec_leaf_read") + event("exec_leaf_shape") +
	       event("exec_leaf_device") + event("exec_leaf_memory") +
	       event("exec_leaf_cached") + event("exec_leaf_alloc");
}

/*
 * Whether the kernel was configured to have leaves: with pages of 16K or 64K, arm64
 * has none without blocks of contiguous PTEs. Then nothing is decided. The file is one
 * page, because a longer one without blocks would look like a fast device.
 */
static inline bool kernel_has_leaves(void)
{
	const unsigned long page = getpagesize();
	char *at = map_empty_file(page, PROT_READ | PROT_EXEC);
	const long before = text_decisions();
	bool decided;

	if (at == MAP_FAILED)
		return false;
	decided = !madvise(at, page, MADV_POPULATE_READ) &&
		  text_decisions() != before;
	munmap(at, page);
	return decided;
}

/*
 * Whether files of the current folder have folios of a leaf: not on ext2, nor on
 * ext4 with encryption or data=journal. A fault reads one for MADV_HUGEPAGE, and a
 * single page with MADV_RANDOM otherwise.
 */
static inline bool folder_has_leaves(void)
{
	const unsigned long leaf = text_leaf(), pages = leaf / getpagesize();
	unsigned char *cached = calloc(pages, 1);
	char *at = map_empty_file(leaf, PROT_READ);
	unsigned long found = 0;

	if (cached && at != MAP_FAILED && !madvise(at, leaf, MADV_RANDOM) &&
	    !madvise(at, leaf, MADV_HUGEPAGE) &&
	    !madvise(at, getpagesize(), MADV_POPULATE_READ) &&
	    !mincore(at, leaf, cached)) {
		while (found < pages && (cached[found] & 1))
			found++;
	}
	if (at != MAP_FAILED)
		munmap(at, leaf);
	free(cached);
	return found == pages;
}

/* Whether the open file @fd is mapped from memory, without the page cache. */
static inline bool is_on_dax(int fd)
{
	struct statx status = {};

	return !statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) &&
	       (status.stx_attributes & STATX_ATTR_DAX);
}

/*
 * Why text of the open file @fd in the current folder has no leaves, as far as the
 * administrator, the parent and the filesystem decide that; NULL if it must have some.
 */
static inline const char *text_without_leaves(int fd)
{
	char mode[64] = "";
	struct statfs fs;
	FILE *setting = fopen(THP_FOLDER "enabled", "r");
	bool off;

	if (!setting)
		return "no huge pages";
	off = !fgets(mode, sizeof(mode), setting) || strstr(mode, "[never]");
	fclose(setting);
	if (off || prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0))
		return "THP is off";
	if (fstatfs(fd, &fs))
		return "the filesystem is not known";
	if (fs.f_flags & ST_NOEXEC)
		return "nothing is executed here";
	switch (fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
		if (is_on_dax(fd))
			return pmd_bytes() <= TEXT_LEAF_MAX ?
				NULL : "DAX has no leaves of that size";
		if (!folder_has_leaves())
			return "files have no folios of that size here";
		return kernel_has_leaves() ? NULL : "no leaf for text is configured";
	default:
		return "this filesystem may have no leaves";
	}
}

#endif /* _SELFTESTS_TEXT_LEAF_H */
