#!/usr/bin/env bash
# Cold starts under each mode of THP, in guests of the lab: lab/scripts/self-warming-modes.sh KIT LAB > RECORD
#
# KIT is what self-warming-kit.sh made, LAB the command of the lab. The mode is a setting of a whole machine, so
# that it is changed in a guest only. QEMU emulates the processor: counts mean something there, times do not.
# Each program starts once in each layout, from each filesystem, under each glibc, and under 2.44 with the tunable
# and without it. A program with a second, shorter command (command.version of the kit) is started by that.
# FILESYSTEMS, PROGRAMS and LAYOUTS choose; all programs are used without PROGRAMS. A filesystem has a guest of its
# own. Prints one line of JSON for each start. Needs root, for mmdebstrap, and mkfs of xfs and btrfs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kit=$(realpath "$1") lab=$2
layouts=${LAYOUTS:-shipped fixed warming}
root=$(mktemp -d "${TMPDIR:-/tmp}/modes.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
mmdebstrap --quiet --variant=essential --include=python3,mount bookworm "$root" >&2

# Everything lies below /kit of the guest. A start copies what it needs to its filesystem.
mkdir -p "$root/kit/p" "$root/measured"
cp -r "$kit"/glibc-* "$kit/lib" "$kit"/in.{c,rs} "$root/kit/"
for program in ${PROGRAMS:-$(cd "$kit/p" && printf '%s\n' */shipped | cut -d/ -f1)}; do
    mkdir "$root/kit/p/$program"
    cp "$kit/p/$program"/{texts,command*} "$root/kit/p/$program/"
    while read -r text; do
        for layout in $layouts; do install -D "$kit${text/LAYOUT/$layout}" "$root/kit${text/LAYOUT/$layout}"; done
    done < "$kit/p/$program/texts"
done
cp "$here/cold-start.py" "$root/"
cat > "$root/modes.sh" <<'GUEST'
fs=$1 layouts=$2
thp=/sys/kernel/mm/transparent_hugepage
# A long readahead spoils the windows of every file.
for readahead in /sys/block/*/queue/read_ahead_kb; do echo 128 > "$readahead"; done

# Where the filesystem is mounted, and where files are written that it shows.
place=/measured below=/measured
case $fs in
    ext4) ;; # the root is one
    overlay)
        mkdir -p /lower /run/overlay
        mount -t tmpfs tmpfs /run/overlay
        mkdir /run/overlay/upper /run/overlay/work
        below=/lower
        ;;
    *) mount -t "$fs" "$(blkid -t TYPE="$fs" -o device)" $place ;;
esac
show() { [ "$fs" != overlay ] || mount -t overlay overlay $place -o lowerdir=/lower,upperdir=/run/overlay/upper,workdir=/run/overlay/work; }
hide() { [ "$fs" != overlay ] || umount $place; }

libraries=usr/lib/x86_64-linux-gnu
for glibc in /kit/glibc-*; do
    root=$below/${glibc##*/}
    mkdir -p "$root"/dev "$root"/tmp "$root"/proc "$root"/lib64 "$root"/p "$root"/sys/kernel/mm/transparent_hugepage "$root/$libraries"
    ln -s usr/lib "$root/lib"
    cp /kit/lib/* "$glibc"/* "$root/$libraries/"
    cp "$glibc/ld-linux-x86-64.so.2" "$root/lib64/"
    cp /kit/in.* "$root/"
    mknod -m 666 "$root/dev/null" c 1 3
    cat $thp/hpage_pmd_size > "$root$thp/hpage_pmd_size"
done

# A program is copied once, and every glibc starts the same file.
for program in /kit/p/*; do
    command=$program/command
    [ ! -e "$command.version" ] || command=$command.version
    name=${program##*/}
    for layout in $layouts; do
        sed "s/LAYOUT/$layout/" "$command" > /tmp/command
        set --
        while read -r word; do set -- "$@" "$word"; done < /tmp/command
        texts=$(sed "s/LAYOUT/$layout/" "$program/texts" | paste -sd, -)
        mkdir -p "$below/copy"
        cp -r "$program/$layout" "$below/copy/"
        for root in "$below"/glibc-*; do
            mkdir "$root/p/$name"
            cp -al "$below/copy/$layout" "$root/p/$name/"
        done
        sync
        show
        for mode in always madvise never; do
            echo $mode > $thp/enabled
            for root in "$place"/glibc-*; do
                version=${root##*/glibc-}
                tunables=0
                [ "$version" != 2.44 ] || tunables="0 1"
                cat $thp/enabled > "$root$thp/enabled"
                for tunable in $tunables; do
                    # Without /proc, nobody finds libraries by $ORIGIN.
                    found=$(python3 /cold-start.py "$root" GLIBC_TUNABLES=glibc.elf.thp=$tunable \
                        "LD_LIBRARY_PATH=/p/$name/$layout/lib" -- "$texts" "$@") || continue
                    echo "{\"guest\": \"$(uname -r)\", \"thp\": \"$mode\", \"fs\": \"$fs\", \"glibc\": \"$version\", \"tunable\": $tunable, \"program\": \"$name${command##*/command}\", \"layout\": \"$layout\", ${found#\{}"
                done
            done
        done
        hide
        rm -r "$below"/glibc-*/p/"$name" "$below/copy"
    done
done
GUEST
for fs in ${FILESYSTEMS:-ext4 xfs btrfs overlay}; do
    "$lab" boot 6.18-amd64 --smp 1 --memory 3072 --disk 2048 --fs "$fs" --timeout 7200 --root "$root" -- sh -e /modes.sh "$fs" "$layouts" |
        jq -r '.. | .printed? // empty' | grep '^{"guest"'
done
