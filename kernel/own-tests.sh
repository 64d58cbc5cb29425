#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the selftests that the sets add to the kernel, in a guest with ext4, and tools/testing/vma in user space.
#
#   kernel/own-tests.sh IMAGE [x86_64|arm64|riscv64] [TEST…]
#
# TESTs are these alone, with the argument ARGUMENT. On other architectures than x86-64 only the test of large folios of text runs.
# Prints their cases (TAP). Fails if one did not pass, if a test skipped all of its cases, if the kernel
# reported an error, or if a guest did not end. Run `make -C lab fetch` first, or name a static BUSYBOX.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel_image=$1
arch=${2:-x86_64}
chosen=("${@:3}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2034 # rounds.sh uses it
disk_size=256M
[ ${#chosen[@]} -gt 0 ] || chosen=(exec_large text_load fork_fails collapse_punch vma)
tests=() # of mm
for test in "${chosen[@]}"; do
    case $arch:$test in
    *:exec_large | x86_64:fork_fails | x86_64:collapse_punch) tests+=("$test") ;;
    esac
done

# shellcheck source=kernel/rounds.sh
. "$here/rounds.sh"
tree=$("$here/build.sh" tree | tail -n 1)
build_selftests "$tree" "${tests[@]}"
if [[ $arch == x86_64 && " ${chosen[*]} " == *' text_load '* ]]; then
    # With an interpreter: mmap places a static PIE.
    (cd "$tree/tools/testing/selftests/exec" && gcc -O1 -Wall -fPIE -pie \
        -Wl,-z,max-page-size=0x10000,-z,noseparate-code -I.. -o "$work/root/bin/text_load" text_load.c)
    "$here/libraries.sh" "$work/root" "$work/root/bin/text_load"
fi
make_initrd << 'END'
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
test=$(busybox sed -n 's/.*guest\.test=\([a-z_]*\).*/\1/p' /proc/cmdline)
until [ -b /dev/vda ]; do busybox usleep 1000; done
busybox mount -t ext4 /dev/vda /disk || busybox reboot -f
# Most disks have 128; more hides what only large folios read.
for device in /sys/block/*/queue/read_ahead_kb; do echo 128 > "$device"; done
cd /disk
# What is executed must lie on a filesystem that has large folios, too.
[ -e "$test" ] || busybox cp "/bin/$test" .
argument=$(busybox sed -n 's/.*guest\.argument=\([0-9]*\).*/\1/p' /proc/cmdline)
# shellcheck disable=SC2086 # no word, or one
"./$test" $argument 2>&1 | busybox sed "s/^/test $test: /"
echo "guest: done"
busybox reboot -f
END

die() { echo "kernel/own-tests.sh: $*" >&2; exit 1; }

run() { # TEST QEMU-OPTION…
    local test=$1 console=$work/console-$1 machine=("${@:2}" -m 1024) append="guest.test=$1${ARGUMENT:+ guest.argument=$ARGUMENT}"
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

one_thread=(-accel "tcg,thread=single" -icount shift=0 -smp 1)
for test in "${chosen[@]}"; do
    case $arch:$test in
    *:exec_large | x86_64:text_load | x86_64:fork_fails) run "$test" "${one_thread[@]}" ;;
    # Races need two processors. They must not share a thread under -icount: QEMU before 8.1 can stop one of
    # them for good then (kernel/README.md).
    x86_64:collapse_punch) run "$test" -accel "tcg,thread=multi" -smp 2 ;;
    x86_64:vma)
        make -s -C "$tree/tools/testing/vma"
        "$tree/tools/testing/vma/vma"
        ;;
    esac
done
