#!/usr/bin/env python3
"""The record of lab/results/distribution.md, from what lab/scripts/test-distribution.sh found: WORK SUITE."""

import collections
import pathlib
import platform
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import record  # noqa: E402

work, suite = pathlib.Path(sys.argv[1]), sys.argv[2]
WAYS = ["auto", "merge"]
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


record.fact("suite", suite)
record.fact("kernel", platform.release())
for way in WAYS:
    codes = collections.Counter((work / f"{way}.codes").read_text().split())
    record.row("files", way, codes["0"], codes["same"], codes["1"], codes["2"])
reasons = collections.Counter()
for line in (work / "merge.refused").read_text().splitlines():
    reason = re.sub(r"0x[0-9a-f]+|section \S+", "…", line.split(": ", 1)[-1])
    reasons[reason] += 1
record.fact("reasons", [{"times": times, "reason": reason} for reason, times in reasons.most_common()])

plain, again = programs("plain"), programs("again")
packages = {package for package, _ in plain.values()}
record.fact("programs", len(plain))
record.fact("packages", len(packages))
varies = varying()
bad = []
counts = {}
for way in WAYS:
    same, different, unsteady = compare(plain, again, programs(f"as-{way}"), varies)
    own = len(fixed(way) & set(plain))
    record.row("answers", way, len(same), len(different), len(unsteady), own)
    counts[way] = {plain[program][0] for program in same}
    bad += [{"program": program, "package": plain[program][0], "way": way} for program in different]
record.fact("different", bad)

base, repeat, run = jobs("plain"), jobs("again"), jobs("run")
record.fact("jobs", len(base))
harm = []
steady = 0
for name, values in base.items():
    cells = []
    comparable = values[:2] == repeat[name][:2]
    steady += comparable
    for way in ("run", "as-auto", "as-merge"):
        now = jobs(way)[name]
        alike = now[:2] == values[:2]
        cells.append("same" if alike else "different" if comparable else "varying")
        if comparable and not alike:
            harm.append(name)
    record.row("jobs", name, values[0], cells[0], run[name][3], run[name][2], *cells[1:])

least = min(len(found) for found in counts.values())
for fact, value in [("least", least), ("steady", steady), ("bad", len(bad)), ("harm", len(harm))]:
    record.fact(fact, value)
sys.exit(1 if bad or harm else 0)
