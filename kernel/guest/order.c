// SPDX-License-Identifier: GPL-2.0-only
/*
 * A part of init: which pages of files each program touches, in which order. Faults
 * map single pages, but for large folios that were read ahead, and none reads a leaf.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

#define TRACE "/sys/kernel/tracing/"
#define MAPS_MAX 256

struct map {
	unsigned long start, end, offset, inode;
	char perms[5];
};

/* The mappings of files that a process has. Returns how many. */
static int maps_of(pid_t pid, struct map *maps)
{
	char path[64], line[512];
	int n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	while (file && n < MAPS_MAX && fgets(line, sizeof(line), file)) {
		struct map *map = &maps[n];

		if (sscanf(line, "%lx-%lx %4s %lx %*s %lu", &map->start, &map->end,
			   map->perms, &map->offset, &map->inode) == 5 && map->inode)
			n++;
	}
	if (file)
		fclose(file);
	return n;
}

/* The address of the fault on a line of the trace, if @pid made it; 0 otherwise. */
static unsigned long fault_of(const char *line, pid_t pid)
{
	const char *at = strstr(line, "page_fault_user: address=");
	unsigned long address;
	char task[32];

	snprintf(task, sizeof(task), "-%d ", pid);
	if (!at || !strstr(line, task) ||
	    sscanf(at, "page_fault_user: address=%lx", &address) != 1)
		return 0;
	return address;
}

static void print_touches(const char *program, pid_t pid, const struct map *maps, int n)
{
	const unsigned long page = sysconf(_SC_PAGESIZE);
	FILE *trace = fopen(TRACE "trace", "r");
	bool executes = false;
	char line[512];

	if (!trace)
		die(TRACE "trace");
	while (fgets(line, sizeof(line), trace)) {
		const unsigned long address = executes ? fault_of(line, pid) : 0;

		executes = executes || strstr(line, "sched_process_exec: ");
		for (const struct map *map = maps; map < maps + n; map++) {
			if (address < map->start || address >= map->end)
				continue;
			printf("record {\"kind\":\"order\",\"program\":\"%s\",\"inode\":%lu,\"exec\":%d,\"page\":%lu,\"start\":%lu,\"end\":%lu,\"address\":%lu}\n",
			       program, map->inode, map->perms[2] == 'x',
			       (address - map->start + map->offset) / page,
			       map->offset / page,
			       (map->end - map->start + map->offset) / page,
			       address / page);
			break;
		}
	}
	fclose(trace);
	fflush(stdout);
}

/* To truncate it clears it. */
static void clear_trace(void)
{
	FILE *trace = fopen(TRACE "trace", "w");

	if (!trace)
		die(TRACE "trace");
	fclose(trace);
}

void trace_each(void)
{
	static struct map maps[MAPS_MAX];
	char line[1024];
	FILE *list = fopen("/programs", "r");
	const char *name;
	int status, n;
	pid_t pid;

	if (!list)
		die("/programs");
	if (mount("trace", "/sys/kernel/tracing", "tracefs", 0, ""))
		die("tracefs");
	snprintf(line, sizeof(line), "%ld", sysconf(_SC_PAGESIZE));
	put(FAULT_AROUND, line);
	put(THP "enabled", "madvise");
	put("/sys/module/kernel/parameters/exec_leaf_wait_us", "0");
	put(TRACE "buffer_size_kb", "16384");
	put(TRACE "events/exceptions/page_fault_user/enable", "1");
	put(TRACE "events/sched/sched_process_exec/enable", "1");
	while (fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		mount_cold();
		clear_trace();
		put(TRACE "tracing_on", "1");
		pid = run_to_end(line, &status);
		put(TRACE "tracing_on", "0");
		if (!pid)
			die(line);
		name = strrchr(line, '/') ? strrchr(line, '/') + 1 : line;
		n = maps_of(pid, maps);
		print_touches(name, pid, maps, n);
		ptrace(PTRACE_CONT, pid, 0, 0);
		waitpid(pid, &status, 0);
	}
	fclose(list);
}
