#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Boots kernels without and with the sets fold, fork and rmap of kernel/, and records what starting programs and walking the
# mappings of libc costs in each: in rmap/measured.jsonl of RECORDS (lab/records). `lab/measure rmap-record` makes a page of it.
#
#   lab/kernel/rmap/measure.sh PART
#
# PART is one of these:
#
#   all                   every part of rmap with every kernel; builds missing kernels
#   fold                  every part of the sets fold and fork; the same
#   acquisitions SIDE IMAGE
#                         how often a start takes the locks, and who takes them
#   unixbench SIDE=IMAGE… UnixBench's execl and shell8, 15 storms of each kernel, in turn
#   storm WITHOUT WITH    acquisitions of the locks that meet others, in storms
#   replicas [SIDE=IMAGE…]
#                         the same with 1, 2, 4 and 8 copies of the shell, the loader and libc, in replicas-locks.jsonl of
#                         RECORDS; of one side alone, or of several in turn, or of kernels that it builds
#   large SIDE=IMAGE…     storms of programs that execute 4 MiB of text, in turn
#   execl SIDE=IMAGE…     storms of programs that execute themselves, in turn
#   bench SIDE=IMAGE…     UnixBench's execl and shell8, will-it-scale's mmap1 and mmap2, in turn; UNIXBENCH and WILL_IT_SCALE
#                         say where they are (benchmarks.sh)
#   bench-count SIDE=IMAGE…
#                         the same alone on one processor, in instructions
#   pressure SIDE=IMAGE…  storms beside reclaim, compaction and migration, in instructions; SECONDS_EACH of each load (2);
#                         takes QEMU 8.1
#   consoles HOST-PROCESSORS DIRECTORY
#                         those of replicas from consoles of guests that ran elsewhere, in files SIDE-REPLICAS-ROUND
#   count SIDE IMAGE      starts and walks in instructions
#   memory SIDE IMAGE     the additional memory of a file and a process
#   stress CHECKS SECONDS IMAGE
#                         the stress; recorded if the kernel reports nothing. CHECKS is the fragment of the image that
#                         chooses what it checks (debug, rt, kcsan). Nothing else of weight may run: where eight processors of
#                         a debug kernel share one, its ticks take all of it
#   off                   the functions that differ with the option off
#   compiled [NAME…]      the files that compile for other architectures, all or those of kernel/compile.sh
#
# SIDE is "unpatched" (no set at all; acquisitions, unixbench, replicas, large, execl, bench, pressure), "fold" (the
# set of that name), "fork", "fold-fork" (both), "alone" (fold, fork and rmap; replicas, large), "without",
# "one-tree" (on, but with SHARDS=1) or "with". storm takes the images of "without" and "with", and runs "without",
# "one-tree" and "with" in turn, because other work of the machine moves the figures. SHARDS is the number of shards of
# a file, CPUS the processors of the guests of storms. The output of guests goes to IMAGE.console, too. storm, large,
# execl, bench, unixbench and acquisitions need LOCK_STAT. count, bench-count and pressure need a kernel without it: LOCK_STAT makes
# locks cost many times as much. pressure needs the set walk-lab, which counts the walks.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel=$here/../../../kernel
records=${RECORDS:-$here/../../records}
record=$records/rmap/measured.jsonl

# The lines of COMMAND, in place of those recorded of that part and side, or of any "". Where CPUS chooses the processors,
# those of other numbers stay. A configuration that is compiled again replaces its own line alone.
keep() { # PART SIDE COMMAND…
    local part=$1 side=$2 lines new=$record.new
    shift 2
    lines=$("$@")
    touch "$record"
    jq -c -n --arg part "$part" --arg side "$side" --arg cpus "${CPUS:-}" --arg date "$(date -u +%F)" \
        --slurpfile old "$record" --slurpfile new <(echo "$lines") '
        def compiled: [.what, .name];
        def replaced: .part == $part and ($side == "" or .side == $side)
            and ($cpus == "" or ("\(.cpus)" | IN($cpus | splits(" "))))
            and ($part != "compiled" or (compiled | IN($new[] | compiled)));
        ($old | map(replaced) | index(true) // length) as $place
        | $old[:$place][], ($new[] | {part: $part, side: $side, date: $date} + .),
            ($old[$place:][] | select(replaced | not))' > "$new"
    mv "$new" "$record"
}

compiled() { # NAME…; one after the other, so that each keeps its place
    local name
    if [ $# = 0 ]; then keep compiled with "$kernel/compile.sh"; fi
    for name in "$@"; do keep compiled with "$kernel/compile.sh" "$name"; done
}

console() { # IMAGE CPUS SECONDS ARGUMENT…
    "$here/run.sh" "$@" | tee -a "$1.console"
}

qemu_version() {
    qemu-system-x86_64 --version | sed -n 's/.*version \([0-9.]*\).*/\1/p'
}

origin() { # CPUS
    local qemu package
    qemu=$(qemu_version)
    package=$("$kernel/build.sh" package | tail -n 1)
    jq -n --argjson cpus "$1" --argjson shards "${SHARDS:-$1}" --arg qemu "$qemu" --arg package "$package" \
        '{cpus: $cpus, shards: $shards, package: $package, qemu: $qemu}'
}

guest() { # CPUS IMAGE ARGUMENT…
    local cpus=$1 image=$2
    shift 2
    console "$image" "$cpus" 900 kunit.enable=0 "$@" ${SHARDS:+i_mmap_shards=$SHARDS} | records "$cpus"
}

records() { # CPUS, of the guest whose console is on stdin
    jq -c -R --argjson origin "$(origin "$1")" \
        'select(startswith("record ")) | ltrimstr("record ") | fromjson | $origin + .'
}

# Addresses are not random, because QEMU would translate text again for each start.
storms() { # CPUS IMAGE ROUNDS ARGUMENT…: as many starts in every guest
    guest "$1" "$2" norandmaps rmap.crowd=32 rmap.workers="$1" rmap.starts=$((160 / $1)) rmap.rounds="$3" "${@:4}"
}

of_side() { # SIDE, of the guest whose records are on stdin
    jq -c --arg side "$1" '{side: $side} + .'
}

# STORM CPUS IMAGE for each number of processors and each side. Guests take turns, because other work of the machine moves
# the figures. The side "one-tree" has one shard.
in_turn() { # STORM SIDE=IMAGE…
    local cpus side shards
    for cpus in ${CPUS:-8 16}; do
        for _ in $(seq "${ROUNDS:-3}"); do
            for side in "${@:2}"; do
                shards=${SHARDS:-}
                [ "${side%%=*}" != one-tree ] || shards=1
                SHARDS=$shards "$1" "$cpus" "${side#*=}" | of_side "${side%%=*}"
            done
        done
    done
}

storm() { # WITHOUT WITH
    CPUS=${CPUS:-1 2 4 8 16} ROUNDS=3 in_turn plain "without=$1" "one-tree=$2" "with=$2"
}

plain() { # CPUS IMAGE; as many starts in every guest, more guests of the target's eight processors
    local rounds
    case $1 in
    1) rounds=1 ;;
    8) rounds=4 ;;
    *) rounds=2 ;;
    esac
    storms "$1" "$2" $rounds
}

execl() { # CPUS IMAGE
    storms "$1" "$2" 4 rmap.execl=1
}

large() { # CPUS IMAGE
    storms "$1" "$2" 4 rmap.large=1
}

bench() { # CPUS IMAGE
    benches "$1" "$2" execl,shell8,mmap2 2
}

unixbench() { # CPUS IMAGE; takes many storms, because a storm has few runs
    benches "$1" "$2" execl,shell8 5
}

bench_count() { # SIDE=IMAGE…
    CPUS=1 ROUNDS=1 in_turn benches_alone "$@"
}

benches_alone() { # CPUS IMAGE
    QEMU_TIME=instructions benches "$1" "$2" execl,shell8,mmap1,mmap2 1
}

# As in storms(), addresses are not random.
benches() { # CPUS IMAGE NAME,… ROUNDS
    guest "$1" "$2" norandmaps rmap.crowd=32 rmap.workers="$1" rmap.starts=1 rmap.rounds="$4" rmap.bench="$3"
}

pressure() { # SIDE=IMAGE…
    fair_turns || return
    CPUS=${CPUS:-8} in_turn pressed "$@"
}

# Whether QEMU lets all processors of a thread run. Before 8.1, one of them may get no turn for many seconds under
# -icount, in the middle of a walk.
fair_turns() {
    local qemu
    qemu=$(qemu_version)
    [ "$(printf '%s\n' 8.1 "$qemu" | sort -V | head -n 1)" = 8.1 ] ||
        { echo "measure.sh: pressure takes QEMU 8.1, and this is $qemu; put a newer one first in PATH" >&2; return 1; }
}

# In instructions, because what another process of the machine takes from QEMU moves the throughput of two loads by more
# than a lock does. With random addresses QEMU would translate the text of each start anew. Whoever writes to such a page
# for the first time then discards the code of all starts, byte by byte: that takes minutes.
pressed() { # CPUS IMAGE
    QEMU_TIME=instructions guest "$1" "$2" numa=fake=2 norandmaps rmap.crowd=32 rmap.workers="$1" \
        rmap.pressure="${SECONDS_EACH:-2}" | jq -c 'select(.what == "pressure")'
}

replicas() { # SIDE=IMAGE…; guests take turns, as in_turn has it
    local replicas side
    for _ in $(seq "${ROUNDS:-3}"); do
        for replicas in 1 2 4 8; do
            for side in "$@"; do
                replicas_of "${side%%=*}" "${side#*=}" "$replicas"
            done
        done
    done
}

replicas_of() { # SIDE IMAGE REPLICAS
    local cpus=${CPUS:-8}
    storms "$cpus" "$2" 4 rmap.replicas="$3" | of_replicas "$1" "$3" "$(nproc)"
}

of_replicas() { # SIDE REPLICAS HOST-PROCESSORS
    jq -c --arg side "$1" --argjson replicas "$2" --argjson host_cpus "$3" \
        '{side: $side, replicas: $replicas, host_cpus: $host_cpus} + .'
}

consoles() { # HOST-PROCESSORS DIRECTORY; what run.sh printed with the arguments of replicas_of
    local console side replicas
    for console in "$2"/*; do
        IFS=- read -r side replicas _ <<< "$(basename "$console")"
        if grep -q 'guest done' "$console"; then
            sed 's/\r$//' "$console" | records "${CPUS:-8}" | of_replicas "$side" "$replicas" "$1"
        fi
    done
}

acquisitions() { # IMAGE
    QEMU_TIME=instructions guest 1 "$1" rmap.crowd=32 rmap.workers=1 rmap.starts=100 rmap.rounds=1 rmap.callers=1
}

# Walks meet as many mappings as a busy machine has of libc, or as the storms beside pressure.
count() { # IMAGE
    local shards
    export QEMU_TIME=instructions
    SHARDS=${SHARDS:-8} crowded 96 8 "$1" rmap.workers=1 rmap.starts=100
    SHARDS=${SHARDS:-8} crowded 40 8 "$1" rmap.walk=1
    for shards in ${SHARDS:-8 32}; do
        # The crowd draws its shards from the processors that it starts on.
        SHARDS=$shards crowded 1000 $((shards < 8 ? 8 : shards)) "$1" rmap.walk=1
    done
}

crowded() { # PROCESSES CPUS IMAGE ARGUMENT…
    guest "$2" "$3" rmap.crowd="$1" "${@:4}" | jq -c --argjson processes "$1" '{processes: $processes} + .'
}

memory() { # IMAGE
    guest 2 "$1" rmap.memory=1
}

# The guest may be paused for as long as it runs. KCSAN, where a kernel has it, watches more addresses than by default, and
# for longer: few processors of a guest run at the same time.
stress() { # SECONDS IMAGE
    console "$2" 8 $(($1 * 2 + 900)) norandmaps rmap.seconds="$1" numa=fake=2 \
        sysctl.kernel.hung_task_timeout_secs=300 kcsan.skip_watch=1000 kcsan.udelay_task=300 |
        jq -c -R -n --argjson seconds "$1" --argjson origin "$(origin 8)" '
            def table(kind): map(capture("^" + kind + " (?<key>\\S+) +(?<value>[0-9]+)$"))
                | map({(.key): (.value | tonumber)}) | add;
            [inputs] | $origin + {what: "stress", seconds: $seconds,
                races: (map(capture("^BUG: KCSAN: data-race in (?<of>.*)").of) | unique),
                steps: table("step"), audit: table("audit"), end: table("end audit"), vmstat: table("vmstat")}'
}

# Sets of a kernel with rmap: alone, and behind those of kernels without it.
before="order align read-first collapse" alone="fold fork rfc/rmap rfc/rmap-lab"
after="$before $alone"

image() { # SETS FRAGMENT…
    KERNEL_SETS=$1 "$kernel/build.sh" image x86_64 "${@:2}" | tail -n 1
}

fold() {
    local unpatched both
    unpatched=$(image none measure)
    both=$(image "fold fork" measure)
    keep acquisitions unpatched acquisitions "$unpatched"
    keep acquisitions fold acquisitions "$(image fold measure)"
    keep acquisitions fork acquisitions "$(image fork measure)"
    keep acquisitions fold-fork acquisitions "$both"
    [ -z "${UNIXBENCH:-}" ] ||
        CPUS=${CPUS:-4 8 16} keep unixbench "" in_turn unixbench "unpatched=$unpatched" "fold-fork=$both"
}

all() {
    local without with unpatched walks
    keep off off "$here/off.sh"
    compiled
    without=$(image "$before" kunit)
    with=$(image "$after" kunit)
    SHARDS=1 keep count without count "$without"
    SHARDS=1 keep count one-tree count "$with"
    keep count with count "$with"
    keep memory without memory "$without"
    keep memory with memory "$with"
    without=$(image "$before" measure)
    with=$(image "$after" measure)
    keep storm "" storm "$without" "$with"
    unpatched=$(image none measure)
    keep execl "" in_turn execl "unpatched=$unpatched" "with=$with"
    if [ -n "${UNIXBENCH:-}" ] && [ -n "${WILL_IT_SCALE:-}" ]; then
        keep bench "" in_turn bench "unpatched=$unpatched" "with=$with"
        keep bench-count "" bench_count "unpatched=$(image none kunit)" "with=$(image "$after" kunit)"
    fi
    keep large "" in_turn large "unpatched=$unpatched" "alone=$(image "$alone" measure)" "with=$with"
    if fair_turns; then
        walks=$(image "$after rfc/walk-lab" pressure)
        keep pressure "" pressure "unpatched=$(image rfc/walk-lab pressure)" "one-tree=$walks" "with=$walks"
    fi
    keep stress-debug with stress 1800 "$(image "$after" kunit stress debug)"
    keep stress-rt with stress 900 "$(image "$after" kunit stress rt)"
    keep stress-kcsan with stress 900 "$(image "$after" kunit stress kcsan)"
}

case ${1:-} in
storm) keep storm "" storm "$2" "$3" ;;
large | execl | bench | unixbench) keep "$1" "" in_turn "$@" ;;
bench-count) keep bench-count "" bench_count "${@:2}" ;;
pressure) keep pressure "" pressure "${@:2}" ;;
replicas)
    record=$records/replicas-locks.jsonl
    [ $# -gt 1 ] || set -- replicas "unpatched=$(image none measure)" "alone=$(image "$alone" measure)" "with=$(image "$after" measure)"
    side=
    [ $# -gt 2 ] || side=${2%%=*}
    keep replicas "$side" replicas "${@:2}"
    ;;
acquisitions | count | memory) keep "$1" "$2" "$1" "$3" ;;
stress) keep "stress-$2" with stress "${@:3}" ;;
consoles)
    record=$records/replicas-locks.jsonl
    keep replicas "" consoles "$2" "$3"
    ;;
off) keep off off "$here/off.sh" ;;
compiled) compiled "${@:2}" ;;
fold) fold ;;
all) all ;;
*) sed -n '6,43p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
