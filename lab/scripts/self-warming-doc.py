#!/usr/bin/env python3
"""Writes lab/results/self-warming.md from the record of results-self-warming.sh: self-warming-doc.py RECORD

RECORD is a directory with a file for each part."""
import collections
import json
import math
import pathlib
import statistics
import sys

LAYOUTS = {"shipped": "as shipped", "fixed": "fixed", "warming": "self-warming", "merged": "merged, self-warming"}
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
folios, also under `never` ([measured](#filesystems-versions-of-glibc-and-modes-of-thp)). On other processors, arm64
among them, glibc reads the mode, and asks under `madvise` only (`_dl_get_thp_config()`, read in the source).

Older versions of glibc, and musl, see two PT_LOADs where there was one, and map both. The kernel joins them
again, so the process has the same mappings ([counted](#filesystems-versions-of-glibc-and-modes-of-thp)). On overlayfs,
and so in containers, both stay: such a mapping holds the file below (vma_set_file() in fs/backing-file.c), and mmap(2)
looks for a neighbour of the file above. Nothing else is lost.

## What it costs

- The kernel reads the text of a window as a whole, 2 MiB at a time, when its first byte is needed. It reads the next
  window of the file too (do_sync_mmap_readahead()). If that one is not executed, as in rustc, the read is wasted.
- With the tunable the part that was asked for is a mapping of its own: one more than without.
- The load address is a multiple of 2 MiB: nine bits of ASLR on x86-64, none for programs at fixed
  addresses.
- The cut needs a program header. One of these places gives it:
  - a header that is unused,
  - the PT_NOTE that PT_GNU_PROPERTY repeats,
  - PT_PHDR, in shared objects that cannot be executed and in programs at fixed addresses,
  - zeros behind the table,
  - two PT_LOADs of data that become one. lld and mold make one PT_LOAD of the data with RELRO and one of the other. The
    page that they left between them is then mapped, and reads as zeros.

  A file without such a place is refused. The table is never moved: GNU strip and objcopy put it behind the ELF header
  again and break the program (binutils 2.40).
- The section `.text` is cut too. The second part is called `text`, and symbols of `.symtab` name their part. gdb finds
  debug information by build id or link. Valgrind names functions in both parts, and lines in the first. perf and ldd
  answer as before. Of a file without `.symtab`, gdb, objdump and addr2line do not find exported functions of the second
  part: `.dynsym` is loaded, and a fix changes no byte of memory. eu-addr2line finds them.
- A program that looks for its own text finds the first part: `node --use-largepages=on` remaps no more than that.
- Text with relocations for linking once more (`-q`, `--emit-relocs`, as BOLT wants them) is not cut. Two ways were tried with elfutils 0.188
  and binutils 2.40:

  | what is done | GNU strip | eu-unstrip with older debug information | eu-elflint |
  |---|---|---|---|
  | the section is cut | works | refuses: no section matches `.text` | an error for each dynamic symbol in the second part, none in a file without them |
  | the section stays whole | drops its bytes, the program crashes | works | objects to `.text` in two segments |

  A program that crashes is worse than a tool that refuses, so `fix` cuts the section.
- A program that looks at its own segments finds one more, and the text in two. One that computes a checksum of them
  fails. `fix` knows ClickHouse's and refuses ([files.md](../../docs/files.md)). Nothing tells of others, so nothing is cut
  unasked: not by `fix` without the option, and not in the copies of `run`, `keep` and the store.

## What spoils a window

Kernel and loader read the ELF header, the program headers, the interpreter's name and the note of
PT_GNU_PROPERTY before anyone asks. A window of the file with one of these bytes, or with what readahead
brought in behind them, cannot get a huge folio. Text that begins with the header (`-z noseparate-code`,
`--strategy merge`) loses its first window. No layout can avoid that: the program finds its own headers at an address
in that window, so the window holds the header in memory too. A property test of crates/elf has no other spoiled
window. The cut keeps this window out of the request. A program that runs through its text in ascending order from such
a place loses the windows behind it too, because readahead goes on with small folios.

A long readahead (2 MiB or more in /sys/block/*/queue/read_ahead_kb; tuned's throughput-performance sets 4 MiB) does so
to more windows. A fault on what nobody asks for, such as the beginning of the text and the data, reads half of the
readahead before and behind, in small folios. With 8 MiB a file that was cut got 0 of 3 windows on a cold start. Where
the device of the file has such a readahead, `fix --self-warming` therefore puts holes into the file, two readaheads long
before the windows and one behind them. No loader maps a hole, and it takes no disk; the page cache holds zeros for what
is read of it. Text of less than half a readahead, `--strategy align` and `merge` have no holes. `check` and `fix` say
then that fewer windows may be huge. Huge windows, of 7, of a program that runs through 16 MiB of text once
(lab/scripts/readahead-holes.sh, glibc 2.44, ext4 on a loop device, Linux 6.18):

| read_ahead_kb | as linked | cut, no holes | `fix --self-warming` |
|---|---|---|---|
| 2048 | 3 | 3 | 7 |
| 4096 | 0 | 0 | 7 |
| 8192 | 0 | 0 | 7 |

The zeros cost time where the device costs none: on the loop device, whose image was in memory, a cold start with holes
took up to 2.4 ms more than the file as linked. On the disk of the machine both took the same.
strip and objcopy of GNU and LLVM close the holes again, and eu-strip and patchelf write them out as zeros. The programs
still run. So a fix comes last.

What a program runs first can spoil one more. A fault in text that asks for huge pages reads its window and the
next, and marks the next (do_sync_mmap_readahead() in mm/filemap.c). The first fault on the marked window makes the
kernel look for pages to read ahead. It begins behind the page that faulted, not behind the window, and looks at as many
pages as the readahead of the device has (page_cache_async_ra() in mm/readahead.c). If these pages pass the end of the
window, it reads the beginning of a third one, in small folios. The script lab/scripts/readahead-mark.py shows that with
128 KiB of readahead, which are 32 pages:

MARK
cc1 loses one window in the figures below, and this is why: it runs first in page 276 of its first whole window, then
in page 494 of the second (`qemu-x86_64 -d in_asm`), and its third window is small. Less readahead of the device mends
it, other cuts do not ([measured](#other-cuts-and-other-readahead)). A file does not tell in which page of a window a
program runs first. So `check` says `at most`, and counts the window. A test holds that no start of the record has more
huge windows than `check` says. The kernel series reads nothing ahead there (kernel/order/3-beside, and its selftest).

`check` shows the number of windows, `check -v` those that will not be huge, each with its reason, and `check --json`
what becomes of every window.

"""

TAIL = """
## Not measured

- glibc before 2.44 has no tunable; its rows are the same file without a request.
- The rule of the kernel series for PT_LOADs at multiples of the PMD, version 4: no packaged kernel has the series, and
  it asks for nothing itself. It changes the load address, and only of files that this fix makes.
"""

COUNTS = ["huge, of executed windows", "mappings", "minor faults", "major faults", "MiB read", "more than shipped",
          "whole windows of what is executed, MiB", "cached outside of them, MiB"]
TIMES = ["ms to first output", "ratio", "starts"]

# The target for the time to first output, over that of the file as shipped.
SLOWEST = 1.05

SHORT_COMMANDS = "it prints a version only: it executes little in many windows and waits for the whole of each"


def median(rows, field):
    return statistics.median(row[field] for row in rows)


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


class Ratio:
    """The median of paired ratios with its interval of 95 % by order statistics; below six pairs there is none."""

    def __init__(self, rows, base):
        by_round = {(row["began"], row["round"]): row["first_output"] for row in base}
        ordered = sorted(row["first_output"] / by_round[row["began"], row["round"]]
                         for row in rows if (row["began"], row["round"]) in by_round)
        count, below = len(ordered), 0.0
        for rank in range(count):
            below += math.comb(count, rank) / 2**count
            if below > 0.025:
                break
        self.middle = statistics.median(ordered)
        self.interval = (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None

    def text(self, digits):
        interval = f" ({self.interval[0]:.{digits}f} to {self.interval[1]:.{digits}f})" if self.interval else ""
        return f"{self.middle:.{digits}f}{interval}"

    def verdict(self):
        """Whether the target is met, and why it is not known."""
        if self.interval and self.interval[1] <= SLOWEST:
            return "met"
        if self.interval and self.interval[0] > SLOWEST:
            return "missed"
        return "not shown: the interval holds the target"


def counts(rows, base):
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
    ]


def times(rows, base):
    ratio = "1.00" if rows is base else Ratio(rows, base).text(2)
    return [f"{1000 * median(rows, 'first_output'):.1f}", ratio, str(len(rows))]


def read_record(path):
    """The lines of the record by what they are about."""
    found = collections.defaultdict(list)
    kinds = ["windows_of", "machine", "tunables_conf", "touched_page", "asker_rule", "refused", "guest", "way", "linker"]
    for part in sorted(pathlib.Path(path).glob("*.jsonl")):
        for text in part.read_text().splitlines():
            row = json.loads(text)
            row["part"] = part.stem
            if part.stem == "linked":
                kind = "linked"
            elif "first_output" not in row and "touched" in row:
                kind = "touched_page"
            elif "asked" in row and "program" in row and "first_output" not in row:
                kind = "windows_of"
            else:
                kind = next((kind for kind in kinds if kind in row), "start")
            found[kind].append(row)
    return found


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


def places(record):
    """The starts of each place: a mode of THP, a version of glibc, the tunable and a filesystem; and of each command
    and layout there."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in record["start"] + record["guest"]:
        place = (row["thp"], row.get("glibc", "2.44"), row["tunable"], row.get("fs", "ext4"), "guest" in row)
        found[place][row["program"], row["layout"]].append(row)
    return found


def order_of(place):
    thp, glibc, tunable, fs, in_guest = place
    return in_guest, thp, [int(part) for part in glibc.split(".")], tunable, ["ext4", "xfs", "btrfs", "overlay"].index(fs)


def expected(found, place, command):
    """Bytes in PMD leaves by the start on ext4 with the same request; `None` if there is no such start."""
    thp, glibc, tunable, fs, in_guest = place
    if fs == "btrfs":
        return 0
    rows = found.get(("madvise", "2.44", tunable, "ext4", False), {}).get(command)
    return median(rows, "huge") if rows else None


def places_table(record):
    found = places(record)
    kernels = sorted({row["guest"] for row in record["guest"]})
    guests = f"in a guest of the lab under Linux {', '.join(kernels)}, where QEMU emulates the processor" if kernels else \
        "nowhere: the record holds no start in a guest (lab/scripts/self-warming-modes.sh)"
    print(f"""By counts alone, since the machine did other work meanwhile. The mode of THP of this machine stays unchanged; the modes
were tried {guests}.
Each cell has the windows in PMD leaves, of executed ones, summed over the commands, by the medians. *More mappings* is
of self-warming files over those as shipped, summed likewise. A guest has one start of each; of a program with a short
command that one alone. *Merged* files have read-only data in the text and are cut; where that is not possible, they are
the self-warming ones. btrfs limits a folio to 64 blocks, 256 KiB with blocks of 4 KiB
([support](../../docs/support.md)), so no window is huge there.
""")
    used = [layout for layout in LAYOUTS if any(command[1] == layout for cells in found.values() for command in cells)]
    rows, deviating = [], []
    for place in sorted(found, key=order_of):
        cells = found[place]
        thp, glibc, tunable, fs, in_guest = place
        named = [f"{thp}, guest" if in_guest else thp, glibc, str(tunable), fs]
        row = [*named, str(len({program for program, _ in cells}))]
        for layout in used:
            own = [starts for (_, other), starts in cells.items() if other == layout]
            huge, whole = (sum(median(starts, field) for starts in own) for field in ("huge", "whole"))
            row.append(f"{huge / WINDOW:.0f} of {whole:.0f}" if own else "")
        both = [program for program, layout in cells if layout == "warming" and (program, "shipped") in cells]
        more = sum(median(cells[program, "warming"], "mappings") - median(cells[program, "shipped"], "mappings") for program in both)
        rows.append([*row, f"{more:.0f}"])
        for (program, layout), starts in sorted(cells.items()):
            wanted, huge = expected(found, place, (program, layout)), median(starts, "huge")
            if wanted is not None and huge != wanted:
                deviating.append([*named, program, LAYOUTS[layout], f"{huge / WINDOW:.0f}", f"{wanted / WINDOW:.0f}"])
    where = ["THP", "glibc", "glibc.elf.thp", "filesystem"]
    table([*where, "commands", *(LAYOUTS[layout] for layout in used), "more mappings"], rows)
    if deviating:
        print("Cells with other huge windows than the same file has on ext4 under glibc 2.44 with the same request:\n")
        table([*where, "command", "file", "huge windows", "on ext4"], deviating)
    else:
        print("Every cell has the huge windows that the same file has on ext4 under glibc 2.44 with the same request.\n")


def ways_table(record):
    ways = {"warming": "at the first window", "later": "one window later", "tail": "at the first and the last boundary"}
    cells = collections.defaultdict(list)
    for row in record["way"]:
        cells[row["program"], row["read_ahead_kb"], row["layout"]].append(row)
    rows = []
    for (program, readahead, layout), found in sorted(cells.items(), key=lambda cell: (cell[0][0], -cell[0][1], -list(ways).index(cell[0][2]))):
        rows.append([program, f"{readahead} KiB", ways[layout], f"{median(found, 'huge') / WINDOW:.0f} of {median(found, 'whole'):.0f}",
                     f"{median(found, 'mappings'):.0f}", f"{median(found, 'major'):.0f}", f"{median(found, 'read') / 2**20:.1f}",
                     f"{median(found, 'outside') / 2**20:.1f}"])
    table(["program", "readahead", "cut", "huge, of executed windows", "mappings", "major faults", "MiB read",
           "cached outside of executed windows, MiB"], rows)


def targets_table(cells, programs):
    """The targets, computed from the starts with the tunable."""
    huge = whole = 0
    beyond, ratios = [], []
    for program in programs:
        shipped, fixed, warming = (cells.get((program, layout)) for layout in ("shipped", "fixed", "warming"))
        if not (shipped and fixed and warming):
            continue
        ratios.append((program, Ratio(warming, shipped)))
        # The shorter command of a program shows the worst case, and is not counted twice.
        if "." not in program:
            huge += median(warming, "huge") / WINDOW
            whole += median(warming, "whole")
        more = (median(warming, "outside") - median(fixed, "outside")) / 2**20
        if more >= 0.05:
            beyond.append(f"{program} {more:.1f}")
    rows = [
        ["at least 90 % of the executed windows are huge", f"{huge:.0f} of {whole:.0f} ({100 * huge / whole:.0f} %)",
         "met" if huge >= 0.9 * whole else "missed",
         "" if huge == whole else "the others: [readahead](#what-spoils-a-window) brings in small folios before"],
        ["nothing is read beyond whole windows of what is executed", f"MiB: {', '.join(beyond)}" if beyond else "nothing",
         "missed" if beyond else "met",
         "the kernel reads the next window with each, also one that is not executed" if beyond else ""],
    ]
    for program, ratio in ratios:
        met = ratio.verdict()
        why = SHORT_COMMANDS if "." in program and met != "met" else ""
        rows.append([f"{program}: time to first output at most {SLOWEST} of the file as shipped", ratio.text(3), met, why])
    table(["target", "result", "met", "why not"], rows)
    print("""The short commands of chromium and rustc do not count for the first target. Where a start such as theirs matters, do
not cut the file, or leave the tunable at 0 for it.
""")


def linkers_table(record):
    cells = collections.defaultdict(list)
    for row in record["linked"]:
        cells[row["layout"], row["tunable"]].append(row)
    said = {row["linker"]: f"{row['huge']} of {row['windows']}" for row in record["linker"]}
    table(["linker", "glibc.elf.thp", "huge, of executed windows", "at most, by `check`", "mappings", "major faults", "MiB read"], [
        [linker, str(tunable), f"{median(rows, 'huge') / WINDOW:.0f} of {median(rows, 'whole'):.0f}",
         said.get(linker, "not recorded") if tunable else "", f"{median(rows, 'mappings'):.0f}",
         f"{median(rows, 'major'):.0f}", f"{median(rows, 'read') / 2**20:.1f}"]
        for (linker, tunable), rows in sorted(cells.items())])


def unmeasured(record):
    """The programs that were not started under the modes of THP, and those of which no other cut was tried."""
    programs = {row["program"].split(".")[0] for row in record["start"]}
    for kind, what in [("guest", "under the other modes of THP"), ("way", "with other cuts")]:
        left = sorted(programs - {row["program"].split(".")[0] for row in record[kind]})
        if left:
            print(f"- {', '.join(left)} {what}.")


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
    print("## Who asks\n\n`check` decides by these rules, ASKER_RULES in crates/leaf/src/cold_start.rs.\n")
    rules_table(record)
    print("## Which files\n")
    programs_table(record)
    refusals_table(record)
    timed = [row for row in record["start"] if row["part"] == "tunable"]
    cells = collections.defaultdict(list)
    for row in timed:
        cells[row["program"], row["layout"]].append(row)
    loads = [row["load"] for row in timed]
    direct = "direct I/O, so that each read goes to the disk" if all(row["direct"] for row in record["start"]) else \
        "no direct I/O, which the filesystem below does not permit: reads may come from a cache below"
    programs = sorted({program for program, _ in cells})
    print("## Measured\n\n### Targets\n")
    print("glibc 2.44 with glibc.elf.thp=1, ext4, self-warming files; times with the interval of 95 % of the median.\n")
    targets_table(cells, programs)
    print(f"""### glibc 2.44 with glibc.elf.thp=1, ext4

By `lab/measure self-warming` on {record["machine"][0]["machine"]}. The machine is shared with other work:
the load was {min(loads):.1f} to {max(loads):.1f} ({statistics.median(loads):.1f} in the median). Each file lies on an image on a loop device with 128 KiB of
readahead and {direct}.
The file's page cache is dropped before each start, and all else is warm. Starts are interleaved in random order.
Figures are medians.

cc1 compiles 60 functions, chromium loads a page, rustc compiles a crate, node runs a line, postgres and mariadbd
describe their settings. python3 and git hold no whole window of text. chromium.version and rustc.version only print a
version.

- *huge*: windows in PMD leaves at the exit of the process, of those whole windows of text in which it ran.
- *whole windows of what is executed*: every window of 2 MiB with a page of text in the page table, those at the ends
  of text too. Reading more than these would be a waste.
- *cached outside of them*: data of the file, and what was read but not executed. The difference to the file as fixed
  is what the request reads beyond whole windows of what is executed.
- *ratio*: time to first output over that of the file as shipped in the same round, with the interval of 95 % of the
  median. Where nothing is asked for, fixed and self-warming files have the same pages, so their ratios show the noise.
""")
    rows = []
    for program in programs:
        base = cells.get((program, "shipped"))
        for layout, name in LAYOUTS.items():
            starts = cells.get((program, layout))
            if starts and base:
                rows.append([program, name, *counts(starts, base), *times(starts, base)])
    table(["program", "file", *COUNTS, *TIMES], rows)
    print("### Filesystems, versions of glibc and modes of THP\n")
    places_table(record)
    print("### Other cuts and other readahead\n")
    print("""ext4, glibc 2.44 with glibc.elf.thp=1, counts alone. A cut at the last boundary too (lab/scripts/move-cut.py) takes a second
program header, which programs at random addresses by GNU ld do not have, and a further mapping. It keeps the text
behind the last window out of the request; that text is executed, and then comes by more faults. So `fix` cuts once. An
earlier cut is not possible: the window before the first whole one begins outside of the text.
""")
    ways_table(record)
    if record["linked"]:
        print("""### Laid out by linkers

A program of five windows that a linker lays out by the options of [link-time.md](../../docs/link-time.md), without a fix; ext4,
glibc 2.44, counts alone. lld and mold place data directly behind the last window. The loader touches that data first,
and the kernel reads half of the readahead in front of it, which brings in the end of the window in small folios.
Without readahead of the device all five are huge. Only text that ends at a window boundary meets this.
""")
        linkers_table(record)
    print(TAIL.strip("\n"))
    unmeasured(record)


main()
