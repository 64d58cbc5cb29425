#!/usr/bin/env bash
# Measures cold starts of files that warm themselves, and writes the record, a file for each part:
#
#   lab/scripts/results-self-warming.sh HUGETEXT LAB RECORD [PART…]
#
# LAB is the command of the lab, RECORD a directory. Without a PART all are measured:
#   files    which files can be cut, and why others cannot
#   tunable  starts on ext4 with the tunable, ROUNDS of each cell (40)
#   others   starts on other filesystems, with other versions of glibc, without the tunable, and with read-only data
#            in the text, a sixth of ROUNDS
#   ways     other ways to cut, and other readahead of the device
#   modes    the modes of THP, every filesystem and glibc, in a guest
#   linked   a program by each linker, with the options of docs/link-time.md
#   readahead  a program that runs through its text once, under the readaheads of devices
#   mark     what a fault at the end of a window does to the window behind the next one
# KIT names a directory that self-warming-kit.sh made, to keep it between calls. A part's file is replaced when
# the part is complete. lab/scripts/self-warming-rows.py makes the record of the page. Needs root, mkfs of ext4, xfs
# and btrfs, and mmdebstrap.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hugetext=$(realpath "$1") lab=$(realpath "$2") record=$(realpath "$3") rounds=${ROUNDS:-40}
shift 3
parts=(files tunable others ways modes linked readahead mark)
[ $# -gt 0 ] || set -- "${parts[@]}"
layouts=(shipped fixed warming)
work=$(mktemp -d "${TMPDIR:-/tmp}/self-warming.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
kit=${KIT:-$work/kit}
if [ ! -d "$kit" ]; then
    "$here/self-warming-kit.sh" "$hugetext" "$kit" > "$work/record"
    mv "$work/record" "$kit/record"
fi

files() {
    cat "$kit/record"
    # Files of this machine with text in windows. Malformed files end the check with 2.
    { "$hugetext" --json check --recursive /usr 2>/dev/null || true; } | jq -r '.files[] | select(.after_fix > 0) | .path' > "$work/files"
    xargs -d '\n' "$hugetext" --json check < "$work/files" |
        jq -c '[.files[] | {refusal: .self_warming[0].refusal, windows: .self_warming[0].now.windows, now: .self_warming[0].now.asked, after: (.self_warming[0].after_fix.asked // .self_warming[0].now.asked)}]
            | group_by(.refusal)[] | {refused: .[0].refusal, files: length, windows: (map(.windows) | add), now: (map(.now) | add), after: (map(.after) | add)}'
}

tunable() {
    echo "{\"machine\": \"$(nproc) cores, Linux $(uname -r | cut -d- -f1), THP=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled)\"}"
    "$here/cold-starts.sh" "$kit" "$rounds" "${layouts[@]/#/ext4 2.44 1 * }"
}

others() {
    "$here/cold-starts.sh" "$kit" $(((rounds + 5) / 6)) "${layouts[@]/#/* * 0 * }" "${layouts[@]/#/[xbo]* 2.44 1 * }" "ext4 2.44 1 * merged"
}

ways() {
    local cells=() program way new readahead
    for program in cc1 chromium mariadbd node postgres; do
        cells+=("ext4 2.44 1 $program* warming")
        for way in later tail; do
            rm -rf "$kit/p/$program/$way"
            # What the program reads beside itself stays the same file.
            cp -al "$kit/p/$program/warming" "$kit/p/$program/$way"
            new=$kit/p/$program/$way/$program
            rm "$new"
            if "$here/move-cut.py" "$kit/p/$program/warming/$program" $way "$new"; then chmod 755 "$new"; else rm -r "${new%/*}"; fi
            cells+=("ext4 2.44 1 $program* $way")
        done
    done
    for readahead in 8192 4096 512 128 32 0; do
        READ_AHEAD_KB=$readahead "$here/cold-starts.sh" "$kit" 3 "${cells[@]}" | sed 's/^{/{"way": 1, /'
    done
    rm -rf "$kit"/p/*/{later,tail}
}

modes() { "$here/self-warming-modes.sh" "$kit" "$lab"; }

linked() { "$here/cold-starts.sh" "$kit" $(((rounds + 3) / 4)) "ext4 2.44 [01] linked *"; }

readahead() {
    truncate -s 1G "$work/readahead.img"
    mkfs.ext4 -qF "$work/readahead.img"
    mkdir "$work/readahead"
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount bash -ec 'image=$1 at=$2 hugetext=$3 loader=$4 script=$5
        loop=$(losetup --direct-io=on --find --show "$image") || loop=$(losetup --find --show "$image")
        trap "umount $at; losetup -d $loop" EXIT
        mount "$loop" "$at"
        for readahead in 128 512 2048 4096 8192; do
            echo $readahead > "/sys/block/${loop#/dev/}/queue/read_ahead_kb"
            "$script" "$hugetext" "$loader" "$at"
        done' bash "$work/readahead.img" "$work/readahead" "$hugetext" "$kit/glibc-2.44/ld-linux-x86-64.so.2" "$here/readahead-holes.sh"
}

mark() {
    truncate -s 100M "$work/mark.img"
    mkfs.ext4 -qF "$work/mark.img"
    mkdir "$work/mark"
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount sh -ec 'mount -o loop "$1" "$2"; blockdev --setra 256 "$(findmnt -no SOURCE "$2")"; "$3" "$2/file"' \
        sh "$work/mark.img" "$work/mark" "$here/readahead-mark.py"
}

for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || { echo "results-self-warming.sh: no part is named '$part'" >&2; exit 2; }
    "$part" > "$work/$part.jsonl"
    mv "$work/$part.jsonl" "$record/"
done
