#!/bin/bash
# Compares the cost of a fix with that of tools that copy or rewrite the same file:
# lab/scripts/bench-fix.sh HUGETEXT [FILE]. Prints the record of lab/results/fix.md. Rounds are interleaved, so that other
# work on the machine affects all tools equally.
set -eu
# shellcheck source=lab/scripts/record.sh
. "$(dirname "$0")/record.sh"

hugetext=$(realpath "$1")
source=${2:-$(find "$(rustc --print sysroot)/lib" -maxdepth 1 -name 'libLLVM*.so*' -size +100M | head -n 1)}
[ -n "$source" ] || { echo "bench-fix: no library of more than 100 MB; name a file" >&2; exit 2; }
rounds=${ROUNDS:-7}
scratch=$(mktemp -d)
disks=() # mounted by this script
cleanup() {
    for disk in "${disks[@]}"; do umount "$disk"; rm -rf "${disk%/on}"; done
    rm -rf "$scratch"
}
trap cleanup EXIT

# The tools: a name, and a shell command that makes $out from $file.
# shellcheck disable=SC2016 # expanded when the command runs
declare -A commands=(
    ['cp']='cp --reflink=never "$file" "$out"'
    ['cp, then fsync']='cp --reflink=never "$file" "$out" && sync "$out"'
    ['cp --reflink']='cp --reflink=always "$file" "$out"'
    ['hugetext fix']='"$hugetext" -q fix "$file" -o "$out"'
    ['hugetext fix --strategy merge']='"$hugetext" -q fix --strategy merge "$file" -o "$out"'
    ['hugetext check --same']='"$hugetext" -q check --same "$file" "$kept"'
    ['patchelf --page-size 2097152']='patchelf --page-size 2097152 --set-rpath /usr/lib/hugetext --output "$out" "$file"'
    ['llvm-objcopy']='llvm-objcopy "$file" "$out"'
)

# Seconds of wall, user and system time, to the millisecond.
TIMEFORMAT='%3R %3U %3S'

# measure DIRECTORY WAY...: times each way on the filesystem of a directory, into $results/WAY
measure() {
    results=$1/results
    mkdir -p "$results"
    export file=$1/source kept=$1/kept out=$1/out hugetext
    shift
    cp --reflink=never "$source" "$file"
    "$hugetext" -q fix "$file" -o "$kept"
    ways=("$@")
    for ((round = 0; round < rounds; round++)); do
        for ((turn = 0; turn < ${#ways[@]}; turn++)); do
            # Each round begins with another tool: the first one may get memory that was never used
            # before.
            way=${ways[$(((turn + round) % ${#ways[@]}))]}
            rm -f "$out"
            sync -f "$file"
            cat "$file" "$kept" >/dev/null
            if ! { time eval "${commands[$way]}" 2>/dev/null; } 2>>"$results/$way"; then
                rm -f "$results/$way"
                continue
            fi
            if [ $round = 0 ]; then
                rm -f "$out"
                /usr/bin/time -o "$results/memory $way" -f %M bash -c "exec 2>/dev/null; ${commands[$way]}"
            fi
            [ ! -e "$out" ] || stat -c '%b %s' "$out" >"$results/size $way"
        done
    done
}

# median COLUMN WAY
median() {
    [ -s "$results/$2" ] || { echo 0; return; }
    sort -n -k "$1,$1" "$results/$2" | awk -v c="$1" '{v[NR] = $c} END {print v[int((NR + 1) / 2)]}'
}

cpu() { awk -v u="$(median 2 "$1")" -v s="$(median 3 "$1")" 'BEGIN {print u + s}'; }

reach() {
    "$hugetext" --json check --geometry x86-64 "$1" |
        awk -F'[:,]' '/"text":/ {t = $2} /"reached":/ && !r {r = $2 + 1} END {printf "%.0f%%", t ? 100 * (r - 1) / t : 0}'
}

# table NAME: the last measurements, a row for each tool; ratios are to the first.
table() {
    wall0=$(median 1 "${ways[0]}")
    cpu0=$(cpu "${ways[0]}")
    disk=$(($(stat -c %b "$file") * 512))
    for way in "${ways[@]}"; do
        if [ ! -s "$results/$way" ]; then
            row "$1" "$way" "" "" "" "" "" "" ""
            continue
        fi
        more=- reached=-
        if [ -s "$results/size $way" ]; then
            read -r blocks _ <"$results/size $way"
            more=$(((blocks * 512 - disk) / 1024))
            rm -f "$out"
            bash -c "${commands[$way]}" >/dev/null 2>&1 && reached=$(reach "$out")
        fi
        local cells
        IFS='|' read -ra cells < <(awk -v w="$(median 1 "$way")" -v w0="$wall0" -v c="$(cpu "$way")" -v c0="$cpu0" \
            -v m="$(cat "$results/memory $way")" -v d="$more" -v r="$reached" \
            'function ratio(a, b) {return b > 0 ? sprintf("%.2f", a / b) : "-"}
             BEGIN {printf "%.3f|%s|%.3f|%s|%.1f|%s|%s\n", w, ratio(w, w0), c, ratio(c, c0), m / 1024, d, r}')
        row "$1" "$way" "${cells[@]}"
    done
}

measure "$scratch" 'cp' 'cp, then fsync' 'hugetext fix' 'hugetext fix --strategy merge' \
    'hugetext check --same' 'patchelf --page-size 2097152' 'llvm-objcopy'
size=$(stat -c %s "$source")
fact library "$(basename "$source")"
fact megabytes "$((size / 1000000))"
fact filesystem "$(findmnt -n -o FSTYPE -T "$scratch")"
fact rounds "$rounds"
fact cores "$(nproc)"
fact kernel "$(uname -r)"
table here
# A loop device over memory, so that no disk is measured.
for filesystem in xfs btrfs; do
    place=$(mktemp -d -p /dev/shm)
    mkdir "$place/on"
    truncate -s 2G "$place/disk"
    if reason=$( (mkfs.$filesystem "$place/disk" >/dev/null && mount -o loop "$place/disk" "$place/on") 2>&1); then
        disks+=("$place/on")
        measure "$place/on" 'cp' 'cp --reflink' 'hugetext fix' 'hugetext fix --strategy merge' 'hugetext check --same'
        table "$filesystem"
    else
        rm -rf "$place"
        fact "$filesystem" "${reason##*: }"
    fi
done
