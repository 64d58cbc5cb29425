#!/usr/bin/env python3
"""Prints lab/results/syscalls.md from the records of all machines: results-syscalls.py RECORD.jsonl

With the command as another argument, HUGETEXT, it measures instead whether huge text makes system calls dear on this
machine. The record has one line for each machine. That of this machine is replaced.
"""
import json
import os
import pathlib
import subprocess
import sys

PAGES = [16, 32, 64, 128, 256, 512, 1024]
ROUNDS = 30
PASSES = 1000
# Of one run of `bench work postgres`, by `strace -f -c`: two of lseek(2) and one of write(2) for each of 30,000 selects, and
# 2,500 others.
CALLS_OF_POSTGRES = 92_500
# A system call is dear if passes behind it take so much longer with leaves, at least.
LOST = 1.1

TEXT = """# What a system call costs huge text

Written by `lab/measure syscalls` from [syscalls.jsonl](../records/syscalls.jsonl), which has a line for each machine.

`hugetext bench syscalls` calls one line of each page of some text, in a random order, a thousand times. It does so once
with nothing between these passes, and once with a system call, getppid(2), before each. The columns tell how many
nanoseconds a pass takes alone, and how many more with the system call, for the same text: in small folios; in a huge
folio that a PMD leaf maps (warmed); in a huge folio that a table of pages maps, because its address is not congruent
(misaligned); and in a huge folio of a tmpfs, mapped by a leaf. The last column is the ratio of passes with system calls,
warmed to small folios, with its interval: the median of {rounds} rounds. A number below zero says that passes follow each
other slower than a call.

**On some machines a system call makes text behind leaves miss the instruction TLB, and on others it does not.** Text in
the same huge folios, mapped by tables of pages, loses nothing there, so the leaf does it and not where the text lies in
memory. With more pages than both levels of the TLB hold, every call misses in any case. The machines here are guests.
Run `hugetext bench syscalls` on yours. The autopilot measures it when it begins ([auto.md](../../docs/auto.md)).

A program that makes few system calls, such as a compiler, loses little by them. On such a machine, warm text in place
(`hugetext warm`) without rewriting what makes many system calls: its folios are large, and only windows that are
congruent by chance get leaves.
"""

TABLE = """
## {machine}

| pages in use | small, alone | and a call | warmed, alone | and a call | misaligned, alone | and a call | tmpfs, alone | and a call | ratio |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"""

HARM = """
A system call is dear here: at {high_pages} pages in use it costs text behind leaves {high:.0f} ns, and {low:.0f} ns at {low_pages}."""

NO_HARM = """
Here a system call costs huge text no more than other text."""

POSTGRES = """
One run of postgres ([worth.md](worth.md)) makes {calls:,} system calls, two of lseek(2) and one of write(2) for each of its
selects. With 2 MiB of text behind leaves (fixed) it takes {fixed} of its processor time, and with 8 MiB
(merged) {merged}. For each system call that is {fixed_loss}, and {merged_loss}."""


def said_by(*command):
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    report = json.loads(said.stdout)
    [comparison] = report["benchmarks"]
    return report["summary"], comparison


def row(hugetext, pages):
    options = ["--rounds", f"{ROUNDS}", "--passes", f"{PASSES}", "--pages", f"{pages}"]
    _, comparison = said_by(hugetext, "--json", "bench", "syscalls", *options)
    measures = {one["name"]: one["values"] for one in comparison["measures"]}
    nanoseconds = [[value["median"] / PASSES * 1e9 for value in measures[name]]
                   for name in ("passes alone", "passes after system calls")]
    sides = [{"alone": round(alone), "call": round(after - alone)} for alone, after in zip(*nanoseconds)]
    return {"pages": pages, "sides": sides, "ratio": measures["passes after system calls"][1]["ratio"]}


def postgres_of(comparison):
    """What postgres takes of its processor time with fixed and with merged text, and its seconds without."""
    sides = [one["name"] for one in comparison["sides"]]
    [values] = [one["values"] for one in comparison["measures"] if one["name"] == "processor"]
    ratios = {side: values[sides.index(side)]["ratio"] for side in ("fixed", "merged") if side in sides}
    return {"seconds": values[0]["median"], **ratios}


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    values = dict(reversed([[word.strip() for word in line.split(":", 1)] for line in lines if ":" in line]))
    family, model = values.get("cpu family"), values.get("model")
    return f", processor family {family}, model {model}" if family else ""


def measured(hugetext):
    summary, comparison = said_by(hugetext, "--json", "bench", "work", "--rounds", f"{ROUNDS}", "postgres")
    return {
        "machine": summary + processor(),
        "rows": [row(hugetext, pages) for pages in PAGES],
        "postgres": postgres_of(comparison),
    }


def interval(ratio):
    return f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def change(nanoseconds):
    return f"{abs(nanoseconds):.0f} ns {'more' if nanoseconds > 0 else 'less'}"


def show(record):
    print(TABLE.format(machine=record["machine"]))
    dear = {}
    for one in record["rows"]:
        sides = one["sides"]
        cells = [f"{side[name]:.0f}" for side in sides for name in ("alone", "call")]
        cells += ["-"] * (8 - len(cells))
        print("|", " | ".join([f"{one['pages']}", *cells, interval(one["ratio"])]), "|")
        if one["ratio"]["low"] > LOST:
            dear[one["pages"]] = sides[1]["call"] - sides[0]["call"]
    if dear:
        most, least = max(dear, key=dear.get), min(dear, key=dear.get)
        print(HARM.format(high_pages=most, high=dear[most], low_pages=least, low=dear[least]))
    else:
        print(NO_HARM)
    postgres = record["postgres"]
    if "fixed" in postgres and "merged" in postgres:
        fixed, merged = postgres["fixed"], postgres["merged"]
        loss = postgres["seconds"] / CALLS_OF_POSTGRES * 1e9
        print(POSTGRES.format(
            calls=CALLS_OF_POSTGRES, fixed=interval(fixed), merged=interval(merged),
            fixed_loss=change(loss * (fixed["median"] - 1)), merged_loss=change(loss * (merged["median"] - 1)),
        ))


def keep(path, own, records):
    """Replaces the record of this machine, or adds it."""
    records = [one for one in records if one["machine"] != own["machine"]] + [own]
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    new.replace(path)


def main():
    path, hugetext = pathlib.Path(sys.argv[1]), sys.argv[2:]
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if hugetext:
        keep(path, measured(os.path.realpath(hugetext[0])), records)
        return
    print(TEXT.rstrip().format(rounds=ROUNDS))
    for record in records:
        show(record)


main()
