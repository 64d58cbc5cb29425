#!/bin/sh
# Prints lab/results/tlb-results.md: lab/scripts/results-tlb.sh HUGETEXT
# Each measurement is preceded by QUIETLY, a command that waits until the machine is idle.
set -eu

hugetext=${1:?usage: $0 HUGETEXT}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
cc1=$(gcc -print-prog-name=cc1)
scripts=$(dirname "$0")

"$scripts/compiler-input.sh" 10 > "$directory/ten.c"
gcc -E -P "$directory/ten.c" -o "$directory/ten.i"
: > "$directory/empty.i"

# Runs in the directory of the input, so that its path does not affect the figures. The output is
# kept as NAME.
measure() {
    name=$1 title=$2
    shift 2
    printf '\n## %s\n\n```\n' "$title"
    (cd "$directory" && ${QUIETLY:-} taskset -c 0 "$hugetext" bench tlb "$@") >"$directory/$name"
    cat "$directory/$name"
    printf '```\n'
}

case $hugetext in /*) ;; *) hugetext=$PWD/$hugetext ;; esac

cat <<TEXT
# Instruction-TLB misses, counted

Written by \`lab/measure tlb-results\`. [tlb.md](../tlb.md) says how it counts, and what that is worth.
$(uname -sr), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(gcc --version | head -n 1).
The emulator and the models took turns on one processor, which may have been busy with other work too.

## What was counted elsewhere, in hardware

These are from the kernel list, for builds of Linux 7.0-rc1: \`perf\`'s itlb-misses, and in brackets those
per 1000 instructions.

| machine, build | base | 64K folios, aligned | PMD-aligned |
|---|---|---|---|
| Ryzen 9 7950X (Zen 4), x86_64_defconfig [1] | 3,672,158,331 (0.445) | | 26,821,242 (0.003), -99.3% |
| RK3399, Cortex-A53, allnoconfig [2] | 579,692,117 (0.291) | 455,848,211 (0.229), -21.4% | 43,814,795 (0.022), -92.4% |
| RK3399, A53 and A72 together, allnoconfig [2] | 9,250,336,037 (2.969) | 8,033,415,293 (2.515), -13.2% | 2,946,152,935 (0.911), -68.2% |

[1] "binfmt_elf: Align eligible read-only PT_LOAD segments to PMD_SIZE for THP", v4, cover letter.
[2] Replies to "arm64/mm: contpte-sized exec folios for 16K and 64K pages"; the last column is [1].

Compare the first row with \`fixed\` of zen4, and the others with \`64k-folios\` and \`fixed\` of the two Cortex
cores. How much a layout saves can be compared; the number of misses cannot. In hardware these were whole
builds, with make, shell, assembler and linker, thousands of cold starts, the kernel in between, and a
newer compiler. The event counts walks on Zen (arch/x86/events/amd/core.c) and refills on the Cortex cores
(L1I_TLB_REFILL). Below, one compilation runs from start to end, and second levels are not shared with
data. The column of 64K folios differs most: in hardware the folios were those that the page cache
happened to hold, and \`64k-folios\` supposes them everywhere.
TEXT
measure real "A real compilation: $(wc -l < "$directory/ten.i") preprocessed lines, -O2" \
    -- "$cc1" -quiet -fpreprocessed -O2 ten.i -o /dev/null
measure empty "An empty compilation: mostly cold misses" \
    -- "$cc1" -quiet -fpreprocessed empty.i -o /dev/null

# Misses per 1000 instructions: mpki FILE CORE LAYOUT LEVEL; the base layout has no column of savings.
mpki() {
    awk -v core="$2" -v layout="$3" -v level="$4" '$1 == core && $2 == layout {
        print level == 1 ? $4 : $(layout == "4k" ? 6 : 7) }' "$directory/$1"
}
saved() {
    awk -v core="$2" -v layout="$3" -v level="$4" '$1 == core && $2 == layout {
        print level == 1 ? $5 : $8 }' "$directory/$1"
}
zen=$(mpki real zen4 4k 2)
cat <<TEXT

## How close this comes to the hardware

The table has Zen 4's walks per 1000 instructions, and how many of them are saved:

| | base pages | PMD leaves | |
|---|---|---|---|
| hardware, a kernel build | 0.445 | 0.003 | -99.3% |
| model, a real compilation | $zen | $(mpki real zen4 fixed 2) | $(saved real zen4 fixed 2) |
| model, an empty compilation | $(mpki empty zen4 4k 2) | $(mpki empty zen4 fixed 2) | $(saved empty zen4 fixed 2) |

The saving of a long compilation agrees with the hardware's to within a point. The count does not: the model has
$(awk "BEGIN { printf \"%.1f\", 0.445 / $zen }") times fewer walks. What it leaves out adds misses: the kernel and the other programs of a build in the
same TLBs, a second thread on the core that shares them, fetches down wrong paths, and a newer compiler of
another size. An empty compilation shows cold starts alone. It saves less, because each window and each
small library still misses once.

On Cortex-A53 the hardware's 0.291 lies between the model's second level ($(mpki real cortex-a53 4k 2)) and its first ($(mpki real cortex-a53 4k 1)), so
that the event cannot be said to be either; -92.4% there is compared with $(saved real cortex-a53 fixed 1) (first level) and $(saved real cortex-a53 fixed 2) (second)
here. Trust the direction and the size of what a layout saves; do not trust the number of misses.
TEXT

if [ -x /usr/bin/node ]; then
    measure node "node --version" -- /usr/bin/node --version
fi
if [ -x /usr/bin/python3 ]; then
    measure python "python3 -c" --env PYTHONHASHSEED=0 -- /usr/bin/python3 -c 'print(sum(range(1000)))'
fi
