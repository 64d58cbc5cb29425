// SPDX-License-Identifier: GPL-2.0-only
/*
 * A part of init: what there is beside the programs that start. Each is a setting on the kernel's command line:
 *
 * guest.busy=N             N processes that only count
 * guest.pieces             memory of which every other page is taken, so that no block of 2 MiB is free
 * guest.memory_max=BYTES   programs start in a cgroup with this limit of memory
 * guest.full               ... which has read more of the disk than it may keep
 * guest.cpu_max=US         ... or with this part of each 100 ms of the processor
 * guest.io_max=BYTES       ... or with this limit of what it reads from the disk in a second
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

#define GROUP "/cgroup/small/"

/* Starts a process that takes memory and keeps it as long as the guest runs. */
static void hold(void (*take)(void))
{
	int ready[2];
	char byte;

	if (pipe(ready))
		die("pipe");
	if (!fork()) {
		take();
		if (write(ready[1], "", 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		die("fragmenting memory");
	close(ready[0]);
}

/* Takes every other page of nearly all memory. Compaction leaves locked pages where they are. */
static void take_every_other_page(void)
{
	const unsigned long page = sysconf(_SC_PAGESIZE);
	const unsigned long bytes = (number("/proc/meminfo", "MemFree:", 0) - 32768) * 1024;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE))
		_exit(1);
	for (unsigned long at = 0; at < bytes; at += page)
		memory[at] = 1;
	for (unsigned long at = 0; at < bytes; at += 2 * page)
		madvise(memory + at, page, MADV_DONTNEED);
	/* Only what is present, else the holes would be filled. */
	if (mlock2(memory, bytes, MLOCK_ONFAULT))
		_exit(1);
}

/*
 * Takes each free block of 2 MiB. Some become free again between two starts. Locks them, because reclaim splits huge
 * pages of which little was written.
 */
static void take_large_blocks(void)
{
	const unsigned long large = 2UL << 20, most = 64 * large;
	char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, most, MADV_HUGEPAGE) || mlock2(memory, most, MLOCK_ONFAULT))
		_exit(1);
	for (unsigned long at = 0; at < most; at += large)
		memory[at] = 1;
}

static void put_memory_in_pieces(void)
{
	put(THP "enabled", "madvise");
	/* It would work on what is taken below. */
	put(THP "khugepaged/scan_sleep_millisecs", "4000000000");
	put("/proc/sys/vm/compact_unevictable_allowed", "0");
	put("/proc/sys/vm/min_free_kbytes", "2048");
	hold(take_every_other_page);
}

void arrange_again(void)
{
	if (setting("pieces"))
		hold(take_large_blocks);
}

void enter_group(void)
{
	char pid[32];

	if (access(GROUP, F_OK))
		return;
	snprintf(pid, sizeof(pid), "%d", getpid());
	put(GROUP "cgroup.procs", pid);
}

/* Fills the group with page cache, as one that has run for long. */
static void fill_group(unsigned long memory)
{
	static char buffer[1 << 20];
	pid_t pid = fork();

	if (!pid) {
		int disk = open("/dev/" DISK, O_RDONLY);

		enter_group();
		for (unsigned long left = memory + memory / 4; left > sizeof(buffer); left -= sizeof(buffer)) {
			if (read(disk, buffer, sizeof(buffer)) != sizeof(buffer))
				_exit(1);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void limit_group(void)
{
	const char *memory = setting("memory_max"), *cpu = setting("cpu_max"), *io = setting("io_max");
	char line[128], device[32] = "";

	if (!memory && !cpu && !io)
		return;
	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, ""))
		die("mount of cgroups");
	put("/cgroup/cgroup.subtree_control", memory ? "+memory" : cpu ? "+cpu" : "+io");
	mkdir(GROUP, 0755);
	if (memory)
		put(GROUP "memory.max", memory);
	if (cpu) {
		snprintf(line, sizeof(line), "%s 100000", cpu);
		put(GROUP "cpu.max", line);
	}
	if (io) {
		FILE *file = fopen("/sys/block/" DISK "/dev", "r");

		if (!file || !fgets(device, sizeof(device), file))
			die("the number of the disk");
		fclose(file);
		device[strcspn(device, "\n")] = 0;
		snprintf(line, sizeof(line), "%s rbps=%s", device, io);
		put(GROUP "io.max", line);
	}
	if (memory && setting("full"))
		fill_group(strtoul(memory, NULL, 10));
}

void arrange(void)
{
	const char *busy = setting("busy");

	for (int i = busy ? atoi(busy) : 0; i; i--) {
		if (!fork()) {
			for (volatile unsigned long count = 0;; count++)
				;
		}
	}
	if (setting("pieces"))
		put_memory_in_pieces();
	limit_group();
}
