#!/usr/bin/env python3
"""lab/results/distribution.md, from what lab/scripts/test-distribution.sh found: WORK SUITE."""

import collections
import pathlib
import platform
import re
import sys

work, suite = pathlib.Path(sys.argv[1]), sys.argv[2]
WAYS = {
    "auto": "`fix` without options, for leaves of 2 MiB",
    "merge": "`fix --strategy merge --geometry arm64-4k`, for leaves of 64 KiB",
}
TIMED_OUT = {"124", "137"}


def programs(way):
    """Package, and what was said, by program."""
    rows = (line.split() for line in (work / f"{way}.programs").read_text().splitlines())
    return {row[1]: (row[0], row[2:]) for row in rows}


def varying():
    """Programs that answered differently without any fix when they were asked again."""
    rows = (line.split() for line in (work / "more.programs").read_text().splitlines())
    return {row[1] for row in rows if row[2:] != plain[row[1]][1]}


def jobs(way):
    rows = (line.split("\t") for line in (work / f"{way}.jobs").read_text().splitlines())
    return {row[0]: row[1:] for row in rows}


def fixed(way):
    """Paths of the files that are another in this way."""
    base = work / way
    return {"/" + str(path.relative_to(base)) for path in base.rglob("*") if path.is_file()}


def compare(plain, again, other, varies):
    """Keys that are the same, those that are not, and those that differ by themselves."""
    same, different, unsteady = [], [], []
    for key, value in plain.items():
        said = value[1] if isinstance(value, tuple) else value[:2]
        told = again[key][1] if isinstance(value, tuple) else again[key][:2]
        now = other[key][1] if isinstance(value, tuple) else other[key][:2]
        if said != told or key in varies or TIMED_OUT & {*said, *now}:
            unsteady.append(key)
        else:
            (same if said == now else different).append(key)
    return same, different, unsteady


print(f"""# A whole distribution

Written by `lab/measure distribution`: every program of a Debian root ({suite}) before and after `fix`, and
real jobs with and without `hugetext run`, on Linux {platform.release()}. `fix` goes over every ELF file of
at least 4 KiB below /usr, programs and libraries alike, so a program is tried with its libraries fixed.
The second way moves far more than anybody needs: it is there to find harm. `--vouched` and
`--privileged` are given, since nobody uses the result.

## Files

| | changed, and proved the same | laid out so already | nothing to gain | refused |
|---|---|---|---|---|""")
for way, words in WAYS.items():
    codes = collections.Counter((work / f"{way}.codes").read_text().split())
    print(f"| {words} | {codes['0']} | {codes['same']} | {codes['1']} | {codes['2']} |")
print("\nRefused, by reason:\n")
reasons = collections.Counter()
for line in (work / "merge.refused").read_text().splitlines():
    reason = re.sub(r"0x[0-9a-f]+|section \S+", "…", line.split(": ", 1)[-1])
    reasons[reason] += 1
for reason, times in reasons.most_common():
    print(f"- {times}: {reason}")

plain, again = programs("plain"), programs("again")
packages = {package for package, _ in plain.values()}
print(f"""
## Programs

What {len(plain)} programs of {len(packages)} packages answer to `--version` and `--help`: output and exit
status. A program that answers differently without any fix, or takes more than 4 s, is not compared: each is
asked twice, and 30 times more if it answers differently after a fix.

| | the same | different | not comparable | changed themselves |
|---|---|---|---|---|""")
varies = varying()
bad = []
counts = {}
for way, words in WAYS.items():
    same, different, unsteady = compare(plain, again, programs(f"as-{way}"), varies)
    own = len(fixed(way) & set(plain))
    print(f"| {words} | {len(same)} | {len(different)} | {len(unsteady)} | {own} |")
    counts[way] = {plain[program][0] for program in same}
    bad += [f"{program} ({plain[program][0]}), {way}" for program in different]
for line in bad:
    print(f"- different: {line}")

base, repeat, run = jobs("plain"), jobs("again"), jobs("run")
print(f"""
## Jobs

Output, files written and exit status of {len(base)} jobs. "prepared" is how many files `hugetext run` warms
or shows a copy of.

| job | exit status | under `run` | prepared | programs fixed | programs merged |
|---|---|---|---|---|---|""")
harm = []
steady = 0
for name, values in base.items():
    cells = []
    comparable = values[:2] == repeat[name][:2]
    steady += comparable
    for way in ("run", "as-auto", "as-merge"):
        now = jobs(way)[name]
        alike = now[:2] == values[:2]
        cells.append("same" if alike else "DIFFERENT" if comparable else "varies by itself")
        if comparable and not alike:
            harm.append(f"{name}, {way}")
    warned = f", {run[name][3]} warnings" if run[name][3] != "0" else ""
    print(f"| {name} | {values[0]} | {cells[0]}{warned} | {run[name][2]} | {cells[1]} | {cells[2]} |")

least = min(len(found) for found in counts.values())
print(f"""
{least} packages' programs and {steady} jobs compared: {len(bad)} programs and {len(harm)} jobs different.""")
sys.exit(1 if bad or harm else 0)
