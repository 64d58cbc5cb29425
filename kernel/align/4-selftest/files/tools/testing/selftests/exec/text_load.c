// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether text is placed where large folios can be mapped by one entry: this PIE
 * executes itself and looks at its load bias, and maps its file by way of overlayfs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"

#define TIMES		16
#define DIRECTORY	"text_load.tmp"
#define SECURE		"text_load.secure"
#define THP		"/sys/kernel/mm/transparent_hugepage/"

static unsigned long large = 2UL << 20;	/* or the size of a PMD where that is less */

/* Text that holds whole ranges of 2M. */
asm(".pushsection .text\n\t.skip 0x600000\n\t.popsection");

/* The first image is that of the program. */
static int note_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
	*(unsigned long *)bias = info->dlpi_addr;
	return 1;
}

/* Whether the linker gave text an address that is congruent to its offset. */
static int look_for_text(struct dl_phdr_info *info, size_t size, void *found)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const typeof(*info->dlpi_phdr) *phdr = &info->dlpi_phdr[i];

		if (phdr->p_type == PT_LOAD && (phdr->p_flags & PF_X) &&
		    (phdr->p_vaddr - phdr->p_offset) % large == 0)
			*(bool *)found = true;
	}
	return 1;
}

/* What a process that executes @path says about @question. */
static bool answers(const char *path, const char *question)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl(path, path, question, NULL);
		_exit(2);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    !WIFEXITED(status) || WEXITSTATUS(status) > 1)
		ksft_exit_fail_msg("%s does not run\n", path);
	return WEXITSTATUS(status) == 0;
}

/* Whether all of some processes that execute @path have an aligned load bias. */
static bool loaded_aligned(const char *path)
{
	bool all = true;

	for (int i = 0; i < TIMES; i++)
		all = answers(path, "aligned") && all;
	return all;
}

/* Copies this program to SECURE, which runs with the rights of another user. */
static bool make_secure(const char *self)
{
	const int from = open(self, O_RDONLY);
	const int to = open(SECURE, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	bool made = from >= 0 && to >= 0;

	while (made) {
		const ssize_t sent = sendfile(to, from, NULL, 1 << 20);

		if (sent == 0)
			break;
		made = sent > 0;
	}
	/* Only then it can be executed. */
	close(to);
	close(from);
	return made && !chown(SECURE, geteuid() + 1, -1) && !chmod(SECURE, 04755) &&
	       answers("./" SECURE, "secure");
}

/* The same for mappings of a file, as a loader maps a library. */
static bool mapped_aligned(const char *path)
{
	/* Neighbours of this size are not aligned both by chance. */
	const size_t size = large / 2 * 5;
	const int fd = open(path, O_RDONLY);
	char *at[TIMES];
	bool all = true;

	for (int i = 0; i < TIMES; i++) {
		at[i] = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (at[i] == MAP_FAILED)
			ksft_exit_fail_perror("mmap");
		all = all && (unsigned long)at[i] % large == 0;
	}
	for (int i = 0; i < TIMES; i++)
		munmap(at[i], size);
	close(fd);
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

static bool file_has(const char *path, const char *word)
{
	char line[64] = "";
	FILE *file = fopen(path, "r");

	if (file && !fgets(line, sizeof(line), file))
		line[0] = 0;
	if (file)
		fclose(file);
	return strstr(line, word);
}

static void read_large(void)
{
	FILE *file = fopen(THP "hpage_pmd_size", "r");
	unsigned long pmd;

	if (file && fscanf(file, "%lu", &pmd) == 1 && pmd < large)
		large = pmd;
	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	char self[PATH_MAX] = "", path[PATH_MAX];
	unsigned long bias = 1;
	bool congruent = false, random;

	read_large();
	dl_iterate_phdr(note_bias, &bias);
	if (argc > 1 && !strcmp(argv[1], "secure"))
		return !getauxval(AT_SECURE);
	if (argc > 1)
		return bias % large != 0;

	ksft_print_header();
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		ksft_exit_fail_perror("/proc/self/exe");
	if (sizeof(long) == 4 || file_has(THP "enabled", "[never]") ||
	    !file_has(THP "enabled", "[") || prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0))
		ksft_exit_skip("THP is off\n");
	dl_iterate_phdr(look_for_text, &congruent);
	if (!congruent)
		ksft_exit_skip("the linker placed text where no large folio fits\n");

	random = !file_has("/proc/sys/kernel/randomize_va_space", "0") &&
		 !(personality(0xffffffff) & ADDR_NO_RANDOMIZE);
	ksft_set_plan(5);
	ksft_test_result(loaded_aligned(self), "a program: aligned\n");
	if (overlay(self, path, sizeof(path))) {
		ksft_test_result(loaded_aligned(path), "a program on overlayfs: aligned\n");
		ksft_test_result(mapped_aligned(path), "a library on overlayfs: aligned\n");
	} else {
		ksft_test_result_skip("a program on overlayfs: no mount\n");
		ksft_test_result_skip("a library on overlayfs: no mount\n");
	}
	remove_overlay();
	if (!random || !make_secure(self))
		ksft_test_result_skip("more rights than the caller: not possible here\n");
	else
		ksft_test_result(!loaded_aligned("./" SECURE),
				 "more rights than the caller: random\n");
	unlink(SECURE);
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		ksft_exit_fail_perror("prctl");
	if (!random)
		ksft_test_result_skip("PR_SET_THP_DISABLE: nothing is random\n");
	else
		ksft_test_result(!loaded_aligned(self), "PR_SET_THP_DISABLE: random\n");
	ksft_finished();
}
