#!/usr/bin/env python3
"""Writes lab/results/limit.md: what a start is made of, and which page faults huge text removes: results-limit.py HUGETEXT

Takes root, for copies under the programs' own paths. Programs that are not installed are left out.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROUNDS = 20
KINDS = ["faults on text", "faults on read-only data", "faults on data and relocations", "faults on other memory"]

TEXT = """# What a start is made of, and what huge text can remove of it

Written by `lab/measure limit` on {machine}.

Each start is looked at once by the kernel's own records of its page faults, and timed in {rounds} rounds with all sides in
turn. *text* and *read-only* are faults on pages of files that nobody writes to: these are what huge text can remove. *data*
are faults on data of files and on what relocations change, *other* those on heaps, stacks and zeroed memory: no layout of
text removes them. The sides are the same file: in the small folios of page faults, warmed, rewritten (fixed), and with
read-only data joined to text (merged). *removed* is the share of the faults on text and read-only data that are gone.
*ratio* is that of processor time, user and kernel, to small folios. *limit* is that ratio if all of these faults were gone
and each cost as much as those that are; it is left out where less than a tenth is gone, as larger folios alone make starts
shorter too ([folios.md](folios.md)).

*calls* is the number of system calls of a start of the unchanged file, by `strace -f -c`. Their time is in *system*, with
that of the faults. It has no column, because strace and `perf trace` both add more to most calls than these take.

The aim was a start of cc1 in 0.75 of the time. No layout reaches it: by *limit*, even text and read-only data without a
single fault would not give it. Three ways were tried: the unchanged file, the rewritten file, and read-only data beside
text. A fourth way is folios between 4 KiB and a window, for text that does not fill a window. They shorten the starts of
smaller programs ([folios.md](folios.md)). The faults that are left are on zeroed memory, heaps and relocations.

| | side | user | system | calls | text | read-only | data | other | removed | ratio | limit |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def programs():
    """For each name the command, and the file of it that takes the sides. What is missing is None."""
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    rustc = subprocess.run(["rustup", "which", "rustc"], capture_output=True, text=True).stdout.strip()
    driver = next(iter(pathlib.Path(rustc).parent.parent.glob("lib/librustc_driver-*.so")), None)
    postgres = "/usr/lib/postgresql/15/bin/postgres"
    python = os.path.realpath("/usr/bin/python3")
    return {
        "cc1, an empty file": ([cc1, "-quiet", "/dev/null", "-o", "/dev/null"], cc1),
        "rustc --version": ([rustc, "--version", "--verbose"], driver),
        "node -e 0": (["node", "-e", "0"], shutil.which("node")),
        "python3 -S -c pass": ([python, "-S", "-c", "pass"], python),
        "postgres --version": ([postgres, "--version"], postgres if os.path.exists(postgres) else None),
        "git version": (["git", "version"], shutil.which("git")),
    }


def system_calls(command):
    """The number of system calls of `command` and all its children."""
    with tempfile.NamedTemporaryFile("r") as summary:
        subprocess.run(
            ["strace", "-f", "-c", "-U", "name,calls", "-o", summary.name, *command],
            stdout=subprocess.DEVNULL, check=True)
        name, calls = summary.read().split()[-2:]
    if name != "total":
        raise SystemExit(f"strace: no summary of {command[0]}")
    return calls


def rows(hugetext, name, command, program):
    """The lines of a program, one for each side."""
    answer = subprocess.run(
        [hugetext, "bench", "exec", "--json", "--copy", "--rounds", str(ROUNDS), "--per-round", "20", "--program", program, "--", *command],
        stdout=subprocess.PIPE, text=True, check=True)
    bench = json.loads(answer.stdout)["benchmarks"][0]
    measures = {measure["name"]: measure["values"] for measure in bench["measures"]}
    first = None
    for index, side in enumerate(bench["sides"]):
        faults = [measures[kind][index]["median"] for kind in KINDS]
        first = first or faults[0] + faults[1]
        removed = 1 - (faults[0] + faults[1]) / first
        times = " | ".join(f"{1000 * measures[name][index]['median']:.2f} ms" for name in ["user", "system"])
        counts = " | ".join(f"{count:.0f}" for count in faults)
        ratio = measures["processor"][index].get("ratio")
        compared = " | | "
        if ratio:
            limit = f"{1 - (1 - ratio['median']) / removed:.2f}" if removed >= 0.1 else ""
            compared = f"{removed:.0%} | {ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}) | {limit}"
        calls = system_calls(command) if index == 0 else ""
        print(f"| {name if index == 0 else ''} | {side['name']} | {times} | {calls} | {counts} | {compared} |")


def main():
    print(TEXT.format(machine=f"Linux {os.uname().release}, {os.cpu_count()} processors", rounds=ROUNDS))
    for name, (command, program) in programs().items():
        if program:
            rows(sys.argv[1], name, command, str(program))


main()
