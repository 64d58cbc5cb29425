#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# How long faults on text wait on devices of known speed, today and with leaves, and what is read where
# memory is small or in pieces. Prints docs/kernel-devices.md.
#
#   kernel/devices.sh IMAGE     an image with the sets order, align, order-lab and paced, and the fragment devices
#
# KERNEL_DEVICES  the devices, as below; without it, those of the document
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=$1
records=$(mktemp) one=$(mktemp)
trap 'rm -f "$records" "$one"' EXIT
# Name, microseconds of latency and of a seek, millions of bytes in a second, requests at once: typical
# figures of such devices. In order of the document. guest.nfs puts a server of NFS before the device, and guest.overlay
# overlayfs.
devices=${KERNEL_DEVICES:-'
NVMe-PCIe-4     70      0       7000    64
NVMe            80      0       3000    32
NFS-over-NVMe   80      0       3000    32      guest.nfs
overlayfs-NVMe  80      0       3000    32      guest.overlay
SATA-SSD        150     0       500     32
cloud-volume    1000    0       125     32
eMMC            250     0       250     1
hard-disk       200     12000   150     1
SD-card         1000    0       40      1'}

while read -r name latency seek speed depth by; do
    KERNEL_APPEND="guest.touch kunit.enable=0 $by paced.latency_us=$latency paced.seek_us=$seek paced.mb_s=$speed paced.depth=$depth" \
        "$here/boot.sh" x86_64 "$image" 1024 devices |
        tr -d '\r' | sed -n 's/^record //p' | jq -c --arg disk "$name" --argjson latency "$latency" \
            --argjson seek "$seek" --argjson speed "$speed" --argjson depth "$depth" --arg by "$by" \
            '{disk: $disk, by: $by, latency: $latency, seek: $seek, speed: $speed, depth: $depth} + .' > "$one"
    # Three parts under four policies; three control groups and memory in pieces today and with leaves.
    touched=$(jq -s 'map(select(.kind == "leaves" and .name != "learning")) | length' "$one")
    [ "$touched" = 20 ] || { echo "kernel/devices.sh: $name: $touched of 20 records" >&2; exit 1; }
    jq -e -s 'any(.kind == "leaves" and .name == "8 reads" and .where == "fragmented" and .read == 0)' "$one" > /dev/null ||
        { echo "kernel/devices.sh: $name: there was a free block in fragmented memory" >&2; exit 1; }
    cat "$one" >> "$records"
done < <(grep . <<< "$devices")
KERNEL_APPEND="guest.order kunit.enable=0" "$here/boot.sh" x86_64 "$image" 1024 devices |
    tr -d '\r' | sed -n 's/^record //p' > "$one"
jq -r -s -L "$here" -f "$here/devices.jq" "$records"
grep -vE '^$|guest\.' <<< "$devices" | python3 "$here/policies.py" "$one"
