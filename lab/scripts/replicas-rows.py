#!/usr/bin/env python3
"""Prints rows of the record of lab/results/replicas.md: replicas-rows.py NODES BENCH, where lab/measure replicas-nodes and
replicas-bench wrote these. It measures nothing."""

import itertools
import json
import math
import sys

from record import fact, row


def first(items, *path):
    """The first of the items, or what lies at this path in it; None without any."""
    found = next(iter(items), None)
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def kib(number):
    return "" if number is None else number // 1024


def rounded(number, decimals):
    """Without zeros at the end."""
    return f"{math.floor(number * 10**decimals + 0.5) / 10**decimals:.10g}"


def shown(value):
    return "" if value is None or value is False else value


def cell(guest, when):
    """Text that is not where it is wanted, and how `warm --node` ended."""
    it = first(line for line in guest if line["what"] == "warm" and line.get("when") == when) or {}
    nodes = first((it.get("said") or {}).get("files") or [], "nodes")
    text = f"{nodes['elsewhere'] // 1024} of {sum(nodes['after'].values() if isinstance(nodes['after'], dict) else nodes['after']) // 1024}" if nodes else ""
    return [text, shown((nodes or {}).get("obstacle")), shown(it.get("exit"))]


def of_guest(name, guest):
    """The rows of one guest."""
    def of(what, when=None):
        return (line for line in guest if line["what"] == what and (when is None or line.get("when", "") == when))

    places = [first(of("stat", when), "said", "processes") for when in ("before", "after", "in-memory")]
    places = [(found or [{}])[0].get("nodes") or {} for found in places]
    sides = [kib(place.get(side)) for place in places for side in ("local", "remote")]
    row("text", *name, *sides, shown(first(of("path"), "mappings")))

    before, after = (first(of("memory", when)) for when in ("before", "after"))
    grew = [after[field] - before[field] if after else "" for field in ("file_kib", "tables_kib")]
    told = first(of("plan", ""), "said", "replicas") or {}
    made = first(of("store", "made"), "said", "entries") or []
    disk = kib(sum(entry["size"] for entry in made)) if made else ""
    row("memory", *name, kib(told.get("memory")), kib(told.get("disk")), *grew, len(made), disk)

    row("warm", *name, *itertools.chain(*(cell(guest, when) for when in ("refused", "moved", "spread"))))

    entries = [first(of("store", when), "said", "entries") for when in ("made", "upgraded", "removed")]
    entries = ["" if found is None else len(found) for found in entries]
    row("entries", *name, *entries, shown(first(of("plan", "spans"), "errors")))

    if first(of("auto")):
        files = [file for line in of("auto", "") for file in (line.get("said") or {}).get("files") or []]
        file = max(files, key=lambda file: file["remote_per_mille"]) if files else {}
        decision = file.get("decision") or {}
        gets = first(of("plan", "advised"), "said", "replicas", "replica")
        gets = json.dumps(gets, separators=(",", ":")) if isinstance(gets, dict) else shown(gets)
        gets = "".join(letter for letter in str(gets) if letter not in '{}"')
        row("auto", *name, shown(file.get("remote_per_mille")), shown(decision.get("replicas")),
            shown(decision.get("copies")), gets)

    for line in of("bench"):
        benchmarks = (line.get("said") or {}).get("benchmarks")
        ratio = benchmarks and benchmarks[0]["measures"][0]["values"][1]["ratio"]["median"]
        row("numa", *name, rounded(ratio, 2) if ratio else shown(line.get("errors")))


def of_machine(bench):
    """What copies give to starts on a machine."""
    fact("machine", bench["summary"])
    fact("invocation", bench["invocation"].rsplit("/", 1)[-1])
    found = bench["benchmarks"][0]
    fact("title", found["title"])
    fact("sides", [side["name"] for side in found["sides"]])
    for measure in found["measures"]:
        number, _, word = measure["name"].partition(" ")
        if not (number.isdigit() and word.startswith("worker")):
            continue
        cells = []
        for value in measure["values"]:
            ratio = value.get("ratio")
            if ratio:
                interval = ratio.get("interval") or {}
                low, high = (ratio.get(end) or interval.get(end) or 0 for end in ("low", "high"))
                cells.append(f"{rounded(ratio['median'], 3)} ({rounded(low, 3)} to {rounded(high, 3)})")
            else:
                cells.append(f"{rounded(value['median'], 0)} a second")
        row("starts", measure["name"], *cells)


def main(nodes, bench):
    """Prints all rows."""
    with open(nodes, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]

    def guest(line):
        return [int(part) for part in line["kernel"].split(".")], line["nodes"], line["fs"]

    lines.sort(key=guest)
    for _, found in itertools.groupby(lines, guest):
        found = list(found)
        of_guest([found[0][name] for name in ("kernel", "nodes", "fs")], found)
    with open(bench, encoding="utf-8") as file:
        of_machine(json.load(file))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
