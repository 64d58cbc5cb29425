#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# With the option off, the code must be that of a kernel without the set. Compares the instructions.
#
#   lab/kernel/rmap/off.sh
#
# Builds an x86-64 kernel without the set and one with it and its option off, and prints as JSON how
# many functions there are and which are not the same in both.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel=$here/../../../kernel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One line a function: its name and its instructions. Addresses are removed, because they depend on the
# layout only. So are offsets into sections, which also move where strings are merged, and the padding
# before the next function.
functions() { # OBJECT
    objdump -dr --no-show-raw-insn "$1" | awk '
        /^[0-9a-f]+ <.*>:$/ { if (name) print name "\t" body; name = $2; body = ""; next }
        !name { next }
        { sub(/^[ \t]*[0-9a-f]+:[ \t]*/, "") }
        /^((data16|cs) )*nop/ { next }
        /^R_/ { sub(/\t\.[a-z_.0-9]+[+-]0x[0-9a-f]+$/, "\tsection") }
        { gsub(/[0-9a-f]+ </, "<"); gsub(/[ \t]+/, " "); body = body ";" $0 }
        END { if (name) print name "\t" body }' | LC_ALL=C sort
}

build() { # SETS FRAGMENT…
    local image
    image=$(KERNEL_SETS=$1 "$kernel/build.sh" image x86_64 "${@:2}" | tail -n 1)
    functions "$(dirname "$image")/../build/$(IFS=-; echo "x86_64-${*:2}")/vmlinux.o"
}

build "order align read-first collapse fold fork" kunit > "$work/without"
build "order align read-first collapse fold fork rfc/rmap" kunit rmap-off > "$work/off"
LC_ALL=C comm -3 "$work/without" "$work/off" | sed 's/^\t//' | cut -f 1 | tr -d '<>:' | sort -u |
    jq -n -c -R --argjson functions "$(wc -l < "$work/off")" \
        '{what: "off", functions: $functions, differ: [inputs]}'
