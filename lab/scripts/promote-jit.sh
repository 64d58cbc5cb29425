#!/bin/sh
# Collapses the text that a JVM with each garbage collector, and node, generate under load, again and again:
# lab/scripts/promote-jit.sh HUGETEXT ROUNDS. Each program checks all its answers. Prints the record of lab/results/promote-jit.md. Ends with 1
# if an answer is wrong, a program ends before it is told to, or a call of promote neither gains nor says why not.
set -u
# shellcheck source=lab/scripts/record.sh
. "$(dirname "$0")/record.sh"
hugetext=$1
rounds=$2
work=$(mktemp -d)
pid=
status=0
cleanup() {
    [ -n "$pid" ] && kill "$pid" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

cat >"$work/load.js" <<'END'
const answer = new Function('seed', 'let x = seed; for (let i = 0; i < 20000; i++) x = (x * 31 + i) | 0; return x;');
const right = answer(7);
let done = 0, wrong = 0;
const one = () => {
    // New functions are compiled all the time, so V8 changes rights of its pages all the time.
    const fresh = new Function('seed', `let x = seed; for (let i = 0; i < 20000; i++) x = (x * 31 + i) | 0; return x; // ${done}`);
    if (fresh(7) !== right || answer(7) !== right) wrong++;
    done++;
    setImmediate(one);
};
process.on('SIGTERM', () => { console.log(`${done} answers, ${wrong} wrong`); process.exit(); });
one();
END

wrong() {
    echo "promote-jit.sh: $*" >&2
    status=1
}

# rounds_of NAME COMMAND…: starts it, collapses what it generates, and asks for its answers.
rounds_of() {
    name=$1
    shift
    "$@" >"$work/out" 2>&1 &
    pid=$!
    sleep 10 # until it has generated code
    if ! kill -0 "$pid" 2>/dev/null; then
        row absent "$name" "$(head -1 "$work/out")"
        pid=
        return
    fi
    done=0 gained=0 huge=0
    while [ "$done" -lt "$rounds" ]; do
        "$hugetext" promote --jit --json "$pid" >"$work/json" 2>"$work/error"
        # 1 is the answer "nothing was gained".
        case $? in
        0) gained=$((gained + 1)) ;;
        1) ;;
        *) wrong "$name, call $done: $(tail -1 "$work/error")" && break ;;
        esac
        now=$(grep -o '"after": *[0-9]*' "$work/json" | awk -F: '{sum += $2} END {print sum + 0}')
        [ "$now" -gt "$huge" ] && huge=$now
        done=$((done + 1))
    done
    pieces=$("$hugetext" promote --jit --dry-run "$pid" 2>/dev/null | sed -n 's/^ *generated text in pieces[^:]*: //p')
    kill "$pid" 2>/dev/null || wrong "$name ended before it was told to: $(tail -1 "$work/out")"
    wait "$pid" 2>/dev/null
    pid=
    answers=$(tail -1 "$work/out")
    case $answers in
    "0 answers"*) wrong "$name gave no answer" ;;
    *" answers, 0 wrong") ;;
    *) wrong "$name: $answers" ;;
    esac
    row programs "$name" "$done" "$gained" "$((huge / 1048576)) MiB" "$pieces" "$answers"
}

if command -v java >/dev/null; then
    for collector in Serial Parallel G1 Z Shenandoah; do
        rounds_of "java, $collector" java "-XX:+Use${collector}GC" -Xmx256m "$(dirname "$0")/../loads/Load.java" 4 2000 500
    done
else
    row absent java ""
fi
if command -v node >/dev/null; then
    rounds_of node node "$work/load.js"
else
    row absent node ""
fi
[ "$status" -eq 0 ]
