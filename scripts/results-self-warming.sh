#!/usr/bin/env bash
# Prepares programs in three layouts and three versions of glibc, measures their cold starts, and prints the
# record: results-self-warming.sh HUGETEXT [SECONDS]. scripts/self-warming-doc.py makes the document of it.
#
# Takes root, mkfs of ext4, xfs and btrfs, and cc1, postgres, mariadbd and node, those of them that are installed.
# glibc comes from Debian's suites, by the mirror that this machine's apt uses.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hugetext=$(realpath "$1") seconds=${2:-600}
die() { echo "scripts/results-self-warming.sh: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || die "takes root, for mounts and chroot"
kit=$(mktemp -d "${TMPDIR:-/tmp}/self-warming.XXXXXX")
trap 'rm -rf --one-file-system "$kit"' EXIT
mkdir -p "$kit/lib" "$kit/p" "$kit/apt"/{lists/partial,cache/archives/partial}

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
for suite in bookworm trixie experimental; do
    mkdir "$kit/apt/$suite"
    (cd "$kit/apt/$suite" && apt_get download "libc6/$suite") || die "no libc6 of $suite"
    dpkg-deb -x "$kit/apt/$suite"/libc6_*.deb "$kit/apt/$suite/root"
    found=$(find "$kit/apt/$suite/root" -path '*x86_64-linux-gnu/libc.so.6')
    version=$(dpkg-deb -f "$kit/apt/$suite"/libc6_*.deb Version)
    mkdir "$kit/glibc-${version%%-*}"
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

program() { # NAME FILE COMMAND…: the file in its layouts, with its libraries
    local name=$1 file=$2
    shift 2
    [ -e "$file" ] || { echo "scripts/results-self-warming.sh: no $name here" >&2; return 0; }
    mkdir -p "$kit/p/$name"/{shipped,fixed,warming}
    printf '%s\n' "$@" > "$kit/p/$name/command"
    cp -L "$file" "$kit/p/$name/shipped/$name"
    "$hugetext" -q fix "$file" -o "$kit/p/$name/fixed/$name"
    [ -e "$kit/p/$name/fixed/$name" ] || cp -L "$file" "$kit/p/$name/fixed/$name"
    "$hugetext" -q fix --self-warming "$file" -o "$kit/p/$name/warming/$name"
    ldd "$file" | awk '/=> \// { print $3 }' | while read -r library; do
        [ -e "$kit/glibc-2.36/${library##*/}" ] || cp -L "$library" "$kit/lib/"
    done
    "$hugetext" --json check "$kit/p/$name/warming/$name" |
        jq -c --arg name "$name" '{program: $name, windows: .files[0].self_warming[0].now.windows}'
}
echo "{\"machine\": \"$(nproc) cores, Linux $(uname -r | cut -d- -f1), THP=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled)\"}"
program cc1 "$(gcc -print-prog-name=cc1)" -quiet -fpreprocessed -O2 -o - /in.c
program postgres "$(find /usr/lib/postgresql -name postgres -type f 2>/dev/null | head -1)" --describe-config
program mariadbd "$(command -v mariadbd || true)" --no-defaults --verbose --help
program node "$(command -v node || true)" -e 'console.log(1)'
for index in $(seq 60); do
    echo "struct s$index { int a[$((index + 4))]; double d; };"
    echo "int g$index(struct s$index *p, int n) { int t = 0; for (int i = 0; i < n; i++) {" \
        "switch (p->a[i & 3] & 7) { case 1: t += i * $index; break; default: t -= (int)(p->d * i); } } return t; }"
done > "$kit/in.c"
for fs in ext4 xfs btrfs; do truncate -s 1500M "$kit/$fs.img"; done
mkfs.ext4 -qF "$kit/ext4.img"
mkfs.xfs -q "$kit/xfs.img"
mkfs.btrfs -q "$kit/btrfs.img" >/dev/null
"$here/cold-starts.sh" "$kit" "$seconds"

# What a fault at the end of a window does to the window behind the next one.
truncate -s 100M "$kit/mark.img"
mkfs.ext4 -qF "$kit/mark.img"
mkdir "$kit/mark"
# shellcheck disable=SC2016 # the inner shell expands it
unshare --mount sh -ec 'mount -o loop "$1" "$2"; blockdev --setra 256 "$(findmnt -no SOURCE "$2")"; "$3" "$2/file"' \
    sh "$kit/mark.img" "$kit/mark" "$here/readahead-mark.py"
