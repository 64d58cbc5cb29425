#!/bin/sh
# Moves the debug information of a program into PROGRAM.debug, where debuggers and perf look for it,
# and strips the program: scripts/split-debug.sh PROGRAM
set -eu

program=${1:?usage: $0 PROGRAM}
# Rust's objcopy knows every architecture; a Rust from a distribution does not include it.
sysroot=$(rustc --print sysroot)
rust_objcopy=$sysroot/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-objcopy
objcopy() {
    if [ -x "$rust_objcopy" ]; then
        LD_LIBRARY_PATH=$sysroot/lib "$rust_objcopy" "$@"
    else
        command objcopy "$@"
    fi
}

directory=$(mktemp -d "$program.XXXXXX")
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
# Cargo may write the whole program again at any time; a stripped one has nothing to move.
if [ -e "$program.debug" ] &&
    objcopy --dump-section .gnu_debuglink="$directory/link" "$program" "$directory/copy" 2>/dev/null; then
    exit 0
fi
name=$(basename "$program")
objcopy --only-keep-debug "$program" "$directory/$name.debug"
objcopy --strip-all --add-gnu-debuglink="$directory/$name.debug" "$program" "$directory/$name"
mv "$directory/$name.debug" "$program.debug"
mv "$directory/$name" "$program"
