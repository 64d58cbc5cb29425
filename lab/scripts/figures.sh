#!/bin/sh
# Records the text of a compiler before and after: lab/scripts/figures.sh HUGETEXT FOLDER Writes
# FOLDER/before.json and after.json, session.txt with the output of check, fix, warm and stat, and first.txt with the last
# lines of host, check and bench exec, which are the first screen of the README.
# The compiler is a copy of rustc's program and libraries, which are fixed in place.
set -eu
hugetext=$(realpath "$1")
folder=$(realpath "$2")
sysroot=$(rustc --print sysroot)
scratch=$(mktemp -d "$(realpath "${CARGO_TARGET_DIR:-target}")/figures.XXXXXX")
compiler=
cleanup() {
    [ -z "$compiler" ] || kill "$compiler" 2>/dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

mkdir "$scratch/bin" "$scratch/lib"
cp "$sysroot/bin/rustc" "$scratch/bin/"
cp -P "$sysroot"/lib/*.so* "$scratch/lib/"
ln -s "$sysroot/lib/rustlib" "$scratch/lib/rustlib"
cd "$scratch/lib"

# A library of 150 functions, whose code does not fit into a pipe.
awk 'BEGIN {
    print "use std::collections::BTreeMap;"
    for (i = 2; i < 152; i++) {
        printf "pub fn f%d(v: &mut Vec<u64>, m: &mut BTreeMap<String, u64>) -> Option<u64> {\n", i
        printf "    v.sort(); v.dedup();\n"
        printf "    let s: u64 = v.iter().map(|x| x * %d).filter(|x| x %% %d != 0).sum();\n", i + 1, i
        printf "    m.insert(format!(\"{}-%d\", s), s); m.values().max().copied()\n}\n", i
    }
}' >../source.rs

# The page cache is empty, as after a start of the machine.
drop() {
    for file in ../bin/rustc ./*.so*; do
        dd if=/dev/null of="$file" oflag=nocache conv=notrunc,fdatasync status=none
    done
}

# A compiler that has optimised everything and waits for a reader of its assembly.
start() {
    mkfifo ../assembly
    ../bin/rustc -O --crate-type=lib --emit=asm -o - ../source.rs >../assembly 2>../errors &
    compiler=$!
    exec 3<../assembly
    read -r _ <&3 || { cat ../errors >&2; exit 1; }
}

stop() {
    exec 3<&-
    kill "$compiler" 2>/dev/null || true
    wait "$compiler" 2>/dev/null || true
    compiler=
    rm ../assembly
}

# say LINES COMMAND…: prints the output of hugetext, as far as the README shows it.
say() {
    lines=$1
    shift
    printf '$ hugetext %s | head -n %s\n' "$*" "$lines"
    "$hugetext" "$@" | head -n "$lines"
}

# The process is the only rustc that waits for a reader.
stat() {
    # shellcheck disable=SC2016 # shown, not expanded
    printf '$ hugetext stat $(pgrep rustc) | head -n 1\n'
    "$hugetext" stat "$compiler" | head -n 1
}

driver=$(basename librustc_driver-*.so)
llvm=$(basename libLLVM.so.*)
drop
start
"$hugetext" -q report -o "$folder/before.json" --title "rustc as installed" "$compiler"
{
    stat
    say 4 check "$driver"
    say 3 fix --in-place "$driver"
} >../session
stop
"$hugetext" -q fix --in-place "$llvm"
{
    printf '$ hugetext warm librustc_driver-*.so libLLVM.so.*\n'
    "$hugetext" warm "$driver" "$llvm"
} >>../session
start
"$hugetext" -q report -o "$folder/after.json" --title "rustc after hugetext fix and hugetext warm" "$compiler"
stat >>../session
stop
mv ../session "$folder/session.txt"

# last COMMAND…: what it ends with.
last() {
    printf '$ hugetext %s | tail -n 1\n' "$*"
    "$hugetext" "$@" | tail -n 1
}
program=$(cc -print-prog-name=cc1)
{
    last host
    last check "$program"
    last bench exec --copy -- "$program" -quiet -o /dev/null /dev/null
} >../first
mv ../first "$folder/first.txt"
