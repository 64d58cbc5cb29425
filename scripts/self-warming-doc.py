#!/usr/bin/env python3
"""Writes docs/self-warming.md from the record of results-self-warming.sh: self-warming-doc.py RECORD"""
import collections
import json
import statistics
import sys

LAYOUTS = {"shipped": "as shipped", "fixed": "fixed", "warming": "self-warming"}
WINDOW = 2 << 20

HEAD = """# Files that warm themselves

Since glibc 2.44 the dynamic loader can ask for huge pages itself (`glibc.elf.thp`). It asks for a PT_LOAD
that is readable and not writable, at least 2 MiB long, and whose p_vaddr and p_offset are multiples of 2 MiB.
Ordinary text begins elsewhere, so it asks for nothing. `hugetext fix --self-warming` cuts the text at its
first window: what follows is such a PT_LOAD. On a cold start the kernel then reads the text in huge folios,
with no daemon and in every container. `hugetext check` shows how many windows that is.

## To switch it on

For one program: `GLIBC_TUNABLES=glibc.elf.thp=1`. For all: write `glibc.elf.thp=1` to `/etc/tunables.conf` and run
`ldconfig` (glibc 2.44).
TRIED
THP must be `madvise` (/sys/kernel/mm/transparent_hugepage/enabled): under `always` and `never` glibc 2.44 does not ask
(`_dl_executable_postprocess()` and `_dl_postprocess_loadcmd_extra()` test for madvise), except on LoongArch,
where it always asks. In a container without /sys it does not ask either.

Older versions of glibc, and musl, see two PT_LOADs where there was one, and map both. The kernel joins them
again, so the process has the same mappings (`mappings` below), and nothing is lost.

## What it costs

- The text of a window is read as a whole, 2 MiB at a time, when its first byte is needed.
- With the tunable the part that was asked for is a mapping of its own: one more than without.
- The load address is a multiple of 2 MiB: nine bits of randomness on x86-64, none for programs at fixed
  addresses.
- A program header is needed for the cut. It takes the place of one that is unused, of the PT_NOTE that
  PT_GNU_PROPERTY repeats, or of PT_PHDR in shared objects and programs at fixed addresses; or it goes into zeros
  behind the table. Where there is none of these the fix is refused. The table is never moved: GNU strip and
  objcopy put it behind the ELF header again and break the program (binutils 2.40).
- The section `.text` is cut too, since GNU strip drops the bytes of a section that is not inside one PT_LOAD.
  Symbols of `.symtab` name their part. So `eu-unstrip` no longer joins the file with debug information that was
  split off before, and `eu-elflint` objects to dynamic symbols in the second part. gdb finds the information by
  build id or link, and warns about the second `.text`.

## What spoils a window

Kernel and loader read the ELF header, the program headers, the interpreter's name and the note of
PT_GNU_PROPERTY before anyone asks. A window of the file with one of these bytes, or with what readahead
brought in behind them, cannot get a huge folio. Text that begins with the header (`-z noseparate-code`,
`--strategy merge`) loses its first window; the cut keeps the others out of its request. A program that runs
through its text in ascending order from such a place loses the windows behind it too, because readahead goes
on with small folios. A long readahead (more than 2 MiB in /sys/block/*/queue/read_ahead_kb) does the same to
every file.

What a program runs first can spoil one more. A fault in text that asks for huge pages reads its window and the
next, and marks the next (do_sync_mmap_readahead() in mm/filemap.c). The first fault on the marked window looks for
what to read ahead in the pages behind the one that faulted, as many as the readahead of the device has, and not
behind the window (page_cache_async_ra() in mm/readahead.c). If the fault is so near to the end of its window, it
reads the begin of a third one, in small folios. By the script scripts/readahead-mark.py, with 128 KiB of readahead,
which are 32 pages:

MARK
cc1 and node each lose one window in the figures below. For cc1 this is why: it runs first in page 276 of its
first whole window, then in page 494 of the second (`qemu-x86_64 -d in_asm`), and its third window is small. No
layout mends that, since it depends on the order in which text is run. `check` counts the window as huge. The
kernel series reads nothing ahead there (kernel/order/3-beside, and its selftest).

`fix --strategy auto` cuts by itself where that costs nothing: no section is cut and no header left out. The fixed
copies of `run`, `keep` and the store are always cut where a header is free. Nobody strips them, so their sections
stay whole, and debuggers and profilers read the sections of the original.

"""

TAIL = """
## Not measured

- THP `always` and `never`: the mode is a setting of the whole machine, which a test leaves alone.
- rustc's driver and LLVM, chromium: `hugetext check` answers for them. python3 and git hold no whole window of
  text as Debian links them.
- glibc before 2.44 has no tunable; its columns are the same file without a request.
- The kernel's own series for PT_LOADs at multiples of the PMD (`leaf::Asker::PmdAlignSeries`): no packaged kernel
  has it.
"""


def median(rows, field):
    return statistics.median(row[field] for row in rows)


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def line(rows, windows, base):
    ratio = median(rows, "first_output") / median(base, "first_output")
    return [
        f"{median(rows, 'huge') / WINDOW:.0f} of {windows}",
        f"{median(rows, 'mappings'):.0f}",
        f"{median(rows, 'minor'):.0f}",
        f"{median(rows, 'major'):.0f}",
        f"{median(rows, 'read') / 2**20:.1f}",
        f"{1000 * median(rows, 'first_output'):.1f}",
        f"{ratio:.2f}",
        str(len(rows)),
    ]


def main():
    cells, windows, machine, marks, conf = collections.defaultdict(list), {}, "", [], {}
    with open(sys.argv[1]) as record:
        for text in record:
            row = json.loads(text)
            if "windows" in row:
                windows[row["program"]] = row["windows"]
            elif "machine" in row:
                machine = row["machine"]
            elif "tunables_conf" in row:
                conf = row["tunables_conf"]
            elif "touched" in row:
                marks.append(row)
            else:
                place = (row["program"], row["fs"], row["glibc"], row["tunable"], row["layout"])
                cells[place].append(row)
    said = f"Tried: `--list-tunables` of the loader says {conf['absent']} without the file, {conf['written']} with it, and " \
        f"{conf['ldconfig']} after `ldconfig`."
    before, after = HEAD.replace("TRIED", said).split("MARK\n")
    print(before, end="")
    touched = "first page that is touched in the second window, of 512"
    table([touched, "huge windows of three"], [[str(row["touched"]), str(row["huge"] // WINDOW)] for row in marks])
    print()
    print(after, end="")
    print(f"""## Measured

By `make results-self-warming` on {machine}.
Each file lies on an image on a loop device with 128 KiB of readahead, the file's page cache is dropped before
each start, and all else is warm. Medians; *ratio* is the time to first output over that of the file as shipped,
under the same glibc and on the same filesystem; *huge* are windows in PMD leaves at the exit of the process, of
those that the layout allows. Where nothing is asked for,
the three files have the same pages, so their ratios show the noise.
""")
    figures = ["huge", "mappings", "minor faults", "major faults", "MiB read", "ms to first output", "ratio", "starts"]
    programs = sorted({cell[0] for cell in cells})
    versions = sorted({(cell[2], cell[3]) for cell in cells})
    for program in programs:
        print(f"### {program} on ext4\n")
        rows = []
        for glibc, tunable in versions:
            base = cells.get((program, "ext4", glibc, tunable, "shipped"))
            for layout, name in LAYOUTS.items():
                found = cells.get((program, "ext4", glibc, tunable, layout))
                if found and base:
                    asked = ", glibc.elf.thp=1" if tunable else ""
                    rows.append([glibc + asked, name, *line(found, windows[program], base)])
        table(["glibc", "file", *figures], rows)
        print()
    print("### Filesystems, glibc 2.44 with glibc.elf.thp=1\n")
    rows = []
    for program in programs:
        for fs in ["ext4", "xfs", "btrfs", "overlay"]:
            base = cells.get((program, fs, "2.44", 1, "shipped"))
            for layout, name in LAYOUTS.items():
                found = cells.get((program, fs, "2.44", 1, layout))
                if found and base:
                    rows.append([program, fs, name, *line(found, windows[program], base)])
    table(["program", "filesystem", "file", *figures], rows)
    print(TAIL, end="")


main()
