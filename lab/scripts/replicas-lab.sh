#!/usr/bin/env bash
# Boots guests of 2 and 4 nodes and keeps what lab/scripts/replicas-guest.sh prints there:
# lab/scripts/replicas-lab.sh > RECORD.jsonl
#
#   LAB      the lab and its options   (lab/run hugetext-lab)
#   GUESTS   KERNEL:NODES:FILESYSTEM,…    (those of lab/results/replicas.md)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=${LAB:-$here/../run hugetext-lab}
disks=ext4,xfs,btrfs,hugetmpfs
guests=${GUESTS:-6.12-amd64:2:$disks 6.18-amd64:2:$disks 7.3-amd64:2:$disks 7.3-amd64:4:ext4,xfs}

for guest in $guests; do
    IFS=: read -r kernel nodes filesystems <<< "$guest"
    # A guest that fails is reported, and the others still run.
    # shellcheck disable=SC2086 # LAB is a command with options
    said=$($lab boot "$kernel" --numa "$nodes" --smp "$nodes" --memory $((nodes * 768)) --timeout 900 \
        --fs "$filesystems" -- sh -c "$(cat "$here/replicas-guest.sh")" guest ${filesystems//,/ }) ||
        echo "$guest: the guest failed" >&2
    jq -r '.command.printed // ""' <<< "$said" | sed -n 's/^record //p' |
        jq -c --arg kernel "${kernel%-amd64}" --argjson nodes "$nodes" --arg date "$(date -u +%F)" \
            '{kernel: $kernel, nodes: $nodes, date: $date} + .'
done
