#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# What a kernel build saves: instruction-TLB misses of cc1 over files of Linux, by the models of `hugetext bench tlb`.
# Prints the record of lab/results/kernel-tlb.md.
#
#   lab/kernel/tlb.sh HUGETEXT
#
# The files are a sample of those that x86_64_defconfig builds, one of each large folder. The compiler gets the options of
# the kernel's Makefile that decide what code it makes, and no warnings.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hugetext=$(realpath "$1")
files=(kernel/fork mm/memory fs/ext4/inode net/ipv4/tcp_input block/blk-mq lib/vsprintf drivers/base/core
    security/security)
cores=(zen4 zen5 golden-cove neoverse-v2 cortex-a53 cortex-a72)

linux=$("$here/../../kernel/build.sh" tree | tail -n 1)
objects=$(dirname "$linux")/tlb
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$objects"
make=(make -s -C "$linux" O="$objects" ARCH=x86_64 -j"$(nproc)")
"${make[@]}" x86_64_defconfig > "$objects/log" 2>&1
"${make[@]}" "${files[@]/%/.i}" >> "$objects/log" 2>&1

cc1=$(gcc -print-prog-name=cc1)
for file in "${files[@]}"; do
    cp "$objects/$file.i" "$work/file.i"
    mapfile -t options < <(grep -oE ' -(f|m|O|std=)[^ ]*' "$objects/$(dirname "$file")/.$(basename "$file").i.cmd" | tr -d ' ')
    # The path of the input does not affect the figures.
    (cd "$work" && "$hugetext" bench tlb --json "${cores[@]/#/--core=}" --timeout 3000 -- \
        "$cc1" -quiet -fpreprocessed "${options[@]}" -w file.i -o /dev/null) |
        jq -c --arg file "$file.c" --argjson lines "$(wc -l < "$work/file.i")" '{file: $file, lines: $lines} + .'
done > "$work/record"
jq -c -s -L "$here" --arg gcc "$(gcc --version | head -n 1)" -f "$here/tlb.jq" "$work/record"
