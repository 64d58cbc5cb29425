#!/bin/sh
# Shows on a real program of this machine what huge text is worth. It changes no file.
set -eu
hugetext=$1

program=$(cc -print-prog-name=cc1 2>/dev/null || true)
if [ ! -x "$program" ]; then
    echo "demo: no C compiler found; install gcc" >&2
    exit 2
fi

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
if ! [ -t 1 ] || [ -n "${NO_COLOR:-}" ]; then say() { printf '\n%s\n' "$*"; }; fi

say "1. Where the text of the C compiler lies: hugetext check $program"
"$hugetext" check "$program"

scratch=$(mktemp -d "${CARGO_TARGET_DIR:-target}/demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

say "2. Into huge folios of the page cache: hugetext warm"
if ! "$hugetext" warm "$program"; then
    echo "Trying a temporary copy, which no other process runs."
    cp "$program" "$scratch/cc1"
    program=$scratch/cc1
    "$hugetext" warm "$program" || {
        echo "demo: the page cache cannot hold this program in huge folios; the reason is above" >&2
        exit 1
    }
fi

say "3. A live instance, by which pages it maps its text: hugetext stat"
mkfifo "$scratch/source"
"$program" -quiet -o /dev/null <"$scratch/source" &
compiler=$!
# The FIFO is open for writing here, so the compiler waits for its input.
exec 3>"$scratch/source"
until [ "$(sed 's/.*) \(.\).*/\1/' "/proc/$compiler/stat")" = S ]; do :; done
"$hugetext" stat "$compiler"
exec 3>&-
wait "$compiler"

say "4. What it is worth: hugetext bench exec"
# A copy: another process, or the autopilot of this machine, may hold the program.
"$hugetext" bench exec --copy -- "$program" -quiet -o /dev/null /dev/null
