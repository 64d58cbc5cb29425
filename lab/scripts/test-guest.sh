#!/usr/bin/env bash
# Runs tests with the static build of an architecture, in a guest with a kernel of the lab:
# lab/scripts/test-guest.sh KERNEL [TEST…], such as
#
#   lab/scripts/test-guest.sh 6.12-arm64
#   PACKAGES=hugetext-promote HUGETEXT_ROUNDS=250 lab/scripts/test-guest.sh 7.3-amd64 held
#
# PACKAGES: the crates whose tests run; without it, the command and hugetext-promote. Of the tests, those run
# whose names hold a TEST, or all. Tests that look at the source tree are left out: a source tree has no
# architecture, and some need Cargo.
#
# Nothing is emulated but the machine: tests that trace, mount and read page maps run as they do
# elsewhere. The guest's root is Debian 13. Its packages are unpacked and not configured, because
# their scripts cannot run here.
set -euo pipefail

kernel=${1:?usage: $0 KERNEL [TEST…]}
shift
debian=${kernel##*-}
case $debian in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) echo "$0: $kernel is neither of amd64 nor of arm64" >&2 && exit 2 ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=$machine-unknown-linux-musl
work=$(mktemp -d "${TMPDIR:-/var/tmp}/hugetext-guest.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
cd "$here"

linker=CARGO_TARGET_$(tr a-z- A-Z_ <<< "$target")_LINKER
export "$linker=rust-lld"
rustup -q target add "$target"
packages=()
for package in ${PACKAGES:-hugetext hugetext-promote}; do packages+=(-p "$package"); done
cargo test "${packages[@]}" --target "$target" --no-run --message-format=json > "$work/built"
# hugetext-promote's tests run examples beside them.
examples=$(jq -r 'select(.target.kind == ["example"] and .executable) | .executable' "$work/built")
tests=$(jq -r 'select(.profile.test and .executable) | .executable' "$work/built" |
    grep -vE '/(dependencies|documents|house|setup)-[0-9a-f]+$')
command=$(jq -r 'select(.target.kind == ["bin"] and .target.name == "hugetext" and (.profile.test | not)) | .executable' "$work/built")

root=$work/root
mmdebstrap --quiet --variant=extract --architectures="$debian" \
    --include=coreutils,dash,bash,util-linux,mount,findutils,grep,sed,tar,gzip,libc-bin,base-passwd,base-files,login.defs,procps,libcap2-bin,attr,gcc,libc6-dev,binutils,lld,gdb,strace,e2fsprogs,squashfs-tools,erofs-utils,bubblewrap,runc,cpio,linux-perf \
    trixie "$root"
# What the packages' scripts would have made.
cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
[ -e "$root/bin/sh" ] || ln -s dash "$root/usr/bin/sh"
ln -sf gcc "$root/usr/bin/cc"
echo guest > "$root/etc/hostname"
echo '127.0.0.1 localhost guest' > "$root/etc/hosts"

# The tests know the paths of this checkout and of the command.
mkdir -p "$root$here"
git ls-files -z | xargs -0 cp --parents --no-dereference -t "$root$here"
for file in $tests $examples $command; do
    install -D "$file" "$root$file"
    # Profilers find names in the symbol table, which is small. What debuggers need is not.
    "$machine-linux-gnu-strip" --strip-debug "$root$file"
done
mkdir -p "$root$here/target/$target/tmp" "$root$here/target/tmp"
{
    echo '#!/bin/sh'
    echo 'hostname guest 2>/dev/null; ip link set lo up 2>/dev/null'
    # Probes of the kernel on functions of a program are set there.
    echo 'mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing'
    echo "cd '$here/crates/hugetext'"
    echo "export INSTA_WORKSPACE_ROOT='$here'"
    echo "${HUGETEXT_ROUNDS:+export HUGETEXT_ROUNDS=$HUGETEXT_ROUNDS}"
    for file in $tests; do
        echo "echo; echo 'Running $(basename "$file")'; '$file' --test-threads=2 $* 2>&1 || touch /failed"
    done
    echo '! [ -e /failed ]'
} > "$root/run-tests"
chmod +x "$root/run-tests"

lab/run hugetext-lab fetch "$kernel" > /dev/null
answer=0
lab/run hugetext-lab boot "$kernel" --smp 2 --memory 4096 --fs ext4,hugetmpfs --timeout 7200 \
    --root "$root" -- /run-tests > "$work/said" || answer=$?
jq -r '.command.printed // .' "$work/said"
exit "$answer"
