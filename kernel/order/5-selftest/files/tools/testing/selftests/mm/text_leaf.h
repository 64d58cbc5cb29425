/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _SELFTESTS_TEXT_LEAF_H
#define _SELFTESTS_TEXT_LEAF_H

#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#define TEXT_LEAF_MAX	(2UL << 20)	/* of the kernel */
#define THP_FOLDER	"/sys/kernel/mm/transparent_hugepage/"

/* Bytes of the largest leaf for text, or 0. */
static inline unsigned long text_leaf(void)
{
	FILE *setting = fopen(THP_FOLDER "hpage_pmd_size", "r");
	unsigned long bytes = 0;

	if (!setting)
		return 0;
	if (fscanf(setting, "%lu", &bytes) != 1)
		bytes = 0;
	fclose(setting);
	if (bytes <= TEXT_LEAF_MAX)
		return bytes;
#ifdef __aarch64__
	/* With larger pages, contpte blocks are below the PMD. */
	return TEXT_LEAF_MAX;
#else
	return 0;
#endif
}

/*
 * Why text of the open file @fd has no leaves, as far as the administrator and the
 * filesystem decide that; NULL if it must have some.
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
	if (off)
		return "THP is off";
	if (fstatfs(fd, &fs))
		return "the filesystem is not known";
	switch (fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
		return NULL;
	default:
		return "this filesystem may have no leaves";
	}
}

#endif /* _SELFTESTS_TEXT_LEAF_H */
