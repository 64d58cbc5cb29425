#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Boots a kernel under QEMU, and runs the parts that the first lines of init list.
#
#   lab/kernel/rmap/run.sh IMAGE CPUS SECONDS ARGUMENT…
#
# benchmarks.sh adds what UNIXBENCH and WILL_IT_SCALE name.
# SECONDS bounds the whole run. ARGUMENTs go to the kernel. With QEMU_TIME=instructions one processor
# runs at a time, and one instruction takes one nanosecond. Prints the guest's console; exit 0 if it
# ended by itself, reported nothing, and audited well.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel=$here/../../../kernel
image=$1 cpus=$2 seconds=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
time=(-accel "tcg,thread=multi")
[ "${QEMU_TIME:-}" != instructions ] ||
    time=(-accel "tcg,thread=single" -icount "shift=0,sleep=off")

root=$work/root disk=$work/disk libraries=lib/x86_64-linux-gnu
mkdir -p "$root"/{bin,proc,sys,dev} "$disk"/{bin,lib64,$libraries}
gcc -O1 -static -o "$root/bin/stress" "$here/stress.c"
gcc -O1 -static -o "$root/bin/measure" "$here/measure.c"
gcc -O1 -o "$disk/bin/victim" "$here/victim.c"
gcc -O1 -o "$disk/bin/pressure" "$here/pressure.c"
gcc -O1 -DLARGE -DTEXT=$((4 << 20)) -o "$disk/bin/victim-large" "$here/victim.c" "$kernel/guest/text.S"
cp /lib64/ld-linux-x86-64.so.2 "$disk/lib64"
cp /$libraries/lib{c,m}.so.6 "$disk/$libraries"
"$here/benchmarks.sh" "$disk"
cp "${BUSYBOX:-$here/../../../.cache/lab/programs/amd64/busybox}" "$root/bin/busybox"
ln -s busybox "$root/bin/sh"
install "$here/init" "$root/init"
# Break points go into functions that every process start runs, and into functions that few run.
readelf -W --dyn-syms "$disk/$libraries/libc.so.6" | sed -E 's/@.*//' |
    awk -v file="/disk/$libraries/libc.so.6" '$8 ~ /^(exit|execve|malloc|dlopen)$/ && !seen[$8]++ {
        printf "p:rmap/%s %s:0x%s\n", $8, file, $2 }' > "$root/probes"
# Room for eight replicas of it.
mke2fs -q -t ext4 -d "$disk" "$work/disk.img" $(($(du -sm "$disk" | cut -f 1) * 10 + 64))m
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$work/initrd"

# Guests may be paused, and share their processors. So a late task is not a stuck one.
timeout "$seconds" qemu-system-x86_64 -M pc "${time[@]}" -cpu max -m 2G \
    -smp "$cpus" -nodefaults -no-reboot -display none -serial stdio -kernel "$image" -initrd "$work/initrd" \
    -drive "file=$work/disk.img,format=raw,if=virtio,cache=unsafe" \
    -append "console=ttyS0 panic=-1 no_timer_check rcupdate.rcu_cpu_stall_timeout=300 $*" \
    < /dev/null | sed -u 's/\r$//' | tee "$work/console"

fail() { echo "run.sh: $*" >&2; exit 1; }

# Functions in which KCSAN saw a data race, and that a set names: those that it adds, changes or calls. Linux has others.
raced() {
    local name sets
    mapfile -t sets < <(sed "s,^,$kernel/," "$kernel/sets")
    sets+=("$kernel/rfc/rmap")
    sed -n 's,^BUG: KCSAN: data-race in ,,p' "$work/console" | tr -s ' /' '\n' | sort -u | while read -r name; do
        ! grep -qrw --exclude=message --exclude=cover "$name" "${sets[@]}" || echo "$name"
    done
}

grep -q 'guest done' "$work/console" || fail "the guest did not come to its end"
! grep -v '^BUG: KCSAN: data-race' "$work/console" |
    grep -E 'WARNING|BUG:|INFO: |possible recursive|not ok|Call Trace|Kernel panic' ||
    fail "the kernel reported the above"
named=$(raced)
[ -z "$named" ] || fail "data races of these, which the sets name: $named"
! grep -E 'audit (misplaced|foreign|unsorted) [1-9]' "$work/console" || fail "the audit found the above"
! grep -E 'stress .* failed [1-9]' "$work/console" || fail "steps that must work did not"
awk '/audit vmas_in_processes/ { a = $NF } /audit vmas_in_trees/ && $NF + 0 != a + 0 { exit 1 }' \
    "$work/console" || fail "processes and trees do not hold the same number of VMAs"
