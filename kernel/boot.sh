#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Boots a kernel of kernel/build.sh under QEMU: its KUnit tests run, then programs are started with
# a cold page cache. Prints the guest's console. It fails if a test failed, if a SUITE of KUnit did
# not run, if the kernel reported an error, or if the guest did not end.
#
#   kernel/boot.sh x86_64|arm64 IMAGE MEMORY all|walkers [SUITE…]
#
# MEMORY is in MiB; kernel/guest/make.sh lists the programs. Time is counted in instructions: one
# instruction is one nanosecond of the guest. While the guest waits for its disk, time is the clock of
# this machine. The guest has KERNEL_CPUS processors (1). KERNEL_APPEND goes to the kernel's command line;
# guest.readahead=KIB is what the guest sets for the disk (128). With KERNEL_DRIVE, options of -drive such as
# throttling.bps-read=20000000, time is always the clock of this machine.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch=$1 kernel=$2 memory=$3 programs=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $arch in
x86_64) machine=(qemu-system-x86_64 -machine q35) console=ttyS0 ;;
arm64) machine=(qemu-system-aarch64 -machine "virt,gic-version=3") console=ttyAMA0 ;;
*) echo "kernel/boot.sh: unknown architecture $arch" >&2; exit 2 ;;
esac

guest=$("$here/guest/make.sh" "$arch" "$programs")
time=(-accel "tcg,thread=single" -icount "shift=0,sleep=on")
[ -z "${KERNEL_DRIVE:-}" ] || time=(-accel tcg)
timeout "${KERNEL_PATIENCE:-900}" "${machine[@]}" -cpu max -nodefaults -display none -no-reboot \
    "${time[@]}" -smp "${KERNEL_CPUS:-1}" -m "$memory" \
    -serial stdio -kernel "$kernel" -initrd "$guest/initrd" \
    -append "console=$console panic=-1 oops=panic no_timer_check ${KERNEL_APPEND:-}" \
    -drive "file=$guest/disk,format=raw,if=virtio,readonly=on${KERNEL_DRIVE:+,$KERNEL_DRIVE}" \
    < /dev/null | tee "$work/console"
die() { echo "kernel/boot.sh: $*" >&2; exit 1; }
grep -q '^guest: done' "$work/console" || die "the guest did not end"
! grep -E 'not ok|BUG:|WARNING:|INFO:|Oops' "$work/console" >&2 || die "the kernel printed the above"
for suite in "$@"; do
    grep -qE "^ok [0-9]+ $suite" "$work/console" || die "$suite did not run"
done
