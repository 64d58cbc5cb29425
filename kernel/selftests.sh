#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the kernel's own tests of memory that huge text could break, in guests of QEMU: those of
# tools/testing/selftests/mm that need nothing but a kernel of kernel/build.sh. x86-64.
#
#   kernel/selftests.sh ROUNDS IMAGE…
#
# Boots the images in turn, ROUNDS times each, and prints for each case how many rounds it passed in,
# a column for each image. Some cases race with khugepaged and pass by chance; so it fails if a case
# passed in every round with one image and in none with another, if a kernel complained, or if a guest
# did not end. Consoles are kept in .cache/kernel/selftests.
#
# While a guest computes, its time is counted in instructions, one a nanosecond: a case that gives
# khugepaged 3 seconds gives it as much on a busy machine. While it waits, time passes as usual: it must
# not run ahead of the disk. After its own test khugepaged sleeps: it would join again what the next one has
# just split, which ends that one ("Unexpected THP split"). One case has one page of each of 512 huge ones
# in use at once; so that its outcome does not hang on reclaim, a guest has twice that memory and more.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=$1
shift
consoles=${KERNEL_CACHE:-$here/../.cache/kernel}/selftests
mkdir -p "$consoles"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_initrd() {
    local tree root=$work/root test
    tree=$("$here/build.sh" source | tail -n 1)
    mkdir -p "$root"/{bin,proc,sys,dev,tmp,disk}
    for test in khugepaged split_huge_page_test mremap_test transhuge-stress; do
        (cd "$tree/tools/testing/selftests/mm" && gcc -O1 -w -static -D_GNU_SOURCE= -I"$tree" \
            -I"$tree/tools/include/uapi" -I"$tree/tools/include" -I.. -o "$root/bin/$test" \
            $test.c vm_util.c hugepage_settings.c -lpthread -lrt -lm)
    done
    cp "${BUSYBOX:-$here/../.cache/lab/programs/amd64/busybox}" "$root/bin/busybox"
    cat > "$root/init" << 'END'
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
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) > "$work/initrd"
}

boot() { # IMAGE CONSOLE
    truncate -s 0 "$work/disk"
    truncate -s 512M "$work/disk"
    mke2fs -q -t ext4 "$work/disk"
    timeout "${KERNEL_PATIENCE:-900}" qemu-system-x86_64 -machine q35 -cpu max \
        -accel tcg,thread=single -icount shift=0 -nodefaults -display none -no-reboot \
        -smp 2 -m 3072 -serial stdio -kernel "$1" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 oops=panic no_timer_check quiet" \
        -drive "file=$work/disk,format=raw,if=virtio" < /dev/null | tr -d '\r' > "$2" || true
    if ! grep -q '^guest: done' "$2" || grep -qE '(BUG|WARNING|INFO|Oops):' "$2"; then
        cat "$2" >&2
        echo "kernel/selftests.sh: $1 complained, or did not come to the end" >&2
        exit 1
    fi
}

# Of lines "IMAGE ok|not ok NUMBER NAME", one for each case of each round.
tally() { # IMAGES
    awk -v images="$1" -v rounds="$rounds" '
        { passed = $2 == "ok"; image = $1; sub(/^[0-9]+ (not )?ok /, "")
          if (!($0 in seen)) { seen[$0]; cases[++n] = $0 }
          count[$0, image] += passed }
        END {
            for (i = 1; i <= n; i++) {
                always = never = 0
                for (image = 1; image <= images; image++) {
                    passed = count[cases[i], image] + 0
                    printf "%d ", passed
                    always += passed == rounds
                    never += passed == 0
                }
                print cases[i]
                same += always == images || never == images
                differ += always && never
            }
            printf "%d cases: %d the same, %d differ, %d pass by chance\n", n, same, differ, n - same - differ
            exit differ > 0
        }'
}

header() { # IMAGE…
    local package
    package=$("$here/build.sh" package | tail -n 1)
    echo "The kernel's own tests of huge pages: rounds passed, of $rounds, with each of"
    echo "$(basename -a "$@" | xargs | sed 's/ /, /g')."
    echo "$package, $(qemu-system-x86_64 --version | head -n 1), $(date -u +%F)."
    echo
}

make_initrd
header "$@"
for ((round = 1; round <= rounds; round++)); do
    for ((image = 1; image <= $#; image++)); do
        console=$consoles/$(basename "${!image}")-$round
        boot "${!image}" "$console"
        sed -nE "s/^test ([a-z]+): ((not )?ok) /$image \2 \1 /p" "$console"
    done
done | tally $#
