#!/usr/bin/env bash
# Tries a whole distribution: every program of some hundred Debian packages before and after `fix`, and
# real jobs with and without `hugetext run`. Prints lab/results/distribution.md.
#
#   lab/scripts/test-distribution.sh HUGETEXT
#
# Needs root, mmdebstrap, about 12 GB below $XDG_CACHE_HOME/hugetext/distribution and an hour. The root is
# made once and never changed: programs and jobs see it below overlays, in namespaces of this script's own.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "lab/scripts/test-distribution.sh: $*" >&2; exit 2; }
say() { echo "$*" >&2; }

[ $# = 1 ] || die "usage: lab/scripts/test-distribution.sh HUGETEXT"
hugetext=$(realpath "$1")
[ "$(id -u)" = 0 ] || die "needs root, for mounts and chroot"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing; run scripts/setup.sh distribution"
suite=trixie
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hugetext/distribution
# The root, with the packages of the list.
if ! [ -e "$cache/root.done" ]; then
    mkdir -p "$cache"
    say "makes a root of $suite, about 9 GB"
    rm -rf --one-file-system "$cache/root"
    packages=$(grep -v '^#' "$here/distribution/packages" | tr -s '[:space:]' ,)
    mmdebstrap --quiet --variant=minbase --aptopt='APT::Install-Recommends "false"' \
        --include="${packages%,}" "$suite" "$cache/root" >&2 ||
        die "mmdebstrap cannot make a root of $suite"
    touch "$cache/root.done"
fi

if [ -z "${HUGETEXT_DISTRIBUTION:-}" ]; then
    work=$(mktemp -d "$cache/work.XXXXXX")
    trap 'rm -rf --one-file-system "$work"' EXIT
    trap 'exit 130' INT TERM
    HUGETEXT_DISTRIBUTION=$work unshare --mount --net --propagation private "$0" "$hugetext"
    exit
fi
work=$HUGETEXT_DISTRIBUTION

# Mounts what programs expect over the root at $1.
furnish() {
    mount -t proc proc "$1/proc"
    # What huge pages there are.
    mount --bind /sys "$1/sys"
    mount -o remount,bind,ro "$1/sys"
    mount -t tmpfs none "$1/dev"
    for device in null zero full random urandom tty; do
        touch "$1/dev/$device"
        mount --bind "/dev/$device" "$1/dev/$device"
    done
    ln -s /proc/self/fd "$1/dev/fd"
    mkdir -m 1777 "$1/dev/shm"
    mount -t tmpfs -o mode=1777 none "$1/tmp"
}

# Every ELF file of the root, fixed: $1 is the name of the way, the rest are options.
fix_all() {
    local way=$1 file out code
    shift
    mkdir -p "$work/$way"
    while read -r file; do
        [ "$(head -c 4 "$cache/root$file" | tr -d '\0')" = $'\177ELF' ] || continue
        out=$work/$way$file
        mkdir -p "${out%/*}"
        code=0
        "$hugetext" -q fix "$cache/root$file" -o "$out" --vouched --privileged "$@" \
            >/dev/null 2>"$work/$way.said" || code=$?
        # What is laid out well already is copied as it is.
        if [ $code = 0 ] && cmp -s "$cache/root$file" "$out"; then
            rm "$out"
            code=same
        fi
        if [ $code = 2 ]; then
            sed "s|^hugetext: $cache/root||" "$work/$way.said" >>"$work/$way.refused"
        fi
        echo "$code" >>"$work/$way.codes"
    done <"$work/files"
}

# Lets one way of the root be seen at $2: $1 is what lies over the root, or nothing.
show() {
    mkdir -p "$2" "$work/scratch"
    mountpoint -q "$work/scratch" || mount -t tmpfs none "$work/scratch"
    mkdir -p "$work/scratch/${2##*/}.upper" "$work/scratch/${2##*/}.work"
    mount -t overlay overlay -o "lowerdir=${1:+$1:}$cache/root,upperdir=$work/scratch/${2##*/}.upper,workdir=$work/scratch/${2##*/}.work" "$2"
    furnish "$2"
    cp "$here/distribution/"{programs,jobs}.sh "$2/tmp/"
    cp "$here/distribution/jobs" "$work/programs" "$2/tmp/"
}

# Runs a script inside of a view, in a process namespace that ends with it.
inside() {
    local view=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    unshare --pid --fork --kill-child --mount sh -c \
        'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$view" \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin LC_ALL=C.UTF-8 "$@"
}

find "$cache/root/usr" -xdev -type f -size +4k \( -perm -100 -o -name '*.so*' \) -printf '/usr/%P\n' |
    sort >"$work/files"
say "fixes $(wc -l <"$work/files") files in two ways"
touch "$work"/{auto,merge}.{refused,codes}
fix_all auto &
fix_all merge --strategy merge --geometry arm64-4k
wait

# The programs of packages: what lies where commands are looked for.
# shellcheck disable=SC2016 # for dpkg-query
chroot "$cache/root" dpkg-query -W -f '${Package}\n' | sort >"$work/packages"
while read -r package; do
    chroot "$cache/root" dpkg-query -L "$package" | sed -nE "s|^(/usr)?(/s?bin/[^/]+)\$|$package /usr\2|p"
done <"$work/packages" | sort -u -k 2,2 | while read -r package program; do
    [ "$(head -c 4 "$cache/root$program" 2>/dev/null | tr -d '\0')" = $'\177ELF' ] &&
        echo "$package $program"
done >"$work/programs" || true

say "runs $(wc -l <"$work/programs") programs four times"
show "" "$work/plain"
show "$work/auto" "$work/as-auto"
show "$work/merge" "$work/as-merge"
try() { # SCRIPT PASS…: one after the other, in the view of the pass
    local script=$1 pass
    shift
    for pass in "$@"; do
        inside "$work/${pass/again/plain}" sh "/tmp/$script.sh" >"$work/$pass.$script"
    done
}
try programs plain again &
try programs as-auto as-merge &
wait
# What answers differently after a fix is asked again without one: it may differ by itself.
cat "$work"/as-{auto,merge}.programs | grep -vxFf "$work/plain.programs" | cut -d ' ' -f 1,2 |
    sort -u >"$work/plain/tmp/programs" || true
for _ in {1..30}; do inside "$work/plain" sh /tmp/programs.sh; done >"$work/more.programs"

say "runs $(grep -vc '^#' "$here/distribution/jobs") jobs five times"
# Copies are not made on an overlay; the root itself is on a disk.
mkdir "$work/disk" "$work/store"
mount --bind "$cache/root" "$work/disk"
mount -o remount,bind,ro "$work/disk"
furnish "$work/disk"
mount --bind "$work/store" "$work/disk/var/cache"
cp "$here/distribution/jobs"{,.sh} "$work/disk/tmp/"
cp "$hugetext" "$work/disk/tmp/hugetext"
try jobs plain again &
try jobs as-auto as-merge &
inside "$work/disk" sh /tmp/jobs.sh /tmp/hugetext >"$work/run.jobs" &
wait

"$here/distribution/report.py" "$work" "$suite"
