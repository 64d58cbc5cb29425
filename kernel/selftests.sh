#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the kernel's own tests that huge text could break, in guests of QEMU: those of memory and exec
# in tools/testing/selftests that need nothing but a kernel of kernel/build.sh. x86-64.
#
#   kernel/selftests.sh ROUNDS IMAGE…
#
# The images need the fragment selftests of kernel/config. They are booted in turn, ROUNDS times each,
# and for each case the number of rounds that it passed in is printed, in a column for each image.
# Cases are those of a test's TAP; a test without any is one case, which its exit status decides. A
# skipped case counts under another name. Some cases race with khugepaged and pass by chance.
# Therefore the script fails only if a case passed in every round with one image and in none with
# another, if a kernel reported an error, or if a guest did not end. Consoles are kept in
# .cache/kernel/selftests.
#
# There are two groups of tests, each with a guest and a table of its own.
#
# "timed": while the guest computes, its time is counted in instructions, one per nanosecond: a case
# that gives khugepaged 3 seconds gives it as much on a busy machine. While the guest waits, time
# passes as usual, because it must not run ahead of the disk. khugepaged sleeps but for its own test:
# otherwise it would join again what a test has just split, which ends that test ("Unexpected THP
# split"). One case uses one page of each of 512 huge pages at once; a guest has more than twice that
# memory, so that the outcome does not depend on reclaim.
#
# "parallel": the tests race threads with each other, and no case has a deadline. Each processor is a
# thread of this machine. QEMU before 8.1 could stop one of them for good under -icount
# (kernel/README.md).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# GROUP NAME COMMAND. Arguments are those of the kernel's run_vmtests.sh, but for fewer bounces of
# uffd-stress, less of transhuge-stress, and the disk for what tests files. A command with a slash is
# run in the folder of the tests of exec, as they expect.
table() {
    cat << 'END'
timed khugepaged khugepaged all:all /disk
timed split split_huge_page_test /disk
timed mremap mremap_test
timed stress transhuge-stress -d 2 64
parallel hugetlb-mmap hugetlb-mmap
parallel hugetlb-shm hugetlb-shm
parallel hugetlb-mremap hugetlb-mremap
parallel hugetlb-madvise hugetlb-madvise
parallel hugetlb_dio hugetlb_dio
parallel hugetlb_fault_after_madv hugetlb_fault_after_madv
parallel hugetlb_madv_vs_map hugetlb_madv_vs_map
parallel thuge-gen thuge-gen
parallel uffd-unit-tests uffd-unit-tests
parallel uffd-stress-anon uffd-stress anon 20 4
parallel uffd-stress-hugetlb uffd-stress hugetlb 128 4
parallel uffd-stress-hugetlb-private uffd-stress hugetlb-private 128 4
parallel uffd-stress-shmem uffd-stress shmem 20 4
parallel uffd-stress-shmem-private uffd-stress shmem-private 20 4
parallel uffd-wp-mremap uffd-wp-mremap
parallel execveat ./execveat
parallel non-regular ./non-regular
parallel load_address.0x1000 ./load_address.0x1000
parallel load_address.0x200000 ./load_address.0x200000
parallel load_address.0x1000000 ./load_address.0x1000000
parallel load_address.static.0x1000 ./load_address.static.0x1000
parallel load_address.static.0x200000 ./load_address.static.0x200000
parallel load_address.static.0x1000000 ./load_address.static.0x1000000
parallel recursion-depth ./recursion-depth
parallel null-argv ./null-argv
parallel check-exec ./check-exec
parallel check-exec-tests ./check-exec-tests.sh
parallel binfmt_misc_selfpin ./binfmt_misc_selfpin
parallel binfmt_misc_interplimit ./binfmt_misc_interplimit
parallel binfmt_misc_disabled ./binfmt_misc_disabled
parallel binfmt_misc_transparent ./binfmt_misc_transparent
parallel binfmt_misc_loader ./binfmt_misc_loader
END
}

# The tests of exec as the kernel's makefile builds them, with what they run: a shell, busybox for
# other commands, and the C library. All but these two are on the disk, because text that is in the
# initramfs is not read by faults.
build_exec() { # TREE
    local selftests=$1/tools/testing/selftests root=$disk_root program
    [ -e /usr/include/sys/capability.h ] || { echo "$0: some tests of exec need libcap-dev" >&2; exit 2; }
    make -s -C "$1" O="$work/headers" ARCH=x86_64 headers >&2
    mkdir -p "$root"/{exec,kselftest,tmp}
    make -s -C "$selftests/exec" OUTPUT="$root/exec" HAVE_BPF_TOOLCHAIN= \
        KHDR_INCLUDES="-isystem $work/headers/usr/include" all >&2
    cp "$selftests"/exec/{Makefile,check-exec-tests.sh} "$root/exec"
    cp "$selftests/kselftest/ktap_helpers.sh" "$root/kselftest"
    "$here/libraries.sh" "$root" /bin/{bash,true} "$root/exec/check-exec"
    mkdir -p "$work/root"/{bin,usr}
    ln -s disk/lib disk/lib64 "$work/root"
    ln -s ../bin "$work/root/usr/bin"
    cp /bin/{bash,true} "$work/root/bin"
    for program in cat dirname env readlink sh; do ln -s busybox "$work/root/bin/$program"; done
}

# shellcheck disable=SC2034 # rounds.sh uses it
disk_size=768M disk_root=$work/disk-root
# shellcheck source=kernel/rounds.sh
. "$here/rounds.sh"
tree=$("$here/build.sh" source | tail -n 1)
mapfile -t programs < <(table | awk '$3 !~ "/" { print $3 }' | sort -u)
build_selftests "$tree" "${programs[@]}"
build_exec "$tree"
table > "$work/root/table"
make_initrd << 'INIT'
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t debugfs debug /sys/kernel/debug
busybox mount -t devtmpfs dev /dev
busybox ln -s /proc/self/fd /dev/fd
until [ -b /dev/vda ]; do busybox usleep 1000; done
busybox mount -t ext4 /dev/vda /disk || busybox reboot -f
group=$(busybox sed -n 's/.*guest\.group=\([a-z]*\).*/\1/p' /proc/cmdline)
# For the cases that swap pages out.
busybox dd if=/dev/zero of=/disk/swap bs=1M count=64 2> /dev/null
busybox mkswap /disk/swap > /dev/null
busybox swapon /disk/swap
case $group in
timed) busybox mount -t tmpfs -o huge=advise tmp /tmp ;;
# Direct I/O of huge pages must reach a disk.
parallel) busybox mount -o bind /disk/tmp /tmp ;;
esac
echo 600000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
# Messages would get into the lines of cases; they are looked at below. An oops is still shown.
busybox dmesg -n 1
cd /disk/exec
while read -r line_group name command; do
    [ "$line_group" = "$group" ] || continue
    {
        busybox timeout -s KILL 1200 $command < /dev/null
        echo "exit status $?"
    } 2>&1 | busybox awk -v test="test $name:" '
        /^exit status / { status = $3; next }
        /^1\.\.[0-9]/ { plan = substr($1, 4) + 0 }
        /^(not )?ok / { cases++; sub(/ +$/, ""); print test, $0; next }
        { print "# " $0 }
        END {
            if (cases < plan) print test, "not ok all cases ran (exit status " status ")"
            else if (cases) exit
            else if (status == 4) print test, "ok exit, skipped"
            else print test, status ? "not ok exit" : "ok exit"
        }'
done < /table
busybox dmesg | busybox grep -E '(BUG|WARNING|INFO|Oops):'
echo "guest: done"
busybox reboot -f
INIT

# shellcheck disable=SC2034 # rounds.sh uses these
run() { # GROUP TITLE QEMU-OPTION…
    title=$2
    consoles=${KERNEL_CACHE:-$here/../.cache/kernel}/selftests/$1
    machine=("${@:3}" -smp 2 -m 3072)
    append="guest.group=$1"
    compare "${images[@]}"
}

images=("$@") differ=0
: "${KERNEL_PATIENCE:=7200}"
run timed "The kernel's own tests of huge pages" -accel "tcg,thread=single" -icount shift=0 || differ=1
echo
run parallel "Its tests of hugetlb, userfaultfd and exec" -accel "tcg,thread=multi" || differ=1
exit "$differ"
