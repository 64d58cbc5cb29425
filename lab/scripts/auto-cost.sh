#!/bin/sh
# Prints what the autopilot itself costs, as records: lab/scripts/auto-cost.sh HUGETEXT SOURCES, as root. SOURCES is the example of
# crates/auto. Three loads, each watched for SECONDS_EACH (30) after as long a time in which the daemon learns it: nothing;
# a build by make, whose rules start short-lived shells; 1000 different programs, half of them shells of their own, 1000
# starts a second. Whatever else the machine does counts too. Writes only to a directory of its own below target/.
set -eu

hugetext=$(realpath "${1:?usage: $0 HUGETEXT SOURCES}")
sources=$(realpath "${2:?usage: $0 HUGETEXT SOURCES}")
seconds=${SECONDS_EACH:-30}
scratch=$(realpath "$(mktemp -d "${CARGO_TARGET_DIR:-target}/cost.XXXXXX")")
daemon=
clean() {
    [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; }
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM
mkdir "$scratch/run" "$scratch/lists" "$scratch/programs" "$scratch/build"
printf 'mode = "act"\n' >"$scratch/auto.toml"
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$daemon/stat"; }
# Starts of processes since the boot, forks without a program included.
forks() { awk '/^processes/ { print $2 }' /proc/stat; }

for number in $(seq 500); do
    cp /bin/true "$scratch/programs/true$number"
    cp /bin/bash "$scratch/programs/bash$number"
done
for number in $(seq 40); do
    printf '#include <map>\n#include <string>\nstd::map<std::string, int> map%s;\n' "$number" >"$scratch/build/$number.cc"
done
cat >"$scratch/build/Makefile" <<'MAKE'
objects := $(patsubst %.cc,%.o,$(wildcard *.cc))
all: $(objects)
%.o: %.cc
	@for word in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sh -c : && /bin/true; done
	g++ -O1 -c $< -o $@
MAKE

nothing() { sleep "$1"; }
build() {
    # shellcheck disable=SC2016 # the shell below expands it
    timeout "$1" sh -c 'while :; do rm -f *.o; make -s -j"$(nproc)" || exit; done' || [ $? = 124 ]
}
programs() { "$sources" start 1000 "$1" "$scratch"/programs/* >/dev/null; }

# The daemon's share of one processor, and starts a second, while a load runs.
watch() {
    before="$(ticks) $(forks) $(date +%s.%N)"
    "$1" "$seconds" || return
    echo "$before $(ticks) $(forks) $(date +%s.%N) $(getconf CLK_TCK)" |
        awk '{ t = $6 - $3; printf "{\"percent\": %.2f, \"starts\": %d}", 100 * ($4 - $1) / t / $7, ($5 - $2) / t }'
}

cd "$scratch/build"
"$hugetext" auto --config "$scratch/auto.toml" --state "$scratch/state" --run-dir "$scratch/run" \
    --lists "$scratch/lists" >"$scratch/events" 2>"$scratch/errors" &
daemon=$!
until grep -q begun "$scratch/events"; do sleep 0.1; done
for load in nothing build programs; do
    learning=$(watch $load)
    known=$(watch $load)
    printf '{"load": "%s", "learning": %s, "known": %s}\n' "$load" "$learning" "$known"
done
