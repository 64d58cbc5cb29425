#!/bin/sh
# Promotes working programs of this machine, maps them back, and prints the record of lab/results/promote-results.md:
# lab/scripts/promote.sh HUGETEXT. Programs that are not installed are listed as skipped. ONLY names what the names of sections
# contain that are wanted.
set -u
# shellcheck source=lab/scripts/record.sh
. "$(dirname "$0")/record.sh"
hugetext=$1
loads=$(dirname "$0")/../loads
work=$(mktemp -d)
pids=
cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT

# load COMMAND…: runs it in a session of its own and in place of this shell. The scheduler shares processors by
# session (autogroup), so a load with many threads leaves the command its half.
load() {
    exec setsid "$@"
}

# A run of the command. The first line of a family of processes represents all of them, with the longest pause of any.
brief() {
    grep -v '^    left' | jq -cRn '[inputs] | select(length > 0) | {said: .[0]} + if length == 1 then {} else
        {more: (length - 1), worst_ms: ([.[] | scan("(?:^| )([0-9.]+) ms(?: |$)")[0] | tonumber] | max)} end'
}

# What is printed from here until `finish` are the runs of a section of this name.
section() {
    section=$1
    exec 3>&1 >"$work/runs"
}

# finish [OUTPUT [PID]]: ends it. OUTPUT has what the load said; PID is that of a load that should still run.
finish() {
    exec >&3 3>&-
    alive=null
    [ -z "${2:-}" ] || { kill -0 "$2" 2>/dev/null && alive=true || alive=false; }
    jq -cn --arg section "$section" --slurpfile runs "$work/runs" --rawfile load "${1:-/dev/null}" --argjson alive $alive \
        '{section: $section, runs: $runs, load: $load} + if $alive == null then {} else {alive: $alive} end'
}

# promote NAME PID…: promotes and maps back, in a section that begins.
promote() {
    section "$1"
    shift
    for _ in 1 2 3; do
        "$hugetext" promote "$@" 2>&1 | brief
        sleep 3
        "$hugetext" promote --revert "$@" 2>&1 | brief
        sleep 1
    done
    "$hugetext" promote "$@" 2>&1 | brief
    sleep 3
}

# wanted SECTION
wanted() {
    case $1 in *"${ONLY:-}"*) ;; *) return 1 ;; esac
}

have() {
    wanted "$1" || return
    command -v "$1" >/dev/null && return
    jq -cn --arg section "$1" '{section: $section}'
    return 1
}

fact kernel "$(uname -r)"
fact processors "$(nproc)"
fact load "$(cut -d' ' -f1 /proc/loadavg)"

# big NAME THREADS [MAPPINGS]: a program with 100 MiB of text.
big() {
    name=$1
    wanted "$name" || return 0
    shift
    load "$work/big" "$@" >"$work/big.out" &
    big=$!
    pids="$pids $big"
    sleep 5
    promote "$name" "$big"
    finish "$work/big.out" "$big"
    kill "$big"
    wait "$big" 2>/dev/null
}

# crowd NAME THREADS: a program whose threads want a processor all the time, in the session of the command, which has to share
# the processors with all of them.
crowd() {
    wanted "$1" || return 0
    section "$1"
    "$work/crowd" "$2" >"$work/big.out" &
    crowd=$!
    pids="$pids $crowd"
    sleep 5
    for option in "" --revert "--max-pause=50" --revert; do
        began=$(date +%s%N)
        # An option, or none.
        # shellcheck disable=SC2086
        "$hugetext" promote $option "$crowd" 2>&1 | brief >"$work/run"
        jq -c --arg option "$option" --argjson ms $((($(date +%s%N) - began) / 1000000)) '. + {option: $option, ms: $ms}' "$work/run"
    done
    finish "$work/big.out" "$crowd"
    kill "$crowd"
    wait "$crowd" 2>/dev/null
}

# shared P_ALIGN FILE: how much memory the copies of 50 processes take. The file is written in small pieces,
# because larger ones may be huge without promotion.
shared() {
    p_align=$1
    dd if="$2" of="$work/shared" bs=16k status=none && chmod +x "$work/shared" && sync "$work/shared"
    set --
    for _ in $(seq 50); do
        "$work/shared" 4 &
        set -- "$@" $!
    done
    pids="$pids $*"
    sleep 5
    # Each process has a line. Sizes are in MiB.
    "$hugetext" promote "$@" | awk -v p_align="$p_align" '
        /: promoted/ {processes++}
        {for (i = 1; i < NF; i++) if ($i == "take") taken += $(i + 1); else if ($i == "shares") shared += $(i + 1)}
        END {printf "{\"p_align\": \"%s\", \"processes\": %d, \"copies_mib\": %d, \"shared_mib\": %d}\n", p_align, processes, taken, shared}'
    kill "$@"
    wait "$@" 2>/dev/null
    rm "$work/shared"
}

if command -v gcc >/dev/null; then
    gcc -O1 -o "$work/big" "$loads/big_text.c" -lpthread
    gcc -O1 -DNAP_NS=0 -o "$work/crowd" "$loads/big_text.c" -lpthread
    big threads-64 64
    big threads-1000 1000
    big mappings-60000 64 60000
    crowd busy-1000 1000
fi

if have gcc; then
    section processes-50
    for p_align in 4K 2M; do
        bytes=$(numfmt --from=iec "$p_align")
        # They sleep most of the time: 200 threads that work would take both processors.
        gcc -O1 -DFUNCTIONS=131072 -DNAP_NS=200000000 "-Wl,-z,max-page-size=$bytes" -o "$work/program" "$loads/big_text.c" -lpthread
        shared "$p_align" "$work/program"
    done
    finish
fi

if have node; then
    load node "$loads/http.js" >"$work/node.out" &
    node=$!
    pids="$pids $node"
    sleep 4
    promote node "$node"
    kill "$node"
    wait "$node"
    finish "$work/node.out"
fi

if have java; then
    load java "$loads/Load.java" >"$work/java.out" 2>&1 &
    java=$!
    pids="$pids $java"
    sleep 8
    promote java "$java"
    kill "$java"
    wait "$java"
    finish "$work/java.out"
fi

if have go; then
    GOFLAGS=-mod=mod GO111MODULE=off go build -o "$work/load" "$loads/http.go"
    load "$work/load" >"$work/go.out" &
    go=$!
    pids="$pids $go"
    sleep 2
    promote go "$go"
    kill "$go"
    wait "$go"
    finish "$work/go.out"
fi

if have postgres && have pgbench; then
    data=$work/data
    run="sh -c"
    [ "$(id -u)" = 0 ] && chmod 755 "$work" && mkdir "$data" && chown nobody "$data" && run="setpriv --reuid=nobody --regid=nogroup --clear-groups sh -c"
    bin=$(dirname "$(readlink -f "$(command -v postgres)")")
    HOME=$work $run "'$bin/initdb' -D '$data' -A trust -U bench >/dev/null && '$bin/pg_ctl' -D '$data' -w -l '$data/log' -o '-k $data -p 54329 -c listen_addresses=' start >/dev/null"
    postmaster=$(head -1 "$data/postmaster.pid")
    pids="$pids $postmaster"
    pgbench -h "$data" -p 54329 -U bench -i -q -s 5 postgres >/dev/null 2>&1
    load pgbench -h "$data" -p 54329 -U bench -c 8 -j 2 -T 45 -P 5 postgres >"$work/pgbench.out" 2>&1 &
    bench=$!
    sleep 10
    promote postgres --name postgres
    wait "$bench"
    grep -E '^progress|failed|tps' "$work/pgbench.out" >"$work/progress"
    finish "$work/progress"
    kill -INT "$postmaster"
fi
