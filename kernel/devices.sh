#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# How long faults on text wait on devices of known speed, today and with leaves, and what is read where
# memory is small or in pieces. Prints docs/kernel-devices.md.
#
#   kernel/devices.sh IMAGE
#
# KERNEL_DEVICES  the devices, as below; without it, those of the document
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=$1
records=$(mktemp) one=$(mktemp)
trap 'rm -f "$records" "$one"' EXIT
# Name, bytes and requests in a second; 0: not throttled.
devices=${KERNEL_DEVICES:-'
memory          0            0
SATA-SSD        500000000    10000
eMMC            250000000    5000
disk            150000000    110
100-MB/s        100000000    2000
SD-card         40000000     1000'}

while read -r name bytes requests; do
    drive=cache=writeback
    [ "$bytes" = 0 ] || drive+=,throttling.bps-read=$bytes,throttling.iops-read=$requests
    KERNEL_DRIVE=$drive KERNEL_APPEND="guest.touch kunit.enable=0" "$here/boot.sh" x86_64 "$image" 1024 walkers |
        tr -d '\r' | sed -n 's/^record //p' | jq -c --arg device "$name" --argjson bytes "$bytes" \
            --argjson requests "$requests" '{device: $device, speed: $bytes, requests: $requests} + .' > "$one"
    # Three parts with and without leaves, two control groups, and memory in pieces twice.
    touched=$(jq -s 'map(select(.kind == "leaves")) | length' "$one")
    [ "$touched" = 10 ] || { echo "kernel/devices.sh: $name: $touched of 10 records" >&2; exit 1; }
    cat "$one" >> "$records"
done < <(grep . <<< "$devices")

cat <<'END'
# Text on slow devices and in little memory

Written by `kernel/devices.sh` (`make docs-kernel-devices`). A text of 16 MiB is touched with a cold page cache
and 128 KiB of readahead, in every window of 64 KiB or in one of 4 or 16, not in order. → separates what
Linux reads today, which is what the same kernel reads with THP "never", from what it reads with leaves.
QEMU throttles a virtio disk to the bytes and requests in a second that are named. Time is the clock of the
machine that the guest runs on, with an emulated processor: less than a few milliseconds is noise.

| device | MB/s, requests/s | touched | faults that wait | median touch, ms | longest, ms | until all is touched, ms | read, MiB |
|---|---:|---|---:|---:|---:|---:|---:|
END
jq -r -s '
    def ms: . / 100 | round / 10;
    def arrow($t; $l): if $t == $l then "\($t)" else "\($t) → \($l)" end;
    group_by([.device, .part])[] | . as $all
    | def of($name; $kind): $all | map(select(.name == $name and .kind == $kind))[0];
      of("today"; "touch") as $t | of("leaves"; "touch") as $l | select($t and $l)
    | "| \($t.device) | \(if $t.speed == 0 then "" else "\($t.speed / 1000000), \($t.requests)" end) | 1 of \($t.part) | "
    + arrow($t.major; $l.major) + " | " + arrow($t.p50_us | ms; $l.p50_us | ms) + " | "
    + arrow($t.longest_us | ms; $l.longest_us | ms) + " | " + arrow($t.total_us | ms; $l.total_us | ms) + " | "
    + arrow(of("today"; "leaves").bytes / 1048576 | round; of("leaves"; "leaves").bytes / 1048576 | round) + " |"
' "$records"
cat <<'END'

The same text with a guest that is not throttled, all of it touched. *Not read* is the reason why a fault
did not read a leaf, and how often.

| memory | leaves read | not read: memory | not read: no folio | faults that wait | read, MiB |
|---|---:|---:|---:|---:|---:|
END
jq -r -s '
    map(select(.device == "memory" and .part == 1 and .name != "today")) | . as $all
    | range(1; length) | $all[. - 1] as $touch | $all[.] as $leaves
    | select($touch.kind == "touch" and $leaves.kind == "leaves")
    | "| \($touch.name) | \($leaves.read) | \($leaves.memory) | \($leaves.alloc) | \($touch.major) | \($leaves.bytes / 1048576 | round) |"
' "$records"
