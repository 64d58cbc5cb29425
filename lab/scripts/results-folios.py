#!/usr/bin/env python3
"""Writes lab/results/folios.md: what larger folios are worth to programs without a window: results-folios.py HUGETEXT

Takes root, to see folios in /proc/kpageflags, and a filesystem whose page cache has large folios.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROUNDS = 300
SMALL_FOLIOS = pathlib.Path(__file__).with_name("small-folios.py")
PROGRAMS = [
    ("git", ["version"]),
    ("python3", ["-S", "-c", "pass"]),
    ("bash", ["-c", ":"]),
    ("perl", ["-e", "1"]),
    ("tar", ["--version"]),
]

TEXT = """# Folios smaller than a leaf

Written by `lab/measure folios` on {machine}.

git and python3 hold no window of 2 MiB, so no leaf can map their text. Larger folios still help them: the kernel counts
and releases a folio once for all pages that it maps of it, and a start maps and unmaps hundreds. `hugetext warm` reads
such a file into the largest folios that it can fill. `hugetext fix --strategy merge` goes further and makes a window of
text and read-only data together. The second column has the folios of the text, as page faults read it and after `warm`.
`hugetext bench exec` starts copies of each program in all three states, which take turns in random order, {rounds}
rounds; wall time of a start, medians; ratios to small folios, with the interval that holds the median in 95 % of samples.

| | folios of its text | small folios | larger folios | merged | larger to small | merged to small | minor faults of the three |
|---|---|---|---|---|---|---|---|"""


def asked(*command):
    """The document that a command prints."""
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def folios(hugetext, program, directory):
    """Of how many folios the text of a copy is, before and after `warm`."""
    copy = shutil.copy2(program, directory)
    os.sync()
    subprocess.run([SMALL_FOLIOS, copy], check=True)
    # It prints what it did with exit 1 too, as where the text was in such folios before.
    warmed = json.loads(subprocess.run([hugetext, "warm", "--json", copy], stdout=subprocess.PIPE).stdout)
    found = warmed["files"][0]["folios"]
    return f"{found['before']['folios']}, {found['now']['folios']}"


def row(bench, counts, program, words):
    """A line of the table. A program that cannot be merged has no third state."""
    names = [side["name"] for side in bench["sides"]]
    measures = {measure["name"]: dict(zip(names, measure["values"])) for measure in bench["measures"]}

    def cell(side, shown):
        return shown(measures["wall"][side]) if side in names else "-"

    def wall(value):
        return f"{1000 * value['median']:.2f} ms"

    def ratio(value):
        return "{median:.3f} ({low:.3f} to {high:.3f})".format(**value["ratio"])

    sides = ["small folios", "warmed", "merged"]
    faults = ", ".join(f"{measures['minor faults'][side]['median']:.0f}" for side in sides if side in names)
    cells = [" ".join([pathlib.Path(program).name, *words]), counts]
    cells += [cell(side, wall) for side in sides] + [cell(side, ratio) for side in sides[1:]] + [faults]
    return "| " + " | ".join(cells) + " |"


def main():
    hugetext, rows, machine = sys.argv[1], [], {}
    with tempfile.TemporaryDirectory(dir="target") as directory:
        for program, words in PROGRAMS:
            # The interpreters of the distribution, not others before them.
            program = shutil.which(program, path="/usr/bin")
            if program is None:
                continue
            document = asked(hugetext, "bench", "exec", "--json", "--copy", "--directory", directory, "--rounds",
                             str(ROUNDS), "--per-round", "1", "--", program, *words)
            machine = document["machine"]
            rows.append(row(document["benchmarks"][0], folios(hugetext, program, directory), program, words))
    print(TEXT.format(machine=f"Linux {machine['release']}, {machine['cpus']} x {machine['processor']}", rounds=ROUNDS))
    print("\n".join(rows))


main()
