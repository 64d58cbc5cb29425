#!/usr/bin/env bash
# Boots guests and keeps what scripts/auto-guest.sh prints there: scripts/auto-lab.sh > RECORD.jsonl
#
#   LAB      the lab and its options   (cargo run -q -p hugetext-lab --)
#   GUESTS   KERNEL:FILESYSTEM,…       (those of docs/auto-lab.md; empty: none)
#   LIMITS   KERNEL…                   (of the guests with a small control group; empty: none)
#   FILES    that somebody else starts (60; 0: none)
#   ROUNDS   of the guest that runs out of memory (5; 0: none)
#   DAYS     that a guest lives through (30; 0: none)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=${LAB:-cargo run -q -p hugetext-lab --}
guests=${GUESTS-6.12-amd64:ext4,xfs 6.18-amd64:ext4,xfs,btrfs,erofs 7.3-amd64:ext4,xfs,btrfs,erofs 6.12-arm64:xfs}
limits=${LIMITS-6.18-amd64 7.3-amd64}
files=${FILES:-60}
rounds=${ROUNDS:-5}
days=${DAYS:-30}

boot() { # KERNEL WORDS OF THE LAB… -- WORDS OF THE GUEST…
    kernel=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    # A guest that fails is reported, and the others still run.
    # shellcheck disable=SC2086 # LAB is a command with options
    said=$($lab boot "$kernel" "${options[@]}" -- sh -c "$(cat "$here/auto-guest.sh")" guest "$@") ||
        echo "$kernel $*: the guest failed" >&2
    jq -r '.command.printed // ""' <<< "$said" | sed -n 's/^record //p' |
        jq -c --arg kernel "$kernel" --arg date "$(date -u +%F)" '{kernel: $kernel, date: $date} + .
            | if .stat then .stat = .stat.processes[0].total else . end
            | if .status then .status |= {source, held, allowed, own_bytes, own_cpu_ns, losses, stalls, problems,
                files: [.files[] | {path, state, reason}]} else . end'
}

for guest in $guests; do
    IFS=: read -r kernel filesystems <<< "$guest"
    for filesystem in ${filesystems//,/ }; do
        boot "$kernel" --smp 2 --memory 1024 --timeout 900 --fs "$filesystem,overlay" -- see "$filesystem"
    done
done
for kernel in $limits; do
    boot "$kernel" --smp 2 --memory 1024 --timeout 900 --fs ext4 -- limit
done
[ "$files" = 0 ] || boot 6.18-amd64 --smp 2 --memory 1024 --timeout 1800 --fs ext4 -- hostile "$files"
# Instructions are time there, so that the figures hardly depend on the machine.
[ "$rounds" = 0 ] || boot 6.18-amd64 --icount --smp 1 --memory 1024 --timeout 3000 --fs ext4 -- pressure "$rounds"
[ "$days" = 0 ] || boot 6.18-amd64 --smp 2 --memory 1024 --timeout 3000 --fs ext4 -- days "$days"
