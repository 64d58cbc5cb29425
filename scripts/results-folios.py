#!/usr/bin/env python3
"""Writes docs/folios.md: what larger folios are worth to programs without a window: results-folios.py HUGETEXT

Takes root, to see folios in /proc/kpageflags, and a filesystem whose page cache has large folios.
"""
import collections
import mmap
import os
import pathlib
import platform
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PAGE = mmap.PAGESIZE
ROUNDS = 300
SMALL_FOLIOS = pathlib.Path(__file__).with_name("small-folios.py")
HEAD, TAIL = 1 << 15, 1 << 16  # KPF_COMPOUND_HEAD, KPF_COMPOUND_TAIL

TEXT = """# Folios smaller than a leaf

Written by `make results-folios` on {machine}.

git and python3 hold no window of 2 MiB, so no leaf can map their text. Larger folios still help them: the kernel counts
and releases a folio once for all pages that it maps of it, and a start maps and unmaps hundreds. Here each program is
a copy that is dropped from the page cache and read again: as page faults on text read it, or by `hugetext warm`, which
asks for the largest folios that the file can fill. Both take turns in random order, {rounds} rounds; wall time of a start,
medians; the ratio has the interval that holds the median in 95 % of samples.

| | folios at first | larger folios | at first | with larger | ratio | minor faults |
|---|---|---|---|---|---|---|"""


def folios(path):
    """How many folios of which number of pages hold the file."""
    file = os.open(path, os.O_RDONLY)
    mapping = mmap.mmap(file, os.fstat(file).st_size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    for at in range(0, len(mapping), PAGE):
        mapping[at]
    with open("/proc/self/maps") as maps:
        start = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(str(path)))
    entries = (len(mapping) + PAGE - 1) // PAGE
    with open("/proc/self/pagemap", "rb", 0) as pagemap, open("/proc/kpageflags", "rb", 0) as kpageflags:
        pagemap.seek(start // PAGE * 8)
        found, pages = collections.Counter(), 0
        for (entry,) in struct.iter_unpack("<Q", pagemap.read(entries * 8)):
            kpageflags.seek((entry & (1 << 55) - 1) * 8)
            (flags,) = struct.unpack("<Q", kpageflags.read(8))
            if pages and not flags & TAIL:
                found[pages] += 1
                pages = 0
            pages += 1
        found[pages] += 1
    mapping.close()
    os.close(file)
    return found


def start(command):
    """Milliseconds that a command takes, and its minor faults."""
    null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    begin = time.monotonic()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=null)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"results-folios.py: {command[0]} failed")
    return 1000 * (time.monotonic() - begin), usage.ru_minflt


def row(hugetext, directory, name, program, words):
    """A line of the table."""
    sides = {}
    for side in ["pages", "larger"]:
        sides[side] = directory / side / pathlib.Path(program).name
        sides[side].parent.mkdir(exist_ok=True)
        shutil.copy2(program, sides[side])
    os.sync()
    subprocess.run([SMALL_FOLIOS, sides["pages"]], check=True)
    subprocess.run([hugetext, "warm", sides["larger"]], check=True, stdout=subprocess.DEVNULL)
    has = {side: folios(path) for side, path in sides.items()}
    times, faults = {side: [] for side in sides}, {}
    for _ in range(ROUNDS):
        for side in random.sample(list(sides), 2):
            took, faults[side] = start([str(sides[side]), *words])
            times[side].append(took)
    ratios = sorted(large / small for small, large in zip(times["pages"], times["larger"]))
    # The binomial interval of the median.
    reach = round(0.98 * ROUNDS**0.5)
    low, high = ratios[ROUNDS // 2 - reach], ratios[ROUNDS // 2 + reach - 1]
    (most, _), = has["pages"].most_common(1)
    sizes = ", ".join(f"{count} x {pages * PAGE >> 10}K" for pages, count in sorted(has["larger"].items(), reverse=True)[:4])
    medians = [statistics.median(times[side]) for side in sides]
    print(f"| {name} | {most * PAGE >> 10}K | {sizes} | {medians[0]:.2f} ms | {medians[1]:.2f} ms "
          f"| {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}) | {faults['pages']}, {faults['larger']} |")


def main():
    print(TEXT.format(machine=f"Linux {platform.release()}, {os.cpu_count()} processors", rounds=ROUNDS))
    with tempfile.TemporaryDirectory(dir="target") as directory:
        for name, program, words in [
            ("git version", shutil.which("git"), ["version"]),
            ("python3 -S -c pass", os.path.realpath("/usr/bin/python3"), ["-S", "-c", "pass"]),
            ("bash -c :", shutil.which("bash"), ["-c", ":"]),
            ("perl -e 1", shutil.which("perl"), ["-e", "1"]),
            ("hugetext --version", sys.argv[1], ["--version"]),
        ]:
            if program:
                row(sys.argv[1], pathlib.Path(directory).resolve(), name, program, words)


main()
