#!/usr/bin/env python3
"""Writes docs/self-warming.md from the record of results-self-warming.sh: self-warming-doc.py RECORD

RECORD is a directory with a file for each part."""
import collections
import json
import math
import pathlib
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
On x86-64 the mode of THP (/sys/kernel/mm/transparent_hugepage/enabled) does not matter: glibc 2.44 asks under `always`,
`madvise` and `never`, and in a container without /sys, because it has the size of the leaf built in
(DL_MAP_DEFAULT_THP_PAGESIZE; LoongArch has it too, and there the tunable is 1 by default). The kernel then reads huge
folios, also under `never` ([measured](#modes-of-thp)). On other processors, arm64 among them, glibc
reads the mode, and asks under `madvise` only (`_dl_get_thp_config()`, read in the source).

Older versions of glibc, and musl, see two PT_LOADs where there was one, and map both. The kernel joins them
again, so the process has the same mappings (`mappings` below), and nothing is lost.

## What it costs

- The kernel reads the text of a window as a whole, 2 MiB at a time, when its first byte is needed. It reads the next
  window of the file too (do_sync_mmap_readahead()). If that one is not executed, as in rustc, the read is wasted.
- With the tunable the part that was asked for is a mapping of its own: one more than without.
- The load address is a multiple of 2 MiB: nine bits of randomness on x86-64, none for programs at fixed
  addresses.
- The cut needs a program header. One of these places gives it:
  - a header that is unused,
  - the PT_NOTE that PT_GNU_PROPERTY repeats,
  - PT_PHDR, in shared objects and in programs at fixed addresses,
  - zeros behind the table,
  - two PT_LOADs of data that become one. lld and mold make one PT_LOAD of the data with RELRO and one of the other. The
    page that they left between them is then mapped, and reads as zeros.

  A file without such a place is refused. The table is never moved: GNU strip and objcopy put it behind the ELF header
  again and break the program (binutils 2.40).
- The section `.text` is cut too, and symbols of `.symtab` name their part. gdb finds debug information by build id
  or link, and warns about the second `.text`. perf and ldd answer as before. Two ways were tried with elfutils 0.188
  and binutils 2.40:

  | what is done | GNU strip | eu-unstrip with older debug information | eu-elflint |
  |---|---|---|---|
  | the section is cut | works | refuses: no section matches `.text` | an error for each dynamic symbol in the second part, none in a file without them |
  | the section stays whole | drops its bytes, the program crashes | works | objects to `.text` in two segments |

  A program that crashes is worse than a tool that refuses, so `fix` cuts the section. A copy of the store, which
  nobody strips, keeps it.

## What spoils a window

Kernel and loader read the ELF header, the program headers, the interpreter's name and the note of
PT_GNU_PROPERTY before anyone asks. A window of the file with one of these bytes, or with what readahead
brought in behind them, cannot get a huge folio. Text that begins with the header (`-z noseparate-code`,
`--strategy merge`) loses its first window. No layout can avoid that: the program finds its own headers at an address
in that window, so the window holds the header in memory too. A property test of crates/elf has no other spoiled
window. The cut keeps this window out of the request. A program that runs through its text in ascending order from such
a place loses the windows behind it too, because readahead goes on with small folios. A long readahead (more than 2 MiB
in /sys/block/*/queue/read_ahead_kb) does the same to every file.

What a program runs first can spoil one more. A fault in text that asks for huge pages reads its window and the
next, and marks the next (do_sync_mmap_readahead() in mm/filemap.c). The first fault on the marked window makes the
kernel look for pages to read ahead. It begins behind the page that faulted, not behind the window, and looks at as many
pages as the readahead of the device has (page_cache_async_ra() in mm/readahead.c). If these pages pass the end of the
window, it reads the beginning of a third one, in small folios. The script scripts/readahead-mark.py shows that with
128 KiB of readahead, which are 32 pages:

MARK
cc1 loses one window in the figures below, and this is why: it runs first in page 276 of its first whole window, then
in page 494 of the second (`qemu-x86_64 -d in_asm`), and its third window is small. Less readahead of the device mends
it, other cuts do not ([measured](#other-cuts-and-other-readahead)). A file does not tell in which page of a window a
program runs first. So `check` says `at most`, and counts the window. A test holds that no start of the record has more
huge windows than `check` says. The kernel series reads nothing ahead there (kernel/order/3-beside, and its selftest).

`check` shows the number of windows, `check -v` those that will not be huge, each with its reason, and `check --json`
what becomes of every window.

`fix --strategy auto` cuts by itself where that costs nothing: no section is cut and no header left out. That takes a
section that begins at the window, and zeros or an unused header in the table. `check` says `after fix` of such a file,
of others `after fix --self-warming`. The fixed
copies of `run`, `keep` and the store are always cut where a header is free. Nobody strips them, so their sections
stay whole, and debuggers and profilers read the sections of the original.

"""

TAIL = """
## Not measured

- glibc before 2.44 has no tunable; its columns are the same file without a request.
- The rule of the kernel series for PT_LOADs at multiples of the PMD, version 4: no packaged kernel has the series, and
  it asks for nothing itself. It changes the load address, and only of files that this fix makes.
- python3, git, rustc and chromium under the modes of THP, and with other cuts.
"""

FIGURES = ["huge, of executed windows", "mappings", "minor faults", "major faults", "MiB read", "more than shipped",
           "whole windows of what is executed, MiB", "cached outside of them, MiB", "ms to first output", "ratio", "starts"]


def median(rows, field):
    return statistics.median(row[field] for row in rows)


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def interval(values):
    """The median of paired ratios with its interval of 95 % by order statistics; the median alone below six."""
    ordered, count = sorted(values), len(values)
    middle = f"{statistics.median(ordered):.2f}"
    below = 0.0
    for rank in range(count):
        below += math.comb(count, rank) / 2**count
        if below > 0.025:
            break
    if rank == 0:
        return middle
    return f"{middle} ({ordered[rank - 1]:.2f} to {ordered[count - rank]:.2f})"


def line(rows, base):
    by_round = {(row["began"], row["round"]): row["first_output"] for row in base}
    ratios = [row["first_output"] / by_round[row["began"], row["round"]]
              for row in rows if (row["began"], row["round"]) in by_round]
    more = (median(rows, "read") - median(base, "read")) / 2**20
    return [
        f"{median(rows, 'huge') / WINDOW:.0f} of {median(rows, 'whole'):.0f}",
        f"{median(rows, 'mappings'):.0f}",
        f"{median(rows, 'minor'):.0f}",
        f"{median(rows, 'major'):.0f}",
        f"{median(rows, 'read') / 2**20:.1f}",
        f"{more:.1f}",
        f"{median(rows, 'touched') * WINDOW / 2**20:.0f}",
        f"{median(rows, 'outside') / 2**20:.1f}",
        f"{1000 * median(rows, 'first_output'):.1f}",
        interval(ratios),
        str(len(rows)),
    ]


def read_record(path):
    """The lines of the record by what they are about."""
    found = collections.defaultdict(list)
    kinds = ["windows_of", "machine", "tunables_conf", "touched_page", "asker_rule", "refused", "guest", "way"]
    for part in sorted(pathlib.Path(path).glob("*.jsonl")):
        for text in part.read_text().splitlines():
            row = json.loads(text)
            if "first_output" not in row and "touched" in row:
                kind = "touched_page"
            elif "asked" in row and "program" in row and "first_output" not in row:
                kind = "windows_of"
            else:
                kind = next((kind for kind in kinds if kind in row), "start")
            found[kind].append(row)
    return found


def layouts(cells, place):
    """The rows of the layouts of a cell, each with that of the file as shipped."""
    base = cells.get((*place, "shipped"))
    for layout, name in LAYOUTS.items():
        rows = cells.get((*place, layout))
        if rows and base:
            figures = line(rows, base)
            # The ratio of the file as shipped to itself.
            yield name, figures if rows is not base else [*figures[:-2], "1.00", figures[-1]]


def programs_table(record):
    rows = []
    for row in record["windows_of"]:
        name = row["program"] if row["program"] == row["file"] else f"{row['program']}: {row['file'].split('/')[-1]}"
        after = row["refusal"] or f"asked for {row['asked']}"
        rows.append([name, str(row["windows"]), after])
    table(["file", "windows of text", "after `fix --self-warming`"], rows)


def refusals_table(record):
    print("Of the files below /usr of this machine whose text fills a window:\n")
    order = sorted(record["refused"], key=lambda row: -row["files"])
    rows = [[row["refused"] or "none", str(row["files"]), str(row["windows"]), str(row["now"]), str(row["after"])]
            for row in order]
    table(["reason to refuse a cut", "files", "windows", "asked for now", "after `fix --self-warming`"], rows)


def rules_table(record):
    rows = [[rule[field] for field in ["asker", "since", "asks_for", "aligns", "source", "evidence"]]
            for rule in (row["asker_rule"] for row in record["asker_rule"])]
    table(["who", "since", "asks for", "raises the alignment of", "source", "evidence"], rows)


def modes_table(record):
    if not record["guest"]:
        print("Not measured: the record holds no start in a guest (scripts/self-warming-modes.sh).\n")
        return
    kernel = record["guest"][0]["guest"]
    print(f"""By counts in a guest of the lab under Linux {kernel}, on ext4, glibc 2.44. Where the tunable is 0, the kernel
alone could ask, and does not. QEMU emulates the processor, so its times say nothing about a machine.
""")
    rows = []
    for row in record["guest"]:
        rows.append([row["program"], row["thp"], str(row["tunable"]), LAYOUTS[row["layout"]], f"{row['huge'] // WINDOW} of {row['whole']}",
                     str(row["mappings"]), str(row["minor"]), str(row["major"]), f"{row['read'] / 2**20:.1f}"])
    rows.sort(key=lambda row: row[0])
    table(["program", "THP", "glibc.elf.thp", "file", "huge, of executed windows", "mappings", "minor faults", "major faults", "MiB read"], rows)


def ways_table(record):
    ways = {"warming": "at the first window", "later": "one window later", "tail": "at the first and the last boundary"}
    cells = collections.defaultdict(list)
    for row in record["way"]:
        cells[row["program"], row["read_ahead_kb"], row["layout"]].append(row)
    rows = []
    for (program, readahead, layout), found in sorted(cells.items(), key=lambda cell: (cell[0][0], -cell[0][1], -list(ways).index(cell[0][2]))):
        rows.append([program, f"{readahead} KiB", ways[layout], f"{median(found, 'huge') / WINDOW:.0f} of {median(found, 'whole'):.0f}",
                     f"{median(found, 'mappings'):.0f}", f"{median(found, 'major'):.0f}", f"{median(found, 'read') / 2**20:.1f}",
                     f"{median(found, 'outside') / 2**20:.1f}", f"{1000 * median(found, 'first_output'):.0f}"])
    table(["program", "readahead", "cut", "huge, of executed windows", "mappings", "major faults", "MiB read",
           "cached outside of executed windows, MiB", "ms to first output"], rows)


def targets(cells, programs):
    """What the table says of what self-warming files are for."""
    huge = whole = 0
    beyond = {}
    for program in programs:
        warming, fixed = (cells.get((program, "ext4", "2.44", 1, layout)) for layout in ("warming", "fixed"))
        if not warming or not fixed or median(warming, "whole") == 0:
            continue
        # The shorter command of a program shows the worst case, and is not counted twice.
        if "." not in program:
            huge += median(warming, "huge") / WINDOW
            whole += median(warming, "whole")
        beyond[program] = (median(warming, "outside") - median(fixed, "outside")) / 2**20
    beyond = ", ".join(f"{program} {mebibytes:.1f}" for program, mebibytes in beyond.items())
    print(f"""Huge are {huge:.0f} of {whole:.0f} executed windows ({100 * huge / whole:.0f} %), the short commands not counted. Beyond whole windows of what
is executed, the request reads, in MiB: {beyond}.

cc1 compiles 60 functions, chromium loads a page, rustc compiles a crate, node runs a line, postgres and mariadbd describe
their settings. python3 and git hold no whole window of text. chromium.version and rustc.version only print a version:
they execute little in many windows and wait for the whole of each, so they read more and start later. Where such a start
matters, do not cut the file, or leave the tunable at 0 for it.
""")


def main():
    record = read_record(sys.argv[1])
    conf = record["tunables_conf"][0]["tunables_conf"]
    said = f"Tried: `--list-tunables` of the loader says {conf['absent']} without the file, {conf['written']} with it, and " \
        f"{conf['ldconfig']} after `ldconfig`."
    before, after = HEAD.replace("TRIED", said).split("MARK\n")
    print(before, end="")
    touched = "first page that is touched in the second window, of 512"
    table([touched, "huge windows of three"],
          [[str(row["touched"]), str(row["huge"] // WINDOW)] for row in record["touched_page"]])
    print(after, end="")
    print("## Who asks\n")
    rules_table(record)
    print("## Which files\n")
    programs_table(record)
    refusals_table(record)
    cells = collections.defaultdict(list)
    for row in record["start"]:
        cells[row["program"], row["fs"], row["glibc"], row["tunable"], row["layout"]].append(row)
    starts = record["start"]
    of_ratios = [row["load"] for row in starts if (row["fs"], row["glibc"], row["tunable"]) == ("ext4", "2.44", 1)]
    loads = [row["load"] for row in starts + record["way"]]
    direct = "direct I/O, so that each read goes to the disk" if all(row["direct"] for row in starts) else \
        "no direct I/O, which the filesystem below does not permit: reads may come from a cache below"
    print(f"""## Measured

By `make results-self-warming` on {record["machine"][0]["machine"]}. The machine is shared with other work: for the
first table the load was {min(of_ratios):.1f} to {max(of_ratios):.1f} ({statistics.median(of_ratios):.1f} in the median), for the others up to {max(loads):.1f}, so
that their times are worth little. Each file lies on an image on a loop device with 128 KiB of
readahead and {direct}.
The file's page cache is dropped before each start, and all else is warm. Starts are interleaved in random order.
Figures are medians.

- *huge*: windows in PMD leaves at the exit of the process, of those whole windows of text in which it ran.
- *whole windows of what is executed*: every window of 2 MiB with a page of text in the page table, those at the ends
  of text too. Reading more than these would be a waste.
- *cached outside of them*: data of the file, and what was read but not executed. The difference to the file as fixed is what the
  request reads beyond whole windows of what is executed.
- *ratio*: time to first output over that of the file as shipped in the same round, with the interval of 95 % of the
  median. Where nothing is asked for, fixed and self-warming files have the same pages, so their ratios show the noise.

### glibc 2.44 with glibc.elf.thp=1, ext4
""")
    programs = sorted({cell[0] for cell in cells})
    table(["program", "file", *FIGURES], [[program, name, *figures] for program in programs
                                          for name, figures in layouts(cells, (program, "ext4", "2.44", 1))])
    targets(cells, programs)
    print("### Versions of glibc without a request, ext4\n")
    table(["program", "glibc", "file", *FIGURES], [
        [program, glibc, name, *figures] for program in programs for glibc in ["2.36", "2.41", "2.44"]
        for name, figures in layouts(cells, (program, "ext4", glibc, 0))])
    print("""### Other filesystems, glibc 2.44 with glibc.elf.thp=1

btrfs limits a folio to 64 blocks, 256 KiB with blocks of 4 KiB ([support](support.md)), so no window is huge there.
""")
    table(["program", "filesystem", "file", *FIGURES], [
        [program, fs, name, *figures] for program in programs for fs in ["xfs", "btrfs", "overlay"]
        for name, figures in layouts(cells, (program, fs, "2.44", 1))])
    print("### Other cuts and other readahead\n")
    print("""ext4, glibc 2.44 with glibc.elf.thp=1. A cut at the last boundary too (scripts/move-cut.py) takes a second program
header, which programs at random addresses by GNU ld do not have, and a further mapping. It keeps the text behind the
last window out of the request; that text is executed, and then comes by more faults. So `fix` cuts once. An earlier cut
is not possible: the window before the first whole one begins outside of the text.
""")
    ways_table(record)
    print("### Modes of THP\n")
    modes_table(record)
    print(TAIL.lstrip("\n"), end="")


main()
