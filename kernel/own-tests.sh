#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the selftests that the sets add to the kernel, in a guest with ext4.
#
#   kernel/own-tests.sh IMAGE [x86_64|arm64|riscv64]
#
# On x86-64 the image needs the fragment dax of kernel/config: text is also executed where files are not in the page
# cache. Elsewhere only the tests of leaves run: which are read, and which mappings are placed for them.
# Prints their cases (TAP). Fails if one did not pass, if a test skipped all of its cases, if the kernel
# reported an error, or if a guest did not end. Run `make lab-fetch` first, or name a static BUSYBOX.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel_image=$1
arch=${2:-x86_64}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2034 # rounds.sh uses it
disk_size=256M
tests=(exec_leaf text_place) # of mm
[ "$arch" != x86_64 ] || tests+=(exec_leaf_race collapse_punch fork_fails)

# shellcheck source=kernel/rounds.sh
. "$here/rounds.sh"
tree=$("$here/build.sh" tree | tail -n 1)
build_selftests "$tree" "${tests[@]}"
if [ "$arch" = x86_64 ]; then
    # With an interpreter: mmap places a static PIE. Its text begins the file, so that exec looks at the first window.
    (cd "$tree/tools/testing/selftests/exec" && gcc -O1 -Wall -fPIE -pie \
        -Wl,-z,max-page-size=0x10000,-z,noseparate-code -I.. -o "$work/root/bin/text_load" text_load.c)
    (cd "$tree/tools/testing/selftests/exec" && gcc -O1 -Wall -fPIE -pie -I.. -o "$work/root/bin/load_hole" load_hole.c)
    "$here/libraries.sh" "$work/root" "$work/root/bin/text_load"
fi
make_initrd << 'END'
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
test=$(busybox sed -n 's/.*guest\.test=\([a-z_]*\).*/\1/p' /proc/cmdline)
until [ -b /dev/vda ] || [ -b /dev/pmem0 ]; do busybox usleep 1000; done
if [ -b /dev/vda ]; then
    busybox mount -t ext4 /dev/vda /disk || busybox reboot -f
else
    busybox mount -t ext4 -o dax /dev/pmem0 /disk || busybox reboot -f
fi
# Most disks have 128; more hides what only leaves read. The race needs leaves, however slow the disk is.
readahead=128
[ "$test" != exec_leaf_race ] || readahead=4096
for device in /sys/block/*/queue/read_ahead_kb; do echo $readahead > "$device"; done
cd /disk
# What is executed must lie on a filesystem that has large folios, too.
[ -e "$test" ] || busybox cp "/bin/$test" .
"./$test" 2>&1 | busybox sed "s/^/test $test: /"
echo "guest: done"
busybox reboot -f
END

die() { echo "kernel/own-tests.sh: $*" >&2; exit 1; }

run() { # TEST QEMU-OPTION…
    local test=$1 console=$work/console-$1 machine=("${@:2}" -m "1024${slots:-}") append="guest.test=$1"
    boot "$kernel_image" "$console"
    grep '^test ' "$console" || true
    ended "$console" || die "the guest of $test did not end"
    if complained "$console"; then
        cat "$console" >&2
        die "the kernel reported an error during $test"
    fi
    ! grep -q "^test $test: not ok" "$console" || die "a case of $test did not pass"
    grep "^test $test: ok" "$console" | grep -qv '# SKIP' || die "no case of $test passed"
}

# Time is counted in instructions, so that a slow machine does not make the disk look slow. While the guest only waits, the
# machine's own time counts: if four other jobs want its processors, too, exec_leaf may skip, and this fails.
run exec_leaf -accel "tcg,thread=single" -icount shift=0 -smp 1
run text_place -accel "tcg,thread=single" -icount shift=0 -smp 1
[ "$arch" = x86_64 ] || exit 0
run text_load -accel "tcg,thread=single" -icount shift=0 -smp 1
run fork_fails -accel "tcg,thread=single" -icount shift=0 -smp 1
run load_hole -accel "tcg,thread=single" -icount shift=0 -smp 1
# Reclaim leaves values in the page cache, and so does DAX. Those of DAX have the number of the page in place of a node. So
# the program lies behind another file, where that is no node of the guest. DAX takes blocks of 4K, as a larger disk has.
mkdir "$work/pmem"
head -c 4096 /dev/zero > "$work/pmem/a"
cp "$work/root/bin/text_load" "$work/pmem"
slots=,slots=1,maxmem=4G disk=pmem disk_size=512M disk_root=$work/pmem run text_load -accel "tcg,thread=single" -icount shift=0 -smp 1
# Races need two processors. They must not share a thread under -icount: QEMU before 8.1 can stop one of
# them for good then (kernel/README.md).
run exec_leaf_race -accel "tcg,thread=multi" -smp 2
run collapse_punch -accel "tcg,thread=multi" -smp 2
