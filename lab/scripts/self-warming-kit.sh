#!/usr/bin/env bash
# Prepares programs in four layouts and four versions of glibc for cold-starts.sh:
#
#   lab/scripts/self-warming-kit.sh HUGETEXT KIT > RECORD
#
# The layouts are that of the package (shipped), moved to window boundaries (fixed), that and cut (warming), and
# with read-only data in the text, and cut (merged). A file that cannot be so has the one before.
# KIT is a directory that does not exist. Prints what the record needs besides the starts. Needs root. cc1, postgres,
# node, python3, git and rustc are those of this machine, if it has them; mariadbd and chromium are taken from
# packages, which are not installed. glibc comes from Debian's suites, by the mirror that this machine's apt uses.
set -euo pipefail
hugetext=$(realpath "$1")
die() { echo "lab/scripts/self-warming-kit.sh: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || die "needs root, for chroot"
mkdir "$2"
kit=$(realpath "$2")
mkdir -p "$kit/lib" "$kit/p" "$kit/apt"/{lists/partial,cache/archives/partial,packages}

# shellcheck disable=SC2016 # apt expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/$' | sort -u | head -1)
[ -n "$mirror" ] || die "this machine's apt knows no mirror of Debian"
for suite in bookworm trixie sid experimental; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
done > "$kit/apt/sources.list"
apt_get() {
    apt-get -qq -o Dir::Etc::sourcelist="$kit/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$kit/apt/lists" -o Dir::Cache="$kit/apt/cache" -o APT::Sandbox::User=root \
        -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none "$@" >&2
}
apt_get update || die "no package lists"
for suite in bookworm trixie sid experimental; do
    mkdir "$kit/apt/$suite"
    (cd "$kit/apt/$suite" && apt_get download "libc6/$suite") || die "no libc6 of $suite"
    dpkg-deb -x "$kit/apt/$suite"/libc6_*.deb "$kit/apt/$suite/root"
    found=$(find "$kit/apt/$suite/root" -path '*x86_64-linux-gnu/libc.so.6')
    version=$(dpkg-deb -f "$kit/apt/$suite"/libc6_*.deb Version)
    mkdir -p "$kit/glibc-${version%%-*}" # two suites may have the same
    for library in ld-linux-x86-64.so.2 lib{c,m,resolv}.so.6 lib{dl,resolv,util}.so.2 libpthread.so.0 lib{rt,util}.so.1; do
        [ ! -e "${found%/*}/$library" ] || cp -L "${found%/*}/$library" "$kit/glibc-${version%%-*}/"
    done
done

# What the loader reads of /etc/tunables.conf, before and after ldconfig.
(cd "$kit/apt/experimental" && apt_get download libc-bin/experimental) || die "no libc-bin of experimental"
root=$kit/apt/experimental/root
dpkg-deb -x "$kit/apt/experimental"/libc-bin_*.deb "$root"
for directory in bin sbin lib lib64; do [ -e "$root/$directory" ] || ln -s "usr/$directory" "$root/$directory"; done
mkdir -p "$root/etc/ld.so.conf.d"
echo /usr/lib/x86_64-linux-gnu > "$root/etc/ld.so.conf"
tunable() { chroot "$root" /lib64/ld-linux-x86-64.so.2 --list-tunables | sed -n 's/^glibc\.elf\.thp: \([0-9]*\).*/\1/p'; }
before=$(tunable)
echo glibc.elf.thp=1 > "$root/etc/tunables.conf"
written=$(tunable)
chroot "$root" ldconfig
echo "{\"tunables_conf\": {\"absent\": $before, \"written\": $written, \"ldconfig\": $(tunable)}}"

# Packages with all that they need and this machine lacks, unpacked.
unpacked=$kit/apt/unpacked
mkdir "$unpacked"
for package in mariadb-server-core chromium; do
    mapfile -t missing < <(apt-get -s install --no-install-recommends "$package" 2>/dev/null | awk '/^Inst/ { print $2 }')
    [ ${#missing[@]} -gt 0 ] || continue
    (cd "$kit/apt/packages" && apt-get -qq download "${missing[@]}" >&2) || echo "self-warming-kit.sh: no $package" >&2
done
for package in "$kit"/apt/packages/*.deb; do [ ! -e "$package" ] || dpkg-deb -x "$package" "$unpacked"; done
paths=$unpacked/usr/lib/x86_64-linux-gnu:$unpacked/usr/lib/x86_64-linux-gnu/pulseaudio
found() { # PATH…: the first that exists
    for file in "$@"; do [ ! -f "$file" ] || { echo "$file"; return; }; done
}

layouts=(shipped fixed warming merged)
lay() { # NAME PATH FILE: a file of a program in its layouts, at PATH, and its libraries
    local name=$1 at=$2 file=$3
    local layout before=$file new options
    for layout in "${layouts[@]}"; do
        new=$kit/p/$name/$layout/$at
        mkdir -p "$(dirname "$new")"
        case $layout in
            shipped) options= ;;
            fixed) options="--strategy shift" ;;
            warming) options="--self-warming" ;;
            merged) options="--strategy merge --self-warming" ;;
        esac
        # shellcheck disable=SC2086 # words without spaces
        [ -z "$options" ] || "$hugetext" -q fix "$file" $options -o "$new" >&2 || true
        [ -e "$new" ] || cp -L "$before" "$new"
        before=$new
    done
    LD_LIBRARY_PATH=$paths ldd "$file" | awk '/=> \// { print $3 }' | while read -r library; do
        case ${library##*/} in librustc_driver* | libLLVM*rust*) continue ;; esac
        [ -e "$kit/glibc-2.36/${library##*/}" ] || cp -L "$library" "$kit/lib/"
    done
    "$hugetext" --json check "$kit/p/$name/warming/$at" | jq -c --arg name "$name" --arg file "$at" \
        '.files[0] | {program: $name, file: $file, windows: (.self_warming[0].now.windows // 0), asked: (.self_warming[0].now.asked // 0), refusal: .self_warming[0].refusal}'
    echo "/p/$name/LAYOUT/$at" >> "$kit/p/$name/texts"
}

beside() { # NAME PATH FILE…: what a program reads beside itself, in the directory PATH of every layout
    local name=$1 at=$2 layout
    shift 2
    for layout in "${layouts[@]}"; do
        mkdir -p "$kit/p/$name/$layout/$at"
        cp -r "$@" "$kit/p/$name/$layout/$at/"
    done
}

program() { # NAME FILE ARGUMENT…
    local name=$1 file=$2
    shift 2
    if [ -z "$file" ] || [ ! -e "$file" ]; then echo "self-warming-kit.sh: no $name here" >&2; return 0;  fi
    lay "$name" "$name" "$file"
    printf '%s\n' "/p/$name/LAYOUT/$name" "$@" > "$kit/p/$name/command"
}
program cc1 "$(gcc -print-prog-name=cc1)" -quiet -fpreprocessed -O2 -o - /in.c
program postgres "$(find /usr/lib/postgresql -name postgres -type f 2>/dev/null | head -1)" --describe-config
program mariadbd "$(found /usr/sbin/mariadbd "$unpacked/usr/sbin/mariadbd")" --no-defaults --verbose --help
program node "$(command -v node || true)" -e 'console.log(1)'
program python3 "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" --version
program git "$(command -v git || true)" version
# Its second command executes little of its text.
chromium=$(found /usr/lib/chromium/chromium "$unpacked/usr/lib/chromium/chromium")
program chromium "$chromium" --headless --no-sandbox --no-zygote --disable-gpu --disable-dev-shm-usage \
    --user-data-dir=/tmp/profile --dump-dom 'data:text/html,<p>one'
if [ -d "$kit/p/chromium" ]; then
    beside chromium . "${chromium%/*}"/{*.pak,*.bin,icudtl.dat,lib*.so,libvulkan.so.1,vk_swiftshader_icd.json,locales}
    printf '%s\n' /p/chromium/LAYOUT/chromium --version > "$kit/p/chromium/command.version"
fi
# rustc compiles a crate that needs core alone, and writes assembly.
if sysroot=$(rustc --print sysroot 2>/dev/null); then
    lay rustc bin/rustc "$sysroot/bin/rustc"
    for library in "$sysroot"/lib/librustc_driver-*.so "$sysroot"/lib/libLLVM.so.*; do
        lay rustc "lib/${library##*/}" "$library"
    done
    crates=lib/rustlib/x86_64-unknown-linux-gnu/lib
    beside rustc "$crates" "$sysroot/$crates"/lib{core,compiler_builtins}-*.{rlib,rmeta}
    printf '%s\n' /p/rustc/LAYOUT/bin/rustc --crate-type=lib --edition=2021 -O --emit=asm -o - /in.rs > "$kit/p/rustc/command"
    printf '%s\n' /p/rustc/LAYOUT/bin/rustc -vV > "$kit/p/rustc/command.version"
fi
{
    echo '#![no_std]'
    for index in $(seq 40); do
        echo "pub struct S$index { pub a: [u32; $((index + 4))], pub d: f64 }" \
            "impl S$index { pub fn g(&mut self, n: u32) -> u32 { let mut t = 0u32; for i in 0..n { match self.a[(i & 3) as usize] & 7" \
            "{ 1 => t = t.wrapping_add(i * $index), k => { self.d *= k as f64; t ^= self.a.iter().fold(0, |x, y| x ^ y) } } } t } }"
    done
} > "$kit/in.rs"
for index in $(seq 60); do
    echo "struct s$index { int a[$((index + 4))]; double d; };"
    echo "int g$index(struct s$index *p, int n) { int t = 0; for (int i = 0; i < n; i++) {" \
        "switch (p->a[i & 3] & 7) { case 1: t += i * $index; break; default: t -= (int)(p->d * i); } } return t; }"
done > "$kit/in.c"

# A program of five windows, by each linker that is here, with the options of docs/link-time.md. Its layouts are the
# linkers. It executes a little of each window, not in their order.
cat > "$kit/linked.c" << 'SOURCE'
#include <stdio.h>
#define WINDOW(name) __attribute__((noinline)) int name(int a) \
    { __asm__ volatile("jmp 1f\n.fill 0x1ffe00, 1, 0x90\n1:"); return a + 1; }
WINDOW(first) WINDOW(second) WINDOW(third) WINDOW(fourth) WINDOW(fifth)
int main(void) { printf("%d\n", third(first(fifth(second(fourth(0)))))); return 0; }
SOURCE
# Compilers do not know wild's name, so it takes that of their linker.
mkdir "$kit/named"
wild=$(command -v wild || true)
[ -z "$wild" ] || ln -s "$wild" "$kit/named/ld"
for linker in bfd gold lld mold wild; do
    at=$kit/p/linked/$linker
    options=-Wl,-z,max-page-size=2097152
    case $linker in
        wild) options+=" -B$kit/named" ;;
        gold) options+=" -fuse-ld=gold" ;;
        *) options+=",-z,separate-code -fuse-ld=$linker" ;;
    esac
    mkdir -p "$at"
    # shellcheck disable=SC2086 # words without spaces
    if [ "$linker$wild" = wild ] || ! gcc -O1 -o "$at/linked" "$kit/linked.c" $options >&2; then
        echo "self-warming-kit.sh: no $linker here" >&2
        rm -r "$at"
        continue
    fi
    "$hugetext" --json check "$at/linked" | jq -c --arg linker "$linker" \
        '.files[0].self_warming[0].now | {linker: $linker, windows, asked, spoiled, huge}'
done
echo /p/linked/LAYOUT/linked | tee "$kit/p/linked/texts" > "$kit/p/linked/command"
rm -rf "$kit/apt" "$kit/named"
