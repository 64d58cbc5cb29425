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
 * When a fault reads a leaf. The set order-lab makes the bounds parameters. THP
 * "never" reads what Linux reads today.
 */
struct policy {
	const char *name;
	const char *thp;
	unsigned int reads;	/* of today, for whose time a fault may wait for a leaf */
	unsigned int wait_us;	/* how much longer than for one of them */
};

static const struct policy policies[] = {
	{ "today", "never", 8, 16000 },
	{ "4 reads", "madvise", 4, 16000 },
	{ "8 reads", "madvise", 8, 16000 },
	{ "any time", "madvise", UINT_MAX, UINT_MAX },
};
static const struct policy *const today = &policies[0], *const series = &policies[2];

static void put_parameter(const char *name, unsigned int value)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "/sys/module/kernel/parameters/%s", name);
	snprintf(text, sizeof(text), "%u", value);
	put(path, text);
}

static void follow(const struct policy *policy)
{
	put(THP "enabled", policy->thp);
	put_parameter("exec_leaf_reads", policy->reads);
	put_parameter("exec_leaf_wait_us", policy->wait_us);
}

/* Runs /touch over a file with a cold page cache. @where is NULL for all memory. */
static void touch(const struct policy *policy, const char *part, const char *where,
		  unsigned long memory)
{
	static const char *const events[] = { "read", "device", "memory", "alloc" };
	unsigned long before[4], read;
	char text[64];
	pid_t pid;

	for (int i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "exec_leaf_%s ", events[i]);
		before[i] = number("/proc/vmstat", text, 0);
	}
	follow(policy);
	/* /touch drops what is cached of the file that it maps. */
	forget_export(TEXT);
	read = bytes_read();
	pid = fork();
	if (!pid) {
		limit_memory(memory);
		execl("/touch", "touch", ROOT TEXT, policy->name, part, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	printf("record {\"kind\":\"leaves\",\"name\":\"%s\",\"where\":\"%s\",\"part\":%s,\"bytes\":%lu",
	       policy->name, where ? where : "", part, bytes_read() - read);
	for (int i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "exec_leaf_%s ", events[i]);
		printf(",\"%s\":%lu", events[i], number("/proc/vmstat", text, 0) - before[i]);
	}
	printf("}\n");
	fflush(stdout);
}

/*
 * The kernel remembers of a disk whether leaves were late. Without bounds none is, so
 * that is forgotten. Then the kernel learns what it finds under @policy.
 */
static void learn(const struct policy *policy)
{
	const struct policy none = { "learning", "madvise", UINT_MAX, UINT_MAX };
	const struct policy other = { "learning", policy->thp, policy->reads, policy->wait_us };

	touch(&none, "1", NULL, 0);
	touch(&other, "1", NULL, 0);
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
	/* The kernel sums up what it counted of a group every two seconds, and for who reads it. */
	number("/cgroup/small/memory.stat", "inactive_file ", 0);
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
	const unsigned long bytes = (number("/proc/meminfo", "MemFree:", 0) - 32768) * 1024;
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
static void touch_in_pieces(const struct policy *policy)
{
	put(THP "enabled", "madvise");
	put("/proc/sys/vm/min_free_kbytes", "2048");
	hold(take_large_blocks);
	touch(policy, "1", "fragmented", 0);
}

static void touch_in_fragmented_memory(void)
{
	/* What is cached may lie in large folios, which would be free for the next read. */
	put("/proc/sys/vm/drop_caches", "3");
	put("/proc/sys/vm/compact_unevictable_allowed", "0");
	put("/proc/sys/vm/min_free_kbytes", "2048");
	hold(take_every_other_page);
	touch_in_pieces(today);
	touch_in_pieces(series);
}

static void touch_in_group(const char *where, unsigned long memory)
{
	touch(series, "1", where, memory);
	touch(today, "1", where, memory);
}

static void touch_in_groups(void)
{
	touch_in_group("cgroup of 32 MiB", 32 << 20);
	touch_in_group("cgroup of 256 MiB", 256 << 20);
	fill_group(256 << 20);
	touch_in_group("cgroup of 256 MiB, full", 256 << 20);
}

static void start_under(const struct policy *policy)
{
	learn(policy);
	printf("record {\"kind\":\"under\",\"name\":\"%s\"}\n", policy->name);
	start_each(policy->thp);
}

void touch_all(void)
{
	static const char *const parts[] = { "1", "4", "16" };
	const unsigned long count = sizeof(policies) / sizeof(*policies);

	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, ""))
		die("mount of cgroups");
	put("/cgroup/cgroup.subtree_control", "+memory");
	mkdir("/cgroup/small", 0755);
	mount_cold();
	for (int i = 0; i < 3; i++) {
		for (unsigned long j = 0; j < count; j++) {
			learn(&policies[j]);
			touch(&policies[j], parts[i], NULL, 0);
		}
	}
	for (unsigned long i = 0; i < count; i++)
		start_under(&policies[i]);
	touch_in_groups();
	touch_in_fragmented_memory();
}
