#!/bin/sh
# Prints the record of lab/results/tlb-results.md: lab/scripts/results-tlb.sh HUGETEXT
# Each measurement is preceded by QUIETLY, a command that waits until the machine is idle.
set -eu

hugetext=${1:?usage: $0 HUGETEXT}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
cc1=$(gcc -print-prog-name=cc1)
scripts=$(dirname "$0")
# shellcheck source=lab/scripts/record.sh
. "$scripts/record.sh"

"$scripts/compiler-input.sh" 10 > "$directory/ten.c"
gcc -E -P "$directory/ten.c" -o "$directory/ten.i"
: > "$directory/empty.i"

# Runs in the directory of the input, so that its path does not affect the figures.
measure() { # NAME ARGUMENT…
    name=$1
    shift
    (cd "$directory" && ${QUIETLY:-} taskset -c 0 "$hugetext" bench tlb "$@") >"$directory/$name"
    fact "$name" "$(cat "$directory/$name")"
}

case $hugetext in /*) ;; *) hugetext=$PWD/$hugetext ;; esac

fact machine "$(uname -sr), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(gcc --version | head -n 1)"
fact lines "$(wc -l < "$directory/ten.i")"
measure real -- "$cc1" -quiet -fpreprocessed -O2 ten.i -o /dev/null
measure empty -- "$cc1" -quiet -fpreprocessed empty.i -o /dev/null

# Misses per 1000 instructions: mpki FILE CORE LAYOUT LEVEL; the base layout has no column of savings.
mpki() {
    awk -v core="$2" -v layout="$3" -v level="$4" '$1 == core && $2 == layout {
        print level == 1 ? $4 : $(layout == "4k" ? 6 : 7) }' "$directory/$1"
}
saved() {
    awk -v core="$2" -v layout="$3" -v level="$4" '$1 == core && $2 == layout {
        print level == 1 ? $5 : $8 }' "$directory/$1"
}
for kind in real empty; do
    fact ${kind}_zen4_4k "$(mpki $kind zen4 4k 2)"
    fact ${kind}_zen4_fixed "$(mpki $kind zen4 fixed 2)"
    fact ${kind}_zen4_saved "$(saved $kind zen4 fixed 2)"
done
fact real_a53_first "$(mpki real cortex-a53 4k 1)"
fact real_a53_second "$(mpki real cortex-a53 4k 2)"
fact real_a53_saved_first "$(saved real cortex-a53 fixed 1)"
fact real_a53_saved_second "$(saved real cortex-a53 fixed 2)"

if [ -x /usr/bin/node ]; then
    measure node -- /usr/bin/node --version
fi
if [ -x /usr/bin/python3 ]; then
    measure python --env PYTHONHASHSEED=0 -- /usr/bin/python3 -c 'print(sum(range(1000)))'
fi
