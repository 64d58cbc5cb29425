// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether collapse gets past a read that never ends. Runs as the init of a guest, on a disk of the set paced that stops
 * to answer. Prints cases as in TAP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../guest/init.h"

#define PMD		(2UL << 20)
#define PATIENCE	60	/* seconds of the guest */
#define LATENCY		"/sys/module/" DISK "/parameters/latency_us"
#define NEVER		"3600000000" /* an hour: longer than the guest runs */

static int cases;

void die(const char *what)
{
	printf("test dead_disk: not ok %d %s: %s\n", ++cases, what, strerror(errno));
	fflush(stdout);
	reboot(RB_AUTOBOOT);
}

static void report(bool passed, const char *what)
{
	printf("test dead_disk: %sok %d %s\n", passed ? "" : "not ", ++cases, what);
	fflush(stdout);
}

/* Reads of the disk that have not ended. */
static int count_reads(void)
{
	FILE *inflight = fopen("/sys/block/" DISK "/inflight", "r");
	int reads;

	if (!inflight || fscanf(inflight, "%d", &reads) != 1)
		die("/sys/block/" DISK "/inflight");
	fclose(inflight);
	return reads;
}

/* Waits until more than @reads of the disk have not ended. */
static void wait_for_reads(int reads)
{
	for (int i = 0; i < PATIENCE; i++) {
		if (count_reads() > reads)
			return;
		sleep(1);
	}
	die("nobody reads");
}

/* Maps the file @fd, or memory if that is -1, where a huge page fits. */
static char *map(int fd)
{
	char *area = mmap(NULL, 2 * PMD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		die("mmap");
	area += -(unsigned long)area % PMD;
	area = mmap(area, PMD, fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ,
		    MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (area == MAP_FAILED)
		die("mmap");
	return area;
}

/* Maps a file of the disk, of which the first pages are read, and no more. */
static char *map_file(const char *name)
{
	unsigned char pages[PMD / 4096];
	char *area;
	int fd;

	put(LATENCY, "0");
	fd = open(name, O_RDONLY);
	if (fd < 0)
		die(name);
	area = map(fd);
	close(fd);
	*(volatile char *)area;
	if (mincore(area, PMD, pages) || pages[sizeof(pages) - 1] & 1)
		die("nothing of the file is left to read");
	return area;
}

/* Kilobytes of the memory of a process that are huge. */
static long read_huge(pid_t pid)
{
	char path[64], line[256];
	FILE *smaps;
	long kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	smaps = fopen(path, "r");
	if (!smaps)
		die(path);
	while (fgets(line, sizeof(line), smaps))
		sscanf(line, "AnonHugePages: %ld", &kib);
	fclose(smaps);
	return kib;
}

/* Whether khugepaged collapses what a new process has in small pages. */
static bool khugepaged_works(void)
{
	const pid_t pid = fork();
	bool works;

	if (!pid) {
		char *area = map(-1);

		memset(area, 1, PMD);
		madvise(area, PMD, MADV_HUGEPAGE);
		for (;;)
			pause();
	}
	for (int i = 0; i < PATIENCE && !read_huge(pid); i++)
		sleep(1);
	works = read_huge(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return works;
}

/* Whether a signal ends MADV_COLLAPSE of a file while it waits for the disk. */
static bool is_killable(const char *name)
{
	char *area = map_file(name);
	const int reads = count_reads();
	pid_t pid;
	int status;

	put(LATENCY, NEVER);
	pid = fork();
	if (!pid)
		_exit(madvise(area, PMD, MADV_COLLAPSE) ? 1 : 0);
	wait_for_reads(reads);
	kill(pid, SIGKILL);
	for (int i = 0; i < PATIENCE; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFSIGNALED(status);
		sleep(1);
	}
	return false;
}

/* Whether khugepaged works on after it came to a file of a disk that is dead. */
static bool khugepaged_passes(const char *name)
{
	char *area = map_file(name);
	const int reads = count_reads();

	put(LATENCY, NEVER);
	if (madvise(area, PMD, MADV_HUGEPAGE))
		die("MADV_HUGEPAGE");
	wait_for_reads(reads);
	return khugepaged_works();
}

int main(void)
{
	if (mount("proc", "/proc", "proc", 0, NULL) ||
	    mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL))
		die("mount");
	if (mount("/dev/" DISK, ROOT, "ext4", MS_RDONLY, "noload"))
		die("mount of the disk");
	put(THP "enabled", "madvise");
	put(THP "khugepaged/scan_sleep_millisecs", "10");
	report(khugepaged_works(), "khugepaged works");
	report(is_killable(ROOT "/first"), "a signal ends MADV_COLLAPSE on a dead disk");
	report(khugepaged_passes(ROOT "/second"), "khugepaged goes on beside a dead disk");
	printf("guest: done\n");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
}
