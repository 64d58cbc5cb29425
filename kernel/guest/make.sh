#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes an initramfs and a disk of programs for guests. Prints the folder that holds both.
#
#   kernel/guest/make.sh x86_64|arm64|riscv64 all|large|walkers [ext4|xfs|btrfs]
#
# `walkers` holds only programs that are quickly made and started. They are enough to see that text
# gets huge pages. `large` has Debian's programs with large texts, too. Each is made once, so that every
# kernel starts the same files. They are made again when this folder has changed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch=$1 programs=$2 fs=${3:-ext4}
out=${KERNEL_CACHE:-$here/../../.cache/kernel}/guest/$arch-$programs-$fs
lab=${LAB_CACHE:-$here/../../.cache/lab}/programs/arm64 # packaged programs, by `hugetext-lab fetch`
if [ -e "$out/disk" ] && [ -z "$(find "$here" -newer "$out/disk")" ]; then
    echo "$out"
    exit
fi
rm -rf "$out"
root=$out/root initramfs=$out/initramfs
mkdir -p "$root"/{programs,source,tmp,dev} "$initramfs/dev"
case $arch in
x86_64) cc=cc ;;
arm64) cc=aarch64-linux-gnu-gcc ;;
riscv64) cc=riscv64-linux-gnu-gcc ;;
esac

copy() { # PROGRAM of this machine, with the libraries it names, under the same paths
    local file
    for file in "$1" $(ldd "$1" | grep -o '/[^ ]*'); do
        [ -e "$root$file" ] || install -D "$file" "$root$file"
    done
}

start() { # PROGRAM ARGUMENT…
    echo "$*" >> "$initramfs/programs"
}

# NAME TEXT [-shared]: makes a program with TEXT bytes of text, in itself or in a library. FLAGS go to cc.
walker() {
    if [ "${3:-}" ]; then
        "$cc" -shared -nostdlib -Wl,-soname,"lib$1.so" -DTEXT="$2" "$here/text.S" \
            -o "$root/programs/lib$1.so"
        "$cc" -O1 -fPIC "$here/walk.c" "$root/programs/lib$1.so" -Wl,-rpath,/programs -o "$root/programs/$1"
    else
        "$cc" -O1 -pie -fPIC ${FLAGS:+"$FLAGS"} -DTEXT="$2" "$here/walk.c" "$here/text.S" -o "$root/programs/$1"
    fi
}

# SIZE bytes of return instructions.
stubs() {
    local ret
    case $arch in
    x86_64) ret='\xc3' ;;
    arm64) ret='\xc0\x03\x5f\xd6' ;;
    riscv64) ret='\x82\x80' ;;
    esac
    perl -e "print \"$ret\" x ($1 / length \"$ret\")"
}

# Programs of Debian of every size: each fourth of the 200 largest that are PIE.
assorted() {
    local file
    find /usr/bin -type f -size +16k -printf '%s %p\n' | sort -rn | while read -r _ file; do
        if readelf -h "$file" 2> /dev/null | grep -q 'Type: *DYN' &&
            readelf -lW "$file" | grep -q INTERP && ! ldd "$file" | grep -q 'not found'; then
            echo "$file"
        fi
    done | head -n 200 | awk 'NR % 4 == 1'
}

# Copies the libraries that the programs made here need.
libraries() {
    case $arch in
    x86_64) copy /usr/bin/true ;;
    arm64 | riscv64)
        cp -r "/usr/${cc%-gcc}/lib" "$root/lib"
        rm -f "$root"/lib/*.a "$root"/lib/*.o
        ;;
    esac
}

# As many programs as assorted has, of as many sizes. Debian's largest ones are made for the machine that this runs on.
made() {
    local number
    for number in $(seq 50); do
        walker "program-$number" $((number * number << 12))
        echo "/programs/program-$number" >> "$initramfs/many"
    done
}

# What compilers and linkers are started with.
sources() {
    printf 'int main(void) { return 0; }\n' > "$root/source/empty.c"
    "$cc" -c "$root/source/empty.c" -o "$root/source/empty.o"
}

# Programs of this machine with large texts.
large() {
    local program cc1
    cc1=$(cc -print-prog-name=cc1)
    for program in "$cc1" /usr/bin/mold /usr/bin/ld.lld; do
        copy "$program"
    done
    start "$cc1" -quiet -fpreprocessed /source/empty.c -o /tmp/empty.s                # not PIE
    start /usr/bin/mold --no-fork --thread-count=1 -e main -o /tmp/out /source/empty.o # PIE
    start /usr/bin/ld.lld --threads=1 -e main -o /tmp/out /source/empty.o              # libLLVM
}

# Packaged programs, as users run them, and many programs of every size.
packaged() {
    local program
    case $arch in
    x86_64)
        large
        copy /usr/bin/git
        start /usr/bin/git --version
        start /usr/bin/true
        for program in $(assorted); do
            copy "$program"
            echo "$program --version" >> "$initramfs/many"
        done
        ;;
    arm64)
        cp "$lab"/*.so* "$root/lib"
        cp "$lab"/cc1 "$root/programs"
        start /programs/cc1 -quiet -fpreprocessed /source/empty.c -o /tmp/empty.s
        made
        ;;
    riscv64) made ;;
    esac
}

walkers() {
    walker pie-24m $((24 << 20))
    FLAGS=-Wl,-z,noseparate-code walker joined-24m $((24 << 20)) # text from the first byte of the file
    FLAGS=-Wl,-z,noseparate-code walker joined-3m $((3 << 20))
    walker library-24m $((24 << 20)) -shared
    walker library-800k $((800 << 10)) -shared
    start /programs/pie-24m
    start /programs/joined-24m
    start /programs/joined-3m
    start /programs/library-24m
    start /programs/library-800k
}

sweep() {
    "$cc" -O1 -Wall "$here/sweep.c" -o "$root/programs/sweep"
    stubs $((512 << 20)) > "$root/programs/stubs-512m"
    start /programs/sweep /programs/stubs-512m
}

# The lines of mkfs.xfs for a folder.
xfs_folder() { # PATH
    local file name
    printf 'd--755 0 0\n'
    for file in "$1"/*; do
        [ -e "$file" ] || continue
        name=${file##*/}
        if [ -d "$file" ]; then
            printf '%s ' "$name"
            xfs_folder "$file"
        else
            printf '%s ---755 0 0 %s\n' "$name" "$file"
        fi
    done
    printf '$\n'
}

touch "$initramfs/many"
libraries
case $programs in
all) sources; packaged; walkers; sweep ;;
large) sources; large; walkers ;;
walkers) walkers ;;
*) echo "kernel/guest/make.sh: no programs $programs" >&2; exit 2 ;;
esac
"$cc" -static -O1 -Wall "$here/init.c" "$here/beside.c" "$here/put.c" -o "$initramfs/init"
(cd "$initramfs" && find . | cpio --quiet -o -H newc) > "$out/initrd"
truncate -s 2G "$out/disk.new" # the memory of a PCI device is a power of two
case $fs in
ext4) mke2fs -q -t ext4 -d "$root" "$out/disk.new" ;;
# btrfs-progs 6.2 has something to say in spite of -q. The output is the name of the folder.
btrfs) mkfs.btrfs -q -r "$root" "$out/disk.new" >&2 ;;
xfs)
    { printf '/\n0 0\n'; xfs_folder "$root"; } > "$out/folders"
    mkfs.xfs -q -p "$out/folders" "$out/disk.new"
    ;;
*) echo "kernel/guest/make.sh: no filesystem $fs" >&2; exit 2 ;;
esac
rm -rf "$root"
mv "$out/disk.new" "$out/disk"
echo "$out"
