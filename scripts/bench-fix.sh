#!/bin/bash
# What a fix costs, beside tools that copy or rewrite the same file: scripts/bench-fix.sh HUGETEXT [FILE]
# Prints docs/fix.md. Rounds are interleaved, so that what else the machine does meets all alike.
set -eu

hugetext=$(realpath "$1")
file=${2:-$(find "$(rustc --print sysroot)/lib" -maxdepth 1 -name 'libLLVM*.so*' -size +100M | head -n 1)}
[ -n "$file" ] || { echo "bench-fix: no library of more than 100 MB; name a file" >&2; exit 2; }
rounds=${ROUNDS:-7}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The ways: a name, and a shell command that makes $out of $file.
names=(
    'cp'
    'cp, then fsync'
    'hugetext fix'
    'hugetext fix --strategy merge'
    'hugetext check --same'
    'patchelf --page-size 2097152'
    'llvm-objcopy'
)
commands=(
    'cp --reflink=never "$file" "$out"'
    'cp --reflink=never "$file" "$out" && sync "$out"'
    '"$hugetext" -q fix "$file" -o "$out"'
    '"$hugetext" -q fix --strategy merge "$file" -o "$out"'
    '"$hugetext" -q check --same "$file" "$kept"'
    'patchelf --page-size 2097152 --set-rpath /usr/lib/hugetext --output "$out" "$file"'
    'llvm-objcopy "$file" "$out"'
)

kept=$scratch/kept
"$hugetext" -q fix "$file" -o "$kept"
export file hugetext kept
for ((round = 0; round < rounds; round++)); do
    for ((turn = 0; turn < ${#names[@]}; turn++)); do
        # Another one begins each round: whoever does may find memory that was never used before.
        way=$(((turn + round) % ${#names[@]}))
        export out=$scratch/out
        rm -f "$out"
        sync "$scratch"
        cat "$file" "$kept" >/dev/null
        if ! /usr/bin/time -a -o "$scratch/$way" -f '%e %U %S %M' bash -c "exec 2>/dev/null; ${commands[way]}"; then
            rm -f "$scratch/$way"
            continue
        fi
        [ -e "$out" ] || continue
        [ "$way" = 4 ] || stat -c '%b %s' "$out" >"$scratch/size-$way"
    done
done

# median COLUMN WAY
median() {
    [ -s "$scratch/$2" ] || { echo 0; return; }
    sort -n -k "$1,$1" "$scratch/$2" | awk -v c="$1" '{v[NR] = $c} END {print v[int((NR + 1) / 2)]}'
}

size=$(stat -c %s "$file")
disk=$(($(stat -c %b "$file") * 512))
cat <<EOF
# What a fix costs

Written by \`make bench-fix\`: \`$(basename "$file")\`, $((size / 1000000)) MB, read from a warm page cache and written
to $(findmnt -n -o FSTYPE -T "$scratch"); medians of $rounds interleaved rounds on $(nproc) cores, Linux $(uname -r). Ratios are to \`cp\`.
\`fix\` includes its verification, which reads both files, and the fsync of the new file; \`cp\`
does neither. \`patchelf\` moves sections only where it must make room, and raises no alignment of
text; \`llvm-objcopy\` lays the file out anew with the alignment it has. \`elfedit\` of binutils
edits fields of the ELF header only and has no comparable job.

| | wall s | ratio | CPU s | ratio | peak RSS MB | disk beyond the input, KiB | reach of 2M leaves |
|---|---|---|---|---|---|---|---|
EOF
wall0=$(median 1 0)
cpu() { awk -v u="$(median 2 "$1")" -v s="$(median 3 "$1")" 'BEGIN {print u + s}'; }
cpu0=$(cpu 0)
reach() {
    "$hugetext" --json check --geometry x86-64 "$1" |
        awk -F'[:,]' '/"text":/ {t = $2} /"reached":/ && !r {r = $2 + 1} END {printf "%.0f%%", t ? 100 * (r - 1) / t : 0}'
}
for ((way = 0; way < ${#names[@]}; way++)); do
    if [ ! -s "$scratch/$way" ]; then
        echo "| ${names[way]} | not on this machine, or it failed | | | | | | |"
        continue
    fi
    more=-
    if [ -s "$scratch/size-$way" ]; then
        read -r blocks _ <"$scratch/size-$way"
        more=$(((blocks * 512 - disk) / 1024))
    fi
    reached=-
    if [ "$way" != 4 ]; then
        out=$scratch/out
        rm -f "$out"
        bash -c "export out=$out; ${commands[way]}" >/dev/null 2>&1 && reached=$(reach "$out")
    fi
    awk -v n="${names[way]}" -v w="$(median 1 "$way")" -v w0="$wall0" -v c="$(cpu "$way")" -v c0="$cpu0" \
        -v m="$(median 4 "$way")" -v d="$more" -v r="$reached" \
        'BEGIN {printf "| %s | %.2f | %.2f | %.2f | %.2f | %.1f | %s | %s |\n", n, w, w / w0, c, c / c0, m / 1024, d, r}'
done
