#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the kernel's own tests of memory that huge text could break, in a guest of QEMU: those of
# tools/testing/selftests/mm that need nothing but a kernel of kernel/build.sh.
#
#   kernel/selftests.sh TREE IMAGE
#
# Prints a line for each test case, the same for kernels that behave the same. x86-64.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tests=$1/tools/testing/selftests/mm image=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,disk}
for test in khugepaged split_huge_page_test mremap_test transhuge-stress; do
    (cd "$tests" && gcc -O1 -w -static -D_GNU_SOURCE= -I"$1" -I"$1/tools/include/uapi" -I"$1/tools/include" \
        -I.. -o "$root/bin/$test" $test.c vm_util.c hugepage_settings.c -lpthread -lrt -lm)
done
cp "${BUSYBOX:-$here/../.cache/lab/programs/amd64/busybox}" "$root/bin/busybox"
cat > "$root/init" << 'END'
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t debugfs debug /sys/kernel/debug
busybox mount -t tmpfs -o huge=advise tmp /tmp
busybox mount -t ext4 /dev/vda /disk
run() { # NAME COMMAND…
    name=$1
    shift
    "$@" 2>&1 | busybox sed "s/^/test $name: /"
}
run khugepaged khugepaged all:all /disk
run split split_huge_page_test /disk
run mremap mremap_test
run stress transhuge-stress -d 20 64
echo "guest: done"
busybox reboot -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc) > "$work/initrd"
truncate -s 512M "$work/disk"
mke2fs -q -t ext4 "$work/disk"
timeout "${KERNEL_PATIENCE:-900}" qemu-system-x86_64 -machine q35 -cpu max -accel tcg,thread=multi -nodefaults \
    -display none -no-reboot -smp 2 -m 1024 -serial stdio -kernel "$image" -initrd "$work/initrd" \
    -append "console=ttyS0 panic=-1 oops=panic no_timer_check quiet" \
    -drive "file=$work/disk,format=raw,if=virtio" < /dev/null > "$work/console" ||
    { tail "$work/console" >&2; exit 1; }
tr -d '\r' < "$work/console" | grep -E '^test [a-z]+: (ok|not ok|# Totals|Bail)|BUG:|WARNING:|Oops'
grep -q '^guest: done' "$work/console"
