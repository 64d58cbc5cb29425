#!/usr/bin/env python3
"""Surveys the sections that are not loaded, in the output of many toolchains: sections.py HUGETEXT TOOLCHAINS

A line of TOOLCHAINS is TOOLCHAIN | SOURCE NAME VERSION, a package as packages.py takes it that the toolchain has built, or
TOOLCHAIN | run COMMAND, which builds a.out of source.c in its directory. For each name and type, a file is made in which such a
section would move, and `fix --dry-run` is asked whether it may. Prints the record of lab/results/files.md.
"""

import collections
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import packages

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import record  # noqa: E402

SOURCE = """
#include <stdio.h>
__attribute__((noinline)) int twice(int a) { return a > 9 ? a : 2 * a; }
int main(int count, char **words) { for (int i = 0; i < 9; i++) count += twice(i); return printf("%s %d\\n", words[0], count) < 0; }
"""
SHF_ALLOC, SHT_NULL, SHT_PROGBITS, SHT_STRTAB, SHT_NOBITS = 2, 0, 1, 3, 8
# What sections are for, by the beginning of their names. lab/reports/files.md says it in words.
PURPOSES = [
    ("debug", r"\.(z?debug|gdb_index|stab|line|mdebug|pdr)"),
    ("debug-link", r"\.gnu_?(debug|\.debug)"),
    ("symbols", r"\.(symtab|strtab|shstrtab)"),
    ("relocations", r"\.rela?\."),
    ("compiler", r"\.(comment|ident|GCC\.command\.line)"),
    ("notes", r"\.note|\.(gnu\.build\.attributes|annobin)"),
    ("attributes", r"\.(ARM|riscv|MIPS|gnu)\.?attributes"),
    ("warnings", r"\.gnu\.(warning|glibc-stub)"),
    ("sizes", r"\.(stack_sizes|callgraph|llvm_bb|remarks)"),
    ("lto", r"\.(gnu\.lto|llvm|llvmbc|llvmcmd)"),
    ("cargo", r"\.dep-v0"),
    ("coverage", r"(__llvm_(cov|prf)|\.lprf|\.lcov)"),
    ("probes", r"\.pseudo_probe"),
    ("swift", r"\.(swift)"),
    ("gpu", r"\.nv|\.nv_debug"),
    ("rustc", r"\.(rustc|rmeta)"),
    ("go", r"\.go_export|\.go\.|\.gosymtab|\.gopclntab|\.note\.go"),
    ("unknown", r"$"),
    ("guile", r"\.guile"),
    ("types", r"\.(SUNW_ctf|ctf|BTF)"),
    ("racket", r"\.csboot|\.rack"),
    ("bolt", r"\.bolt|\.fdata"),
    ("prelink", r"\.gnu\.(prelink_undo|liblist|libstr|conflict)"),
    ("clickhouse", r"\.clickhouse\.hash"),
    ("graal", r"\.svm_heap|\.graal"),
]


class Headers:
    """The section headers of a file of 32 or 64 bits, of either byte order."""

    def __init__(self, file):
        ident = file.read(16)
        wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
        file.seek(40 if wide else 32)
        at, = struct.unpack(order + ("Q" if wide else "I"), file.read(8 if wide else 4))
        file.seek(58 if wide else 46)
        size, count, names = struct.unpack(order + "HHH", file.read(6))
        self.rows = []
        if at == 0 or size == 0:
            return
        file.seek(at)
        table = file.read(size * count)
        form = order + ("IIQQQQIIQQ" if wide else "10I")
        rows = [struct.unpack_from(form, table, index * size) for index in range(count)]
        file.seek(rows[names][4])
        strings = file.read(rows[names][5])
        self.rows = [(strings[row[0]:].split(b"\0", 1)[0].decode(errors="replace"), *row[1:]) for row in rows]

    def unloaded(self):
        """Name and type of each section with bytes that is not a part of memory."""
        return [(row[0], row[1]) for row in self.rows
                if row[1] not in (SHT_NULL, SHT_NOBITS) and not row[2] & SHF_ALLOC and row[5] > 0]


def with_section(path, name, kind):
    """A library whose text is not congruent, and a section of this name and type behind it."""
    text, size = 0x1000, 0x500000
    names = b"\0" + name.encode() + b"\0.shstrtab\0"
    at = text + size
    table = at + 64 + (len(names) + 7) // 8 * 8
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, table, 0, 64, 56, 2, 64, 3, 2)
    loads = [(4, 0, 0, 0x200), (5, text, 0x202000, size)]
    programs = b"".join(struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, length, length, 0x1000)
                        for flags, offset, address, length in loads)
    with open(path, "wb") as file:
        file.truncate(table)
        file.write(header + programs)
        file.seek(at)
        file.write(b"\1" * 64 + names)
        file.seek(table)
        for row in [(0,) * 10, (1, kind, 0, 0, at, 64, 0, 0, 1, 0),
                    (len(name.encode()) + 2, SHT_STRTAB, 0, 0, at + 64, len(names), 0, 0, 1, 0)]:
            file.write(struct.pack("<IIQQQQIIQQ", *row))


def may_move(hugetext, directory, name, kind):
    path = os.path.join(directory, "library")
    with_section(path, name, kind)
    done = subprocess.run([hugetext, "fix", "--dry-run", "--geometry", "x86-64", "--strategy", "shift", path],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return True
    if "would move, but may be data" in done.stdout + done.stderr:
        return False
    raise ValueError(f"{name}: {done.stdout} {done.stderr}")


def family(name):
    """The name without what differs between files."""
    name = re.sub(r"^\.rela?\..*", ".rela.*", name)
    name = re.sub(r"^(\.z?debug)_.*", r"\1_*", name)
    return re.sub(r"^\.gnu\.lto_.*", ".gnu.lto_*", re.sub(r"^\.gnu\.warning\..*", ".gnu.warning.*", name))


def files_of(what, directory):
    """The programs of a line."""
    if not what.startswith("run "):
        with packages.package(tuple(what.split())) as found:
            yield from found
        return
    pathlib.Path(directory, "source.c").write_text(SOURCE)
    subprocess.run(what.removeprefix("run "), shell=True, check=True, cwd=directory, capture_output=True, text=True,
                   executable="/bin/bash")
    yield from packages.programs(directory)


def main():
    hugetext = os.path.abspath(sys.argv[1])
    seen, types, count = collections.defaultdict(set), {}, collections.Counter()
    lines = [line for line in pathlib.Path(sys.argv[2]).read_text().splitlines() if line and not line.startswith("#")]
    lines = [tuple(part.strip() for part in line.split("|", 1)) for line in lines]
    packages.apt.bring([tuple(what.split()) for _, what in lines if what.startswith("debian-")])
    for toolchain, what in lines:
        with tempfile.TemporaryDirectory(dir=packages.cache()) as directory:
            try:
                for path in files_of(what, directory):
                    with path.open("rb") as file:
                        for name, kind in Headers(file).unloaded():
                            seen[family(name), kind].add(toolchain)
                            types.setdefault((family(name), kind), name)
                    count[toolchain] += 1
            except subprocess.CalledProcessError as error:
                print(toolchain, "did not come:", error.stderr[-300:], file=sys.stderr)
        print(toolchain, count[toolchain], "files", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for (name, kind), toolchains in sorted(seen.items(), key=lambda item: (-len(item[1]), item[0])):
            moves = may_move(hugetext, directory, types[name, kind], kind)
            purpose = next((purpose for purpose, pattern in PURPOSES if re.match(pattern, name)), "")
            # A few by their names, many by their number.
            number, names = ("", ", ".join(sorted(toolchains))) if len(toolchains) <= 4 else (len(toolchains), "")
            record.row("sections", name, f"{kind:#x}", purpose, number, names, "yes" if moves else "no")
    for toolchain, files in count.items():
        record.row("toolchains", toolchain, files)
    record.fact("toolchains", sum(files > 0 for files in count.values()))


main()
