#!/usr/bin/env python3
"""Prints the record of lab/results/auto-lab.md, made of what guests said (lab/scripts/auto-lab.sh): auto-lab-rows.py GUESTS.jsonl"""
import json
import statistics
import sys

import record


def of(records, what):
    return [record for record in records if record["what"] == what]


def mebibytes(number):
    return f"{number / (1 << 20):.0f} MiB"


# What the autopilot says where a kernel, or a filesystem, has no huge folios for files.
IMPOSSIBLE = ("kernel too old", "the page cache of ")


def impossible(hot):
    """Why nothing can be held there, by what the autopilot says of the compiler."""
    files = hot["status"]["files"] if hot else []
    reasons = [one["reason"] for one in files if one["path"].endswith("/compiler")]
    return next((reason for reason in reasons if reason.startswith(IMPOSSIBLE)), None)


def released(upgrade):
    """How many seconds after an upgrade less was locked, or a key."""
    if not upgrade:
        return "-"
    if not upgrade["before_kib"]:
        return "nothing-locked"
    return f"{upgrade['seconds']}" if upgrade["after_kib"] < upgrade["before_kib"] else "no"


def seen(records):
    places = dict.fromkeys((one["kernel"], one["fs"]) for one in records if "fs" in one)
    for kernel, fs in places:
        said = {one["what"]: one for one in records if (one["kernel"], one.get("fs")) == (kernel, fs)}
        hot, containers, upgrade = said.get("hot"), said.get("containers"), said.get("upgrade")
        end, remembered = said.get("end"), said.get("remembered")
        if (reason := impossible(hot)) and not containers["held"] and not remembered["again"]:
            record.row("seen", kernel, fs, reason, *["-"] * 6, f"{end['locked_kib']} KiB", "-")
            continue
        cells = [
            kernel,
            fs,
            "",
            f"{hot['starts']}" if hot else "-",
            mebibytes(hot["stat"]["pmd_mapped"]) if hot and hot.get("stat") else "-",
            f"{containers['starts']}" if containers else "-",
            containers["held"] if containers else "-",
            containers["by_layer"] if containers else "-",
            released(upgrade),
            f"{end['locked_kib']} KiB" if end else "-",
            ("yes" if remembered["again"] else "no") if remembered else "-",
        ]
        record.row("seen", *cells)


def limit(records):
    for end in of(records, "limit"):
        numbers = [mebibytes(end["paid"]), mebibytes(end["unevictable"]), f"{end['held']}", f"{end['oom']}"]
        record.row("limit", end["kernel"], *numbers)


def names_of_held(status):
    held = sorted(file["path"].rpartition("/")[2] for file in status["files"] if file["state"] == "held")
    return ", ".join(held)


def hostile(records):
    for end in of(records, "hostile"):
        record.row("hostile", end["kernel"], end["files"], end["released"], names_of_held(end["status"]))


def stalls(records):
    """How often the guest out of memory stalled, and how fast the autopilot answered."""
    said = [one["status"]["stalls"] for one in of(records, "stalls")]
    if said:
        times = sum(one["some"] + one["full"] for one in said)
        missed = sum(one.get("missed", 0) for one in said)
        stalls = {"rounds": len(said), "missed": missed, "times": times}
        if times:
            stalls["slowest_us"] = max(one["slowest_us"] for one in said)
        record.fact("stalls", stalls)


def pressure(records):
    rounds = of(records, "pressure")
    if not rounds:
        return
    for key in ("seconds", "refaults", "read_kib", "oom"):
        sides = {
            side: statistics.median(one[key] for one in rounds if one["side"] == side) for side in ("without", "with")
        }
        ratio = f"{sides['with'] / sides['without']:.3f}" if sides["without"] else "-"
        record.row("pressure", key, f"{sides['without']:g}", f"{sides['with']:g}", ratio)


def days(records):
    lived = of(records, "day")
    if not lived:
        return
    for day in lived:
        own = f"{day['status']['own_bytes'] >> 10} KiB"
        cells = [f"{day['day']}", names_of_held(day["status"]), f"{len(day['events'])}", own, f"{day['files']}", f"{day['oom']}"]
        record.row("days", *cells)
    for end in of(records, "days"):
        record.fact("end", {"locked_kib": end["locked_kib"], "state_bytes": end["state_bytes"]})


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    seen(records)
    limit(records)
    hostile(records)
    pressure(records)
    stalls(records)
    days(records)


main()
