#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Puts benchmarks that are not packaged into the disk of a guest, as the root directory that they run in.
#
#   lab/kernel/rmap/benchmarks.sh DISK
#
# UNIXBENCH       the folder of a UnixBench that has src, pgms and testdir: its execl, and its shell test
# WILL_IT_SCALE   a folder of will-it-scale: its cases mmap1 and mmap2; needs hwloc
#
# Each is left out if its variable is not set. The shell test runs this machine's dash and coreutils.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
disk=$1
programs=()

if [ -n "${UNIXBENCH:-}" ]; then
    mkdir -p "$disk"/unixbench/{pgms,testdir}
    for program in execl looper; do
        # Sources of another age. What they warn about is not what is measured.
        gcc -w -O2 -I "$UNIXBENCH/src" -DTIME -o "$disk/unixbench/pgms/$program" "$UNIXBENCH/src/$program.c"
        programs+=("$disk/unixbench/pgms/$program")
    done
    install -t "$disk/unixbench/pgms" "$UNIXBENCH/pgms/multi.sh" "$UNIXBENCH/pgms/tst.sh"
    install -t "$disk/unixbench/testdir" "$UNIXBENCH/testdir/sort.src"
    for program in cat grep od rm sort tee wc; do
        install -t "$disk/bin" "$(command -v $program)"
        programs+=("$disk/bin/$program")
    done
    install "$(command -v dash)" "$disk/bin/sh"
fi
if [ -n "${WILL_IT_SCALE:-}" ]; then
    mkdir -p "$disk/will-it-scale"
    for program in mmap1 mmap2; do
        gcc -w -O2 -o "$disk/will-it-scale/$program" "$WILL_IT_SCALE/main.c" "$WILL_IT_SCALE/tests/$program.c" -lhwloc
        programs+=("$disk/will-it-scale/$program")
    done
fi
[ ${#programs[@]} -gt 0 ] || exit 0
mkdir -p "$disk"/{dev,proc,sys,tmp}
"$here/../../../kernel/libraries.sh" "$disk" "${programs[@]}"
