#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Compiles what the sets change, and every file that uses what they change, in the configurations that a
# maintainer would try. A warning is an error.
#
#   kernel/compile.sh [NAME…]     those of the table below; all of them
#
# Prints a line of JSON for each: how many of the files were compiled, with the option I_MMAP_SHARDS or
# without it, and, of all, those that no configuration compiled. Fails, after the others, if one does not compile.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# NAME, the kernel's ARCH, the compiler (gcc's triplet, or llvm), a configuration of the kernel's own, and
# options that are set in addition. Options in small letters are for this script: sparse runs it on the
# files; whole builds the kernel; own has no options added; unpackaged says that Debian has no such compiler, so that a
# machine without it leaves the line out, and says so. Loongson 3 has pages of 16K there, whose PMD is larger
# than what its page allocator has.
table='
x86_64          x86       x86_64-linux-gnu       defconfig
x86_64-clang    x86       llvm                   defconfig
x86_64-sparse   x86       x86_64-linux-gnu       defconfig              sparse
x86_64-tiny     x86       x86_64-linux-gnu       tinyconfig             whole own
x86_64-all      x86       x86_64-linux-gnu       allmodconfig
x86_64-rt       x86       x86_64-linux-gnu       defconfig              PREEMPT_RT
x86_64-kcsan    x86       llvm                   defconfig              KCSAN
x86_64-no-thp   x86       x86_64-linux-gnu       defconfig              -TRANSPARENT_HUGEPAGE -MEMCG
x86_64-debug    x86       x86_64-linux-gnu       defconfig              PROVE_LOCKING DEBUG_VM KASAN
i386            x86       i686-linux-gnu         i386_defconfig
arm64-4k        arm64     aarch64-linux-gnu      defconfig
arm64-16k       arm64     aarch64-linux-gnu      defconfig              ARM64_16K_PAGES
arm64-64k       arm64     aarch64-linux-gnu      defconfig              ARM64_64K_PAGES
arm64-clang     arm64     llvm                   defconfig
arm-v7          arm       arm-linux-gnueabihf    multi_v7_defconfig
arm-v5          arm       arm-linux-gnueabihf    versatile_defconfig
arm-nommu       arm       arm-linux-gnueabihf    mps2_defconfig
riscv64         riscv     riscv64-linux-gnu      defconfig
riscv64-clang   riscv     llvm                   defconfig
riscv-nommu     riscv     riscv64-linux-gnu      nommu_virt_defconfig
loongarch       loongarch llvm                   loongson64_defconfig
powerpc         powerpc   powerpc64le-linux-gnu  ppc64le_defconfig
s390            s390      s390x-linux-gnu        defconfig
mips            mips      mips64el-linux-gnuabi64 loongson3_defconfig   -TRANSPARENT_HUGEPAGE
sparc64         sparc     sparc64-linux-gnu      sparc64_defconfig
parisc          parisc    hppa-linux-gnu         generic-32bit_defconfig
m68k            m68k      m68k-linux-gnu         multi_defconfig
sh              sh        sh4-linux-gnu          sdk7786_defconfig
alpha           alpha     alpha-linux-gnu        defconfig
xtensa          xtensa    xtensa-linux-gnu       iss_defconfig          unpackaged
nios2           nios2     nios2-linux-gnu        10m50_defconfig        unpackaged'

"$here/../scripts/setup.sh" kernel-compile
linux=$("$here/build.sh" tree | tail -n 1)
work=$(dirname "$linux")
clang=$(compgen -c clang- | grep -xE 'clang-[0-9]+' | sort -t - -k 2 -n | tail -n 1)

# What the sets change, but for tests outside the kernel, and the files that take the locks, walk the trees
# or use the fields of the reverse map, outside comments. Btrfs has locks of its own by these names.
mapfile -t files < <(
    cd "$linux"
    {
        git -C "$work/scratch" ls-files '*.c' | grep -v '^tools/'
        grep -rlE --include='*.c' --exclude-dir=tools \
            '\bi_mmap_[a-z_]+\(|\bi_mmap_root|\bi_mmap_shards?\b|\bmapping_rmap_tree_[a-z_]+\(|\bflush_dcache_mmap_(un)?lock' . |
            sed 's,^\./,,' | grep -v '^fs/btrfs/'
    } | sort -u)

# Whether the configuration $2 builds the file $1. The Makefile of its folder says so: objects are in a list of
# all, in one of an option, or in one of another object, which is in a list itself. Folders above are not asked.
configured() { # FILE CONFIG
    local folder object
    folder=$(dirname "$1") object=$(basename "$1" .c).o
    # A folder of tests is listed in the one above.
    [ -e "$linux/$folder/Makefile" ] || object=$(basename "$folder")/$object folder=$(dirname "$folder")
    awk -v object="$object" '
        FILENAME != ARGV[2] {
            if (/^CONFIG_[A-Z0-9_]+=[ym]/) on[substr($0, 1, index($0, "=") - 1)] = 1
            next
        }
        { line = line $0; if (sub(/\\$/, " ", line)) next; text = line; line = "" }
        text ~ /^[A-Za-z0-9_-]+-(y|m|objs|\$\(CONFIG_[A-Z0-9_]+\))[ \t]*[:+]?=/ {
            list = substr(text, 1, match(text, /[ \t]*[:+]?=/) - 1)
            lists[++count] = list; members[count] = " " substr(text, RSTART + RLENGTH) " "
        }
        function built(object,    n, base, option) {
            for (n = 1; n <= count; n++) {
                if (!match(members[n], "[ \t]" object "[ \t]")) continue
                base = lists[n]; option = ""
                if (match(base, /-\$\(CONFIG_[A-Z0-9_]+\)$/)) {
                    option = substr(base, RSTART + 3, RLENGTH - 4); base = substr(base, 1, RSTART - 1)
                } else sub(/-(y|m|objs)$/, "", base)
                if (option != "" && !(option in on)) continue
                if (base == "obj" || base == "lib" || !known(base ".o")) return 1
                if (built(base ".o")) return 1
            }
            return 0
        }
        function known(object,    n) {
            for (n = 1; n <= count; n++) if (match(members[n], "[ \t]" object "[ \t]")) return 1
            return 0
        }
        END { exit !built(object) }' "$2" "$linux/$folder/Makefile"
}

configure() { # OPTION… : of the file .config in $objects
    local option words=()
    for option in "$@"; do
        case $option in
        [a-z]*) ;;
        -*) words+=(-d "${option#-}") ;;
        *) words+=(-e "$option") ;;
        esac
    done
    "$linux/scripts/config" --file "$objects/.config" -e I_MMAP_SHARDS -e EXPERT -e DEBUG_KERNEL \
        -e RUNTIME_TESTING_MENU -m TEST_LOCKUP -e HUGETLBFS -e UPROBES -e DEBUG_FS -e KUNIT \
        -e I_MMAP_SHARDS_KUNIT_TEST -e TRANSPARENT_HUGEPAGE -e MEMCG \
        -e READ_ONLY_THP_FOR_FS -d DEBUG_INFO_BTF -d GCC_PLUGINS -e WERROR "${words[@]}"
}

targets() { # ARCH: the objects to make
    local file
    for file in "${files[@]}"; do
        case $file in
        arch/"$1"/*) ;;
        arch/*) continue ;;
        # The list that has it is set again with an MMU.
        mm/nommu.c) ! grep -q '^CONFIG_MMU=y' "$objects/.config" || continue ;;
        esac
        ! configured "$file" "$objects/.config" || echo "${file%.c}.o"
    done
}

made() { # the objects that are there
    local file
    for file in "${files[@]}"; do
        [ ! -e "$objects/${file%.c}.o" ] || echo "${file%.c}.o"
    done
}

compile() { # NAME ARCH COMPILER CONFIG OPTION…: the objects that were made
    local arch=$2 compiler=$3 config=$4
    # Warnings are errors, except those by which the kernel names what an architecture lacks (sh).
    local -a make=(make -s -C "$linux" O="$objects" ARCH="$arch" KCFLAGS=-Wno-error=cpp)
    case $compiler in
    llvm) make+=(LLVM="${clang#clang}") ;;
    *) make+=(CROSS_COMPILE="$compiler-") ;;
    esac
    shift 4
    local own=" $* "
    {
        "${make[@]}" "$config"
        [[ $own == *" own "* ]] || configure "$@"
        "${make[@]}" olddefconfig
        for option in "$@"; do
            case $option in
            [a-z]*) ;;
            -*) ! grep -q "^CONFIG_${option#-}=" "$objects/.config" ;;
            *) grep -q "^CONFIG_$option=y" "$objects/.config" ;;
            esac || { echo "error: $config does not take the option $option"; return 1; }
        done
        if [[ $own == *" sparse "* ]]; then
            # Sparse does not know an operator of C23 that the kernel uses where the compiler has it. What it finds
            # in the kernel as it is must not end the build.
            printf '#!/bin/sh\nsparse -D__typeof_unqual__=__typeof__ "$@" || true\n' > "$objects/check"
            chmod +x "$objects/check"
            make+=(C=2 CHECK="$objects/check")
        fi
        if [[ $own == *" whole "* ]]; then
            "${make[@]}" -j"$(nproc)"
            made > "$objects/targets"
        else
            "${make[@]}" -j"$(nproc)" prepare
            targets "$arch" > "$objects/targets"
            xargs "${make[@]}" -j"$(nproc)" < "$objects/targets"
        fi
    } > "$log" 2>&1 || return 1
    # Sparse warns about what the kernel has without the sets, too: only lines of the sets count.
    if [[ $own == *" sparse "* ]]; then ours; fi
}

# Whether no warning of $log is in a line that a set adds or changes. Sparse cannot evaluate the MODULE_ lines of any
# module.
ours() {
    local shipped found
    shipped=$(git -C "$work/scratch" rev-list --max-parents=0 HEAD)
    found=$(git -C "$work/scratch" diff -U0 --no-prefix "$shipped" HEAD |
        awk 'FNR == NR { if (/^\+\+\+ /) file = $2
                else if (/^@@/) { split($3, range, ","); first = substr(range[1], 2)
                    for (n = 0; n < (range[2] == "" ? 1 : range[2]); n++) added[file ":" first + n] = 1 }
                next }
            match($0, /[a-z][a-z0-9_\/.-]*\.[ch]:[0-9]+:/) {
                place = substr($0, RSTART, RLENGTH - 1)
                if (place in added && !/bad constant expression/) print
            }' - <(sed "s,$linux/,,g" "$log"))
    [ -z "$found" ] || { echo "$found" >&2; return 1; }
}

seen=()
failed=()
while read -r name arch compiler config options; do
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    if [[ " $options " == *" unpackaged "* ]] && ! command -v "$compiler-gcc" > /dev/null; then
        echo "compile.sh: $name is left out: $compiler-gcc is not in PATH, and no package has it" >&2
        continue
    fi
    objects=$work/build/compile-$name
    log=$objects.log
    mkdir -p "$objects"
    # shellcheck disable=SC2086 # a list of words
    if ! compile "$name" "$arch" "$compiler" "$config" $options < /dev/null; then
        failed+=("$name")
        grep -m 5 -E 'error|Error' "$log" | sed "s,^,compile.sh: $name: ," >&2
        continue
    fi
    mapfile -t compiled < "$objects/targets"
    seen+=("${compiled[@]/%.o/.c}")
    option=false
    ! grep -q '^CONFIG_I_MMAP_SHARDS=y' "$objects/.config" || option=true
    case $compiler in
    llvm) version="clang $("$clang" -dumpversion)" ;;
    *) version=$("$compiler-gcc" -dumpversion) ;;
    esac
    jq -n -c --arg name "$name" --arg config "$(echo "$config ${options%unpackaged}" | xargs)" --argjson option $option \
        --arg compiler "$version" --argjson files "${#compiled[@]}" \
        '{what: "compiled", name: $name, config: $config, compiler: $compiler, option: $option, files: $files}'
done < <(grep . <<< "$table")
[ $# -gt 0 ] || comm -23 <(printf '%s\n' "${files[@]}") <(printf '%s\n' "${seen[@]}" | sort -u) |
    jq -n -c -R '{what: "not-compiled", files: [inputs]}'
[ "${#failed[@]}" = 0 ] || { echo "compile.sh: these do not compile: ${failed[*]}; $work/build has their logs" >&2; exit 1; }
