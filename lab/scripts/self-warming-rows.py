#!/usr/bin/env python3
"""Prints the record of lab/results/self-warming.md, made of what results-self-warming.sh kept: self-warming-rows.py RECORD

RECORD is a directory with a file for each part."""
import collections
import json
import math
import pathlib
import statistics
import sys

import record as page

LAYOUTS = ["shipped", "fixed", "warming", "merged"]
WINDOW = 2 << 20

# The target for the time to first output, over that of the file as shipped.
SLOWEST = 1.05


def median(rows, field):
    return statistics.median(row[field] for row in rows)


def table(name, rows):
    for row in rows:
        page.row(name, *row)


class Ratio:
    """The median of paired ratios with its interval of 95 % by order statistics; below six pairs there is none."""

    def __init__(self, rows, base):
        by_round = {(row["began"], row["round"]): row["first_output"] for row in base}
        ordered = sorted(row["first_output"] / by_round[row["began"], row["round"]]
                         for row in rows if (row["began"], row["round"]) in by_round)
        count, below = len(ordered), 0.0
        for rank in range(count):
            below += math.comb(count, rank) / 2**count
            if below > 0.025:
                break
        self.middle = statistics.median(ordered)
        self.interval = (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None

    def text(self, digits):
        interval = f" ({self.interval[0]:.{digits}f} to {self.interval[1]:.{digits}f})" if self.interval else ""
        return f"{self.middle:.{digits}f}{interval}"

    def verdict(self):
        """Whether the target is met, and why it is not known."""
        if self.interval and self.interval[1] <= SLOWEST:
            return "met"
        if self.interval and self.interval[0] > SLOWEST:
            return "missed"
        return "not-shown"

    def estimate(self):
        """As the documents of benchmarks have it."""
        bounds = dict(zip(["low", "high"], self.interval)) if self.interval else {}
        return {"median": self.middle, **bounds}


def counts(rows, base):
    more = (median(rows, "read") - median(base, "read")) / 2**20
    return [
        f"{median(rows, 'huge') / WINDOW:.0f} of {median(rows, 'whole'):.0f}",
        f"{median(rows, 'mappings'):.0f}",
        f"{median(rows, 'minor'):.0f}",
        f"{median(rows, 'major'):.0f}",
        f"{median(rows, 'read') / 2**20:.1f}",
        f"{more:.1f}",
        f"{median(rows, 'touched') * WINDOW / 2**20:.0f}",
        f"{median(rows, 'outside') / 2**20:.1f}",
    ]


def times(rows, base):
    ratio = "1.00" if rows is base else Ratio(rows, base).text(2)
    return [f"{1000 * median(rows, 'first_output'):.1f}", ratio, str(len(rows))]


def read_record(path):
    """The lines of the record by what they are about."""
    found = collections.defaultdict(list)
    kinds = ["windows_of", "machine", "tunables_conf", "touched_page", "readahead_of", "asker_rule", "refused", "guest", "way", "linker"]
    for part in sorted(pathlib.Path(path).glob("*.jsonl")):
        for text in part.read_text().splitlines():
            row = json.loads(text)
            row["part"] = part.stem
            if part.stem == "linked":
                kind = "linked"
            elif "first_output" not in row and "touched" in row:
                kind = "touched_page"
            elif "asked" in row and "program" in row and "first_output" not in row:
                kind = "windows_of"
            else:
                kind = next((kind for kind in kinds if kind in row), "start")
            found[kind].append(row)
    return found


def programs_table(record):
    rows = []
    for row in record["windows_of"]:
        name = row["program"] if row["program"] == row["file"] else f"{row['program']}: {row['file'].split('/')[-1]}"
        rows.append([name, str(row["windows"]), str(row["asked"]), row["refusal"] or ""])
    table("programs", rows)


def refusals_table(record):
    order = sorted(record["refused"], key=lambda row: -row["files"])
    rows = [[row["refused"] or "", str(row["files"]), str(row["windows"]), str(row["now"]), str(row["after"])]
            for row in order]
    table("refused", rows)


def rules_table(record):
    rows = [[rule[field] for field in ["asker", "since", "asks_for", "aligns", "source", "evidence"]]
            for rule in (row["asker_rule"] for row in record["asker_rule"])]
    table("rules", rows)


def readahead_table(record):
    """Huge windows and times of the program that runs through its text, by the readahead of its device."""
    found = collections.defaultdict(dict)
    for row in record["readahead_of"]:
        found[row["read_ahead_kb"]][row["readahead_of"]] = row
    for readahead, layouts in sorted(found.items()):
        cells = [layouts[layout] for layout in ["linked", "near", "apart"]]
        table("readahead", [[readahead, *[f"{cell['huge']:.0f}, {cell['ms']} ms" for cell in cells]]])


def places(record):
    """The starts of each place: a mode of THP, a version of glibc, the tunable and a filesystem; and of each command
    and layout there."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in record["start"] + record["guest"]:
        place = (row["thp"], row.get("glibc", "2.44"), row["tunable"], row.get("fs", "ext4"), "guest" in row)
        found[place][row["program"], row["layout"]].append(row)
    return found


def order_of(place):
    thp, glibc, tunable, fs, in_guest = place
    return in_guest, thp, [int(part) for part in glibc.split(".")], tunable, ["ext4", "xfs", "btrfs", "overlay"].index(fs)


def expected(found, place, command):
    """Bytes in PMD leaves by the start on ext4 with the same request; `None` if there is no such start."""
    thp, glibc, tunable, fs, in_guest = place
    if fs == "btrfs":
        return 0
    rows = found.get(("madvise", "2.44", tunable, "ext4", False), {}).get(command)
    return median(rows, "huge") if rows else None


def places_table(record):
    found = places(record)
    page.fact("guests", sorted({row["guest"] for row in record["guest"]}))
    used = [layout for layout in LAYOUTS if any(command[1] == layout for cells in found.values() for command in cells)]
    rows, deviating = [], []
    for place in sorted(found, key=order_of):
        cells = found[place]
        thp, glibc, tunable, fs, in_guest = place
        named = [f"{thp}, guest" if in_guest else thp, glibc, str(tunable), fs]
        row = [*named, str(len({program for program, _ in cells}))]
        for layout in used:
            own = [starts for (_, other), starts in cells.items() if other == layout]
            huge, whole = (sum(median(starts, field) for starts in own) for field in ("huge", "whole"))
            row.append(f"{huge / WINDOW:.0f} of {whole:.0f}" if own else "")
        both = [program for program, layout in cells if layout == "warming" and (program, "shipped") in cells]
        more = sum(median(cells[program, "warming"], "mappings") - median(cells[program, "shipped"], "mappings") for program in both)
        rows.append([*row, f"{more:.0f}"])
        for (program, layout), starts in sorted(cells.items()):
            wanted, huge = expected(found, place, (program, layout)), median(starts, "huge")
            if wanted is not None and huge != wanted:
                deviating.append([*named, program, layout, f"{huge / WINDOW:.0f}", f"{wanted / WINDOW:.0f}"])
    table("places", rows)
    table("deviating", deviating)


def ways_table(record):
    ways = ["warming", "later", "tail"]
    cells = collections.defaultdict(list)
    for row in record["way"]:
        cells[row["program"], row["read_ahead_kb"], row["layout"]].append(row)
    rows = []
    for (program, readahead, layout), found in sorted(cells.items(), key=lambda cell: (cell[0][0], -cell[0][1], -ways.index(cell[0][2]))):
        rows.append([program, str(readahead), layout, f"{median(found, 'huge') / WINDOW:.0f} of {median(found, 'whole'):.0f}",
                     f"{median(found, 'mappings'):.0f}", f"{median(found, 'major'):.0f}", f"{median(found, 'read') / 2**20:.1f}",
                     f"{median(found, 'outside') / 2**20:.1f}"])
    table("ways", rows)


def targets(cells, programs):
    """What the targets are about, computed from the starts with the tunable."""
    huge = whole = 0
    beyond, ratios = [], []
    for program in programs:
        shipped, fixed, warming = (cells.get((program, layout)) for layout in ("shipped", "fixed", "warming"))
        if not (shipped and fixed and warming):
            continue
        ratio = Ratio(warming, shipped)
        ratios.append({"program": program, "ratio": ratio.estimate(), "verdict": ratio.verdict()})
        # The shorter command of a program shows the worst case, and is not counted twice.
        if "." not in program:
            huge += median(warming, "huge") / WINDOW
            whole += median(warming, "whole")
        more = (median(warming, "outside") - median(fixed, "outside")) / 2**20
        if more >= 0.05:
            beyond.append({"program": program, "mebibytes": more})
    page.fact("targets", {"huge": huge, "whole": whole, "beyond": beyond, "slowest": SLOWEST, "ratios": ratios})


def linkers_table(record):
    cells = collections.defaultdict(list)
    for row in record["linked"]:
        cells[row["layout"], row["tunable"]].append(row)
    said = {row["linker"]: f"{row['huge']} of {row['windows']}" for row in record["linker"]}
    table("linked", [
        [linker, str(tunable), f"{median(rows, 'huge') / WINDOW:.0f} of {median(rows, 'whole'):.0f}",
         said.get(linker, "unrecorded") if tunable else "", f"{median(rows, 'mappings'):.0f}",
         f"{median(rows, 'major'):.0f}", f"{median(rows, 'read') / 2**20:.1f}"]
        for (linker, tunable), rows in sorted(cells.items())])


def unmeasured(record):
    """The programs that were not started under the modes of THP, and those of which no other cut was tried."""
    programs = {row["program"].split(".")[0] for row in record["start"]}
    return {kind: sorted(programs - {row["program"].split(".")[0] for row in record[kind]}) for kind in ["guest", "way"]}


def main():
    record = read_record(sys.argv[1])
    page.fact("tried", record["tunables_conf"][0]["tunables_conf"])
    table("touched", [[row["touched"], row["huge"] // WINDOW] for row in record["touched_page"]])
    readahead_table(record)
    rules_table(record)
    programs_table(record)
    refusals_table(record)
    timed = [row for row in record["start"] if row["part"] == "tunable"]
    cells = collections.defaultdict(list)
    for row in timed:
        cells[row["program"], row["layout"]].append(row)
    loads = [row["load"] for row in timed]
    page.fact("load", {"least": min(loads), "most": max(loads), "median": statistics.median(loads)})
    page.fact("machine", record["machine"][0]["machine"])
    page.fact("direct", all(row["direct"] for row in record["start"]))
    programs = sorted({program for program, _ in cells})
    targets(cells, programs)
    rows = []
    for program in programs:
        base = cells.get((program, "shipped"))
        for layout in LAYOUTS:
            starts = cells.get((program, layout))
            if starts and base:
                rows.append([program, layout, *counts(starts, base), *times(starts, base)])
    table("starts", rows)
    places_table(record)
    ways_table(record)
    if record["linked"]:
        linkers_table(record)
    page.fact("unmeasured", unmeasured(record))


main()
