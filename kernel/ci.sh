#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Checks the sets before a change lands: they apply and satisfy checkpatch, an x86-64 kernel with
# all of them builds and boots without an error, their KUnit tests pass, and a program with 24 MiB
# of text has it on huge pages at its first start.
#
#   kernel/ci.sh
#
# It needs nothing beforehand: apt fetches Debian's source. A missing source or guest is a failure.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
console=$(mktemp)
trap 'rm -f "$console"' EXIT

suites=()
for set in ${KERNEL_SETS:-$(cat "$here/sets")}; do
    while read -r suite; do suites+=("$suite"); done < <(
        find "$here/$set" -name '*_kunit.c' -exec sed -n 's/^\t\.name = "\(.*\)",$/\1/p' {} +)
done

"$here/build.sh" series
image=$("$here/build.sh" image x86_64 kunit | tail -n 1)
# Nothing is split on one processor.
KERNEL_CPUS=2 "$here/boot.sh" x86_64 "$image" 1024 walkers "${suites[@]}" | tee "$console"
pmd=$(tr -d '\r' < "$console" | sed -n 's/^record //p' |
    jq 'select(.kind == "start" and .thp == "madvise" and .program == "pie-24m").pmd')
echo "kernel/ci.sh: ${#suites[@]} suites passed; pie-24m starts with $((pmd >> 20)) MiB mapped by PMDs"
[ "$pmd" -ge $((20 << 20)) ]
