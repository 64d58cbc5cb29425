#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the memory and exec tests of an installed Linux Test Project in guests of QEMU. x86-64.
#
#   LTP=FOLDER kernel/ltp.sh ROUNDS IMAGE…
#
# FOLDER is LTP's prefix (/opt/ltp). The tests that are installed there run if they need no more
# than the C library and libnuma. The images need the fragment ltp of kernel/config. They are booted
# in turn, ROUNDS times each. For each test, the number of rounds in which it passed is printed, in
# a column for each image; a skipped test counts under another name. The script fails like
# kernel/selftests.sh. A test is ended after LTP_PATIENCE seconds (900). Consoles, with the output
# of failed tests, are kept in .cache/kernel/ltp.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ltp=${LTP:-/opt/ltp}
rounds=${1:?ROUNDS}
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
title="LTP $(cat "$ltp/Version" 2> /dev/null), tests of memory and exec"
consoles=${KERNEL_CACHE:-$here/../.cache/kernel}/ltp
machine=(-accel "tcg,thread=multi" -smp 2 -m 3072)
disk_size=4G disk_root=$work/disk-root
append="numa=fake=2 kunit.enable=0"
: "${KERNEL_PATIENCE:=7200}"

[ -d "$ltp/testcases/bin" ] || { echo "kernel/ltp.sh: no LTP in $ltp; set LTP" >&2; exit 2; }

# Lines "GROUP NAME COMMAND" of the tests to run.
tests() {
    # Left out: tests that fill the memory of the machine until a process is killed, and tests that
    # do not belong to this group.
    grep -vE '^(#|$|oom0|swapping01|mtest01|min_free_kbytes|kallsyms)' "$ltp/runtest/mm" |
        # These repeat the same for twelve minutes; one minute is enough.
        sed -E 's/^(mmapstress(09|10) .*-t) 0\.2/\1 0.017/; s/^/mm /'
    grep -E '^(brk|sbrk|clone|exec|exit|fork|vfork|wait4|waitpid|mmap|mremap|munmap|msync|mprotect|madvise|process_madvise|mincore|mlock|munlock|remap_file_pages|truncate|ftruncate|fallocate|memfd_create|migrate_pages|move_pages|mbind|pkey)' \
        "$ltp/runtest/syscalls" | sed 's/^/exec /'
}

make_root() { # what the disk holds: a small system
    local root=$disk_root program
    mkdir -p "$root"/{bin,sbin,usr/bin,etc,proc,sys,dev,tmp,opt/ltp/testcases}
    chmod 1777 "$root/tmp"
    cp -r "$ltp/testcases/bin" "$root/opt/ltp/testcases/"
    [ ! -d "$ltp/testcases/data" ] || cp -r "$ltp/testcases/data" "$root/opt/ltp/testcases/"
    find "$root/opt/ltp" -type f -exec strip {} + 2> /dev/null || true
    "$here/libraries.sh" "$root" /sbin/mke2fs /bin/bash "$ltp"/testcases/bin/*
    cp /bin/bash "$root/bin"
    # Loaded when a thread ends.
    cp "$(gcc -print-file-name=libgcc_s.so.1)" "$root/lib/x86_64-linux-gnu"
    for program in mkfs.ext2 mkfs.ext3 mkfs.ext4; do cp /sbin/mke2fs "$root/sbin/$program"; done
    cp "${BUSYBOX:-$here/../.cache/lab/programs/amd64/busybox}" "$root/bin/busybox"
    while read -r program; do
        [ -e "$root/bin/$program" ] || ln -s busybox "$root/bin/$program"
    done < <("$root/bin/busybox" --list)
    printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\nbin:x:2:2:bin:/:/bin/sh\ndaemon:x:1:1:daemon:/:/bin/sh\n' \
        > "$root/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\nbin:x:2:\ndaemon:x:1:\nusers:x:100:\n' > "$root/etc/group"
    tests > "$root/tests"
    cat > "$root/run" << 'END'
#!/bin/sh
export PATH=/opt/ltp/testcases/bin:/bin:/sbin LTPROOT=/opt/ltp TMPDIR=/tmp TMP=/tmp LTP_COLORIZE_OUTPUT=n
# An emulated processor is slow.
export LTP_TIMEOUT_MUL=10
while read -r group name command; do
    cd /tmp
    # In its own session, so that processes that it leaves behind can be found.
    setsid timeout -s KILL PATIENCE sh -c "$command" > /output 2>&1 < /dev/null
    status=$?
    kill -9 -1
    case $status in
    0) echo "test $group: ok $name" ;;
    32) echo "test $group: ok $name, skipped" ;;
    *)
        tail -n 15 /output | sed 's/^/# /'
        echo "test $group: not ok $name"
        ;;
    esac
done < /tests
END
    sed -i "s/PATIENCE/${LTP_PATIENCE:-900}/" "$root/run"
    chmod +x "$root/run"
}

# shellcheck source=kernel/rounds.sh
. "$here/rounds.sh"
make_root
make_initrd << 'END'
#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
until [ -b /dev/vda ]; do busybox usleep 1000; done
busybox mount -t ext4 /dev/vda /disk || busybox reboot -f
busybox mount -t proc proc /disk/proc
busybox mount -t sysfs sys /disk/sys
busybox mount -t debugfs debug /disk/sys/kernel/debug
busybox mount -t devtmpfs dev /disk/dev
busybox mkdir -p /disk/dev/shm /disk/dev/pts
busybox mount -t tmpfs tmp /disk/dev/shm
busybox mount -t devpts pts /disk/dev/pts
busybox chroot /disk /run
echo "guest: done"
busybox reboot -f
END
compare "$@"
