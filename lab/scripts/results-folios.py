#!/usr/bin/env python3
"""Prints the record of lab/results/folios.md: what larger folios are worth to programs without a window: results-folios.py HUGETEXT

Needs root, to see folios in /proc/kpageflags, and a filesystem whose page cache has large folios.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from record import fact, row

ROUNDS = int(os.environ.get("ROUNDS", "300"))
SMALL_FOLIOS = pathlib.Path(__file__).with_name("small-folios.py")
PROGRAMS = [
    ("git", ["version"]),
    ("python3", ["-S", "-c", "pass"]),
    ("bash", ["-c", ":"]),
    ("perl", ["-e", "1"]),
    ("tar", ["--version"]),
]


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


def cells(bench, counts, program, words):
    """The cells of a row. A program that cannot be merged has no third state."""
    names = [side["name"] for side in bench["sides"]]
    measures = {measure["name"]: dict(zip(names, measure["values"])) for measure in bench["measures"]}

    def cell(side, shown):
        return shown(measures["wall"][side]) if side in names else "-"

    def wall(value):
        return f"{1000 * value['median']:.2f} ms"

    def ratio(value):
        # A few rounds give no interval.
        known = "{median:.3f} ({low:.3f} to {high:.3f})" if "low" in value["ratio"] else "{median:.3f}"
        return known.format(**value["ratio"])

    sides = ["small folios", "warmed", "merged"]
    faults = ", ".join(f"{measures['minor faults'][side]['median']:.0f}" for side in sides if side in names)
    named = [" ".join([pathlib.Path(program).name, *words]), counts]
    return named + [cell(side, wall) for side in sides] + [cell(side, ratio) for side in sides[1:]] + [faults]


def main():
    hugetext = sys.argv[1]
    fact("rounds", ROUNDS)
    with tempfile.TemporaryDirectory(dir="target") as directory:
        for program, words in PROGRAMS:
            # The interpreters of the distribution, not others before them.
            program = shutil.which(program, path="/usr/bin")
            if program is None:
                continue
            document = asked(hugetext, "bench", "exec", "--json", "--copy", "--directory", directory, "--rounds",
                             str(ROUNDS), "--per-round", "1", "--", program, *words)
            machine = document["machine"]
            fact("machine", f"Linux {machine['release']}, {machine['cpus']} x {machine['processor']}")
            row("programs", *cells(document["benchmarks"][0], folios(hugetext, program, directory), program, words))


main()
