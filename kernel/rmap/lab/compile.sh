#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Compiles every file that names what the set changes, for the architectures that have code or rules
# of their own for it: caches that are flushed by a walk over a file's mappings, no MMU, page tables of
# other shapes, one processor only.
#
#   kernel/rmap/lab/compile.sh [NAME…]     those of the table below; all of them
#
# Prints a line of JSON for each: how many of the files were compiled, with the option or without it, and
# those that no configuration compiled. Fails if one does not compile.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel=$here/../..

# NAME, the kernel's ARCH, the compiler's triplet, a configuration of the kernel's own.
table='
x86_64      x86     x86_64-linux-gnu      allmodconfig
arm-v7      arm     arm-linux-gnueabihf   multi_v7_defconfig
arm-v5      arm     arm-linux-gnueabihf   versatile_defconfig
arm-nommu   arm     arm-linux-gnueabihf   mps2_defconfig
riscv-nommu riscv   riscv64-linux-gnu     nommu_virt_defconfig
parisc      parisc  hppa-linux-gnu        generic-32bit_defconfig
powerpc     powerpc powerpc64le-linux-gnu ppc64le_defconfig
s390        s390    s390x-linux-gnu       defconfig
sh          sh      sh4-linux-gnu         sdk7786_defconfig'

"$kernel/../scripts/setup.sh" kernel-compile
linux=$("$kernel/build.sh" tree | tail -n 1)
build=$(dirname "$linux")/build

# C files of the kernel that take the locks, walk the trees or use the fields, outside
# comments. Btrfs has locks of its own by these names.
mapfile -t users < <(cd "$linux" && grep -rlE --include='*.c' --exclude-dir=tools \
    '\bi_mmap_[a-z_]+\(|\bi_mmap_root|\bi_mmap_shards?\b|\bmapping_rmap_tree_[a-z_]+\(|\bflush_dcache_mmap_(un)?lock' . |
    sed 's,^\./,,' | grep -v '^fs/btrfs/' | sort)

# Targets for make. In these folders it compiles the files of the configuration. It compiles a named
# file in every configuration. Some files are named because their folders hold a thousand others.
targets() { # ARCH CONFIGURATION
    echo mm/ fs/hugetlbfs/ fs/proc/ kernel/events/ drivers/dma-buf/ "arch/$1/mm/"
    echo fs/inode.o kernel/fork.o kernel/locking/rwsem.o
    [ "$1" != parisc ] || echo arch/parisc/kernel/cache.o
    ! grep -q '^CONFIG_BINFMT_ELF=y' "$2" || echo fs/binfmt_elf.o
    ! grep -q '^CONFIG_FS_DAX=y' "$2" || echo fs/dax.o
    ! grep -q '^CONFIG_TEST_LOCKUP=m' "$2" || echo lib/test_lockup.o
}

compile() { # NAME ARCH TRIPLET CONFIG: the files that were compiled
    local objects=$build/compile-$1 log=$build/compile-$1.log user
    # Warnings are errors, except those by which the kernel names what an architecture lacks (sh).
    local make=(make -s -C "$linux" O="$objects" ARCH="$2" CROSS_COMPILE="$3-" KCFLAGS=-Wno-error=cpp)
    mkdir -p "$objects"
    {
        "${make[@]}" "$4"
        "$linux/scripts/config" --file "$objects/.config" -e I_MMAP_SHARDS -e EXPERT -e DEBUG_KERNEL \
            -e RUNTIME_TESTING_MENU -m TEST_LOCKUP -e HUGETLBFS -e UPROBES -e DEBUG_FS -e KUNIT \
            -e I_MMAP_SHARDS_AUDIT -e I_MMAP_SHARDS_KUNIT_TEST -d DEBUG_INFO_BTF -e WERROR
        "${make[@]}" olddefconfig
        "${make[@]}" -j"$(nproc)" prepare
        # shellcheck disable=SC2046 # a list of names
        "${make[@]}" -j"$(nproc)" $(targets "$2" "$objects/.config")
    } > "$log" 2>&1 || { echo "compile.sh: $1 does not compile: $log" >&2; exit 1; }
    for user in "${users[@]}"; do
        [ ! -e "$objects/${user%.c}.o" ] || echo "$user"
    done
}

seen=()
while read -r name arch triplet config; do
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    mapfile -t compiled < <(compile "$name" "$arch" "$triplet" "$config")
    [ "${#compiled[@]}" -gt 0 ] || { echo "compile.sh: nothing was compiled for $name" >&2; exit 1; }
    seen+=("${compiled[@]}")
    option=false
    ! grep -q '^CONFIG_I_MMAP_SHARDS=y' "$build/compile-$name/.config" || option=true
    jq -n -c --arg name "$name" --arg config "$config" --argjson option $option \
        --arg compiler "$("$triplet-gcc" -dumpversion)" '{what: "compiled", name: $name, config: $config,
        compiler: $compiler, option: $option, files: $ARGS.positional | length}' --args "${compiled[@]}"
done < <(grep . <<< "$table")
comm -23 <(printf '%s\n' "${users[@]}") <(printf '%s\n' "${seen[@]}" | sort -u) |
    jq -n -c -R '{what: "not-compiled", files: [inputs]}'
