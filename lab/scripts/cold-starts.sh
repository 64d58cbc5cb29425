#!/usr/bin/env bash
# Measures cold starts of the programs that self-warming-kit.sh prepared:
#
#   lab/scripts/cold-starts.sh KIT ROUNDS [CELL…] > RECORD
#
# A cell is "FILESYSTEM GLIBC TUNABLE PROGRAM LAYOUT"; CELL is a pattern of cells, such as 'ext4 2.44 1 * *'.
# PROGRAM.version is another command of PROGRAM, in command.version of the kit.
# Without one, all are measured. Each filesystem is an image on a loop device, with direct I/O where the kernel
# permits it, so that no cache below serves a read. Each glibc has a root directory there, with the same programs.
# The order of the cells is random in each round. Prints one line of JSON for each start. Needs root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kit=$1 rounds=$2
if [ -z "${HUGETEXT_COLD_STARTS:-}" ]; then
    HUGETEXT_COLD_STARTS=1 exec unshare --mount --propagation private "$0" "$@"
fi
shift 2
[ $# -gt 0 ] || set -- '*'
work=$(mktemp -d "$kit/measure.XXXXXX")
loops=()
end() {
    for mount in "$work"/*/mnt/glibc-*/{proc,dev} "$work"/overlay/root-*/{proc,dev} "$work"/overlay/root-* "$work"/overlay/upper-* "$work"/*/mnt; do umount -l "$mount" 2>/dev/null || true; done
    for loop in "${loops[@]}"; do losetup -d "$loop" 2>/dev/null || true; done
    rm -rf --one-file-system "$work"
}
trap end EXIT

cells=()
for fs in ext4 xfs btrfs overlay; do
    for glibc in "$kit"/glibc-*; do
        version=${glibc##*/glibc-}
        for tunable in 0 1; do
            # Older versions do not know the tunable.
            [ "$tunable" = 0 ] || [ "${version#2.}" -ge 44 ] || continue
            for layout in "$kit"/p/*/*/; do
                program=$(dirname "$layout")
                for command in "$program"/command*; do
                    name=${command##*/command}
                    cell="$fs $version $tunable ${program##*/}$name $(basename "$layout")"
                    for pattern in "$@"; do
                        # shellcheck disable=SC2053 # it is a pattern
                        if [[ $cell == $pattern ]]; then cells+=("$cell"); break; fi
                    done
                done
            done
        done
    done
done
[ ${#cells[@]} -gt 0 ] || { echo "cold-starts.sh: no such cell" >&2; exit 2; }
# The programs that a filesystem needs; an overlay lies above ext4.
programs_on() { printf '%s\n' "${cells[@]}" | sed 's/^overlay/ext4/' | awk -v fs="$1" '$1 == fs { sub("[.].*", "", $4); print $4 }' | sort -u; }

libraries=usr/lib/x86_64-linux-gnu
direct=1
for fs in ext4 xfs btrfs; do
    mapfile -t programs < <(programs_on $fs)
    [ ${#programs[@]} -gt 0 ] || continue
    mkdir -p "$work/$fs/mnt"
    truncate -s 8G "$work/$fs.img"
    case $fs in
        ext4) mkfs.ext4 -qF "$work/$fs.img" ;;
        xfs) mkfs.xfs -q "$work/$fs.img" ;;
        btrfs) mkfs.btrfs -q "$work/$fs.img" >/dev/null ;;
    esac
    loop=$(losetup --direct-io=on --find --show "$work/$fs.img") || loop=$(losetup --find --show "$work/$fs.img")
    loops+=("$loop")
    [ "$(cat "/sys/block/${loop#/dev/}/loop/dio")" = 1 ] || direct=0
    # Linux's default. A loop device takes that of the disk below it, which may be far larger.
    echo "${READ_AHEAD_KB:-128}" > "/sys/block/${loop#/dev/}/queue/read_ahead_kb"
    mount -t $fs "$loop" "$work/$fs/mnt" || { echo "cold-starts.sh: no $fs here" >&2; continue; }
    mkdir "$work/$fs/mnt/p"
    for program in "${programs[@]}"; do cp -r "$kit/p/$program" "$work/$fs/mnt/p/"; done
    for glibc in "$kit"/glibc-*; do
        root=$work/$fs/mnt/${glibc##*/}
        mkdir -p "$root/$libraries" "$root/lib64"
        ln -sfn usr/lib "$root/lib"
        cp "$kit"/lib/* "$glibc"/* "$root/$libraries/"
        cp "$glibc/ld-linux-x86-64.so.2" "$root/lib64/"
        cp "$kit"/in.{c,rs} "$root/"
        # Without /sys, as in many containers.
        mkdir -p "$root"/{dev,proc,tmp}
        # The same files for every glibc.
        cp -al "$work/$fs/mnt/p" "$root/p"
    done
done
sync
if printf '%s\n' "${cells[@]}" | grep -q ^overlay; then
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

# rustc finds its libraries by /proc/self/exe, and git opens /dev/null.
for root in "$work"/*/mnt/glibc-* "$work"/overlay/root-*; do
    [ -d "$root/proc" ] || continue
    mount --bind /proc "$root/proc"
    mount --bind /dev "$root/dev"
done

thp=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled)
began=$(date +%s)
for round in $(seq "$rounds"); do
    while read -r fs version tunable program layout; do
        root=$work/$fs/mnt/glibc-$version
        [ "$fs" != overlay ] || root=$work/overlay/root-glibc-$version
        # The command names its own layout by LAYOUT.
        folder=$kit/p/${program%%.*} name=${program#"${program%%.*}"}
        mapfile -t command < <(sed "s/LAYOUT/$layout/" "$folder/command$name")
        texts=$(sed "s/LAYOUT/$layout/" "$folder/texts" | paste -sd,)
        found=$("$here/cold-start.py" "$root" "GLIBC_TUNABLES=glibc.elf.thp=$tunable" -- "$texts" "${command[@]}") ||
            { echo "cold-starts.sh: $program $layout failed under glibc $version on $fs" >&2; continue; }
        echo "{\"thp\": \"$thp\", \"direct\": $direct, \"began\": $began, \"load\": $(cut -d' ' -f1 /proc/loadavg), \"round\": $round, \"read_ahead_kb\": ${READ_AHEAD_KB:-128}, \"fs\": \"$fs\", \"glibc\": \"$version\", \"tunable\": $tunable, \"program\": \"$program\", \"layout\": \"$layout\", ${found#\{}"
    done < <(printf '%s\n' "${cells[@]}" | shuf)
done
