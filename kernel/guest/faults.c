// SPDX-License-Identifier: GPL-2.0-only
/*
 * A part of init: how long faults on text wait on this disk, under several bounds,
 * in small memory cgroups, and with memory in pieces. /touch makes the faults.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

#define TEXT "/programs/stubs-16m"

/* What /touch may use: bytes of its memory cgroup, or 0 for no limit. */
static void limit_memory(unsigned long bytes)
{
	char text[32];

	if (!bytes)
		return;
	snprintf(text, sizeof(text), "%lu", bytes);
	put("/cgroup/small/memory.max", text);
	snprintf(text, sizeof(text), "%d", getpid());
	put("/cgroup/small/cgroup.procs", text);
}

/*
 * Runs /touch over a file with a cold page cache. @bound_us is how long a fault may
 * wait for the rest of a leaf, if the kernel has the set order-lab. 0 stands for what
 * Linux reads today, which is what THP "never" reads.
 */
static void touch(const char *name, const char *part, unsigned int bound_us, unsigned long memory)
{
	static const char *const events[] = { "read", "device", "memory", "alloc" };
	unsigned long before[4], read;
	char text[64];
	pid_t pid;

	for (int i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "exec_leaf_%s ", events[i]);
		before[i] = number("/proc/vmstat", text, 0);
	}
	put(THP "enabled", bound_us ? "madvise" : "never");
	snprintf(text, sizeof(text), "%u", bound_us);
	if (bound_us)
		put("/sys/module/kernel/parameters/exec_leaf_wait_us", text);
	/* /touch drops what is cached of the file that it maps. */
	forget_export(TEXT);
	read = bytes_read();
	pid = fork();
	if (!pid) {
		limit_memory(memory);
		execl("/touch", "touch", ROOT TEXT, name, part, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	printf("record {\"kind\":\"leaves\",\"name\":\"%s\",\"part\":%s,\"bytes\":%lu",
	       name, part, bytes_read() - read);
	for (int i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "exec_leaf_%s ", events[i]);
		printf(",\"%s\":%lu", events[i], number("/proc/vmstat", text, 0) - before[i]);
	}
	printf("}\n");
	fflush(stdout);
}

/* Fills a memory cgroup of @memory bytes with page cache, as in one that has run for long. */
static void fill_group(unsigned long memory)
{
	static char buffer[1 << 20];
	pid_t pid = fork();

	if (!pid) {
		int disk = open("/dev/" DISK, O_RDONLY);
		unsigned long left = memory + memory / 4;

		limit_memory(memory);
		for (; left; left -= sizeof(buffer)) {
			if (read(disk, buffer, sizeof(buffer)) != sizeof(buffer))
				_exit(1);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/*
 * Takes each free block of 2 MiB. Where none is left, it takes a page. Locks them,
 * because reclaim splits huge pages of which little was written.
 */
static void take_large_blocks(void)
{
	const unsigned long large = 2UL << 20, most = 64 * large;
	char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, most, MADV_HUGEPAGE) ||
	    mlock2(memory, most, MLOCK_ONFAULT))
		_exit(1);
	for (unsigned long at = 0; at < most; at += large)
		memory[at] = 1;
}

/* Takes every other page of nearly all memory. Compaction leaves locked pages where they are. */
static void take_every_other_page(void)
{
	const unsigned long page = sysconf(_SC_PAGESIZE);
	const unsigned long bytes = (number("/proc/meminfo", "MemFree:", 0) - 8192) * 1024;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

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

/* As touch(), where no block of 2 MiB is free. Some become free again between two calls. */
static void touch_in_pieces(const char *name, unsigned int bound_us)
{
	put(THP "enabled", "madvise");
	put("/proc/sys/vm/min_free_kbytes", "2048");
	hold(take_large_blocks);
	touch(name, "1", bound_us, 0);
}

static void touch_in_fragmented_memory(void)
{
	/* What is cached may lie in large folios, which would be free for the next read. */
	put("/proc/sys/vm/drop_caches", "3");
	put("/proc/sys/vm/compact_unevictable_allowed", "0");
	put("/proc/sys/vm/min_free_kbytes", "2048");
	hold(take_every_other_page);
	touch_in_pieces("fragmented, today", 0);
	touch_in_pieces("fragmented", 8000);
}

void touch_all(void)
{
	static const char *const parts[] = { "1", "4", "16" };

	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, ""))
		die("mount of cgroups");
	put("/cgroup/cgroup.subtree_control", "+memory");
	mkdir("/cgroup/small", 0755);
	mount_cold();
	for (int i = 0; i < 3; i++) {
		touch("today", parts[i], 0, 0);
		touch("2 ms", parts[i], 2000, 0);
		touch("8 ms", parts[i], 8000, 0);
		touch("no bound", parts[i], UINT_MAX, 0);
	}
	start_each("never");
	put("/sys/module/kernel/parameters/exec_leaf_wait_us", "8000");
	start_each("madvise");
	touch("cgroup of 32 MiB", "1", 8000, 32 << 20);
	touch("cgroup of 256 MiB", "1", 8000, 256 << 20);
	fill_group(256 << 20);
	touch("cgroup of 256 MiB, full", "1", 8000, 256 << 20);
	touch_in_fragmented_memory();
}
