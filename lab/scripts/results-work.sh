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
}

new=$(mktemp) fixed=$(mktemp -d)
trap 'rm -rf "$new" "$fixed"' EXIT
chmod 755 "$fixed"
mkdir -p "$records"
names=$*
for name in ${names:-$(all)}; do
    set --
    if [ -n "${IODLR:-}" ]; then set -- --rival "iodlr=preload:$IODLR"; fi
    # Node moves its text by itself, if it is asked to.
    if [ "$name" = node ]; then set -- "$@" --rival "node's own=word:--use-largepages=on"; fi
    # What the layout of a fixed file does by itself, where huge text was slower.
    if [ "$name" = postgres ]; then
        server=$(find /usr/lib/postgresql -path '*/bin/postgres' | sort -V | tail -n 1)
        [ -z "$server" ] || "$hugetext" fix -o "$fixed/postgres" "$server" > /dev/null
        [ ! -e "$fixed/postgres" ] || set -- "$@" --rival "fixed, small folios=file:$fixed/postgres"
    fi
    case $name in
    start) # of a compiler that compiles nothing
        compiler=$(cc -print-prog-name=cc1)
        set -- exec --per-round 10 "$@" -- "$compiler" -quiet -o /dev/null /dev/null
        ;;
    *) set -- work "$@" "$name" ;;
    esac
    what=$1
    shift
    "$hugetext" --json bench "$what" --rounds "$rounds" "$@" > "$new" || continue
    cp "$new" "$records/$name.json"
done
