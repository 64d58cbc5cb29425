// SPDX-License-Identifier: GPL-2.0-only
/*
 * A part of init: what there is beside the programs that start. Each is a setting on the kernel's command line:
 *
 * guest.busy=N             N processes that only count
 * guest.memory_max=BYTES   programs start in a cgroup with this limit of memory
 * guest.full               ... which has read more of the disk than it may keep
 * guest.cpu_max=US         ... or with this part of each 100 ms of the processor
 * guest.io_max=BYTES       ... or with this limit of what it reads from the disk in a second
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

#define GROUP "/cgroup/small/"

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
	limit_group();
}
