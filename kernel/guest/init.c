// SPDX-License-Identifier: GPL-2.0-only
/*
 * Init of a guest. Starts each command of /programs, one a line, from the disk of the set paced with a cold page
 * cache, under each THP mode. Then starts all commands of /many, one after the other, and holds their processes.
 * Prints as JSON what was mapped when a program ended, and what that cost. Settings on the kernel's command line,
 * beside those of beside.c:
 *
 * guest.fs=NAME            the filesystem of the disk (ext4)
 * guest.overlay            programs are in a lower layer of overlayfs, as those of containers are
 * guest.readahead=KIB      of the disk (128)
 * guest.thp=MODE,MODE      starts each program under these modes, and nothing else
 * guest.together           starts all programs at the same time, too, under each of these modes
 * guest.settle=SECONDS     lets each program wait for so long before it ends, so that khugepaged sees it
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "init.h"

/* The layers of overlayfs. */
#define LOWER "/lower"
#define EMPTY "/empty"

#define MANY_MAX 64
/*
 * The address that a mapping gets at random costs a small program some percent,
 * because it decides how many page tables there are. So it starts this often.
 */
#define SMALL_STARTS 15
#define SMALL_TEXT (8UL << 20)

/* What a process has of its text, in bytes. */
struct text {
	unsigned long size;	/* executable mappings of files */
	unsigned long present;	/* mapped now */
	unsigned long pmd;	/* by PMDs */
	unsigned long cont;	/* in blocks that contiguous PTEs or a PMD could map */
};

/* Bytes of the block that a TLB entry between page and PMD maps, else of the PMD. */
static unsigned long block;

void die(const char *what)
{
	printf("guest: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

/* Number @field of the line of @path that begins with @key; 0 if there is none. */
unsigned long number(const char *path, const char *key, int field)
{
	char line[512], *rest;
	unsigned long value = 0;
	FILE *file = fopen(path, "r");

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)))
			continue;
		rest = line + strlen(key);
		for (int i = 0; i <= field; i++)
			value = strtoul(rest, &rest, 10);
		break;
	}
	if (file)
		fclose(file);
	return value;
}

/* Folios of a block's size that were split, by compaction for example. */
static unsigned long splits(void)
{
	char path[128];

	snprintf(path, sizeof(path), THP "hugepages-%lukB/stats/split", block >> 10);
	return number(path, "", 0);
}

const char *setting(const char *name)
{
	char key[64], line[1024] = " ";
	FILE *file = fopen("/proc/cmdline", "r");
	char *at;

	if (!file || !fgets(line + 1, sizeof(line) - 1, file))
		die("/proc/cmdline");
	fclose(file);
	snprintf(key, sizeof(key), " guest.%s", name);
	at = strstr(line, key);
	if (!at || !strchr("= \n", at[strlen(key)]))
		return NULL;
	at += strlen(key);
	at += *at == '=';
	at[strcspn(at, " \n")] = 0;
	return strdup(at);
}

static unsigned long bytes_read(void)
{
	return number("/sys/block/" DISK "/stat", "", 2) * 512;
}

/*
 * Bytes of [start, end) that lie in aligned blocks of which every page is
 * present, in contiguous frames that are aligned alike, as contpte requires.
 */
static unsigned long in_blocks(int pagemap, unsigned long start, unsigned long end)
{
	const unsigned long page = sysconf(_SC_PAGESIZE), n = block / page;
	const uint64_t frame = (1UL << 55) - 1;
	unsigned long bytes = 0;
	uint64_t *entries = malloc(n * sizeof(*entries));

	for (unsigned long at = (start + block - 1) & -block; at + block <= end; at += block) {
		unsigned long i = 0;

		if (pread(pagemap, entries, n * 8, at / page * 8) != (ssize_t)(n * 8))
			break;
		while (i < n && (entries[i] >> 63) &&
		       (entries[i] & frame) == (entries[0] & frame) + i)
			i++;
		if (i == n && (entries[0] & frame) % n == 0)
			bytes += block;
	}
	free(entries);
	return bytes;
}

static void add_text_of(struct text *text, pid_t pid)
{
	char path[64], line[512];
	bool exec = false;
	int pagemap;
	FILE *smaps;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY);
	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	smaps = fopen(path, "r");
	if (!smaps || pagemap < 0)
		die(path);
	while (fgets(line, sizeof(line), smaps)) {
		unsigned long start, end, kb;
		char perms[5], file[256] = "";

		if (sscanf(line, "%lx-%lx %4s %*x %*s %*u %255s", &start, &end, perms, file) >= 3) {
			exec = perms[2] == 'x' && file[0] == '/';
			if (exec) {
				text->size += end - start;
				text->cont += in_blocks(pagemap, start, end);
			}
		} else if (exec && sscanf(line, "Rss: %lu kB", &kb) == 1) {
			text->present += kb << 10;
		} else if (exec && sscanf(line, "FilePmdMapped: %lu kB", &kb) == 1) {
			text->pmd += kb << 10;
		}
	}
	fclose(smaps);
	close(pagemap);
}

/* Waits until the last thread of a program is gone. Nothing mounted is no error. */
static void unmount(const char *path)
{
	for (int i = 0; umount(path); i++) {
		if (errno == EINVAL || errno == ENOENT)
			return;
		if (errno != EBUSY || i == 100)
			die(path);
		usleep(10000);
	}
}

/* Overlayfs without a layer to write to takes two layers. */
static void mount_overlay(const char *fs)
{
	mkdir(LOWER, 0755);
	mkdir(EMPTY, 0755);
	if (mount("/dev/" DISK, LOWER, fs, MS_RDONLY, "") ||
	    mount("overlay", ROOT, "overlay", MS_RDONLY, "lowerdir=" LOWER ":" EMPTY))
		die("mount of the overlay");
}

/* Mounts the disk anew: a new mount has nothing in the page cache, not even of directories. */
static void mount_cold(void)
{
	const char *fs = setting("fs") ?: "ext4";

	unmount(ROOT "/tmp");
	unmount(ROOT "/dev");
	unmount(ROOT);
	unmount(LOWER);
	put("/proc/sys/vm/drop_caches", "3");
	if (setting("overlay"))
		mount_overlay(fs);
	else if (mount("/dev/" DISK, ROOT, fs, MS_RDONLY, ""))
		die("mount of the disk");
	if (mount("tmp", ROOT "/tmp", "tmpfs", 0, "") ||
	    mount("dev", ROOT "/dev", "devtmpfs", 0, ""))
		die("mount of what programs write to");
}

/*
 * Runs a command until it is about to end, by itself or by a signal. It waits
 * there with all its mappings. Returns 0 if it did not get that far.
 */
static pid_t run_to_end(char *command, int *status)
{
	char *argv[32] = {}, *rest = command;
	pid_t pid;

	for (int n = 0; n < 31 && rest; n++)
		argv[n] = strsep(&rest, " ");
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		enter_group();
		if (chroot(ROOT) || chdir("/"))
			_exit(126);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		ptrace(PTRACE_TRACEME);
		execv(argv[0], argv);
		_exit(127);
	}
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT);
	while (waitpid(pid, status, 0) == pid && WIFSTOPPED(*status)) {
		const int sig = WSTOPSIG(*status);

		if (*status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
			return pid;
		ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL);
		ptrace(PTRACE_CONT, pid, 0, sig == SIGTRAP ? 0 : sig);
	}
	return 0;
}

static void print_text(const struct text *text)
{
	printf("\"text\":%lu,\"present\":%lu,\"pmd\":%lu,\"cont\":%lu,",
	       text->size, text->present, text->pmd, text->cont);
}

/*
 * @kind is "start" for a cold page cache, "again" for the cache that the start left.
 * Returns the bytes of executable mappings.
 */
static unsigned long start(const char *kind, const char *thp, const char *line)
{
	char *command = strdup(line);
	const char *name;
	struct text text = {};
	struct rusage usage = {};
	const char *settle = strcmp(kind, "start") ? NULL : setting("settle");
	unsigned long before, cached, split;
	long elapsed;
	int status = 0;
	pid_t pid;

	if (!strcmp(kind, "start"))
		mount_cold();
	before = bytes_read();
	cached = number("/proc/meminfo", "Cached:", 0);
	split = splits();
	elapsed = now();
	pid = run_to_end(command, &status);
	elapsed = now() - elapsed;
	if (pid && settle)
		sleep(atoi(settle));
	name = strrchr(command, '/') ? strrchr(command, '/') + 1 : command;
	if (pid) {
		add_text_of(&text, pid);
		ptrace(PTRACE_CONT, pid, 0, 0);
		wait4(pid, &status, 0, &usage);
	}
	printf("record {\"kind\":\"%s\",\"thp\":\"%s\",\"program\":\"%s\",\"status\":%d,",
	       kind, thp, name, status);
	print_text(&text);
	printf("\"minor\":%ld,\"major\":%ld,\"split\":%lu,\"read\":%lu,\"cached\":%ld,\"elapsed_us\":%ld,\"cpu_us\":%ld}\n",
	       usage.ru_minflt, usage.ru_majflt, splits() - split, bytes_read() - before,
	       (long)(number("/proc/meminfo", "Cached:", 0) - cached) * 1024, elapsed,
	       (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L +
	       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	fflush(stdout);
	free(command);
	return text.size;
}

static void many(const char *thp, FILE *list)
{
	const unsigned long pages = sysconf(_SC_PAGESIZE);
	struct text text = {};
	pid_t pids[MANY_MAX];
	char line[1024];
	unsigned long before, major, minor, anon, cached, refaults;
	int status, n = 0, failed = 0;

	mount_cold();
	before = bytes_read();
	anon = number("/proc/meminfo", "AnonPages:", 0);
	cached = number("/proc/meminfo", "Cached:", 0);
	major = number("/proc/vmstat", "pgmajfault ", 0);
	minor = number("/proc/vmstat", "pgfault ", 0);
	refaults = number("/proc/vmstat", "workingset_refault_file ", 0);
	rewind(list);
	while (n < MANY_MAX && fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		pids[n] = run_to_end(line, &status);
		if (pids[n])
			n++;
		else
			failed++;
	}
	anon = number("/proc/meminfo", "AnonPages:", 0) - anon;
	cached = number("/proc/meminfo", "Cached:", 0) - cached;
	major = number("/proc/vmstat", "pgmajfault ", 0) - major;
	minor = number("/proc/vmstat", "pgfault ", 0) - minor;
	refaults = number("/proc/vmstat", "workingset_refault_file ", 0) - refaults;
	before = bytes_read() - before;
	for (int i = 0; i < n; i++)
		add_text_of(&text, pids[i]);
	printf("record {\"kind\":\"many\",\"thp\":\"%s\",\"programs\":%d,\"failed\":%d,",
	       thp, n, failed);
	print_text(&text);
	printf("\"anon\":%ld,\"cached\":%ld,\"minor\":%lu,\"major\":%lu,\"refaults\":%lu,\"read\":%lu}\n",
	       (long)anon * 1024, (long)cached * 1024, minor, major, refaults * pages, before);
	fflush(stdout);
	while (n--) {
		ptrace(PTRACE_CONT, pids[n], 0, 0);
		waitpid(pids[n], &status, 0);
	}
}

/* Starts all programs at the same time, each from a cold page cache. */
static void start_together(const char *thp)
{
	FILE *list = fopen("/programs", "r");
	unsigned long before;
	char line[1024];
	long elapsed;
	int status, n = 0;

	if (!list)
		die("/programs");
	put(THP "enabled", thp);
	mount_cold();
	before = bytes_read();
	elapsed = now();
	while (fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		n++;
		if (!fork()) {
			pid_t pid = run_to_end(line, &status);

			if (pid)
				ptrace(PTRACE_DETACH, pid, 0, 0);
			_exit(!pid || waitpid(pid, &status, 0) != pid);
		}
	}
	for (int i = 0; i < n; i++)
		waitpid(-1, &status, __WALL);
	elapsed = now() - elapsed;
	fclose(list);
	printf("record {\"kind\":\"together\",\"thp\":\"%s\",\"program\":\"%d at once\",\"read\":%lu,\"elapsed_us\":%ld}\n",
	       thp, n, bytes_read() - before, elapsed);
	fflush(stdout);
}

static void start_each(const char *thp)
{
	char line[1024];
	FILE *list = fopen("/programs", "r");

	if (!list)
		die("/programs");
	put(THP "enabled", thp);
	while (fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		for (int i = 0; i < SMALL_STARTS; i++) {
			if (start("start", thp, line) >= SMALL_TEXT)
				break;
		}
		start("again", thp, line);
	}
	fclose(list);
}

static void start_many(const char *thp)
{
	FILE *list = fopen("/many", "r");

	if (!list)
		die("/many");
	put(THP "enabled", thp);
	many(thp, list);
	fclose(list);
}

/*
 * Until the kernel has chosen its clock, timers end with the next tick, up to 4 ms
 * late. Some end in time by chance, but not so many one after the other. A guest of
 * several processors under -icount has no better timers at all.
 */
static void wait_for_timers(void)
{
	for (int tries = 0, in_time = 0; tries < 1000 && in_time < 50; tries++) {
		const long begun = now();

		usleep(100);
		in_time = now() - begun > 1000 ? 0 : in_time + 1;
	}
}

static void finish(void)
{
	printf("guest: done\n");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void start_under(char *modes)
{
	for (char *thp = strsep(&modes, ","); thp; thp = strsep(&modes, ",")) {
		start_each(thp);
		if (setting("together"))
			start_together(thp);
	}
	finish();
}

int main(void)
{
	const char *modes;
	char page[32];

	mkdir(ROOT, 0755);
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	if (mount("proc", "/proc", "proc", 0, "") || mount("sysfs", "/sys", "sysfs", 0, "") ||
	    mount("dev", "/dev", "devtmpfs", 0, "") ||
	    mount("debug", "/sys/kernel/debug", "debugfs", 0, ""))
		die("mount");
	put("/sys/block/" DISK "/queue/read_ahead_kb", setting("readahead") ?: "128");
	wait_for_timers();
	block = number(THP "hpage_pmd_size", "", 0);
	/* With 4K pages count PMDs, not blocks of 64K. With larger PMDs count blocks of 2M. */
	if (block > 2 << 20)
		block = 2 << 20;
	arrange();
	modes = setting("thp");
	if (modes)
		start_under(strdup(modes));
	start_each("always");
	start_each("madvise");
	start_many("always");
	start_many("madvise");
	/* Without THP and fault-around, only what is executed gets mapped. */
	snprintf(page, sizeof(page), "%ld", sysconf(_SC_PAGESIZE));
	put(FAULT_AROUND, page);
	start_each("never");
	finish();
}
