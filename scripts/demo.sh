#!/bin/sh
# Shows on a real program of this machine what huge text is worth, in less than a minute. It changes no file.
set -eu
hugetext=$1

program=$(cc -print-prog-name=cc1 2>/dev/null || true)
if [ ! -x "$program" ]; then
    echo "demo: no C compiler found; install gcc" >&2
    exit 2
fi

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
if ! [ -t 1 ] || [ -n "${NO_COLOR:-}" ]; then say() { printf '\n%s\n' "$*"; }; fi

scratch=$(mktemp -d "${CARGO_TARGET_DIR:-target}/demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

say "1. This machine: hugetext host"
"$hugetext" host >"$scratch/host"
cat "$scratch/host"

say "2. Where the text of the C compiler lies: hugetext check $program"
"$hugetext" check "$program" >"$scratch/check"
cat "$scratch/check"

say "3. Starts of it, in small folios and in huge ones: hugetext bench exec"
# A copy: another process, or the autopilot of this machine, may hold the program.
"$hugetext" bench exec --copy --rounds 8 --per-round 12 -- "$program" -quiet -o /dev/null /dev/null >"$scratch/bench"
cat "$scratch/bench"

# The sentence that ends each, without the next command.
ending() { tail -n 1 "$scratch/$1" | sed 's/ Next: .*//'; }
say "In short"
echo "The machine:  $(ending host)"
echo "The compiler: $(ending check)"
echo "Its starts:   $(ending bench)"
