#!/usr/bin/env python3
"""Asks tools that read or rewrite ELF files about programs before and after each strategy of `fix`: tools.py HUGETEXT

The files lie in memory, which has no readahead; those of the last column on a disk whose readahead is long. A tool that reads
must answer the same of both. A tool that rewrites must make a program that runs as before; whether the
layout is still there is told too. Prints the record of lab/results/files.md.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import packages

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import record  # noqa: E402

# Functions in the first and in a later window of text; each writes behind an allocation, for Valgrind.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#define FUNCTION(name, place) __attribute__((noinline, used, section(place))) int name(int a) \\
    { volatile char *at = malloc(10); at[10] = 1; free((void *)at); return a + 1; }
struct pair { char one; long two; };
struct pair pair = { 1, 2 };
FUNCTION(early_function, ".text.aa")
__asm__(".pushsection .text.mm,\\"ax\\"\\n.skip 12000000\\n.popsection");
FUNCTION(late_function, ".text.zz")
__attribute__((noinline, section(".text.zz"))) void spin(void) { for (volatile long i = 0; i < 200000000; i++); }
int main(int count, char **words) { if (words[count - 1][0] == 's') spin(); printf("ran: %d\\n", late_function(early_function((int)pair.two)) + pair.one); return 0; }
"""
EVERY = ["-g", "-O1", "-pie", "-rdynamic", "-Wl,--build-id", "-Wl,-rpath,/some/where/else"]
SUBJECTS = {"GNU ld": ["-fuse-ld=bfd", "-Wl,-z,separate-code"], "lld": ["-fuse-ld=lld"]}
# A column for each: subject, options of fix, and whether it lies on the disk.
COLUMNS = [("GNU ld", "--strategy align", False), ("lld", "--strategy shift", False), ("lld", "--strategy merge", False),
           ("GNU ld", "--self-warming", False), ("lld", "--self-warming", False), ("GNU ld", "--self-warming", True)]


def ask(*words, home=None, **options):
    """Exit status and output of a command; `None` if this machine has no such command."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, timeout=300,
                              env={**os.environ, "LC_ALL": "C", "DEBUGINFOD_URLS": "", **({"HOME": home} if home else {})}, **options)
    except FileNotFoundError:
        return None
    return done.returncode, done.stdout + done.stderr


def without(pattern, text, by=""):
    return re.sub(pattern, by, text, flags=re.MULTILINE)


def address_of(file, name):
    return next(line.split()[0] for line in ask("nm", file)[1].splitlines() if line.endswith(f" {name}"))


def plain(*words):
    """A reader whose answer has nothing that a fix changes."""
    return lambda file, _: ask(*words, file)


def of_addresses(*words):
    return lambda file, _: ask(*words, file, "0x" + address_of(file, "early_function"), "0x" + address_of(file, "late_function"))


def gdb(file, _):
    status, said = ask("gdb", "-batch", "-nx", "-ex", "info line late_function", "-ex", "info symbol early_function",
                       "-ex", "break late_function", "-ex", "run", "-ex", "backtrace", file)
    return status, without(r"0x[0-9a-f]+", said)


def gdb_without_symtab(file, directory):
    """Exported functions of a stripped program."""
    stripped = directory / "stripped"
    if ask("eu-strip", "-o", stripped, file) is None:
        return None
    said = ask("gdb", "-batch", "-nx", "-ex", "info symbol late_function", "-ex", "x/2i late_function", stripped)
    return said[0], without(r"section (\.?)text", said[1], "section .text")


def objdump_without_symtab(file, directory):
    stripped = directory / "stripped"
    if ask("eu-strip", "-o", stripped, file) is None:
        return None
    address = int(address_of(file, "late_function"), 16)
    said = ask("objdump", "-d", f"--start-address={address}", f"--stop-address={address + 12}", stripped)
    return said[0], "\n".join(line for line in said[1].splitlines() if re.match(r"\s*[0-9a-f]+[: ]", line))


def valgrind(file, _):
    status, said = ask("valgrind", "--num-callers=4", file)
    said = "\n".join(line for line in said.splitlines() if re.search(r" (at|by) 0x|ERROR SUMMARY|sense|^ran", line))
    return status, without(r"^==\d+==|0x[0-9A-F]+", said)


def callgrind(file, directory):
    out = directory / "callgrind.out"
    status, _ = ask("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", file)
    found = sorted(set(re.findall(r"\b(?:early|late)_function\b|\bsource\.c\b", out.read_text())))
    return status, "\n".join(found)


def perf(file, directory):
    # perf keeps a copy of each file by its build-id there, and would look into that of before.
    home = tempfile.mkdtemp(dir=directory)
    data = directory / "perf.data"
    recorded = ask("perf", "record", "-q", "-e", "cpu-clock:u", "-o", data, file, "spin", home=home)
    if recorded is None or recorded[0] != 0:
        return None
    said = ask("perf", "report", "-q", "--stdio", "-s", "sym", "-i", data, home=home)
    return said[0], next((line.split()[-1] for line in said[1].splitlines() if line.strip()), "")


def ldd(file, _):
    status, said = ask("ldd", file)
    return status, without(r"0x[0-9a-f]+", said)


def abidiff(file, directory):
    return ask("abidiff", directory / "old", file)


READERS = {
    "readelf": lambda file, _: (0, "".join(ask("readelf", option, file)[1] for option in
                                           ["-sW", "-nW", "-VW", "--debug-dump=decodedline"])),
    "objdump -d": plain("objdump", "-d", "--no-show-raw-insn"),
    "objdump -d, stripped": objdump_without_symtab,
    "nm -nS": plain("nm", "-nS"),
    "size -A": plain("size", "-A"),
    "addr2line": of_addresses("addr2line", "-fe"),
    "gdb": gdb,
    "gdb, stripped": gdb_without_symtab,
    "valgrind": valgrind,
    "callgrind": callgrind,
    "perf report": perf,
    "eu-readelf": lambda file, _: ask("eu-readelf", "-s", "-n", file),
    "eu-addr2line": of_addresses("eu-addr2line", "-fe"),
    "eu-elflint": plain("eu-elflint", "--gnu-ld", "-q"),
    "eu-nm": plain("eu-nm"),
    "llvm-readelf": plain("llvm-readelf", "--symbols", "--notes", "--version-info"),
    "llvm-objdump": plain("llvm-objdump", "-d", "--no-show-raw-insn"),
    "llvm-symbolizer": lambda file, _: ask("llvm-symbolizer", "--obj=" + str(file), "0x" + address_of(file, "late_function")),
    "llvm-dwarfdump": plain("llvm-dwarfdump", "--verify"),
    "file": plain("file", "-b"),
    "ldd": ldd,
    "pahole": plain("pahole"),
    "abidiff": abidiff,
    "scanelf": lambda file, _: ask("scanelf", "-BF", "%n %S %i %r %e %t", file),
}


def in_place(*words):
    """A rewriter that changes a file in place."""
    def rewrite(file, out, _):
        shutil.copy(file, out)
        return ask(*words, out)
    return rewrite


def into(*words):
    """A rewriter that takes the old and the new file."""
    return lambda file, out, _: ask(*words, file, out)


def eu_unstrip(file, out, directory):
    """Debug information that was split from the old file, joined with the file."""
    debug, stripped = directory / "old.debug", directory / "stripped"
    if ask("eu-strip", "-f", debug, "-o", directory / "scrap", directory / "old") is None:
        return None
    ask("eu-strip", "-o", stripped, file)
    return ask("eu-unstrip", "-o", out, stripped, debug)


def debugedit(file, out, directory):
    shutil.copy(file, out)
    return ask("debugedit", "-b", str(directory), "-d", "/usr/src", out)


WRITERS = {
    "strip": in_place("strip"),
    "strip -g": in_place("strip", "-g"),
    "objcopy --strip-debug": in_place("objcopy", "--strip-debug"),
    "objcopy --add-section": in_place("objcopy", "--add-section", ".note.added=/proc/self/cmdline"),
    "objcopy --compress-debug-sections": in_place("objcopy", "--compress-debug-sections"),
    "eu-strip": in_place("eu-strip"),
    "eu-strip -f": lambda file, out, directory: ask("eu-strip", "-f", directory / "scrap", "-o", out, file),
    "eu-unstrip": eu_unstrip,
    "llvm-strip": in_place("llvm-strip"),
    "llvm-objcopy --strip-debug": in_place("llvm-objcopy", "--strip-debug"),
    "patchelf --set-rpath": in_place("patchelf", "--set-rpath", "/a/rather/long/path/that/needs/room/of/its/own"),
    "patchelf --set-interpreter": in_place("patchelf", "--set-interpreter", "/lib64/../lib64/../lib64/ld-linux-x86-64.so.2"),
    "chrpath": in_place("chrpath", "-r", "/short"),
    "dwz": in_place("dwz"),
    "debugedit": debugedit,
    "llvm-bolt": lambda file, out, _: ask(bolt(), file, "-o", out),
}


def bolt():
    return next((name for name in ["llvm-bolt", "llvm-bolt-19", "llvm-bolt-16"] if shutil.which(name)), "llvm-bolt")


class Layout:
    """Bytes of text within reach, and windows that a loader asks for."""

    def __init__(self, hugetext, file):
        done = subprocess.run([hugetext, "--json", "check", "--geometry", "x86-64", file], capture_output=True, text=True, check=False)
        said = json.loads(done.stdout or "{}")
        found = said.get("files") or [{"now": [{"reached": 0}], "self_warming": []}]
        self.reached = found[0]["now"][0]["reached"]
        self.asked = found[0]["self_warming"][0]["now"]["asked"] if found[0].get("self_warming") else 0


def version_of(tool):
    words = {"llvm-bolt": bolt()}.get(tool.split()[0].rstrip(","), tool.split()[0].rstrip(","))
    if words == "callgrind":
        words = "valgrind"
    said = ask(words, "-V" if words == "scanelf" else "--version")
    if said is None:
        return None
    found = re.search(r"\d+(?:\.\d+)+|\d{3,}", said[1])
    return found.group(0) if found else "?"


def read_cell(reader, old, new, directory):
    before, after = reader(old, directory), reader(new, directory)
    if before is None or after is None:
        return "absent"
    norm = [(status, said.replace(str(file), "FILE")) for (status, said), file in [(before, old), (after, new)]]
    norm = [(status, said.replace(file.name + ":", "FILE:")) for (status, said), file in zip(norm, [old, new])]
    if norm[0] == norm[1]:
        return "same"
    print(reader, old, new, *[said[:2000] for _, said in norm], sep="\n", file=sys.stderr)
    return "different"


def write_cell(hugetext, writer, old, new, directory):
    ran = ask(old)
    results = []
    for file in (old, new):
        out = directory / "written"
        out.unlink(missing_ok=True)
        said = writer(file, out, directory)
        if said is None:
            return "absent"
        if said[0] != 0 or not out.exists():
            results.append("refuses")
            print(file, said, file=sys.stderr)
            continue
        out.chmod(0o755)
        results.append("runs" if ask(out) == ran else "broken")
    if results[0] != results[1]:
        return results[1]
    if results[1] != "runs":
        return f"{results[1]}-before"
    before, after = Layout(hugetext, new), Layout(hugetext, directory / "written")
    lost = [name for name, is_lost in [("reach", after.reached < before.reached), ("request", after.asked < before.asked)]
            if is_lost]
    return "-".join(["runs", *(f"without-{name}" for name in lost)])


def main():
    hugetext = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory, tempfile.TemporaryDirectory(dir=packages.cache()) as disk:
        columns = {}
        for column in COLUMNS:
            subject, options, on_disk = column
            top = pathlib.Path(disk if on_disk else memory)
            (top / "source.c").write_text(SOURCE)
            for extra in ([], ["-Wl,-q"]):
                directory = top / f"{subject}{options}{''.join(extra)}".replace(" ", "")
                directory.mkdir()
                old, new = directory / "old", directory / "new"
                linked = ask("cc", *EVERY, *SUBJECTS[subject], *extra, "-o", old, top / "source.c", cwd=top)
                if linked[0] != 0:
                    sys.exit(linked[1])
                fixed = ask(hugetext, "-q", "fix", *options.split(), old, "-o", new)
                print(directory.name, fixed[0], fixed[1], file=sys.stderr)
                columns[column, bool(extra)] = (old, new if fixed[0] == 0 else None, directory)
        count = set()
        for table, tools in [("readers", READERS), ("writers", WRITERS)]:
            for tool, action in tools.items():
                version = version_of(tool)
                if version is None:
                    print(tool, "is not here", file=sys.stderr)
                    continue
                cells = []
                for column in COLUMNS:
                    old, new, directory = columns[column, tool == "llvm-bolt"]
                    if new is None:
                        cells.append("no-fix")
                    elif table == "readers":
                        cells.append(read_cell(action, old, new, directory))
                    else:
                        cells.append(write_cell(hugetext, action, old, new, directory))
                count.add(tool.split()[0].rstrip(","))
                record.row(table, tool, version, *cells)
        record.fact("tools", len(count))


if __name__ == "__main__":
    main()
