#!/bin/sh
# Prints the record of lab/results/run-results.md: lab/scripts/results-run.sh HUGETEXT STATIC, the same command without libraries
# Each measurement is preceded by QUIETLY, a command that waits until the machine is idle.
set -eu

hugetext=$(realpath "${1:?usage: $0 HUGETEXT STATIC}")
static=$(realpath "${2:?usage: $0 HUGETEXT STATIC}")
scripts=$(dirname "$0")
# shellcheck source=lab/scripts/record.sh
. "$scripts/record.sh"
rounds=${ROUNDS:-60}
loads=$scripts/../loads
# A directory whose page cache holds huge folios, if this machine has one.
scratch=$(mktemp -d "${CARGO_TARGET_DIR:-target}/run.XXXXXX")
scratch=$(realpath "$scratch")
children=
clean() {
    for child in $children; do kill "$child" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM
store=$scratch/store
run="$hugetext run -q --store $store"
cc1=$(gcc -print-prog-name=cc1)

fact machine "$(uname -sr), $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
printf 'int main(void) { return 0; }\n' >"$scratch/main.c"
printf 'pub fn one() {}\n' >"$scratch/one.rs"
commands=$scratch/commands
offer() {
    if command -v "$2" >/dev/null 2>&1; then
        name=$1
        shift
        printf '%s\t%s\t%s\n' "$name" "$*" "${also:+--also $also}" >>"$commands"
    fi
}
offer true true
offer cc1 "$cc1" -quiet -o /dev/null /dev/null
offer gcc gcc -c "$scratch/main.c" -o "$scratch/main.o"
offer git git --version
offer python3 /usr/bin/python3 -c pass
offer node node --version
offer java java -version
offer qemu qemu-system-x86_64 --version
offer postgres "$(find /usr/lib/postgresql -path "*/bin/postgres" 2>/dev/null | head -n 1)" --version
also=$cc1
offer gcc-also gcc -c "$scratch/main.c" -o "$scratch/main.o"
also=
set -- rustc --crate-type lib --emit metadata -o "$scratch/one.rmeta" "$scratch/one.rs"
offer rustc "$@"
also=$(rustc --print sysroot 2>/dev/null || true)/lib
offer rustc-also "$@"
mkdir -p "$scratch/crates/one/src" "$scratch/crates/two/src"
printf '[workspace]\nmembers = ["one", "two"]\nresolver = "2"\n' >"$scratch/crates/Cargo.toml"
for name in one two; do
    printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n' $name >"$scratch/crates/$name/Cargo.toml"
    printf 'pub fn one() -> u32 { 1 }\n' >"$scratch/crates/$name/src/lib.rs"
done
offer cargo sh "$loads/build.sh" "$scratch/crates"
also=
${QUIETLY:-} "$scripts/interleave.pl" "$rounds" "$run" <"$commands" | rows starts

# Programs that do nothing but execute their arguments, behind "--".
wrapper=$scratch/wrapper
printf '#include <unistd.h>\nint main(int c, char **v) { return execvp(v[2], v + 2); }\n' >"$wrapper.c"
cat >"$wrapper.rs" <<'TEXT'
use std::{env, os::unix::process::CommandExt, process::Command};
fn main() {
    let mut words = env::args_os().skip(2);
    panic!("{}", Command::new(words.next().unwrap()).args(words).exec());
}
TEXT
# Nothing but the system call: no library, no start files. The stack has the number of arguments first.
case $(uname -m) in
x86_64)
    cat >"$wrapper.s" <<'TEXT'
.globl _start
_start: mov (%rsp), %rcx
    lea 24(%rsp), %rsi
    lea 16(%rsp,%rcx,8), %rdx
    mov (%rsi), %rdi
    mov $59, %eax
    syscall
    hlt
TEXT
    ;;
aarch64)
    cat >"$wrapper.s" <<'TEXT'
.globl _start
_start: ldr x2, [sp]
    add x1, sp, #24
    add x2, sp, x2, lsl #3
    add x2, x2, #16
    ldr x0, [x1]
    mov x8, #221
    svc #0
    brk #0
TEXT
    ;;
esac
: >"$commands"
offer true /bin/true
behind() { # NAME WRAPPER…: a row of the table, from the columns of interleave.pl
    name=$1
    shift
    ${QUIETLY:-} "$scripts/interleave.pl" "${ROUNDS:-200}" "$*" <"$commands" |
        awk -F'|' -v name="$name" '{ print "| " name " |" $3 "|" $6 "|" $7 "|" }' | rows behind
}
if [ -e "$wrapper.s" ]; then
    gcc -nostdlib -static -o "$wrapper-none" "$wrapper.s"
    behind system-call "$wrapper-none"
fi
gcc -O2 -static -o "$wrapper-static" "$wrapper.c"
behind c-static "$wrapper-static"
gcc -O2 -o "$wrapper-c" "$wrapper.c"
behind c "$wrapper-c"
rustc -O -o "$wrapper-rust" "$wrapper.rs"
behind rust "$wrapper-rust"
rustc -O --target "$(uname -m)-unknown-linux-musl" -o "$wrapper-musl" "$wrapper.rs"
behind rust-static "$wrapper-musl"
# The words of run are meant to be split.
# shellcheck disable=SC2086
behind run $run
cp "$static" "$scratch/hugetext"
sync
"$scripts/small-folios.py" "$scratch/hugetext"
# shellcheck disable=SC2086
behind run-static-small "$scratch/hugetext" ${run#"$hugetext"}
"$hugetext" warm -q "$scratch/hugetext"
# shellcheck disable=SC2086
behind run-static-huge "$scratch/hugetext" ${run#"$hugetext"}

if sysroot=$(rustc --print sysroot 2>/dev/null) && command -v python3 >/dev/null; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    mkdir -p "$scratch/rust/bin" "$scratch/rust/lib/rustlib"
    cp "$sysroot/bin/rustc" "$scratch/rust/bin"
    cp "$sysroot"/lib/*.so* "$scratch/rust/lib"
    cp -r "$sysroot/lib/rustlib/$host" "$scratch/rust/lib/rustlib"
    sync
    set -- "$scratch/rust/bin/rustc" --crate-type lib --emit metadata -o "$scratch/one.rmeta" "$scratch/one.rs"
    : >"$commands"
    also=$scratch/rust/lib
    offer rustc "$@"
    offer ten-times sh "$loads/ten_times.sh" "$@"
    # Makes the copies, so that afterwards only their text is warmed.
    $run --also "$also" -- "$scratch/rust/bin/rustc" --version >/dev/null
    "$scripts/small-folios.py" "$also"/*.so*
    ${QUIETLY:-} "$scripts/interleave.pl" "$rounds" "$run" <"$commands" | rows rustc
    also=
fi

# Bytes of a field of smaps over the text of cc1 in processes: text_bytes FIELD PID...
text_bytes() {
    field=$1
    shift
    for pid in "$@"; do cat "/proc/$pid/smaps"; done | awk -v field="$field:" '
        /^[0-9a-f]+-[0-9a-f]+ / { text = $2 ~ /x/ && $6 ~ /cc1/ }
        text && $1 == field { sum += $2 }
        END { printf "%d", sum / 1024 }'
}

# A hundred compilers that wait for their input.
mkfifo "$scratch/input"
hundred() {
    pids=
    for _ in $(seq 100); do
        "$@" "$cc1" -quiet -o /dev/null - <"$scratch/input" &
        pids="$pids $!"
    done
    children="$children $pids"
    exec 3>"$scratch/input"
    # All have read nothing and sleep.
    for pid in $pids; do
        until [ "$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat")" = S ] &&
            [ "$(basename "$(readlink "/proc/$pid/exe")")" = cc1 ]; do :; done
    done
}
held_by() {
    # shellcheck disable=SC2086 # a list of process ids
    row hundred "$1" "$(text_bytes Rss $pids) MiB" "$(text_bytes Pss $pids) MiB" "$(text_bytes FilePmdMapped $pids) MiB"
    exec 3>&-
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
}
size=$(readelf -lW "$cc1" | awk '$1 == "LOAD" && / R E / { print $5 }')
fact mebibytes "$((size >> 20))"
hundred env
held_by plain
# shellcheck disable=SC2086 # a command and its options
hundred $run --
held_by 'hugetext run'

# Locked memory is page cache that every instance shares.
mkfifo "$scratch/told"
"$hugetext" keep --lists "$scratch/keep.d" --store "$store" add "$cc1" >/dev/null
printf 'mode = "observe"\nbudget = "1G"\n' >"$scratch/auto.toml"
"$hugetext" auto --by scan --config "$scratch/auto.toml" --state "$scratch/state" --run-dir "$scratch/run" \
    --lists "$scratch/keep.d" --store "$store" >"$scratch/told" 2>&1 &
daemon=$!
children="$children $daemon"
exec 4<"$scratch/told"
while read -r told <&4; do case $told in listed*) break ;; esac done
told=$(echo "$told" | sed "s#$scratch#...#g")
fact keep "$(printf '%s\n' "$told" && grep -E '^(VmLck|VmRSS|RssAnon)' "/proc/$daemon/status")"
