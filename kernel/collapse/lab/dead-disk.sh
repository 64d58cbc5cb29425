#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Whether khugepaged and MADV_COLLAPSE get past a read that never ends, in a guest whose disk stops to answer.
#
#   kernel/collapse/lab/dead-disk.sh IMAGE
#
# IMAGE is for x86-64, and has the set paced. Without the set collapse both stop for good. Prints the cases (TAP). Fails if one did not pass, if the kernel reported an error, or if the guest did not end.
set -euo pipefail

lab=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # rounds.sh uses these
{
    here=$lab/../..
    # Time is counted in instructions, so the guest waits for minutes in seconds.
    machine=(-accel "tcg,thread=single" -icount "shift=0,sleep=off" -smp 1 -m 512)
    disk=paced disk_size=64M
    append="kunit.enable=0 paced.depth=64"
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=kernel/rounds.sh
. "$here/rounds.sh"
mkdir -p "$work"/{root/{proc,sys,dev,disk},files}
gcc -static -O1 -Wall -o "$work/root/init" "$lab/dead_disk.c" "$here/guest/put.c"
(cd "$work/root" && find . | cpio --quiet -o -H newc) > "$work/initrd"
for file in first second; do head -c 2M /dev/urandom > "$work/files/$file"; done
disk_root=$work/files boot "$1" "$work/console"
grep '^test ' "$work/console" || true
if ! ended "$work/console" || complained "$work/console" || grep -q '^test .*: not ok' "$work/console"; then
    cat "$work/console" >&2
    exit 1
fi
