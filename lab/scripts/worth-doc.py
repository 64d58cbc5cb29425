#!/usr/bin/env python3
"""Writes lab/results/worth.md from what `hugetext --json bench work` printed: worth-doc.py RECORD…"""
import json
import sys
from pathlib import Path

HEAD = """# What it is worth on real work

Compilers, interpreters and databases on inputs from Debian's packages, each run from start to end. Every side
runs once in a round, in an order that changes from round to round, under the program's own path. The ratio is
that of the side to small folios in the same round: its median, with the interval that holds the true median
with 95 % confidence. Where the interval contains 1, nothing was shown, and the row says "no difference shown".

Regenerate: `IODLR=PATH lab/measure worth`, where PATH is iodlr's liblppreload.so, which no distribution packages.
One workload: `hugetext bench work NAME`. Any other way: `--rival`.

- **small folios**: the unchanged program, its text cached in pages of 4K, as after an ordinary read. It is locked
  there, so this side is also what `vmtouch -l` gives.
- **warmed**: the same file, its text in folios of 2M (`hugetext warm`).
- **fixed**: a copy that `hugetext fix` aligned, warmed. **merged**: with `--strategy merge`.
- **as it is**: the file holds no window of 2M, so its page cache is left alone.
- **iodlr**: the library that copies text to huge pages when a program starts, by LD_PRELOAD, on small folios.
- **node's own**: `node --use-largepages=on`, on small folios.
- **bolt**, **bolt --hugify**: the program rewritten by BOLT with a profile of the same work. BOLT needs relocations
  (ld --emit-relocs), which Debian's programs do not have; on its cc1, BOLT 16 ends with "Symbol not found required by
  runtime: __hot_end". So these rows are of the command `hugetext` itself, built with relocations. Fixing what BOLT
  wrote has a row of its own.

Only one file is changed in each row. A compiler whose libraries hold more of its text gains from them too,
which is not counted here. "Huge text" and "copied" are bytes at the end of a run: text that PMDs map, and text in
memory that each process has for itself. Twenty processes have twenty copies. They are those of the process that
was started: a build by make shows 0, because its compilers have ended by then.

The page cache of a copy ("fixed", "merged") stays in the same place of memory for all rounds. Which place that is can
change how long a program takes, and the intervals do not show it. [steady.md](steady.md) says by how much.

A guest's huge pages make TLB entries of 2M only where its host maps that memory by huge pages too. This machine is a
guest. [steady.md](steady.md) measures whether its host does: it seems not to. And here each system call makes text behind
leaves miss the TLB again, which costs programs of many system calls more than they gain. [syscalls.md](syscalls.md) has
postgres on a machine that does not: it gains there.

libhugetlbfs has no row, because it needs pages that the administrator reserves.

The autopilot has no row. It makes the text of a program huge in place and holds it, so a row of it would be **warmed**
again. [auto.md](../../docs/auto.md) has which programs it chooses, and [auto-results.md](auto-results.md) what it costs.
"""


def interval(value):
    """The ratio in words, and whether its interval excludes 1."""
    ratio = value.get("ratio")
    if ratio is None:
        return "-", False
    if "low" not in ratio:
        return f"{ratio['median']:.3f}", False
    words = f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"
    return words, not ratio["low"] <= 1 <= ratio["high"]


def seconds(value):
    return f"{value:.3f} s" if value >= 0.1 else f"{value * 1000:.2f} ms"


def mebibytes(measure, number):
    """A measure of bytes of one side; "-" where ptrace was not permitted."""
    if measure is None:
        return "-"
    return f"{measure['values'][number]['median'] / (1 << 20):.0f} MiB"


def table(comparison):
    measures = {measure["name"]: measure for measure in comparison["measures"]}
    wall, processor = measures["wall"], measures["processor"]
    print("| side | processor time | ratio | wall ratio | minor faults | huge text | copied | |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    for number, side in enumerate(comparison["sides"]):
        value = processor["values"][number]
        ratio, shown = interval(value)
        faults = f"{measures['minor faults']['values'][number]['median']:.0f}"
        huge = mebibytes(measures.get("text on huge pages"), number)
        copied = mebibytes(measures.get("text in memory of its own"), number)
        verdict = ""
        if number:
            verdict = ("less" if value["ratio"]["median"] < 1 else "**more**") if shown else "no difference shown"
        print(
            f"| {side['name']} | {seconds(value['median'])} | {ratio} | {interval(wall['values'][number])[0]} | "
            f"{faults} | {huge} | {copied} | {verdict} |"
        )


def main():
    reports = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as record:
            reports[Path(path).stem] = json.load(record)
    print(HEAD)
    for machine in sorted({report["summary"] for report in reports.values()}):
        print(f"Measured on: {machine}.")
    for record, comparison in ((name, one) for name, report in reports.items() for one in report["benchmarks"]):
        # Starts are of different programs.
        print(f"\n## {record if comparison['benchmark'] == 'exec' else comparison['benchmark'].removeprefix('work ')}\n")
        print(f"{comparison['title']}.\n")
        table(comparison)
        for note in comparison.get("notes", []):
            print(f"\nNote: {note}.")


main()
