#!/bin/sh
# Compares this command, rewritten by BOLT, with huge text: lab/scripts/results-bolt.sh HUGETEXT ROUNDS DIRECTORY
# BOLT needs relocations, which no program of Debian has, so the command is built once more, with them. Records bolt.json
# (BOLT and --hugify beside huge text, in the same rounds) and bolt-rewritten.json (huge text on what BOLT wrote).
set -eu
hugetext=$(realpath "$1") rounds=$2 records=$(realpath "$3")
cd "$(dirname "$0")/../.."

# Debian's /usr/bin/llvm-bolt-* looks for its libraries in the wrong place.
bolt=$(find /usr/lib/llvm-*/bin -name llvm-bolt 2> /dev/null | sort -V | tail -n 1)
[ -n "$bolt" ] || { echo "$0: no llvm-bolt; install bolt-16 or newer" >&2; exit 1; }
# BOLT 19 takes a function with ".warm." in its name, as a module of ours gives it, for a part of another. The other form of
# names has no dots.
place=${CARGO_TARGET_DIR:-target}/bolt
RUSTFLAGS='-C link-arg=-Wl,--emit-relocs -C symbol-mangling-version=v0' CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=0 \
    cargo build --release -p hugetext --target-dir "$place/build"

# The start of the command: reading one program.
compiler=$(cc -print-prog-name=cc1)
program=$place/hugetext
cp "$place/build/release/hugetext" "$program"
"$bolt" "$program" -instrument -o "$place/instrumented" --instrumentation-file="$place/profile" > "$place/log"
"$place/instrumented" check "$compiler" > /dev/null
rewrite() { # NAME OPTION…
    name=$1
    shift
    "$bolt" "$program" "$@" -o "$place/$name" -data="$place/profile" -reorder-blocks=ext-tsp \
        -reorder-functions=hfsort -split-functions -split-all-cold >> "$place/log" 2>&1
}
rewrite plain
rewrite hugified -hugify
sync

compare() { # RECORD WORDS…
    record=$1
    shift
    "$hugetext" --json bench exec --rounds "$rounds" --per-round 10 "$@" > "$place/$record.json"
    cp "$place/$record.json" "$records/$record.json"
}
compare bolt --rival "bolt=file:$place/plain" --rival "bolt --hugify=file:$place/hugified" -- "$program" check "$compiler"
compare bolt-rewritten -- "$place/plain" check "$compiler"
