#!/usr/bin/env python3
"""Writes lab/results/auto-lab.md from the record of lab/scripts/auto-lab.sh: auto-lab-doc.py RECORD.jsonl"""
import json
import statistics
import sys

HEAD = """# The autopilot in guests

Written by `lab/measure auto-lab` from [auto-lab.jsonl](../records/auto-lab.jsonl). Each guest has 1 GiB of memory, one or two processors
and a compiler that no list names. Processors are emulated, so times compare only with each other.
"""

SEEN = """
## Found, followed and remembered

The compiler is started ten times, then nothing runs for a second, and so on until its text is held. Then two containers
at a time start a file of one image, each below an overlay of its own. Then an upgrade replaces the compiler. At the end
the daemon stops, the page cache is dropped, and the daemon starts again: "again" says whether it held the text
before anybody started it. Nobody writes to erofs, so only the containers are there. Where the page cache has no folios of
2M, nothing may be held.

| kernel | filesystem | starts until held | text of 2M leaves | starts in containers | held, by image and by overlay | released after the upgrade | locked at the end | again |
|---|---|---:|---:|---:|---|---:|---:|---|"""

LIMIT = """
## A control group with little memory

A control group may use 64 MiB and runs the compiler, whose text its processes made huge, so that the group pays for it.
Then a process of the group needs 52 MiB three times. Nothing that the group pays for may be locked: the kernel would
kill the process.

| kernel | page cache of the group | of it unevictable | files held | killed |
|---|---:|---:|---:|---:|"""

HOSTILE = """
## Somebody with many programs

Everybody's compiler is held. Then another user starts copies of it, each three times, and removes them.

| kernel | copies | times that the compiler was released | held at the end |
|---|---:|---:|---|"""

PRESSURE = """
## Out of memory

A file of 400 MiB is read ten times beside a process that needs 420 MiB, with and without the daemon. Time is counted in
instructions. The memory that is left is a little less than the file, so each page counts.

| | without | with | ratio |
|---|---:|---:|---:|"""

DAYS = """
## Day after day

A day takes a minute or more, and a minute is the half-life. Every day has jobs, a build of 160 files, an upgrade of a
server that runs on, and an hour without memory.

| day | held at the end | events of the day | memory of the daemon | its files | OOM kills |
|---:|---|---:|---:|---:|---:|"""


def of(records, what):
    return [record for record in records if record["what"] == what]


def mebibytes(number):
    return f"{number / (1 << 20):.0f} MiB"


def row(cells):
    print(f"| {' | '.join(cells)} |")


def section(records, what, head):
    """The records of `what`, below their heading if there are any."""
    found = of(records, what)
    if found:
        print(head)
    return found


# What the autopilot says where a kernel, or a filesystem, has no huge folios for files.
IMPOSSIBLE = ("kernel too old", "the page cache of ")


def impossible(hot):
    """Why nothing can be held there, by what the autopilot says of the compiler."""
    files = hot["status"]["files"] if hot else []
    reasons = [one["reason"] for one in files if one["path"].endswith("/compiler")]
    return next((reason for reason in reasons if reason.startswith(IMPOSSIBLE)), None)


def released(upgrade):
    """How long after an upgrade less was locked."""
    if not upgrade:
        return "-"
    if not upgrade["before_kib"]:
        return "**nothing was locked then**"
    return f"{upgrade['seconds']} s" if upgrade["after_kib"] < upgrade["before_kib"] else "**no**"


def seen(records):
    places = dict.fromkeys((one["kernel"], one["fs"]) for one in records if "fs" in one)
    if places:
        print(SEEN)
    for kernel, fs in places:
        said = {one["what"]: one for one in records if (one["kernel"], one.get("fs")) == (kernel, fs)}
        hot, containers, upgrade = said.get("hot"), said.get("containers"), said.get("upgrade")
        end, remembered = said.get("end"), said.get("remembered")
        if (reason := impossible(hot)) and not containers["held"] and not remembered["again"]:
            row([kernel, fs, f"nothing held: {reason}", *["-"] * 4, f"{end['locked_kib']} KiB", "-"])
            continue
        cells = [
            kernel,
            fs,
            f"{hot['starts']}" if hot else "-",
            mebibytes(hot["stat"]["pmd_mapped"]) if hot and hot.get("stat") else "-",
            f"{containers['starts']}" if containers else "-",
            f"{containers['held']} and {containers['by_layer']}" if containers else "-",
            released(upgrade),
            f"{end['locked_kib']} KiB" if end else "-",
            ("yes" if remembered["again"] else "**no**") if remembered else "-",
        ]
        row(cells)


def limit(records):
    for end in section(records, "limit", LIMIT):
        numbers = [mebibytes(end["paid"]), mebibytes(end["unevictable"]), f"{end['held']}", f"{end['oom']}"]
        row([end["kernel"], *numbers])


def names_of_held(status):
    held = sorted(file["path"].rpartition("/")[2] for file in status["files"] if file["state"] == "held")
    return ", ".join(held) or "nothing"


def hostile(records):
    for end in section(records, "hostile", HOSTILE):
        row([end["kernel"], f"{end['files']}", f"{end['released']}", names_of_held(end["status"])])


def stalls(records):
    """How often the guest out of memory stalled, and how fast the autopilot answered."""
    said = [one["status"]["stalls"] for one in of(records, "stalls")]
    if said:
        times = sum(one["some"] + one["full"] for one in said)
        missed = sum(one.get("missed", 0) for one in said)
        print(
            f"\nIn {len(said)} rounds the daemon yielded {missed} times because pages of the working set were read again, and"
            f" {times} times because the kernel reported that tasks waited for memory."
        )
        if times:
            slowest = max(one["slowest_us"] for one in said) / 1000
            print(
                f"After such a report, what was to be unlocked was unlocked at most {slowest:.1f} ms later (target: 100 ms from"
                " the stall, of which the kernel takes up to 50)."
            )


def pressure(records):
    rounds = section(records, "pressure", PRESSURE)
    if not rounds:
        return
    for name, key in (("seconds", "seconds"), ("pages read again", "refaults"), ("KiB read", "read_kib"), ("OOM kills", "oom")):
        sides = {
            side: statistics.median(one[key] for one in rounds if one["side"] == side) for side in ("without", "with")
        }
        ratio = f"{sides['with'] / sides['without']:.3f}" if sides["without"] else "-"
        row([name, f"{sides['without']:g}", f"{sides['with']:g}", ratio])


def days(records):
    lived = section(records, "day", DAYS)
    if not lived:
        return
    for day in lived:
        own = f"{day['status']['own_bytes'] >> 10} KiB"
        cells = [f"{day['day']}", names_of_held(day["status"]), f"{len(day['events'])}", own, f"{day['files']}", f"{day['oom']}"]
        row(cells)
    for end in of(records, "days"):
        print(f"\nAt the end {end['locked_kib']} KiB are locked, and the state file has {end['state_bytes']} bytes.")


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    print(HEAD.rstrip())
    seen(records)
    limit(records)
    hostile(records)
    pressure(records)
    stalls(records)
    days(records)


main()
