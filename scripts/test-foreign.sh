#!/bin/sh
# Runs the command of another architecture by QEMU's user mode on programs of its own kind:
# scripts/test-foreign.sh NATIVE EMULATOR TRIPLET COMMAND. Its answers and its fixed copies must be those
# of the native command, and the copies must run.
set -eu

native=${1:?usage: $0 NATIVE EMULATOR TRIPLET COMMAND} emulator=$2 triplet=$3 command=$4
here=$(cd "$(dirname "$0")" && pwd)
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
# The C library of the cross compiler.
export QEMU_LD_PREFIX="/usr/$triplet"

other() { "$emulator" "$command" "$@"; }

fail() {
    echo "$command: $*" >&2
    exit 1
}

"$triplet-gcc" "$here/../crates/hugetext/tests/fix/sample.c" -o "$directory/sample"
said=$("$emulator" "$directory/sample")

for geometry in x86-64 arm64-4k s390x; do
    set -- --json --geometry "$geometry" --kernel 6.18 "$directory/sample" "$command"
    "$native" check "$@" > "$directory/native"
    other check "$@" > "$directory/other"
    cmp "$directory/native" "$directory/other"
    for strategy in auto shift merge; do
        for program in "$directory/sample" "$command"; do
            set -- --strategy "$strategy" --geometry "$geometry"
            "$native" -q fix "$program" -o "$directory/a" "$@"
            other -q fix "$program" -o "$directory/b" "$@"
            cmp "$directory/a" "$directory/b"
            other -q check --same "$program" "$directory/b"
            rm "$directory/a"
            [ "$program" != "$command" ] || "$emulator" "$directory/b" --version >/dev/null
            [ "$program" = "$command" ] || [ "$("$emulator" "$directory/b")" = "$said" ] ||
                fail "the program fixed by $strategy for $geometry says something else"
            mv "$directory/b" "$directory/fixed"
        done
    done
done

# What depends on the kernel: it is the host's, and QEMU passes on what it knows of.
other check "$directory/sample" >/dev/null || fail "check ended with $?"
other --json check "$directory/sample" | grep -q '"machine"' || fail "check says nothing of the machine"
for subcommand in "warm $directory/fixed" "stat $$"; do
    answer=0
    # shellcheck disable=SC2086 # a list of words
    other $subcommand > "$directory/out" 2>&1 || answer=$?
    [ "$answer" -le 1 ] || fail "$subcommand ended with $answer: $(cat "$directory/out")"
    sed "s|^|${subcommand%% *}: |; s|$directory/||g" "$directory/out"
done
other run -- true || fail "run ended with $?"
answer=0
other run -- sh -c 'exit 42' || answer=$?
[ "$answer" = 42 ] || fail "run -- sh ended with $answer, not 42"
echo "$command: the same answers and the same fixed copies as $native"
