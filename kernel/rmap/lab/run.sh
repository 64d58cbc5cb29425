#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Boots a kernel with CONFIG_I_MMAP_SHARDS_AUDIT under QEMU, and runs the stress in it.
#
#   kernel/rmap/lab/run.sh IMAGE CPUS SECONDS rmap.seconds=N [ARGUMENT…]
#   kernel/rmap/lab/run.sh IMAGE CPUS SECONDS rmap.workers=1,8 rmap.execs=N [ARGUMENT…]
#
# SECONDS bounds the whole run. ARGUMENTs go to the kernel: i_mmap_shards=1 keeps every file in one
# tree. Prints the guest's console; exit 0 if it ended by itself, reported nothing, and audited well.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=$1 cpus=$2 seconds=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

root=$work/root disk=$work/disk
mkdir -p "$root"/{bin,proc,sys,dev} "$disk"/{bin,lib64,lib/x86_64-linux-gnu}
gcc -O1 -static -o "$root/bin/stress" "$here/stress.c"
gcc -O1 -o "$disk/bin/victim" "$here/victim.c"
cp /lib64/ld-linux-x86-64.so.2 "$disk/lib64"
cp /lib/x86_64-linux-gnu/lib{c,m}.so.6 "$disk/lib/x86_64-linux-gnu"
cp "$(command -v busybox)" "$root/bin/busybox"
ln -s busybox "$root/bin/sh"
install "$here/init" "$root/init"
mke2fs -q -t ext2 -d "$disk" "$root/disk.img" 32m
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$work/initrd"

timeout "$seconds" qemu-system-x86_64 -M pc -accel tcg,thread=multi -cpu max -smp "$cpus" -m 1G \
    -nodefaults -no-reboot -display none -serial stdio -kernel "$image" -initrd "$work/initrd" \
    -append "console=ttyS0 panic=-1 hung_task_timeout_secs=300 $*" < /dev/null | tee "$work/console"

fail() { echo "run.sh: $*" >&2; exit 1; }
grep -q 'guest done' "$work/console" || fail "the guest did not come to its end"
! grep -E 'WARNING|BUG:|INFO: |possible recursive|not ok|Call Trace|Kernel panic' "$work/console" ||
    fail "the kernel reported the above"
! grep -E 'audit (misplaced|foreign|unsorted) [1-9]' "$work/console" || fail "the audit found the above"
! grep -E 'stress .* failed [1-9]' "$work/console" || fail "steps that must work did not"
awk '/audit vmas_in_processes/ { a = $3 } /audit vmas_in_trees/ && $3 + 0 != a + 0 { exit 1 }' \
    "$work/console" || fail "processes and trees do not hold the same number of VMAs"
