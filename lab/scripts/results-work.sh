#!/bin/sh
# Does every real work with each rival that is there, in the same rounds:
#   lab/scripts/results-work.sh HUGETEXT ROUNDS DIRECTORY [NAME…]
# One record each goes to DIRECTORY. IODLR names iodlr's liblppreload.so, which no distribution packages.
set -eu
hugetext=$1 rounds=$2 records=$3
shift 3

all() {
    echo start
    for work in "$(dirname "$0")"/../../crates/bench/loads/work/*.sh; do basename "$work" .sh; done
    echo postgres-long
}

new=$(mktemp) fixed=$(mktemp -d)
trap 'rm -rf "$new" "$fixed"' EXIT
chmod 755 "$fixed"
mkdir -p "$records"
names=$* left=
for name in ${names:-$(all)}; do
    set --
    if [ -n "${IODLR:-}" ]; then set -- --rival "iodlr=preload:$IODLR"; fi
    # Node moves its text by itself, if it is asked to.
    if [ "$name" = node ]; then set -- "$@" --rival "node's own=word:--use-largepages=on"; fi
    # Servers of many system calls, which huge text has made slower on some machines. Their script starts a shell,
    # so --also names the server. The autopilot's row is "warmed".
    case $name in
    postgres*) server=$(find /usr/lib/postgresql -path '*/bin/postgres' | sort -V | tail -n 1) ;;
    redis) server=$(readlink -f "$(command -v redis-server)") ;;
    *) server= ;;
    esac
    if [ -n "$server" ]; then
        set -- "$@" --rival "under run=prefix:$hugetext run --also $server --"
        # What the layout of a fixed file does by itself.
        "$hugetext" fix -o "$fixed/$name" "$server" > /dev/null || true
        [ ! -e "$fixed/$name" ] || set -- "$@" --rival "fixed, small folios=file:$fixed/$name"
    fi
    selects=30000
    case $name in
    start) # of a compiler that compiles nothing
        compiler=$(cc -print-prog-name=cc1)
        set -- exec --per-round 10 "$@" -- "$compiler" -quiet -o /dev/null /dev/null
        ;;
    postgres-long) # in which the start does not count
        selects=300000
        set -- work "$@" postgres
        ;;
    *) set -- work "$@" "$name" ;;
    esac
    what=$1
    shift
    SELECTS=$selects "$hugetext" --json bench "$what" --rounds "$rounds" "$@" > "$new" || { left="$left $name"; continue; }
    cp "$new" "$records/$name.json"
done
[ -z "$left" ] || echo "$0: not measured, for the reasons above:$left; their records are those of before" >&2
