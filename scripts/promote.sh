#!/bin/sh
# Promotes working programs of this machine, maps them back, and prints the results as Markdown:
# scripts/promote.sh HUGETEXT. Programs that are not installed are listed as skipped.
set -u
hugetext=$1
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

cat >"$work/big.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
asm(".text\n.balign 64\n.globl functions\nfunctions:\n.set k, 0\n.rept 1638400\n.balign 64\n"
#ifdef __x86_64__
    "lea k(%rdi), %rax\nret\n"
#else
    "mov w1, #(k & 65535)\nadd x0, x0, x1\nret\n"
#endif
    ".set k, (k + 1) & 65535\n.endr\n");
extern char functions[];
static void *work(void *argument) {
    long index = (long)argument;
    for (;;) {
        unsigned long sum = 0, want = 0;
        for (long k = index; k < 1638400; k += 64) {
            sum = ((unsigned long (*)(unsigned long))(functions + 64 * k))(sum);
            want += k & 65535;
        }
        if (sum != want) {
            puts("wrong");
            exit(1);
        }
        struct timespec nap = {0, 10000000};
        if (nanosleep(&nap, 0)) {
            puts("interrupted");
            exit(1);
        }
    }
}
int main(void) {
    pthread_t thread;
    for (long i = 0; i < 63; i++)
        pthread_create(&thread, 0, work, (void *)i);
    work((void *)63);
}
END
if have gcc; then
    gcc -O1 -o "$work/big" "$work/big.c" -lpthread
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

cat >"$work/load.js" <<'END'
const http = require('http');
const answer = () => { let x = 0; for (let i = 0; i < 2000; i++) x += Math.sqrt(i) * JSON.parse('[1,2,3]').length; return String(x); };
const server = http.createServer((request, response) => response.end(answer()));
const right = answer();
let done = 0, wrong = 0;
server.listen(0, '127.0.0.1', () => {
    const one = () => http.get({ port: server.address().port, host: '127.0.0.1', agent: false }, response => {
        let body = '';
        response.on('data', chunk => body += chunk);
        response.on('end', () => { done++; if (body !== right) wrong++; one(); });
    }).on('error', () => { wrong++; one(); });
    for (let i = 0; i < 8; i++) one();
});
process.on('SIGTERM', () => { console.log(`${done} requests, ${wrong} wrong or failed`); process.exit(); });
END
if have node; then
    node "$work/load.js" >"$work/node.out" &
    node=$!
    pids="$pids $node"
    sleep 4
    promote "node, serving and requesting HTTP" "$node"
    kill "$node"
    wait "$node"
    cat "$work/node.out"
    finish
fi

cat >"$work/Load.java" <<'END'
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
public class Load {
    static long answer(int seed) {
        var map = new TreeMap<Integer, String>();
        var random = new Random(seed);
        for (int i = 0; i < 5000; i++) map.merge(random.nextInt(1000), "x", String::concat);
        return map.hashCode();
    }
    public static void main(String[] arguments) throws Exception {
        var right = new long[16];
        for (int i = 0; i < 16; i++) right[i] = answer(i);
        var done = new AtomicLong();
        var wrong = new AtomicLong();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println(done + " answers, " + wrong + " wrong")));
        for (int t = 0; t < 16; t++) {
            int seed = t;
            new Thread(() -> { while (true) { if (answer(seed) != right[seed]) wrong.incrementAndGet(); done.incrementAndGet(); } }).start();
        }
    }
}
END
if have java; then
    java "$work/Load.java" >"$work/java.out" 2>&1 &
    java=$!
    pids="$pids $java"
    sleep 8
    promote "java, 16 threads and its garbage collector" "$java"
    kill "$java"
    wait "$java"
    cat "$work/java.out"
    finish
fi

cat >"$work/load.go" <<'END'
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sort"
	"sync/atomic"
	"syscall"
)

func answer(seed uint32) uint32 {
	numbers := make([]int, 2000)
	for i := range numbers {
		seed = seed*1664525 + 1013904223
		numbers[i] = int(seed >> 8)
	}
	sort.Ints(numbers)
	for i, n := range numbers {
		seed = seed*31 + uint32(n+i)
	}
	return seed
}

func main() {
	var done, wrong atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, answer(7))
	}))
	right := fmt.Sprint(answer(7))
	for t := 0; t < 32; t++ {
		go func() {
			for {
				response, err := http.Get(server.URL)
				var body []byte
				if err == nil {
					body, err = io.ReadAll(response.Body)
					response.Body.Close()
				}
				if err != nil || string(body) != right {
					wrong.Add(1)
				}
				done.Add(1)
			}
		}()
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	fmt.Printf("%d requests, %d wrong or failed\n", done.Load(), wrong.Load())
}
END
if have go; then
    (cd "$work" && GOFLAGS=-mod=mod GO111MODULE=off go build -o load load.go)
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
