#!/usr/bin/env bash
# Cold starts of a program that runs a page in each window of its text and then through all of it, under the readahead of the device of the directory DIR and
# glibc 2.44 or newer, whose loader is LOADER with its libraries beside it:
#
#   lab/scripts/readahead-holes.sh HUGETEXT LOADER DIR
#
# Prints a line of JSON for each of three layouts, with the readahead, the huge windows of the text and the median time in
# ms: as linked, with a PT_LOAD for its windows (--strategy align), and as fix --self-warming lays it out for this device, with
# holes in the file if its readahead is long.
set -euo pipefail
hugetext=$(realpath "$1") loader=$(realpath "$2")
work=$(mktemp -d "$3/readahead-holes.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >program.c <<'C'
#include <stdio.h>
#include <string.h>
__asm__(".pushsection .text.zz\n.globl rets\nrets:\n.fill 16777216, 1, 0xc3\n.popsection");
extern char rets[];
static char data[100000] = { 1 };
int main(void)
{
	char line[512];
	long huge = 0, ours = 0;
	FILE *maps = fopen("/proc/self/smaps", "r");

	/* A page in each window, not in their order, as programs begin; then all. */
	for (long window = 0; window < 8; window++)
		((void (*)(void))(rets + window * 5 % 8 * 2097152 + 1234567))();
	for (long at = 0; at < 16777216; at += 4096)
		((void (*)(void))(rets + at))();
	data[99999] = 2;
	while (fgets(line, sizeof(line), maps)) {
		long kib;

		if (strstr(line, " r-xp "))
			ours = strstr(line, "/layout.") != NULL;
		else if (strstr(line, "-p "))
			ours = 0;
		if (ours && sscanf(line, "FilePmdMapped: %ld", &kib) == 1)
			huge += kib / 2048;
	}
	return printf("%ld\n", huge) < 0;
}
C
cc -O1 -fuse-ld=bfd -Wl,-z,separate-code -o layout.linked program.c
"$hugetext" -q fix --self-warming --strategy align layout.linked -o layout.near
"$hugetext" -q fix --self-warming layout.linked -o layout.apart
python3 - "$loader" layout.linked layout.near layout.apart <<'P'
import json
import os
import statistics
import subprocess
import sys
import time

loader, *layouts = sys.argv[1:]
device = os.stat(layouts[0]).st_dev
block = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
queues = [f"{block}/queue", f"{block}/../queue"]
readahead = next(int(open(f"{queue}/read_ahead_kb").read()) for queue in queues if os.path.exists(queue))
environment = dict(os.environ, GLIBC_TUNABLES="glibc.elf.thp=1")
times, huge = {name: [] for name in layouts}, {}
for _ in range(25):
    for name in layouts:
        file = os.open(name, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        began = time.perf_counter()
        command = [loader, "--library-path", os.path.dirname(loader), "./" + name]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        huge.setdefault(name, []).append(int(said))
        times[name].append(1000 * (time.perf_counter() - began))
for name in layouts:
    print(json.dumps({"read_ahead_kb": readahead, "readahead_of": name.removeprefix("layout."), "huge": statistics.median(huge[name]),
                      "least": min(huge[name]), "ms": round(statistics.median(times[name]), 1), "starts": len(times[name])}))
P
