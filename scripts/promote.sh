#!/bin/sh
# Promotes working programs of this machine, maps them back, and prints the results as Markdown:
# scripts/promote.sh HUGETEXT. Programs that are not installed are listed as skipped.
set -u
hugetext=$1
loads=$(dirname "$0")/../crates/bench/loads
work=$(mktemp -d)
pids=
cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT

# The first line of a family of processes represents all of them, with the longest pause of any.
brief() {
    awk '{
        if (NR == 1) print
        for (i = 2; i <= NF; i++) if ($i == "ms" && $(i - 1) + 0 > worst) worst = $(i - 1) + 0
    } END {if (NR > 1) printf "  and %d more; none stopped for more than %.1f ms\n", NR - 1, worst}'
}

# promote NAME PID…: promotes and maps back; prints the command's output.
promote() {
    name=$1
    shift
    echo
    echo "## $name"
    echo
    echo '```'
    for _ in 1 2 3; do
        "$hugetext" promote "$@" 2>&1 | grep -v '^    left' | brief
        sleep 3
        "$hugetext" promote --revert "$@" 2>&1 | grep -v '^    left' | brief
        sleep 1
    done
    "$hugetext" promote "$@" 2>&1 | grep -v '^    left' | brief
    sleep 3
}

finish() {
    echo '```'
}

have() {
    command -v "$1" >/dev/null && return
    printf '\n## %s\n\nskipped: not installed\n' "$1"
    return 1
}

cat <<END
# Promotion of running programs

Made by \`make results-promote\`, which runs \`scripts/promote.sh\`. Each program works all the time. It is promoted
and mapped back three times, and promoted once more. Times are of one machine: Linux $(uname -r) on $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg).
END

if have gcc; then
    gcc -O1 -o "$work/big" "$loads/big_text.c" -lpthread
    "$work/big" >"$work/big.out" &
    big=$!
    pids="$pids $big"
    sleep 5
    promote "100 MiB of text, 64 threads" "$big"
    kill -0 "$big" 2>/dev/null && [ ! -s "$work/big.out" ] && echo "every sum right, no sleep interrupted" ||
        echo "FAILED: $(cat "$work/big.out")"
    finish
    kill "$big"
fi

if have node; then
    node "$loads/http.js" >"$work/node.out" &
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
    java "$loads/Load.java" >"$work/java.out" 2>&1 &
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
    "$work/load" >"$work/go.out" &
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
    pgbench -h "$data" -p 54329 -U bench -c 8 -j 2 -T 45 -P 5 postgres >"$work/pgbench.out" 2>&1 &
    bench=$!
    sleep 10
    promote "postgres, all its processes, with pgbench running" --name postgres
    wait "$bench"
    grep -E '^progress|failed|tps' "$work/pgbench.out"
    finish
    kill -INT "$postmaster"
fi
