#!/usr/bin/env python3
"""Prints the record of lab/results/rivals.md: what each way to huge text costs in memory, and what perf still sees:
results-rivals.py HUGETEXT [LIBLPPRELOAD]

Needs root, node, perf and vmtouch. LIBLPPRELOAD is iodlr's library, which no distribution packages. Changes the page cache
only; the copies lie in a directory of its own.
"""
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import record

MANY = 20
MEBI = 1 << 20
SMALL_FOLIOS = pathlib.Path(__file__).with_name("small-folios.py")
# It says when it is ready, and works for three seconds when it is asked to: in functions of the program itself.
SCRIPT = """
const text = JSON.stringify(Array.from({length: 4000}, (_, n) => ({n, s: 'word' + n})));
process.on('SIGUSR2', () => { const end = Date.now() + 3000; while (Date.now() < end) JSON.parse(text); });
setInterval(() => {}, 1 << 30);
console.log('ready');
"""


def executable(pid):
    """Bytes below the executable mappings of a process: in memory, huge, its own, and its share (PSS)."""
    sums = dict.fromkeys(["Rss", "FilePmdMapped", "ShmemPmdMapped", "AnonHugePages", "Anonymous", "Pss"], 0)
    counts = False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+ *(.*)", line)
        if head:
            # Code that the runtime makes lies in writable memory or in memory without a name of a file.
            counts = "x" in head[1] and "w" not in head[1]
            continue
        name, _, value = line.partition(":")
        if counts and name in sums:
            sums[name] += int(value.split()[0]) * 1024
    huge = sums["FilePmdMapped"] + sums["ShmemPmdMapped"] + sums["AnonHugePages"]
    return {"memory": sums["Rss"], "huge": huge, "own": sums["Anonymous"], "pss": sums["Pss"]}


def started(program, words, environment, count):
    """Processes that are ready."""
    command = [program, *words, "-e", SCRIPT]
    environment = {**os.environ, **environment}
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for process in processes:
        process.stdout.readline()
    return processes


def ended(processes):
    for process in processes:
        process.kill()
        process.wait()


def text_range(pid, program):
    """The addresses between which a process has the program, or what took the place of its text."""
    ranges = [
        [int(address, 16) for address in line.split()[0].split("-")]
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        if line.endswith(str(program))
    ]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def named(pid, program, directory):
    """The share of samples in the program's text, or in what took its place, that have a function's name."""
    kept = f"{directory}/perf.data"
    words = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1000", "-o", kept, "-p", str(pid), "--", "sleep", "2"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as perf:
        os.kill(pid, signal.SIGUSR2)
        perf.wait()
    low, high = text_range(pid, program)
    words = ["perf", "script", "-i", kept, "-F", "ip,sym"]
    lines = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    samples = [line.split(None, 1) for line in lines.splitlines() if line.strip()]
    inside = [sample for sample in samples if low <= int(sample[0], 16) < high]
    good = [sample for sample in inside if len(sample) > 1 and "[unknown]" not in sample[1]]
    return f"{100 * len(good) / len(inside):.0f} % of {len(inside)}" if inside else "no samples"


def row(way, directory, program, words=(), environment=None, promote=None):
    """A line of the table: one process alone, then many at a time. `promote` is the command that is given their PIDs."""
    note = ""

    def ready(count):
        nonlocal note
        processes = started(program, words, environment or {}, count)
        if promote:
            pids = [str(process.pid) for process in processes]
            done = subprocess.run([*promote, *pids], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                note = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
        return processes

    one = ready(1)
    alone = executable(one[0].pid)
    perf = named(one[0].pid, program, directory)
    ended(one)
    many = ready(MANY)
    pss = sum(executable(process.pid)["pss"] for process in many)
    ended(many)
    cells = [f"{alone[key] / MEBI:.1f} MiB" for key in ["memory", "huge", "own"]]
    record.row("ways", way, *cells, f"{pss / MEBI:.1f} MiB", perf, note)


def small(program):
    subprocess.run([SMALL_FOLIOS, program], check=True)


def main():
    hugetext = os.path.realpath(sys.argv[1])
    node = os.path.realpath(shutil.which("node"))
    # Debian's is a small program of libnode.
    if os.path.getsize(node) < 16 * MEBI:
        sys.exit(f"{node}: its text lies in a library; put a node that holds its own text first on PATH")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} processors"
    record.fact("machine", machine)
    record.fact("node", f"node {version}")
    record.fact("many", MANY)
    # A directory whose page cache holds huge folios, if this machine has one.
    with tempfile.TemporaryDirectory(dir=os.environ.get("CARGO_TARGET_DIR", "target")) as directory:
        directory = os.path.realpath(directory)
        # Nobody else maps the copies.
        plain = shutil.copy2(node, f"{directory}/node")
        layouts = {"fixed": [], "merged": ["--strategy", "merge"]}
        for name, options in layouts.items():
            subprocess.run([hugetext, "fix", "-q", *options, "-o", f"{directory}/{name}", node], check=True)
        os.sync()
        small(plain)
        row("small folios", directory, plain)
        row("promoted", directory, plain, promote=[hugetext, "promote"])
        if len(sys.argv) > 2:
            row("iodlr", directory, plain, environment={"LD_PRELOAD": os.path.realpath(sys.argv[2])})
        row("node's own", directory, plain, words=["--use-largepages=on"])
        with subprocess.Popen(["vmtouch", "-q", "-l", plain]) as locking:
            row("vmtouch -l", directory, plain)
            locking.kill()
        for name in ["warmed", *layouts]:
            program = plain if name == "warmed" else f"{directory}/{name}"
            subprocess.run([hugetext, "warm", "-q", program], check=True)
            row(name, directory, program)


main()
