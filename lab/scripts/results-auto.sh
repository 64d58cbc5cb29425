#!/bin/sh
# Prints the record of lab/results/auto-results.md: lab/scripts/results-auto.sh HUGETEXT SOURCES, as root. SOURCES is the example of
# crates/auto. BUILDS (g++ clang++ cargo) are the builds that are measured, each in ROUNDS (5). Writes only to a
# directory of its own below target/.
set -eu

hugetext=$(realpath "${1:?usage: $0 HUGETEXT SOURCES}")
sources=$(realpath "${2:?usage: $0 HUGETEXT SOURCES}")
scripts=$(dirname "$0")
# shellcheck source=lab/scripts/record.sh
. "$scripts/record.sh"
builds=${BUILDS-g++ clang++ cargo}
rounds=${ROUNDS:-5}
# A directory whose page cache holds huge folios, if this machine has one.
scratch=$(mktemp -d "${CARGO_TARGET_DIR:-target}/auto.XXXXXX")
scratch=$(realpath "$scratch")
daemon=
stop() {
    [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null; } || true
    daemon=
}
clean() {
    stop
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM
mkdir "$scratch/run" "$scratch/lists" "$scratch/none"
printf 'mode = "act"\nbudget = "2G"\n' >"$scratch/auto.toml"

# Starts the daemon with further options; its events go to $scratch/events.
auto() {
    rm -f "$scratch/state"
    "$hugetext" auto --config "$scratch/auto.toml" --state "$scratch/state" --run-dir "$scratch/run" \
        --lists "$scratch/none" "$@" >"$scratch/events" 2>>"$scratch/errors" &
    daemon=$!
    until grep -q begun "$scratch/events"; do sleep 0.1; done
}
# Processor time of the daemon in ticks.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$daemon/stat"; }
# Percent of one processor that the daemon takes while a command runs for so many seconds.
cost() {
    seconds=$1
    shift
    before=$(ticks)
    "$@"
    echo "$before $(ticks) $seconds $(getconf CLK_TCK)" | awk '{ printf "%.2f", 100 * ($2 - $1) / $3 / $4 }'
}

fact machine "$(uname -sr), $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
fact load "$(cut -d ' ' -f 1-3 /proc/loadavg)"
fact rounds "$rounds"
# shellcheck disable=SC2086 # a list
jq -cn '{fact: "builds", value: $ARGS.positional}' --args $builds
"$sources" 2000 5 | rows sources

auto --observe
sleep 5
idle=$(cost 60 sleep 60)
anon=$(awk '/RssAnon/ { printf "%.1f", $2 / 1024 }' "/proc/$daemon/status")
# The daemon looks at new programs first. That is over after a few seconds.
busy=$(cost 20 "$sources" start 1000 20 2>&1)
made=$(printf '%s' "$busy" | head -n 1)
busy=$(printf '%s' "$busy" | tail -n 1)
busy_anon=$(awk '/RssAnon/ { printf "%.1f", $2 / 1024 }' "/proc/$daemon/status")
stop
row own 0 60 "$idle" "$anon"
row own "$((made / 20))" 20 "$busy" "$busy_anon"

# A program that nobody ran before.
cc1=$scratch/cc1
cp "$(gcc -print-prog-name=cc1)" "$cc1"
sync
"$scripts/small-folios.py" "$cc1"
auto
begun=$(date +%s.%N)
while ! grep -q "held.*$cc1" "$scratch/events"; do
    "$cc1" -quiet -o /dev/null /dev/null
done
ended=$(date +%s.%N)
# An upgrade replaces the file, as packages do. Nobody starts it until the old one is released.
cp --preserve=mode "$cc1" "$cc1.new"
sync "$cc1.new"
replaced=$(date +%s.%N)
mv "$cc1.new" "$cc1"
until grep -q "released.*$cc1" "$scratch/events"; do sleep 0.01; done
released=$(date +%s.%N)
until [ "$(grep -c "held.*$cc1" "$scratch/events")" -ge 2 ]; do
    "$cc1" -quiet -o /dev/null /dev/null
done
again=$(date +%s.%N)
stop
# The seconds from one time to another.
between() { echo "$1 $2" | awk '{ printf "%.2f", $2 - $1 }'; }
fact first_held "$(between "$begun" "$ended")"
fact released "$(between "$replaced" "$released")"
fact again_held "$(between "$replaced" "$again")"

# A project of 100 files. Each includes what C++ files include.
write_cpp() {
    mkdir "$scratch/project"
    for number in $(seq 100); do
        cat >"$scratch/project/$number.cc" <<CODE
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>
int function_$number(const std::vector<std::string> &words) {
    std::map<std::string, int> counts;
    for (const auto &word : words) counts[word] += $number;
    std::vector<int> values;
    for (const auto &entry : counts) values.push_back(entry.second);
    std::sort(values.begin(), values.end());
    std::cout << values.size() << std::endl;
    return values.empty() ? 0 : values.back();
}
CODE
    done
}

# A workspace of 50 crates. Each but the first uses another one.
write_rust() {
    mkdir "$scratch/workspace"
    printf '[workspace]\nmembers = ["crate*"]\nresolver = "2"\n' >"$scratch/workspace/Cargo.toml"
    for number in $(seq 50); do
        crate=$scratch/workspace/crate$number
        mkdir -p "$crate/src"
        printf '[package]\nname = "crate%s"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n' "$number" >"$crate/Cargo.toml"
        before=0
        if [ "$number" -gt 1 ]; then
            before="crate$((number / 2))::count(&words[1..])"
            echo "crate$((number / 2)) = { path = \"../crate$((number / 2))\" }" >>"$crate/Cargo.toml"
        fi
        cat >"$crate/src/lib.rs" <<CODE
use std::collections::{BTreeMap, HashMap};
pub fn count(words: &[String]) -> usize {
    if words.len() < 2 {
        return $number;
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    words.iter().for_each(|word| *counts.entry(word).or_default() += $number);
    let sorted: BTreeMap<_, _> = counts.iter().map(|(word, count)| (count, word.to_uppercase())).collect();
    let text: Vec<String> = sorted.iter().map(|(count, word)| format!("{word}: {count:?}")).collect();
    text.join(", ").len() + $before
}
CODE
    done
}

# What a build executes: the list that somebody who knows it would name.
programs_of() {
    case $1 in
    g++) set -- "$(g++ -print-prog-name=cc1plus)" "$(command -v as)" "$(command -v g++)" ;;
    clang++)
        # shellcheck disable=SC2046
        set -- "$(command -v clang++)" $(ldd "$(command -v clang++)" | awk '/LLVM|clang/ { print $3 }')
        ;;
    cargo)
        rust=$(rustc --print sysroot)
        set -- "$rust/bin/rustc" "$rust/bin/cargo" "$rust"/lib/librustc_driver-*.so "$rust"/lib/libLLVM*.so*
        ;;
    esac
    # A library may be a linker script.
    for program in "$@"; do
        program=$(realpath "$program")
        [ "$(head -c 4 "$program" | tail -c 3)" != ELF ] || echo "$program"
    done | sort -u
}

# What a command and its children took: user and system time in seconds, and page faults.
cost_of() {
    python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{used.ru_utime + used.ru_stime:.3f} {used.ru_minflt + used.ru_majflt}")' "$@"
}

# One side: nobody, the right list, or the daemon; the second build counts.
side() { # BUILD SIDE
    programs=$(programs_of "$1")
    # shellcheck disable=SC2086
    "$scripts/small-folios.py" $programs
    case $2 in
    keep)
        # shellcheck disable=SC2086
        "$hugetext" keep --lists "$scratch/lists" add $programs
        # The daemon holds the lists also where it only observes.
        "$hugetext" auto --observe --by scan --config "$scratch/auto.toml" --state "$scratch/state-of-lists" \
            --run-dir "$scratch/run" --lists "$scratch/lists" --store "$scratch/store" \
            >"$scratch/events" 2>>"$scratch/errors" &
        daemon=$!
        until grep -q '^listed' "$scratch/events"; do sleep 0.1; done
        ;;
    auto) auto ;;
    esac
    "$scratch/build" "$1" >&2
    sleep 5
    cost_of "$scratch/build" "$1"
    stop
    rm -rf "$scratch/lists"
    mkdir "$scratch/lists"
}

in_turns() { # BUILD
    for round in $(seq "$rounds"); do
        case $((round % 3)) in
        0) order="none keep auto" ;;
        1) order="keep auto none" ;;
        2) order="auto none keep" ;;
        esac
        for side in $order; do
            echo "$round $side $(side "$1" "$side")"
        done
    done
}

# Rows of a table, of lines with a round, a side, its seconds and its page faults.
table() { # COSTS
    perl -e '
        my (%t, %faults);
        while (<>) {
            my ($round, $side, $time, $faults) = split;
            $t{$side}[$round] = $time;
            push @{ $faults{$side} }, $faults;
        }
        sub median { my @s = sort { $a <=> $b } @_; ($s[$#s / 2] + $s[@s / 2]) / 2 }
        my %middle = map { $_ => median(@{ $faults{$_} }) } keys %faults;
        my $saved = $middle{none} - $middle{keep};
        for my $side ("none", "keep", "auto") {
            my @rounds = grep { defined $t{$side}[$_] && defined $t{none}[$_] } 1 .. $#{ $t{none} };
            my @ratios = sort { $a <=> $b } map { $t{$side}[$_] / $t{none}[$_] } @rounds;
            printf "| %s | %.2f | %.3f (%.3f to %.3f) | %d | %s |\n", $side, median(map { $t{$side}[$_] } @rounds),
                median(@ratios), $ratios[0], $ratios[-1], $middle{$side},
                $side eq "none" || $saved < $middle{none} / 100 ? "-" : sprintf "%.0f %%", 100 * ($middle{none} - $middle{$side}) / $saved;
        }
    ' "$1"
}

cat >"$scratch/compile" <<'CODE'
#!/bin/sh
exec "$1" -O1 -c "$2" -o "$2.o"
CODE
# The whole build, from sources, with a compiler for each processor.
cat >"$scratch/build" <<CODE
#!/bin/sh
case \$1 in
cargo)
    cd "$scratch/workspace" && rm -rf target
    cargo build --quiet --offline --target-dir target
    ;;
*) find "$scratch/project" -name '*.cc' -print0 | xargs -0 -n 1 -P "$(nproc)" "$scratch/compile" "\$1" ;;
esac
CODE
chmod +x "$scratch/compile" "$scratch/build"
write_cpp
write_rust
for build in $builds; do
    command -v "$build" >/dev/null || continue
    in_turns "$build" >"$scratch/costs"
    table "$scratch/costs" | rows "$build"
done
