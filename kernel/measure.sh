#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Boots kernels without and with the sets and records what starting programs costs in each.
#
#   kernel/measure.sh run CONFIG…   both kernels of each configuration, into docs/kernel.jsonl
#   kernel/measure.sh report        docs/kernel.md, from the record
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
record=$here/../docs/kernel.jsonl

run() { # CONFIG
    local sets image memory package new kept
    new=$(mktemp)
    for sets in none "$(xargs < "$here/sets")"; do
        image=$(KERNEL_SETS=$sets "$here/build.sh" image "$1" kunit | tail -n 1)
        package=$(cat "$(KERNEL_SETS=$sets "$here/build.sh" source | tail -n 1)/.unpacked")
        for memory in 1024 256; do
            "$here/boot.sh" "${1%%-[0-9]*}" "$image" "$memory" | tee /dev/stderr |
                jq -c -R --arg config "$1" --arg sets "$sets" --argjson memory "$memory" \
                    --arg package "${package%_all}" --arg date "$(date -u +%F)" \
                    --arg qemu "$(qemu-system-x86_64 --version | sed -n 's/.*version \([0-9.]*\).*/\1/p')" \
                    'rtrimstr("\r") | select(startswith("record ")) | ltrimstr("record ") | fromjson
                     | {config: $config, sets: $sets, memory: $memory, package: $package,
                        date: $date, qemu: $qemu} + .' >> "$new"
        done
    done
    kept=$(mktemp)
    jq -c --arg config "$1" 'select(.config != $config)' "$record" > "$kept" 2> /dev/null || true
    cat "$kept" "$new" > "$record"
    rm "$kept" "$new"
}

case ${1:-} in
run)
    shift
    for config in "$@"; do run "$config"; done
    ;;
report) jq -r -s -f "$here/report.jq" "$record" > "$here/../docs/kernel.md" ;;
*) sed -n '5,6p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
