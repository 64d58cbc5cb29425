#!/usr/bin/env python3
"""Prints the record of lab/results/steady.md: what misses of the instruction TLB cost programs that run for long: results-steady.py HUGETEXT

Reads the records of lab/records/worth beside it. Needs root, for the server of a database. What is not installed is left out.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import record

HERE = pathlib.Path(__file__).resolve().parent
LOADS = HERE.parent.parent / "crates/bench/loads/work"
RECORDS = HERE.parent / "records/worth"
CORE = "zen4"
# Names of works, and the sides of their records from the best one down.
WORKS = ["gcc-c", "gcc-cxx", "clang-cxx", "rustc", "mold", "node", "python", "php", "git", "postgres", "mariadb"]
SIDES = ["merged", "fixed", "warmed"]


# MiB of text: 512 and 8192 pages. The first level has 64 entries, the second 512, of up to four pages each.
MISS_SIZE = 2
WALK_SIZE = 32
CALLS = 1_000_000
# How many runs tell what the place of text in memory does.
PLACEMENTS = 8
# A core on which a leaf saves every miss takes clearly less time than through page tables.
SAVES = 0.9


def ask(hugetext, *words, user=None):
    """The document that the command prints."""
    as_user = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if user else []
    answer = subprocess.run([*as_user, hugetext, "bench", *words], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(answer.stdout)


def by_side(report, name):
    """The values of a measure of the report's first benchmark, by the names of its sides."""
    comparison = report["benchmarks"][0]
    values = next(measure["values"] for measure in comparison["measures"] if measure["name"] == name)
    return {side["name"]: value for side, value in zip(comparison["sides"], values)}


def calls_at_random(hugetext, size):
    """Nanoseconds of a call at random, by side, and the machine in words."""
    report = ask(hugetext, "random", "--json", "--rounds", "20", "--size", f"{size}", "--calls", f"{CALLS}")
    calls = by_side(report, "random calls")
    return {side: value["median"] / CALLS * 1e9 for side, value in calls.items()}, report["summary"]


def longer(calls):
    """Nanoseconds that a call takes longer in small folios than in huge ones."""
    return max(0.0, calls["small folios"] - calls["warmed"])


def entries(runs):
    """What runs on one window, each in other folios, say of entries of 2M and of places in memory, for the text."""
    leaf = [calls["warmed"] / calls["warmed, misaligned"] for calls in runs]
    small, huge = ([calls[side] for calls in runs] for side in ("small folios", "warmed"))
    saves = statistics.median(leaf) < SAVES
    return {
        "saves": saves,
        "placements": len(runs),
        "leaf_low": min(leaf), "leaf_high": max(leaf),
        "small_low": min(small), "small_high": max(small),
        "huge_low": min(huge), "huge_high": max(huge),
    }


class Work:
    """A work of `hugetext bench work`, prepared in a directory."""

    def __init__(self, name, directory):
        for shared in LOADS.glob("*"):
            if shared.suffix != ".sh":
                shutil.copy(shared, directory)
        said = subprocess.run(["sh", LOADS / f"{name}.sh", directory], capture_output=True, text=True)
        self.missing = said.returncode != 0
        if self.missing:
            return
        _, _, *self.command = said.stdout.rstrip("\n").split("\n")
        self.user = self.input = None
        if self.command[:2] == ["sh", "-c"]:
            self.command, self.user, self.input = direct(self.command[2])


def direct(script):
    """The words of a shell's command "exec [setpriv … --clear-groups] COMMAND < INPUT", as whom, and with which input."""
    words = [word.strip("'") for word in script.split()]
    at = words.index("<")
    words, source, user = words[1:at], words[at + 1], None
    if words[0] == "setpriv":
        user = words[words.index("--reuid") + 1]
        words = words[words.index("--clear-groups") + 1:]
    return words, user, source


def modelled(hugetext, work):
    """The counts of the work, or None. A program that fails under one emulator may run under another."""
    given = ["--input", work.input] if work.input else []
    for emulator in ([], ["--emulator", "valgrind"]):
        try:
            return ask(hugetext, "tlb", "--json", "--core", CORE, *emulator, *given, "--", *work.command, user=work.user)
        except subprocess.CalledProcessError:
            continue
    return None


def measured(name):
    """Processor time of the small side in nanoseconds, and the ratio of the best side that was measured."""
    path = RECORDS / f"{name}.json"
    if not path.exists():
        return None, "-"
    processor = by_side(json.loads(path.read_text(encoding="utf-8")), "processor")
    side = next(side for side in SIDES if side in processor)
    ratio = processor[side]["ratio"]
    gain = [100 * (1 - ratio[key]) for key in ("median", "high", "low")]
    small = next(iter(processor.values()))
    return small["median"] * 1e9, f"{gain[0]:.1f} % ({gain[1]:.1f} to {gain[2]:.1f}), {side}"


def row(name, report, miss, walk):
    layouts = {layout["layout"]: layout for layout in report["cores"][0]["layouts"]}
    base, fixed = layouts["4k"], layouts["fixed"]
    time, gain = measured(name)
    lost = (base["l1_misses"] - base["l2_misses"]) * miss + base["l2_misses"] * walk
    bound = f"{100 * lost / time:.1f} %" if time else "-"
    reached = f"{1 - fixed['l2_misses'] / base['l2_misses']:.0%}" if base["l2_misses"] else "-"
    numbers = [f"{layout[key]:.3f}" for key in ("l1_mpki", "l2_mpki") for layout in (base, fixed)]
    record.row("works", name, f"{report['instructions'] / 1e6:.0f}", *numbers, reached, bound, gain)


def main():
    hugetext = os.path.realpath(sys.argv[1])
    runs = [calls_at_random(hugetext, MISS_SIZE)[0] for _ in range(PLACEMENTS)]
    walks, machine = calls_at_random(hugetext, WALK_SIZE)
    miss, walk = statistics.median(map(longer, runs)), longer(walks)
    sizes = {"miss_size": MISS_SIZE, "walk_size": WALK_SIZE}
    for fact, value in {"machine": machine, "core": CORE, "miss": miss, "walk": walk, **sizes, **entries(runs)}.items():
        record.fact(fact, value)
    for name in WORKS:
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            work = Work(name, directory)
            if work.missing:
                print(f"{name}: left out, because something that it needs is not installed", file=sys.stderr)
                continue
            report = modelled(hugetext, work)
            if report is None:
                print(f"{name}: left out, because it runs under no emulator", file=sys.stderr)
                continue
            row(name, report, miss, walk)


main()
