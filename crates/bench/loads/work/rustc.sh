#!/bin/sh
# rustc compiles the crate memchr.
# Prepares its output in the directory $1. Prints a title, the program, and the words of the command.
set -eu
command -v rustc > /dev/null || { echo "rustc" >&2; exit 3; }
sysroot=$(rustc --print sysroot)
source=$(find /usr/share/cargo/registry -maxdepth 1 -name 'memchr-2.*' 2> /dev/null | sort | tail -n 1)
[ -n "$source" ] || { echo "librust-memchr-dev" >&2; exit 3; }
edition=$(sed -n 's/^edition = "\(.*\)"/\1/p' "$source/Cargo.toml")
library=$(find "$sysroot/lib" -maxdepth 2 -name 'librustc_driver-*.so' | head -n 1)
echo "rustc -O of the crate memchr; the text of librustc_driver alone is changed"
echo "$library"
printf '%s\n' "$sysroot/bin/rustc" --edition "${edition:-2015}" --crate-type lib --crate-name memchr -O \
    --cap-lints allow --cfg 'feature="std"' --out-dir "$1" "$source/src/lib.rs"
