#!/usr/bin/env python3
"""Writes docs/syscalls.md: whether huge text makes system calls dear on this machine: results-syscalls.py HUGETEXT

Reads the record of postgres in docs/worth beside it.
"""
import json
import os
import pathlib
import subprocess
import sys

RECORD = pathlib.Path(__file__).resolve().parent.parent / "docs/worth/postgres.json"
PAGES = [16, 32, 64, 128, 256, 512, 1024]
ROUNDS = 30
PASSES = 1000
# Of one run of `bench work postgres`, by `strace -f -c`: two of lseek(2) and one of write(2) for each of 30,000 selects, and
# 2,500 others.
CALLS_OF_POSTGRES = 92_500
LOST = 1.1

TEXT = """# What a system call costs huge text

Written by `make results-syscalls` on {machine}.

`hugetext bench syscalls` calls one line of each page of some text, in a random order, a thousand times. It does so once
with nothing between these passes, and once with a system call, getppid(2), before each. The columns tell how many
nanoseconds a pass takes alone, and how many more with the system call, for the same text: in small folios; in a huge
folio that a PMD leaf maps (warmed); in a huge folio that a table of pages maps, because its address is not congruent
(misaligned); and in a huge folio of a tmpfs, mapped by a leaf. The last column is the ratio of passes with system calls,
warmed to small folios, with its interval: the median of {rounds} rounds. A number below zero says that passes follow each
other slower than a call.

| pages in use | small, alone | and a call | warmed, alone | and a call | misaligned, alone | and a call | tmpfs, alone | and a call | ratio |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"""

HARM = """
**Here a system call makes text behind leaves miss the instruction TLB.** At {pages} pages in use it costs {each:.1f} ns for each
page. Text in the same huge folios, mapped by tables of pages, loses nothing, so the leaf does it and not where the text
lies in memory. With more pages than both levels of the TLB hold, every call misses in any case. This machine is a guest
whose host seems to map memory by pages of 4K ([steady.md](steady.md)), so its leaves give no entries of 2M. Whether
machines with such entries lose them too was not measured. Run `hugetext bench syscalls` on yours.

This is enough to explain why postgres became slower here ([worth.md](worth.md)). One run of that work makes {calls:,} system
calls, two of lseek(2) and one of write(2) for each of its selects. It loses {fixed:.0f} ns for each system call with 2 MiB of
text behind leaves (fixed), and {merged:.0f} ns with 8 MiB (merged). A call here costs {low:.0f} ns with {low_pages} pages in use, and
{high:.0f} ns with {high_pages}. A program that makes few system calls, such as a compiler, loses little by them. On such a machine,
warm text in place (`hugetext warm`) without rewriting what makes many system calls: its folios are large, and only
windows that are congruent by chance get leaves.
"""

NO_HARM = """
Here a system call costs huge text no more than other text.
"""


def measured(hugetext, pages):
    words = ["--json", "--rounds", f"{ROUNDS}", "--passes", f"{PASSES}", "--pages", f"{pages}"]
    said = subprocess.run([hugetext, "bench", "syscalls", *words], check=True, stdout=subprocess.PIPE)
    report = json.loads(said.stdout)
    [comparison] = report["benchmarks"]
    return report["summary"], {one["name"]: one["values"] for one in comparison["measures"]}


def nanoseconds(values):
    return [value["median"] / PASSES * 1e9 for value in values]


def added(measures):
    """Nanoseconds that a system call adds to a pass, by side."""
    alone, after = (nanoseconds(measures[name]) for name in ("passes alone", "passes after system calls"))
    return [more - less for less, more in zip(alone, after)]


def row(pages, measures):
    alone = nanoseconds(measures["passes alone"])
    cells = [f"{number:.0f}" for pair in zip(alone, added(measures)) for number in pair]
    cells += ["-"] * (8 - len(cells))
    ratio = measures["passes after system calls"][1]["ratio"]
    cells.append(f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})")
    print("|", " | ".join([f"{pages}", *cells]), "|")


def lost_by_postgres(side):
    """Nanoseconds of processor time that postgres loses on this side for each of its system calls."""
    [comparison] = json.loads(RECORD.read_text(encoding="utf-8"))["benchmarks"]
    at = [one["name"] for one in comparison["sides"]].index(side)
    [values] = [one["values"] for one in comparison["measures"] if one["name"] == "processor"]
    return values[0]["median"] * (values[at]["ratio"]["median"] - 1) / CALLS_OF_POSTGRES * 1e9


def main():
    hugetext = os.path.realpath(sys.argv[1])
    results = {pages: measured(hugetext, pages) for pages in PAGES}
    machine = next(summary for summary, _ in results.values())
    print(TEXT.format(machine=machine, rounds=ROUNDS))
    for pages, (_, measures) in results.items():
        row(pages, measures)
    dear = {pages: added(measures) for pages, (_, measures) in results.items()
            if measures["passes after system calls"][1]["ratio"]["low"] > LOST}
    if not dear:
        print(NO_HARM.rstrip())
        return
    costs = {pages: warmed - small for pages, (small, warmed, *_) in dear.items()}
    most, least = max(costs, key=costs.get), min(costs, key=costs.get)
    print(HARM.rstrip().format(
        pages=most, each=costs[most] / most, calls=CALLS_OF_POSTGRES,
        fixed=lost_by_postgres("fixed"), merged=lost_by_postgres("merged"),
        low=costs[least], low_pages=least, high=costs[most], high_pages=most,
    ))


main()
