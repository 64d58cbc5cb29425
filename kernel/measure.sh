#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Boots kernels without and with order and align, and records the cost of starting programs in each.
# rmap/lab/measure.sh has figures of the other sets.
#
#   kernel/measure.sh run CONFIG…              both kernels of each configuration, built if need be
#   kernel/measure.sh boot CONFIG SETS IMAGE   one kernel that is built, with the set paced; SETS is "none" or
#                                              the names of the others
#   kernel/measure.sh report                   docs/kernel.md from the record, docs/kernel.jsonl
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
record=$here/../docs/kernel.jsonl

boot() { # CONFIG SETS IMAGE
    local memory package qemu new kept
    local suites=(exec_order elf_text_leaf)
    [ "$2" != none ] || suites=()
    new=$(mktemp) kept=$(mktemp)
    package=$("$here/build.sh" package | tail -n 1)
    qemu=$(qemu-system-x86_64 --version | sed -n 's/.*version \([0-9.]*\).*/\1/p')
    for memory in 1024 256; do
        "$here/boot.sh" "${1%%-[0-9]*}" "$3" "$memory" all "${suites[@]}" | tee "$3.console-$memory" |
            jq -c -R --arg config "$1" --arg sets "$2" --argjson memory "$memory" --arg qemu "$qemu" \
                --arg package "$package" --arg date "$(date -u +%F)" \
                'rtrimstr("\r") | select(startswith("record ")) | ltrimstr("record ") | fromjson
                 | {config: $config, sets: $sets, memory: $memory, package: $package,
                    date: $date, qemu: $qemu} + .' >> "$new"
    done
    touch "$record"
    # shellcheck disable=SC2094 # the record is only locked through descriptor 9
    (
        flock 9
        jq -c --arg config "$1" --arg sets "$2" 'select(.config != $config or .sets != $sets)' \
            "$record" > "$kept"
        cat "$kept" "$new" > "$record"
    ) 9< "$record"
    rm "$kept" "$new"
}

run() { # CONFIG
    local sets image
    for sets in none "order align"; do
        image=$(KERNEL_SETS="${sets#none} paced" "$here/build.sh" image "$1" kunit | tail -n 1)
        boot "$1" "$sets" "$image"
    done
}

case ${1:-} in
run)
    shift
    for config in "$@"; do run "$config"; done
    ;;
boot) boot "$2" "$3" "$4" ;;
report)
    report=$here/../docs/kernel.md
    jq -r -s -L "$here" -f "$here/report.jq" "$record" > "$report.new" && mv "$report.new" "$report"
    ;;
*) sed -n '6,8p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
