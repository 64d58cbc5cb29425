#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Boots a kernel of kernel/build.sh under QEMU: its KUnit tests run, then programs are started with
# a cold page cache. Prints the guest's console. It fails if a test failed, if a SUITE of KUnit did
# not run, if the kernel reported an error, or if the guest did not end.
#
#   kernel/boot.sh x86_64|arm64|riscv64 IMAGE MEMORY all|large|walkers [ext4|xfs|btrfs] [SUITE…]
#
# MEMORY is in MiB; kernel/guest/make.sh lists the programs. The image has the set `paced`. Time is counted
# in instructions: one instruction is one nanosecond of the guest, and so is each nanosecond of a timer of its
# disk. So the same image shows the same figures on every machine, whatever else the machine does.
# The disk is as fast as an NVMe volume, unless KERNEL_APPEND, which goes to the kernel's command line, has
# other parameters of kernel/paced. KERNEL_QEMU has further options of QEMU. The guest has KERNEL_CPUS processors (1); with more, its timers have ticks of 4 ms.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch=$1 kernel=$2 memory=$3 programs=$4
shift 4
fs=ext4
case ${1:-} in ext4 | xfs | btrfs) fs=$1; shift ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=kernel/board.sh
. "$here/board.sh"
disk="paced.latency_us=100 paced.mb_s=2000 paced.depth=32"
guest=$("$here/guest/make.sh" "$arch" "$programs" "$fs")
paced_disk "$guest/disk" 2G
# shellcheck disable=SC2206 # words
devices+=(${KERNEL_QEMU:-})
timeout "${KERNEL_PATIENCE:-900}" "${board[@]}" -nodefaults -display none -no-reboot \
    -accel tcg,thread=single -icount shift=0,sleep=off -smp "${KERNEL_CPUS:-1}" -m "$memory" \
    -serial stdio -kernel "$kernel" -initrd "$guest/initrd" \
    -append "console=$serial panic=-1 oops=panic no_timer_check $disk guest.fs=$fs ${KERNEL_APPEND:-}" \
    "${devices[@]}" < /dev/null | tee "$work/console"
die() { echo "kernel/boot.sh: $*" >&2; exit 1; }
grep -q '^guest: done' "$work/console" || die "the guest did not end"
! grep -E 'not ok|BUG:|WARNING:|INFO:|Oops' "$work/console" >&2 || die "the kernel printed the above"
for suite in "$@"; do
    grep -qE "^ok [0-9]+ $suite" "$work/console" || die "$suite did not run"
done
