#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Whether the set read-first is right for stable kernels: each release is built and booted without and with it, and
# collapse_punch, the selftest of the set collapse, runs there. Prints a line for each kernel.
#
#   kernel/stable.sh [RELEASE…]      (6.1 6.12 6.18 7.2 7.3)
#
# Fails unless each release stops without the set and goes on with it, for two minutes: before 7.2 it takes thousands
# of holes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -gt 0 ] || set -- 6.1 6.12 6.18 7.2 7.3
output=$(mktemp)
trap 'rm -f "$output"' EXIT

image() { # RELEASE SETS
    KERNEL_RELEASE=$1 KERNEL_SETS=$2 "$here/build.sh" image x86_64 | tail -n 1
}

result() { # IMAGE; what the test says, and how often each did what it does
    local verdict=stopped
    if ARGUMENT=120 "$here/own-tests.sh" "$1" x86_64 collapse_punch > "$output" 2>&1; then verdict='went on'; fi
    echo "$verdict: $(sed -n 's/^test collapse_punch: # \(.*holes.*\)/\1/p' "$output")"
}

status=0
for release in "$@"; do
    package=$(KERNEL_RELEASE=$release "$here/build.sh" package | tail -n 1)
    without=$(result "$(image "$release" none)")
    with=$(result "$(image "$release" read-first)")
    echo "$package, without: $without"
    echo "$package, with: $with"
    case $without/$with in 'stopped: '*holes*/'went on: '*holes*) ;; *) status=1 ;; esac
done
exit $status
