#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the selftests that the sets add to the kernel, in a guest with ext4. x86-64.
#
#   kernel/own-tests.sh IMAGE
#
# Prints their cases (TAP). Fails if one did not pass, if a test skipped all of its cases, if the kernel
# reported an error, or if the guest did not end. Run `make lab-fetch` first, or name a static BUSYBOX.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel_image=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Time is counted in instructions, so that a busy machine does not make the disk look slow.
machine=(-accel "tcg,thread=single" -icount shift=0 -smp 2 -m 1024)
disk_size=256M
tests=(exec_leaf collapse_punch)

# shellcheck source=kernel/rounds.sh
. "$here/rounds.sh"
build_selftests "$("$here/build.sh" tree | tail -n 1)" "${tests[@]}"
make_initrd << END
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
until [ -b /dev/vda ]; do busybox usleep 1000; done
busybox mount -t ext4 /dev/vda /disk || busybox reboot -f
# As most disks have it; a larger one hides what only leaves read.
echo 128 > /sys/block/vda/queue/read_ahead_kb
cd /disk
for test in ${tests[*]}; do
    \$test 2>&1 | busybox sed "s/^/test \$test: /"
done
echo "guest: done"
busybox reboot -f
END
console=$work/console
boot "$kernel_image" "$console"
grep '^test ' "$console" || true
die() { echo "kernel/own-tests.sh: $*" >&2; exit 1; }
ended "$console" || die "the guest did not end"
if complained "$console"; then
    cat "$console" >&2
    die "the kernel reported an error"
fi
! grep -q '^test [a-z_]*: not ok' "$console" || die "a case did not pass"
for test in "${tests[@]}"; do
    grep -q "^test $test: ok" "$console" || die "no case of $test passed"
done
