#!/bin/sh
# Promotes working programs of this machine, maps them back, and prints the record of lab/results/promote-results.md:
# lab/scripts/promote.sh HUGETEXT. Programs that are not installed are listed as skipped. ONLY names what the names of sections
# contain that are wanted.
set -u
# shellcheck source=lab/scripts/record.sh
. "$(dirname "$0")/record.sh"
hugetext=$1
loads=$(dirname "$0")/../../crates/bench/loads
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

# The first line of a family of processes represents all of them, with the longest pause of any.
brief() {
    awk '{
        if (NR == 1) print
        for (i = 2; i <= NF; i++) if ($i == "ms" && $(i - 1) + 0 > worst) worst = $(i - 1) + 0
    } END {if (NR > 1) printf "  and %d more; none stopped for more than %.1f ms\n", NR - 1, worst}'
}

# What is printed from here until `finish` is said in a section of this name.
section() {
    section=$1
    exec 3>&1 >"$work/said"
}

finish() {
    exec >&3 3>&-
    jq -cn --arg section "$section" --rawfile said "$work/said" '{section: $section, said: $said}'
}

# promote NAME PID…: promotes and maps back; what the command says begins a section.
promote() {
    section "$1"
    shift
    for _ in 1 2 3; do
        "$hugetext" promote "$@" 2>&1 | grep -v '^    left' | brief
        sleep 3
        "$hugetext" promote --revert "$@" 2>&1 | grep -v '^    left' | brief
        sleep 1
    done
    "$hugetext" promote "$@" 2>&1 | grep -v '^    left' | brief
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
    kill -0 "$big" 2>/dev/null && [ ! -s "$work/big.out" ] && echo "every sum right, no sleep interrupted" ||
        echo "FAILED: $(cat "$work/big.out")"
    finish
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
        "$hugetext" promote $option "$crowd" 2>&1 | grep -v '^    left' | brief
        echo "  the command took $((($(date +%s%N) - began) / 1000000)) ms ${option:+with $option}"
    done
    kill -0 "$crowd" 2>/dev/null && [ ! -s "$work/big.out" ] && echo "every sum right" || echo "FAILED: $(cat "$work/big.out")"
    finish
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
        END {printf "p_align %s: %d processes promoted; copies take %d MiB, and %d MiB more are shared\n", p_align, processes, taken, shared}'
    kill "$@"
    wait "$@" 2>/dev/null
    rm "$work/shared"
}

if command -v gcc >/dev/null; then
    gcc -O1 -o "$work/big" "$loads/big_text.c" -lpthread
    gcc -O1 -DNAP_NS=0 -o "$work/crowd" "$loads/big_text.c" -lpthread
    big "100 MiB of text, 64 threads" 64
    big "100 MiB of text, 1,000 threads" 1000
    big "100 MiB of text, 64 threads and 60,000 mappings" 64 60000
    crowd "100 MiB of text, 1,000 threads that never sleep" 1000
fi

if have gcc; then
    section '8 MiB of text, 50 processes, executed one by one'
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
    promote "node, serving and requesting HTTP" "$node"
    kill "$node"
    wait "$node"
    cat "$work/node.out"
    finish
fi

if have java; then
    load java "$loads/Load.java" >"$work/java.out" 2>&1 &
    java=$!
    pids="$pids $java"
    sleep 8
    promote "java, 16 threads and its garbage collector" "$java"
    kill "$java"
    wait "$java"
    cat "$work/java.out"
    finish
fi

if have go; then
    GOFLAGS=-mod=mod GO111MODULE=off go build -o "$work/load" "$loads/http.go"
    load "$work/load" >"$work/go.out" &
    go=$!
    pids="$pids $go"
    sleep 2
    promote "Go, serving and requesting HTTP in 32 goroutines, under preemption signals" "$go"
    kill "$go"
    wait "$go"
    cat "$work/go.out"
    finish
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
    promote "postgres, all its processes, with pgbench running" --name postgres
    wait "$bench"
    grep -E '^progress|failed|tps' "$work/pgbench.out"
    finish
    kill -INT "$postmaster"
fi
