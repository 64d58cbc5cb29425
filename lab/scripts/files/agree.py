#!/usr/bin/env python3
"""Holds `check`, `fix --dry-run`, `fix` and `check --same` against each other, for every file of a list: HUGETEXT LIST.

The list is as packages.py says: packages by name and version, and paths. For each geometry and each way of a fix, the exit
status and the error must be the same, `check` must promise what the fix gives, it must say of the fixed file what it
promised, and both files must be the same program. After LIMIT seconds no further package is looked at. Prints the record of lab/results/files.md, and on standard error
every contradiction and every package that did not come. Ends with 1 if there is a contradiction.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import packages

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import record  # noqa: E402

GEOMETRIES = ["x86-64", "arm64-4k"]
STRATEGIES = {"": [], "align": ["--strategy", "align"], "shift": ["--strategy", "shift"], "merge": ["--strategy", "merge"],
              "self-warming": ["--self-warming"]}
DONE, NO, ERROR = range(3)


class Trial:
    """What is found about files: how often each way changed one, and what does not fit."""

    def __init__(self, hugetext):
        self.hugetext = os.path.abspath(hugetext)
        self.fixed = collections.Counter()
        self.refused = collections.Counter()
        self.contradictions = []

    def told(self, *words):
        """Exit status, JSON and the error of a command."""
        # Without a PATH nothing asks the package manager of this machine, which takes longer than all else.
        done = subprocess.run([self.hugetext, "--json", *words], capture_output=True, text=True, errors="replace", check=False,
                              env={"PATH": "/nonexistent", "HOME": "/nonexistent"})
        try:
            return done.returncode, json.loads(done.stdout), done.stderr.strip()
        except json.JSONDecodeError:
            return done.returncode, None, done.stderr.strip()

    def look(self, path, name, geometries=tuple(GEOMETRIES)):
        """Tries one file under these geometries. Its fixed copies lie elsewhere for a moment."""
        with tempfile.TemporaryDirectory(dir=packages.cache()) as directory:
            out = os.path.join(directory, "out")
            for geometry in geometries:
                for what in self.of_geometry(str(path), geometry, out):
                    self.contradictions.append((name, geometry, *what))
                    print(*self.contradictions[-1], sep="\t", file=sys.stderr, flush=True)

    def of_geometry(self, path, geometry, out):
        as_geometry = ["--geometry", geometry, path]
        status, document, said = self.told("check", *as_geometry)
        if status not in (DONE, NO, ERROR):
            yield "check: a crash", said
        if document is None or not document["files"]:
            if self.told("fix", "--dry-run", *as_geometry)[0] != status:
                yield "check alone is an error", said
            return
        checked = document["files"][0]
        for name, way in STRATEGIES.items():
            yield from ((f"{name or 'auto'}: {what}", said) for what, said in self.of_way(name, way, as_geometry, out, checked))

    def of_way(self, name, way, as_geometry, out, checked):
        dry = self.told("fix", "--dry-run", *way, *as_geometry)
        wet = self.told("fix", "-o", out, *way, *as_geometry)
        if (dry[0], dry[2]) != (wet[0], wet[2]):
            yield "the dry run and the fix differ", f"{dry[0]} {dry[2]}; {wet[0]} {wet[2]}"
        if not {wet[0], dry[0]} <= {DONE, NO, ERROR}:
            yield "a crash", wet[2]
        plan = wet[1]["plan"] if wet[0] == DONE and wet[1] else None
        promised = next((way for way in checked["possible"] if way["strategy"] == name), None)
        if promised and ("refusal" not in promised) != (plan is not None):
            yield "check promises, or refuses, alone", f"{promised}; {wet[0]} {wet[2]}"
        if plan is None:
            self.refused[name] += 1
            if not name and checked["after_fix"] > checked["reached"]:
                yield "promised and refused", wet[2]
            return
        if promised and promised["reached"] != plan["reached_after"]:
            yield "check promises another reach", f"{promised['reached']}; {plan['reached_after']}"
        if not name and plan["reached_after"] != checked["after_fix"]:
            yield "check promises another reach", f"{checked['after_fix']}; {plan['reached_after']}"
        if not plan["done_already"]:
            self.fixed[name] += 1
        yield from self.of_fixed(name, as_geometry, out, plan)
        os.unlink(out)

    def of_fixed(self, name, as_geometry, out, plan):
        """What is said of the new file."""
        path = as_geometry[-1]
        # A merge adds rights, which --same reports; the fix has proved it.
        if name != "merge" and (same := self.told("check", "--same", path, out))[0] != DONE:
            yield "another program", same[2]
        status, again, said = self.told("check", *as_geometry[:-1], out)
        if again is None or not again["files"]:
            yield "the fixed file is an error", f"{status} {said}"
            return
        again = again["files"][0]
        if name in ("", "shift", "self-warming") and \
                (again["after_fix"] > again["reached"] or again["reached"] < plan["reached_after"]):
            yield "check of the fixed file", f"{plan['reached_after']}; {again['reached']}; {again['after_fix']}"


def main():
    trial = Trial(sys.argv[1])
    lines = packages.read_list(sys.argv[2])
    files, failed, left, lock = collections.Counter(), [], [], threading.Lock()

    began, limit = time.monotonic(), float(os.environ.get("LIMIT", "inf"))

    def look(words):
        source = words[0] if len(words) > 1 else "paths"
        if time.monotonic() - began > limit:
            left.append(source)
            return
        try:
            with packages.package(words) as found:
                for path in found:
                    trial.look(path, " ".join([*words, path.name]))
        except subprocess.CalledProcessError as error:
            with lock:
                failed.append(source)
                print(*words, "did not come:", (error.stderr or "").strip()[-300:], file=sys.stderr, flush=True)
            return
        with lock:
            files[source] += len(found)
            print(*words, len(found), "files", file=sys.stderr, flush=True)

    packages.apt.bring([words for words in lines if words[0].startswith("debian-")])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(look, lines):
            pass
    sources = [words[0] if len(words) > 1 else "paths" for words in lines]
    for source in sorted(set(sources)):
        record.row("agree", source, sources.count(source) - failed.count(source) - left.count(source), files[source])
    for name in STRATEGIES:
        record.row("changed", name or "none", trial.fixed[name], trial.refused[name])
    record.fact("agree", {"files": sum(files.values()), "sources": len(files), "geometries": len(GEOMETRIES),
                          "ways": len(STRATEGIES), "failed": len(failed), "left": len(left), "contradictions": len(trial.contradictions)})
    sys.exit(min(len(trial.contradictions), 1))


if __name__ == "__main__":
    main()
