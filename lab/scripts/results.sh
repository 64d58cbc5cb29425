#!/bin/sh
# Prints lab/results/results.md: lab/scripts/results.sh HUGETEXT
# Each measurement is preceded by QUIETLY, a command that waits until the machine is idle.
set -eu

hugetext=${1:?usage: $0 HUGETEXT}

# Runs one benchmark. If this machine's answer is no, that is the result.
measure() {
    printf '\n```\n$ hugetext bench %s\n' "$*"
    ${QUIETLY:-} "$hugetext" bench "$@" 2>&1 || [ $? -eq 1 ]
    printf '```\n'
}

cat <<TEXT
# Results

Written by \`lab/measure results\` on one machine:
$(uname -sr), $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1),
load average $(cut -d ' ' -f 1 /proc/loadavg) when it began.

Each section says what others measured on the kernel lists, and whether the figures can be compared.
Ratios are taken within rounds. Intervals are 95 % bootstrap intervals of the median. Time is wall time
of a machine that may do other work, so ratios say more than times. [tlb-results.md](tlb-results.md)
counts the misses of instruction TLBs without a clock.

## Starts of a program

On the list, for whole kernel builds: WANG Rui, "binfmt_elf: Align eligible read-only PT_LOAD segments to
PMD_SIZE for THP", v4, March 2026. On a Ryzen 9 7950X with a GCC 15 whose text came onto huge pages,
a build took 61.97 s instead of 64.66 s (-4.2 %) and 5.4 % fewer cycles. Below, the compiler starts,
compiles nothing and exits. Page faults and cold TLBs weigh more there than in a build, and the work
itself weighs less. So the two figures bound the effect from two sides, and cannot be compared directly.
\`warmed\` is the unchanged compiler. \`fixed\` and \`merged\` are copies that \`hugetext fix\` wrote, mounted over
its path.
TEXT
measure exec
cat <<'TEXT'

## First calls, and calls at random

On the list: Usama Arif, "arm64/mm: contpte-sized exec folios for 16K and 64K pages", 10 March 2026.
On a Neoverse V2 with 64K base pages and a file of 512 MiB on ext4, with a return at each base page:

| | before | with 2M contpte folios, aligned | |
|---|---|---|---|
| first sweep | 83.4 ms | 41.3 ms | 0.50 |
| random calls | 76.0 ms | 58.3 ms | 0.77 |

The benchmark is of the same kind. The ratio of `warmed` to `small folios` can be compared. The base page
decides how many calls a sweep makes: 131,072 for 4K here, 8,192 for 64K there. The leaf is a PMD here and a
contpte block there, and the number of random calls there is not given. `misaligned` shows huge folios
that no leaf can map: they help the sweep, and do not help random calls.
TEXT
measure cold
measure random
cat <<'TEXT'

## Changes of access rights

On the list: Dev Jain, "Optimize mprotect() for large folios", v4, 30 June 2025; it is in Linux 6.17.
1 GiB made read-only and writable again 40 times, on an Apple M3:

| | PTE-mapped THP (T1) | 64K folios (T2) | base pages (T3) | T1/T3 | T2/T3 |
|---|---|---|---|---|---|
| before | 7.9 s | 7.9 s | 4.2 s | 1.88 | 1.88 |
| after | 2.1 s | 2.2 s | 4.3 s | 0.49 | 0.51 |

The ratios can be compared. Below 1, the kernel changes rights by the folio; well above 1 on arm64 with
contpte, it does not. The times cannot be compared: there each loop also wrote the memory, and here only
the calls are timed. 64K folios of anonymous memory need a system setting that is off by default
(hugepages-64kB/enabled). Where it is off, T2 is measured on the page cache of a file, mapped privately,
beside base pages of the same file. [support.md](../../docs/support.md) has T2 as on the list, from a guest where
the setting is on.
TEXT
measure mprotect
cat <<'TEXT'

## Exec storms

On the list: Yibin Liu, "mm: Add RWH_RMAP_EXCLUDE flag to exclude files from rmap sharing", 21 April
2026: about 80 % more in UnixBench's execl and shell tests at 64 and more cores (Hygon 7490, EPYC
9754, Emerald Rapids), from keeping libc and ld.so out of `i_mmap`. The review asked for fewer
acquisitions of the lock for each exec, or for sharding. `merged` has fewer acquisitions, by the layout of
the files alone. `replicas` stands for sharding: it has more inodes. With few processors the lock is
hardly contended, so only the number of mappings can be compared here, which is that of acquisitions.
TEXT
measure rmap
