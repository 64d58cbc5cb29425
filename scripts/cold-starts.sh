#!/usr/bin/env bash
# Measures cold starts of the programs that results-self-warming.sh prepared:
#
#   scripts/cold-starts.sh KIT SECONDS > RECORD
#
# Each filesystem is an image on a loop device. Each glibc has a root directory there, with the same
# programs. The order of the cells is random in each round; rounds go on for SECONDS. Prints one line of
# JSON for each start. Takes root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kit=$1 seconds=$2
if [ -z "${HUGETEXT_COLD_STARTS:-}" ]; then
    HUGETEXT_COLD_STARTS=1 exec unshare --mount --propagation private "$0" "$@"
fi
work=$(mktemp -d "$kit/measure.XXXXXX")
loops=()
end() {
    for mount in "$work"/overlay/root-* "$work"/overlay/upper-* "$work"/*/mnt; do umount -l "$mount" 2>/dev/null || true; done
    for loop in "${loops[@]}"; do losetup -d "$loop" 2>/dev/null || true; done
    rm -rf --one-file-system "$work"
}
trap end EXIT

libraries=usr/lib/x86_64-linux-gnu
for fs in ext4 xfs btrfs; do
    [ -e "$kit/$fs.img" ] || continue
    mkdir -p "$work/$fs/mnt"
    loop=$(losetup --find --show "$kit/$fs.img")
    loops+=("$loop")
    # Linux's default. A loop device takes that of the disk below it, which may be far larger.
    echo 128 > "/sys/block/${loop#/dev/}/queue/read_ahead_kb"
    mount -t $fs "$loop" "$work/$fs/mnt" || { echo "cold-starts.sh: no $fs here" >&2; continue; }
    for glibc in "$kit"/glibc-*; do
        root=$work/$fs/mnt/${glibc##*/}
        mkdir -p "$root/$libraries" "$root/lib64"
        ln -sfn usr/lib "$root/lib"
        cp "$kit"/lib/* "$glibc"/* "$root/$libraries/"
        cp "$glibc/ld-linux-x86-64.so.2" "$root/lib64/"
        cp "$kit/in.c" "$root/in.c"
        # glibc reads there whether and in which size it may ask.
        mkdir -p "$root/sys/kernel/mm/transparent_hugepage" "$root/dev" "$root/tmp"
        cp /sys/kernel/mm/transparent_hugepage/{enabled,hpage_pmd_size} "$root/sys/kernel/mm/transparent_hugepage/"
        ln "$root/in.c" "$root/tmp/in.c" 2>/dev/null || true
        # The same files for every glibc.
        [ -d "$work/$fs/mnt/p" ] || cp -r "$kit/p" "$work/$fs/mnt/p"
        cp -al "$work/$fs/mnt/p" "$root/p"
    done
done
sync
if [ -e "$kit/ext4.img" ]; then
    for glibc in "$kit"/glibc-*; do
        name=${glibc##*/}
        top=$work/overlay/root-$name
        mkdir -p "$top" "$work/overlay/upper-$name"
        mount -t tmpfs tmpfs "$work/overlay/upper-$name"
        mkdir "$work/overlay/upper-$name"/{upper,work}
        mount -t overlay overlay "$top" \
            -o "lowerdir=$work/ext4/mnt/$name,upperdir=$work/overlay/upper-$name/upper,workdir=$work/overlay/upper-$name/work"
    done
fi

cells=()
for fs in ext4 xfs btrfs overlay; do
    for glibc in "$kit"/glibc-*; do
        version=${glibc##*/glibc-}
        root=$work/$fs/mnt/glibc-$version
        [ $fs != overlay ] || root=$work/overlay/root-glibc-$version
        [ -d "$root/p" ] || continue
        for tunable in 0 1; do
            # Older versions do not know the tunable.
            [ "$tunable" = 0 ] || [ "${version#2.}" -ge 44 ] || continue
            for program in "$kit"/p/*; do
                for layout in shipped fixed warming; do
                    cells+=("$fs $version $tunable ${program##*/} $layout $root")
                done
            done
        done
    done
done
thp=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled)
until_=$((SECONDS + seconds))
while [ $SECONDS -lt $until_ ]; do
    while read -r fs version tunable program layout root; do
        [ $SECONDS -lt $until_ ] || break
        mapfile -t command < "$kit/p/$program/command"
        file=/p/$program/$layout/$program
        found=$("$here/cold-start.py" "$root" "GLIBC_TUNABLES=glibc.elf.thp=$tunable" -- "$file" "$file" "${command[@]}") ||
            { echo "cold-starts.sh: $program $layout failed under glibc $version on $fs" >&2; continue; }
        echo "{\"thp\": \"$thp\", \"fs\": \"$fs\", \"glibc\": \"$version\", \"tunable\": $tunable, \"program\": \"$program\", \"layout\": \"$layout\", ${found#\{}"
    done < <(printf '%s\n' "${cells[@]}" | shuf)
done
