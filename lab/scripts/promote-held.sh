#!/usr/bin/env bash
# Stops programs that wait in calls, many times, in guests: lab/scripts/promote-held.sh RECORD [KERNEL…], as root.
# Lines go to RECORD, one for each kernel. lab/results/promote-held.md is made of all of them.
# ROUNDS (250) of two stops. Fails if a test failed in a guest.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
record=${1:?usage: $0 RECORD [KERNEL…]}
shift
[ $# -gt 0 ] || set -- 6.1-amd64 6.12-amd64 6.18-amd64 7.3-amd64 6.12-arm64 7.3-arm64
log=$(mktemp) kept=$(mktemp)
trap 'rm -f "$log" "$kept"' EXIT

answer=0
for kernel in "$@"; do
    begun=$(date +%s)
    PACKAGES=hugetext-promote HUGETEXT_ROUNDS=${ROUNDS:-250} \
        "$here/test-guest.sh" "$kernel" held:: probes profile --nocapture > "$log" 2>&1 || {
        answer=1
        tail -n 40 "$log" >&2
    }
    # Two tests at a time: a line of the summary may stand behind what another test prints.
    jq -n -R -c --arg kernel "$kernel" --arg date "$(date -u +%F)" --argjson seconds $(($(date +%s) - begun)) '
        [inputs] | {kernel: $kernel, date: $date, seconds: $seconds,
            held: (map(capture("held (?<held>[0-9]+) of (?<kinds>[0-9]+) kinds of calls in (?<rounds>[0-9]+) rounds")
                | map_values(tonumber))[0]),
            missing: map(capture("^(?<kind>.*): skipped: (?<why>.*)$")),
            tests: (map(capture("test (?<name>[a-z_:]+) \\.\\.\\. (?<said>ok|FAILED)$")
                | {(.name): .said}) | add)}' "$log" > "$kept"
    [ ! -s "$record" ] || jq -c --arg kernel "$kernel" 'select(.kernel != $kernel)' "$record" >> "$kept"
    sort "$kept" > "$record.new"
    mv "$record.new" "$record"
done
exit $answer
