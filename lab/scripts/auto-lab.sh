#!/usr/bin/env bash
# Boots guests and keeps what lab/scripts/auto-guest.sh prints there: lab/scripts/auto-lab.sh RECORD [GUEST…]
# Lines go to RECORD, in place of those of the same guest. Fails if a guest failed; what it said is kept in any case.
#
# A GUEST is a part with its kernel, and with a filesystem if it has a choice of them: see:6.18-amd64:btrfs,
# limit:7.3-amd64, hostile:6.18-amd64, pressure:6.18-amd64, days:6.18-amd64. Without one, those of lab/results/auto-lab.md.
#
#   LAB      the lab and its options   (lab/run hugetext-lab)
#   FILES    that somebody else starts (60)
#   ROUNDS   of the guest that runs out of memory (5)
#   DAYS     that a guest lives through (30)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
record=${1:?usage: $0 RECORD [GUEST…]}
shift
[ $# -gt 0 ] || set -- see:6.12-amd64:{ext4,xfs} see:{6.18,7.3}-amd64:{ext4,xfs,btrfs,erofs} see:6.12-arm64:xfs \
    limit:{6.18,7.3}-amd64 hostile:6.18-amd64 pressure:6.18-amd64 days:6.18-amd64
kept=$(mktemp)
trap 'rm -f "$kept"' EXIT

boot() { # WORDS OF THE LAB… -- WORDS OF THE GUEST…
    options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    # shellcheck disable=SC2086 # LAB is a command with options
    ${LAB:-$here/../run hugetext-lab} boot "$kernel" --memory 1024 "${options[@]}" \
        -- sh -c "$(cat "$here/auto-guest.sh")" guest "$@"
}

start() { # PART
    case $1 in
    see) boot --smp 2 --timeout 1500 --fs "$filesystem,overlay" -- see "$filesystem" ;;
    limit) boot --smp 2 --timeout 900 --fs ext4 -- limit ;;
    hostile) boot --smp 2 --timeout 1800 --fs ext4 -- hostile "${FILES:-60}" ;;
    # Instructions are time there, so that the figures hardly depend on the machine.
    pressure) boot --icount --smp 1 --timeout 3000 --fs ext4 -- pressure "${ROUNDS:-5}" ;;
    days) boot --smp 2 --timeout 3000 --fs ext4 -- days "${DAYS:-30}" ;;
    *) echo "$0: no guest is named $guest" >&2 && exit 2 ;;
    esac
}

answer=0
for guest in "$@"; do
    IFS=: read -r part kernel filesystem <<< "$guest"
    said=$(start "$part") || {
        [ $? != 2 ] || exit 2
        echo "$guest: the guest failed" >&2
        answer=1
    }
    jq -r '.command.printed // ""' <<< "$said" | sed -n 's/^record //p' |
        jq -c --arg guest "$guest" --arg kernel "$kernel" --arg date "$(date -u +%F)" '
            {guest: $guest, kernel: $kernel, date: $date} + .
            | if .stat then .stat = .stat.processes[0].total else . end
            | if .status then .status |= {source, held, allowed, own_bytes, own_cpu_ns, losses, stalls, problems,
                files: [.files[] | {path, state, reason}]} else . end' > "$kept"
    [ -s "$kept" ] || { echo "$guest: no record" >&2 && answer=1 && continue; }
    [ ! -s "$record" ] || jq -c --arg guest "$guest" 'select(.guest != $guest)' "$record" >> "$kept"
    # Records of one guest stay in their order.
    sort --stable --key=1,1 --field-separator=, "$kept" > "$record.new"
    mv "$record.new" "$record"
done

exit $answer
