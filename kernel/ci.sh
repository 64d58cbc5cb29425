#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Checks the sets before a change lands: they apply, each alone, too, and satisfy checkpatch, an x86-64 kernel with
# all of them builds and boots without an error, their KUnit tests pass, programs with 24 MiB
# of text have it on huge pages at their first start, and collapse gets past a disk that is dead.
#
#   kernel/ci.sh
#
# It needs nothing beforehand: apt fetches Debian's source. A missing source or guest is a failure.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
console=$(mktemp)
trap 'rm -f "$console"' EXIT

suites=()
sets=${KERNEL_SETS:-$(tr '\n' ' ' < "$here/sets")}
for set in $sets; do
    while read -r suite; do suites+=("$suite"); done < <(
        find "$here/$set" -name '*_kunit.c' -exec sed -n 's/^\t\.name = "\(.*\)",$/\1/p' {} +)
done

# Each set stands alone, or on those that its cover names.
for set in $sets; do
    case $set in
    collapse) below=read-first ;;
    rfc/rmap) below='parisc fold fork' ;;
    *) below= ;;
    esac
    KERNEL_SETS="$below $set" "$here/build.sh" series > /dev/null
done
"$here/build.sh" series
image=$(KERNEL_SETS="$sets paced" "$here/build.sh" image x86_64 kunit | tail -n 1)
# Nothing is split on one processor. Under -icount timers of two are too coarse for a disk, so it answers at once.
KERNEL_CPUS=2 KERNEL_APPEND="paced.latency_us=0 paced.mb_s=0" \
    "$here/boot.sh" x86_64 "$image" 1024 walkers "${suites[@]}" | tee "$console"
mapped() { # PROGRAM: MiB of its text that PMDs map at the first start
    tr -d '\r' < "$console" | sed -n 's/^record //p' | jq --arg program "$1" \
        'select(.kind == "start" and .thp == "madvise" and .program == $program).pmd / 1048576'
}
echo "kernel/ci.sh: ${#suites[@]} suites passed; joined-24m starts with $(mapped joined-24m) MiB mapped by" \
    "PMDs, pie-24m with $(mapped pie-24m)"
[ "$(mapped joined-24m)" -ge 20 ]
[ "$(mapped pie-24m)" -ge 20 ]
[[ " $sets " != *" collapse "* ]] || "$here/collapse/lab/dead-disk.sh" "$image"
