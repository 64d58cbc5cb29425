#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the kernel's own tests of memory that huge text could break, in guests of QEMU: those of
# tools/testing/selftests/mm that need nothing but a kernel of kernel/build.sh. x86-64.
#
#   kernel/selftests.sh ROUNDS IMAGE…
#
# Boots the images in turn, ROUNDS times each, and prints for each case how many rounds it passed
# in, a column for each image. Some cases race with khugepaged and pass by chance. Therefore the
# script fails only if a case passed in every round with one image and in none with another, if a
# kernel reported an error, or if a guest did not end. Consoles are kept in .cache/kernel/selftests.
#
# While a guest computes, its time is counted in instructions, one per nanosecond: a case that gives
# khugepaged 3 seconds gives it as much on a busy machine. While the guest waits, time passes as
# usual, because it must not run ahead of the disk. khugepaged sleeps after its own test: otherwise
# it would join again what the next test has just split, which ends that test ("Unexpected THP
# split"). One case uses one page of each of 512 huge pages at once; a guest has more than twice
# that memory, so that the outcome does not depend on reclaim.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

title="The kernel's own tests of huge pages"
consoles=${KERNEL_CACHE:-$here/../.cache/kernel}/selftests
machine=(-accel "tcg,thread=single" -icount shift=0 -smp 2 -m 3072)
disk_size=512M

# shellcheck source=kernel/rounds.sh
. "$here/rounds.sh"
build_selftests "$("$here/build.sh" source | tail -n 1)" \
    khugepaged split_huge_page_test mremap_test transhuge-stress
make_initrd << 'END'
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t debugfs debug /sys/kernel/debug
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs -o huge=advise tmp /tmp
until [ -b /dev/vda ]; do busybox usleep 1000; done
busybox mount -t ext4 /dev/vda /disk || busybox reboot -f
run() { # NAME COMMAND…
    name=$1
    shift
    "$@" 2>&1 | busybox sed "s/^/test $name: /"
}
run khugepaged khugepaged all:all /disk
echo 600000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
run split split_huge_page_test /disk
run mremap mremap_test
run stress transhuge-stress -d 2 64
echo "guest: done"
busybox reboot -f
END
compare "$@"
