#!/usr/bin/env bash
# Measures cold starts of files that warm themselves, and prints the record:
#
#   scripts/results-self-warming.sh HUGETEXT LAB [ROUNDS] [CELL…]
#
# LAB is the command of the lab. ROUNDS, 20 if it is not given, are the starts of each cell with the tunable on ext4;
# the others get fewer. CELL are patterns of cells, as those of cold-starts.sh: then only these are measured, ROUNDS
# times each. KIT names a directory that self-warming-kit.sh made, to keep it between calls.
# scripts/self-warming-doc.py makes the document of the record. Takes root, mkfs of ext4, xfs and btrfs, and
# mmdebstrap.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hugetext=$(realpath "$1") lab=$(realpath "$2") rounds=${3:-20}
shift 2
[ $# -eq 0 ] || shift
work=$(mktemp -d "${TMPDIR:-/tmp}/self-warming.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
kit=${KIT:-$work/kit}
[ -d "$kit" ] || "$here/self-warming-kit.sh" "$hugetext" "$kit" > "$work/record"
[ ! -e "$work/record" ] || mv "$work/record" "$kit/record"
if [ $# -gt 0 ]; then
    exec "$here/cold-starts.sh" "$kit" "$rounds" "$@"
fi
cat "$kit/record"
echo "{\"machine\": \"$(nproc) cores, Linux $(uname -r | cut -d- -f1), THP=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled)\"}"

# Files of this machine with text in windows: which can be cut, and why others cannot.
# Malformed files end the check with 2.
{ "$hugetext" --json check --recursive /usr 2>/dev/null || true; } | jq -r '.files[] | select(.after_fix > 0) | .path' > "$work/files"
xargs -d '\n' "$hugetext" --json check < "$work/files" |
    jq -c '[.files[] | {refusal: .self_warming[0].refusal, windows: .self_warming[0].now.windows, now: .self_warming[0].now.asked, after: (.self_warming[0].after_fix.asked // .self_warming[0].now.asked)}]
        | group_by(.refusal)[] | {refused: .[0].refusal, files: length, windows: (map(.windows) | add), now: (map(.now) | add), after: (map(.after) | add)}'

"$here/cold-starts.sh" "$kit" "$rounds" 'ext4 2.44 1 * shipped' 'ext4 2.44 1 * fixed' 'ext4 2.44 1 * warming'
small=('cc1' 'mariadbd' 'node' 'postgres')
cells=()
for program in "${small[@]}"; do
    for fs in xfs btrfs overlay; do cells+=("$fs 2.44 1 $program shipped" "$fs 2.44 1 $program fixed" "$fs 2.44 1 $program warming"); done
    for glibc in 2.36 2.41 2.44; do cells+=("ext4 $glibc 0 $program shipped" "ext4 $glibc 0 $program fixed" "ext4 $glibc 0 $program warming"); done
done
"$here/cold-starts.sh" "$kit" $(((rounds + 2) / 3)) "${cells[@]}"

# Other ways to cut, and other readahead of the device.
for program in "${small[@]}"; do
    for way in later tail; do
        mkdir -p "$kit/p/$program/$way"
        new=$kit/p/$program/$way/$program
        if "$here/move-cut.py" "$kit/p/$program/warming/$program" $way "$new"; then chmod 755 "$new"; else rm -r "${new%/*}"; fi
    done
done
cells=()
for program in "${small[@]}"; do cells+=("ext4 2.44 1 $program warming" "ext4 2.44 1 $program later" "ext4 2.44 1 $program tail"); done
"$here/cold-starts.sh" "$kit" 3 "${cells[@]}" | sed 's/^{/{"way": 1, /'
for readahead in 0 32; do
    READ_AHEAD_KB=$readahead "$here/cold-starts.sh" "$kit" 3 'ext4 2.44 1 cc1 warming' 'ext4 2.44 1 mariadbd warming' \
        'ext4 2.44 1 node warming' 'ext4 2.44 1 postgres warming' | sed 's/^{/{"way": 1, /'
done

"$here/self-warming-modes.sh" "$kit" "$lab"

# What a fault at the end of a window does to the window behind the next one.
truncate -s 100M "$work/mark.img"
mkfs.ext4 -qF "$work/mark.img"
mkdir "$work/mark"
# shellcheck disable=SC2016 # the inner shell expands it
unshare --mount sh -ec 'mount -o loop "$1" "$2"; blockdev --setra 256 "$(findmnt -no SOURCE "$2")"; "$3" "$2/file"' \
    sh "$work/mark.img" "$work/mark" "$here/readahead-mark.py"
