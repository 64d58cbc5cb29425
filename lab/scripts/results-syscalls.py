#!/usr/bin/env python3
"""Measures whether huge text makes system calls expensive on this machine: results-syscalls.py RECORD.jsonl HUGETEXT

The record, of which lab/results/syscalls.md is made, has one line for each machine. That of this machine is replaced.
"""
import json
import os
import pathlib
import subprocess
import sys

PAGES = [16, 32, 64, 128, 256, 512, 1024]
ROUNDS = int(os.environ.get("ROUNDS", "30"))
PASSES = 1000


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
    host = json.loads(subprocess.run([hugetext, "--json", "host"], check=True, stdout=subprocess.PIPE).stdout)
    return {
        "machine": summary + processor(),
        "host": {"verdict": host["verdict"], "platform": host["platform"]},
        "rows": [row(hugetext, pages) for pages in PAGES],
        "postgres": postgres_of(comparison),
    }


def keep(path, own, records):
    """Replaces the record of this machine, or adds it."""
    records = [one for one in records if one["machine"] != own["machine"]] + [own]
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    new.replace(path)


def main():
    path, hugetext = pathlib.Path(sys.argv[1]), os.path.realpath(sys.argv[2])
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    keep(path, measured(hugetext), records)


main()
