#!/bin/sh
# Fails if a stripped program has more bytes than are allowed: scripts/bounded.sh PROGRAM BYTES
#
# A user who checks one file installs the command alone. Programs of their own hold what only fleets need.
set -eu

program=${1:?usage: $0 PROGRAM BYTES}
bytes=$(stat -c %s "$program")
[ "$bytes" -le "$2" ] || {
    echo "$0: $program has $bytes bytes; at most $2 are allowed. Put what few need into a program of its own." >&2
    exit 1
}
