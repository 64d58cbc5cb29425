#!/bin/bash
# Compares the cost of a fix with that of tools that copy or rewrite the same file:
# lab/scripts/bench-fix.sh HUGETEXT [FILE]. Prints lab/results/fix.md. Rounds are interleaved, so that other
# work on the machine affects all tools equally.
set -eu

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

# The last measurements, a row for each tool; ratios are to the first.
table() {
    echo "| | wall s | ratio | CPU s | ratio | peak RSS MB | disk beyond the input, KiB | reach of 2M leaves |"
    echo "|---|---|---|---|---|---|---|---|"
    wall0=$(median 1 "${ways[0]}")
    cpu0=$(cpu "${ways[0]}")
    disk=$(($(stat -c %b "$file") * 512))
    for way in "${ways[@]}"; do
        if [ ! -s "$results/$way" ]; then
            echo "| $way | not on this machine, or it failed | | | | | | |"
            continue
        fi
        more=- reached=-
        if [ -s "$results/size $way" ]; then
            read -r blocks _ <"$results/size $way"
            more=$(((blocks * 512 - disk) / 1024))
            rm -f "$out"
            bash -c "${commands[$way]}" >/dev/null 2>&1 && reached=$(reach "$out")
        fi
        awk -v n="$way" -v w="$(median 1 "$way")" -v w0="$wall0" -v c="$(cpu "$way")" -v c0="$cpu0" \
            -v m="$(cat "$results/memory $way")" -v d="$more" -v r="$reached" \
            'function ratio(a, b) {return b > 0 ? sprintf("%.2f", a / b) : "-"}
             BEGIN {printf "| %s | %.3f | %s | %.3f | %s | %.1f | %s | %s |\n", n, w, ratio(w, w0), c, ratio(c, c0), m / 1024, d, r}'
    done
}

measure "$scratch" 'cp' 'cp, then fsync' 'hugetext fix' 'hugetext fix --strategy merge' \
    'hugetext check --same' 'patchelf --page-size 2097152' 'llvm-objcopy'
size=$(stat -c %s "$source")
cat <<EOF
# What a fix costs

Written by \`lab/measure fix\`: \`$(basename "$source")\`, $((size / 1000000)) MB, read from a warm page cache and written
to $(findmnt -n -o FSTYPE -T "$scratch"); medians of $rounds interleaved rounds on $(nproc) cores, Linux $(uname -r). Ratios are to \`cp\`.
\`fix\` includes its verification, which reads both files, and the fsync of the new file; \`cp\` does neither.
\`patchelf\` moves sections only where it must make room, and does not raise the alignment of text.
\`llvm-objcopy\` lays the file out anew with the alignment that it has. \`elfedit\` of binutils edits only
fields of the ELF header, so it is not compared.

EOF
table
cat <<'EOF'

## Where the filesystem shares blocks

Blocks whose bytes do not move are shared with the old file. The proof does not read them either, because the
filesystem tells which blocks both files have. `cp` copies without sharing, on the same filesystem. That
is a loop device over memory, so no disk is measured.
EOF
for filesystem in xfs btrfs; do
    printf '\n### %s\n\n' "$filesystem"
    place=$(mktemp -d -p /dev/shm)
    mkdir "$place/on"
    truncate -s 2G "$place/disk"
    if reason=$( (mkfs.$filesystem "$place/disk" >/dev/null && mount -o loop "$place/disk" "$place/on") 2>&1); then
        disks+=("$place/on")
        measure "$place/on" 'cp' 'cp --reflink' 'hugetext fix' 'hugetext fix --strategy merge' 'hugetext check --same'
        table
    else
        rm -rf "$place"
        echo "Not measured: ${reason##*: }."
    fi
done
cat <<'EOF'

## Profilers, debuggers and core dumps

A fix changes no address and no build-id. It changes program headers, and the offsets of text in the file if it shifts. A
profiler that finds names by address notices nothing. Others keep a sample as a build-id and a file offset, and look for its
name later: perf, and whatever works with a server of symbols. So `fix --in-place` and the copies of `hugetext run` move text
behind all offsets that the old file maps. A sample that meets the wrong file then has no name, instead of that of another
function. The price is a hole in the file. A copy made by `cp` keeps the hole, `tar` does with `-S`, and rsync with `-S`.
`fix -o` moves text as little as possible, because nobody has a profile of a new file.

gdb compares the program headers in a core dump with those of the file. If they differ, it finds no name in a
position-independent program. So each core dump needs the file that ran.

| what was recorded, and when it is looked at | what is shown | what to type first |
|---|---|---|
| `perf record` before `hugetext run`, after its end | addresses without names | `perf buildid-cache -u "$(hugetext store path ./prog)"`: right |
| the same with `--buildid-mmap` | addresses without names | the same |
| `hugetext run perf record ./prog` | right | |
| `perf record` after `fix --in-place` | right | if perf knew the old file: `perf buildid-cache -u ./prog` |
| `perf record` before `fix --in-place`, reported after it | no function of the program | `perf buildid-cache -u ./prog.old`, a backup: right |
| `gdb ./prog core`, of a position-independent program behind `run` | no names | `gdb "$(hugetext store path ./prog)" core`: right |
| `gdb ./prog core`, from before `fix --in-place` | no names | `gdb ./prog.old core`: right |
| `gdb -p PID`, behind `run` or after a fix | right | |

The tests `profiles` of `hugetext run` repeat the rows of perf and of core dumps.
EOF
