#!/usr/bin/env python3
"""Holds `check`, `fix --dry-run` and `fix` against each other, for every file of a list: HUGETEXT LIST.

A line of the list is a path. For each geometry and each way of a fix, the exit status and the error must be the same,
`check` must promise what the fix gives, and must say of the fixed file what it promised. Prints every contradiction, and
what was tried. Ends with 1 if there is a contradiction.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GEOMETRIES = ["x86-64", "arm64-4k"]
WAYS = [[], ["--strategy", "align"], ["--strategy", "merge"], ["--self-warming"]]


def told(*words):
    """Exit status, JSON and the error of a command."""
    done = subprocess.run([hugetext, "--json", *words], capture_output=True, text=True, check=False)
    try:
        return done.returncode, json.loads(done.stdout), done.stderr.strip()
    except json.JSONDecodeError:
        return done.returncode, None, done.stderr.strip()


def contradictions(path, geometry, out):
    """What the three say of one file that does not fit."""
    as_geometry = ["--geometry", geometry, path]
    status, document, said = told("check", *as_geometry)
    if document is None or not document["files"]:
        if told("fix", "--dry-run", *as_geometry)[0] != status:
            yield "check alone is an error", said
        return
    checked = document["files"][0]
    for way in WAYS:
        dry = told("fix", "--dry-run", *way, *as_geometry)
        wet = told("fix", "-o", out, *way, *as_geometry)
        if (dry[0], dry[2]) != (wet[0], wet[2]):
            yield f"{way}: the dry run and the fix differ", f"{dry[0]} {dry[2]}; {wet[0]} {wet[2]}"
        if wet[0] not in (0, 1, 2) or dry[0] not in (0, 1, 2):
            yield f"{way}: a crash", wet[2]
        if wet[0] != 0:
            if not way and checked["after_fix"] > checked["reached"]:
                yield f"{way}: promised and refused", wet[2]
            continue
        reached = wet[1]["plan"]["reached_after"]
        again = told("check", "--geometry", geometry, out)[1]["files"][0]
        os.unlink(out)
        if not way and reached != checked["after_fix"]:
            yield f"{way}: check promises another reach", f"{checked['after_fix']}; {reached}"
        if way[:1] != ["--strategy"] and (again["after_fix"] > again["reached"] or again["reached"] < reached):
            yield f"{way}: check of the fixed file", f"{reached}; {again['reached']}; {again['after_fix']}"


def tried(path):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(sys.argv[2]))) as directory:
        out = os.path.join(directory, "out")
        return [(path, geometry, *found) for geometry in GEOMETRIES for found in contradictions(path, geometry, out)]


hugetext = os.path.abspath(sys.argv[1])
files = pathlib.Path(sys.argv[2]).read_text().split("\n")
files = [file for file in files if file and not file.startswith("#")]
found = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for rows in pool.map(tried, files):
        for row in rows:
            found += 1
            print(*row, sep="\t", flush=True)
print(f"{len(files)} files, {len(GEOMETRIES)} geometries, {len(WAYS)} ways: {found} contradictions")
sys.exit(min(found, 1))
