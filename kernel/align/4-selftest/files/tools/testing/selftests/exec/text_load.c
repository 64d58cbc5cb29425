// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether the kernel loads a PIE with much text so that leaves can map it: this
 * program executes itself, and looks at its load bias.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../mm/text_leaf.h"
#include "kselftest.h"

#define TIMES		16
#define DIRECTORY	"text_load.tmp"

/* Text that holds whole leaves. */
asm(".pushsection .text\n\t.skip 0x600000\n\t.popsection");

static unsigned long leaf;

/* The first image is that of the program. */
static int note_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
	*(unsigned long *)bias = info->dlpi_addr;
	return 1;
}

/* Whether the linker gave text an address at which leaves can map it. */
static int look_for_text(struct dl_phdr_info *info, size_t size, void *found)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const typeof(*info->dlpi_phdr) *phdr = &info->dlpi_phdr[i];

		if (phdr->p_type == PT_LOAD && (phdr->p_flags & PF_X) &&
		    (phdr->p_vaddr - phdr->p_offset) % leaf == 0)
			*(bool *)found = true;
	}
	return 1;
}

static bool has_congruent_text(void)
{
	bool found = false;

	dl_iterate_phdr(look_for_text, &found);
	return found;
}

static unsigned long load_bias(void)
{
	unsigned long bias = 1;

	dl_iterate_phdr(note_bias, &bias);
	return bias;
}

/* Whether all of some processes that execute @path have an aligned load bias. */
static bool loaded_aligned(const char *path)
{
	bool all = true;

	for (int i = 0; i < TIMES; i++) {
		const pid_t pid = fork();
		int status;

		if (pid == 0) {
			execl(path, path, "probe", NULL);
			_exit(2);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid ||
		    !WIFEXITED(status) || WEXITSTATUS(status) > 1)
			ksft_exit_fail_msg("%s does not run\n", path);
		all = all && WEXITSTATUS(status) == 0;
	}
	return all;
}

/*
 * Mounts an overlay of the folder of this program, in a namespace of its own.
 * Writes the program's path there to @path.
 */
static bool overlay(const char *self, char *path, size_t size)
{
	char options[2 * PATH_MAX], folder[PATH_MAX];
	const char *name = strrchr(self, '/');

	if (!name || mkdir(DIRECTORY, 0700) || mkdir(DIRECTORY "/upper", 0700) ||
	    mkdir(DIRECTORY "/work", 0700) || mkdir(DIRECTORY "/merged", 0700))
		return false;
	snprintf(folder, sizeof(folder), "%.*s", (int)(name - self) + 1, self);
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=" DIRECTORY
		 "/upper,workdir=" DIRECTORY "/work,index=off", folder);
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("overlay", DIRECTORY "/merged", "overlay", 0, options))
		return false;
	snprintf(path, size, DIRECTORY "/merged%s", name);
	return true;
}

static void remove_overlay(void)
{
	umount2(DIRECTORY "/merged", MNT_DETACH);
	rmdir(DIRECTORY "/merged");
	rmdir(DIRECTORY "/work/work");
	rmdir(DIRECTORY "/work");
	rmdir(DIRECTORY "/upper");
	rmdir(DIRECTORY);
}

static bool addresses_are_random(void)
{
	FILE *setting = fopen("/proc/sys/kernel/randomize_va_space", "r");
	const int level = setting ? fgetc(setting) : EOF;

	if (setting)
		fclose(setting);
	return level != '0' && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE);
}

int main(int argc, char **argv)
{
	char self[PATH_MAX] = "", path[PATH_MAX];
	const char *reason;
	int file;

	leaf = text_leaf();
	if (argc > 1)
		return load_bias() % leaf != 0;

	ksft_print_header();
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		ksft_exit_fail_perror("/proc/self/exe");
	file = open(self, O_RDONLY);
	if (!leaf || file < 0 || sizeof(long) == 4)
		ksft_exit_skip("no huge pages\n");
	if (!has_congruent_text())
		ksft_exit_skip("the linker placed text where no leaf fits\n");
	/* The filesystem of the program counts, not that of the current folder. */
	snprintf(path, sizeof(path), "%.*s", (int)(strrchr(self, '/') - self) + 1, self);
	if (chdir(path))
		ksft_exit_fail_perror("chdir to the program's folder");
	reason = text_without_leaves(file);
	if (reason)
		ksft_exit_skip("%s\n", reason);
	if (addresses_are_short())
		ksft_exit_skip("addresses have few random bits\n");
	close(file);

	ksft_set_plan(3);
	ksft_test_result(loaded_aligned(self), "text: aligned\n");
	if (overlay(self, path, sizeof(path)))
		ksft_test_result(loaded_aligned(path), "text on overlayfs: aligned\n");
	else
		ksft_test_result_skip("text on overlayfs: no mount\n");
	remove_overlay();
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		ksft_exit_fail_perror("prctl");
	if (addresses_are_random())
		ksft_test_result(!loaded_aligned(self),
				 "text, PR_SET_THP_DISABLE: random\n");
	else
		ksft_test_result_skip("text, PR_SET_THP_DISABLE: nothing is random\n");
	ksft_finished();
}
