#!/usr/bin/env python3
"""Damages the headers of programs at random, and holds what the command says of each against each other:

    mutants.py HUGETEXT SEED COUNT

The programs are small ones of this machine's linkers. A mutant has one to three fields of its headers changed: to a value that
another field has, to one nearby, to an extreme one, or by a bit. One seed gives the same mutants of the same programs. KEEP names a
directory for those with contradictions, and FIRST the number of the first mutant. Prints
the record of lab/results/files.md, and on standard error every contradiction with the number of its mutant.
"""

import concurrent.futures
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

import agree
import packages

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import record  # noqa: E402

# Text of some leaves of 64 KiB and one of 2 MiB, most of it zeros, so that copies are quick.
SOURCE = """
#include <stdio.h>
__asm__(".pushsection .text.zz,\\"ax\\"\\n.skip 2400000\\n.popsection");
static char data[20000] = { 1 };
int main(void) { return printf("%d\\n", data[0]) < 0; }
"""
LINKS = {
    "bfd, PIE": ["-fuse-ld=bfd", "-pie", "-Wl,-z,separate-code"],
    "bfd, text with the header": ["-fuse-ld=bfd", "-pie", "-Wl,-z,noseparate-code"],
    "bfd, fixed address": ["-fuse-ld=bfd", "-no-pie", "-Wl,-z,separate-code"],
    "lld": ["-fuse-ld=lld", "-pie"],
    "lld, library": ["-fuse-ld=lld", "-shared", "-fPIC"],
    "mold": ["-fuse-ld=mold", "-pie"],
    "gold": ["-fuse-ld=gold", "-pie"],
}
HEADER = [(at, 8) for at in (24, 32, 40)] + [(at, 2) for at in (16, 18, 54, 56, 58, 60, 62)] + [(at, 1) for at in (4, 5, 7)] + [(48, 4)]
PROGRAM = [(0, 4), (4, 4)] + [(at, 8) for at in range(8, 56, 8)]
SECTION = [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)]
EXTREMES = [0, 1, 0xFFF, 0x1000, 0x10000, 0x200000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 47, 1 << 56, (1 << 63) - 1, 1 << 63,
            (1 << 64) - 1]


def fields(file):
    """Offset and size of each field of the header tables."""
    programs, sections = struct.unpack_from("<QQ", file, 32)
    program_count, = struct.unpack_from("<H", file, 56)
    section_count, = struct.unpack_from("<H", file, 60)
    yield from HEADER
    # PT_LOADs and their neighbours are what a fix is about.
    for _ in range(3):
        for index in range(program_count):
            yield from ((programs + 56 * index + at, size) for at, size in PROGRAM)
    for index in range(section_count):
        yield from ((sections + 64 * index + at, size) for at, size in SECTION)


def mutate(file, chance):
    """The file with some fields changed."""
    mutant, known = bytearray(file), list(fields(file))
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at, size = chance.choice(known)
        old = int.from_bytes(file[at:at + size], "little")
        other_at, other_size = chance.choice(known)
        new = chance.choice([
            int.from_bytes(file[other_at:other_at + other_size], "little"),
            old + chance.choice([-0x1000, -16, -1, 1, 16, 0x1000, 0x10000]),
            chance.choice(EXTREMES),
            old ^ 1 << chance.randrange(8 * size),
        ])
        mutant[at:at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
    return mutant


def main():
    seed, count = int(sys.argv[2]), int(sys.argv[3])
    trial, lock = agree.Trial(sys.argv[1]), threading.Lock()
    with tempfile.TemporaryDirectory(dir=packages.cache()) as directory:
        source = pathlib.Path(directory, "source.c")
        source.write_text(SOURCE)
        linked = {}
        for name, options in LINKS.items():
            path = pathlib.Path(directory, "linked")
            if subprocess.run(["cc", "-O1", "-o", path, source, *options], capture_output=True, check=False).returncode == 0:
                linked[name] = path.read_bytes()
        names = sorted(linked)

        def look(number):
            # A generator of its own for each mutant, so that one can be made again alone.
            chance = random.Random(f"{seed} {number}")
            name = names[number % len(names)]
            path = pathlib.Path(directory, str(number))
            path.write_bytes(mutate(linked[name], chance))
            # One geometry for each, by turns.
            trial.look(path, f"{number} {name}", [agree.GEOMETRIES[number % 2]])
            if "KEEP" in os.environ and any(found[0].startswith(f"{number} ") for found in trial.contradictions):
                shutil.move(path, os.environ["KEEP"])
            else:
                path.unlink()

        first = int(os.environ.get("FIRST", 0))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, _ in enumerate(pool.map(look, range(first, first + count))):
                if done % 500 == 0:
                    with lock:
                        print(done, "mutants,", len(trial.contradictions), "contradictions", file=sys.stderr, flush=True)
    crashes = sum("crash" in what[2] for what in trial.contradictions)
    different = sum("another program" in what[2] for what in trial.contradictions)
    record.fact("mutants", {"count": count, "seed": seed, "programs": "; ".join(names), "changed": sum(trial.fixed.values()),
                            "refused": sum(trial.refused.values()), "crashes": crashes, "different": different,
                            "contradictions": len(trial.contradictions) - crashes - different})
    sys.exit(min(len(trial.contradictions), 1))


main()
