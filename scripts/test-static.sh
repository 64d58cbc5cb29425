#!/bin/sh
# Compares the answers of a static command of another architecture with those of the native one:
# scripts/test-static.sh NATIVE EMULATOR STATIC. The fixed copies must be identical, byte by byte.
set -eu

native=${1:?usage: $0 NATIVE EMULATOR STATIC} emulator=$2 static=$3
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
cc1=$(gcc -print-prog-name=cc1)
copies=0

other() { "$emulator" "$static" "$@"; }

"$native" --version > "$directory/native"
other --version > "$directory/other"
cmp "$directory/native" "$directory/other"

for program in "$cc1" "$static" "$native"; do
    for geometry in x86-64 arm64-4k arm64-16k arm64-64k; do
        for kernel in 6.1 7.3; do
            set -- --json --geometry "$geometry" --kernel "$kernel" "$program"
            "$native" check "$@" > "$directory/native"
            other check "$@" > "$directory/other"
            cmp "$directory/native" "$directory/other"
        done
    done
    for strategy in auto align shift merge; do
        answer=0 again=0
        "$native" fix "$program" -o "$directory/a" --strategy "$strategy" --geometry arm64-4k >/dev/null 2>&1 || answer=$?
        other fix "$program" -o "$directory/b" --strategy "$strategy" --geometry arm64-4k >/dev/null 2>&1 || again=$?
        [ "$answer" = "$again" ] || {
            echo "$static: fix $program ended with $again, the native command with $answer" >&2
            exit 1
        }
        [ "$answer" = 0 ] || continue
        cmp "$directory/a" "$directory/b"
        copies=$((copies + 1))
        other check --same "$program" "$directory/a" >/dev/null
        rm "$directory/a" "$directory/b"
    done
done
[ "$copies" -gt 0 ] || {
    echo "$static: no program could be fixed, so no copies were compared" >&2
    exit 1
}
echo "$static: the same answers and the same fixed copies as $native"
