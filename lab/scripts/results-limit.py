#!/usr/bin/env python3
"""Prints the record of lab/results/limit.md: what a start is made of, and which page faults huge text removes: results-limit.py HUGETEXT

Needs root, for copies under the programs' own paths. Programs that are not installed are left out.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from record import fact, row

ROUNDS = int(os.environ.get("ROUNDS", "20"))
KINDS = ["faults on text", "faults on read-only data", "faults on data and relocations", "faults on other memory"]


def programs():
    """For each name the command, and the file of it that takes the sides. What is missing is None."""
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    rustc = subprocess.run(["rustup", "which", "rustc"], capture_output=True, text=True).stdout.strip()
    driver = next(iter(pathlib.Path(rustc).parent.parent.glob("lib/librustc_driver-*.so")), None)
    postgres = "/usr/lib/postgresql/15/bin/postgres"
    python = os.path.realpath("/usr/bin/python3")
    return {
        "cc1, an empty file": ([cc1, "-quiet", "/dev/null", "-o", "/dev/null"], cc1),
        "rustc --version": ([rustc, "--version", "--verbose"], driver),
        "node -e 0": (["node", "-e", "0"], shutil.which("node")),
        "python3 -S -c pass": ([python, "-S", "-c", "pass"], python),
        "postgres --version": ([postgres, "--version"], postgres if os.path.exists(postgres) else None),
        "git version": (["git", "version"], shutil.which("git")),
    }


def system_calls(command):
    """The number of system calls of `command` and all its children."""
    with tempfile.NamedTemporaryFile("r") as summary:
        subprocess.run(
            ["strace", "-f", "-c", "-U", "name,calls", "-o", summary.name, *command],
            stdout=subprocess.DEVNULL, check=True)
        name, calls = summary.read().split()[-2:]
    if name != "total":
        raise SystemExit(f"strace: no summary of {command[0]}")
    return calls


def rows(hugetext, name, command, program):
    """The lines of a program, one for each side."""
    answer = subprocess.run(
        [hugetext, "bench", "exec", "--json", "--copy", "--rounds", str(ROUNDS), "--per-round", "20", "--program", program, "--", *command],
        stdout=subprocess.PIPE, text=True, check=True)
    bench = json.loads(answer.stdout)["benchmarks"][0]
    measures = {measure["name"]: measure["values"] for measure in bench["measures"]}
    first = None
    for index, side in enumerate(bench["sides"]):
        faults = [measures[kind][index]["median"] for kind in KINDS]
        first = first or faults[0] + faults[1]
        removed = 1 - (faults[0] + faults[1]) / first
        times = [f"{1000 * measures[kind][index]['median']:.2f} ms" for kind in ["user", "system"]]
        counts = [f"{count:.0f}" for count in faults]
        ratio = measures["processor"][index].get("ratio")
        compared = ["", "", ""]
        if ratio:
            limit = f"{1 - (1 - ratio['median']) / removed:.2f}" if removed >= 0.1 else ""
            # A few rounds give no interval.
            interval = f" ({ratio['low']:.3f} to {ratio['high']:.3f})" if "low" in ratio else ""
            compared = [f"{removed:.0%}", f"{ratio['median']:.3f}{interval}", limit]
        calls = system_calls(command) if index == 0 else ""
        row("programs", name if index == 0 else "", side["name"], *times, calls, *counts, *compared)


def main():
    fact("machine", f"Linux {os.uname().release}, {os.cpu_count()} processors")
    fact("rounds", ROUNDS)
    for name, (command, program) in programs().items():
        if program:
            rows(sys.argv[1], name, command, str(program))


main()
