//! Processes in odd states start programs as without hugetext.

use std::process::Output;

use crate::ground::Ground;

/// What a shell does before it becomes the command.
const STATES: &[&str] = &[
    "",
    "exec <&-",
    "exec 2>&-",
    "exec <&- 2>&-",
    "umask 777",
    "umask 0",
    "ulimit -f 0",
    "ulimit -c 0",
    "ulimit -n 8",
    "ulimit -n 16",
    "ulimit -s 256",
    "ulimit -v 200000",
    "ulimit -d 100000",
    "ulimit -t 5",
    "ulimit -l 0",
    "unset HOME",
    "HOME=/nonexistent; export HOME",
    "HOME=relative; export HOME",
    "HOME=; export HOME",
    "unset PATH",
    "PATH=; export PATH",
    "TMPDIR=/nonexistent; export TMPDIR",
    "XDG_RUNTIME_DIR=/nonexistent; export XDG_RUNTIME_DIR",
    "XDG_RUNTIME_DIR=relative; export XDG_RUNTIME_DIR",
    "XDG_CACHE_HOME=/proc; export XDG_CACHE_HOME",
    "LANG=xx_YY.bad; export LANG",
    "LC_ALL=C; export LC_ALL",
    "NO_COLOR=1; export NO_COLOR",
    "LD_LIBRARY_PATH=/nonexistent::; export LD_LIBRARY_PATH",
    "trap '' HUP INT TERM PIPE CHLD",
    "mkdir -p gone && cd gone && rmdir ../gone",
    "cd /proc",
    "cd /",
    "exec 3</dev/null 4</dev/null 9</dev/null",
    "nice -n 19 true",
    "BIG=$(head -c 100000 /dev/zero | tr '\\0' x); export BIG",
    "exec 1>&-",
    "exec 0<&- 1>&- 2>&-",
    "exec 2>/dev/full",
    "exec 2</dev/null",
    "exec 0>/dev/null",
    "exec 5</proc/self/maps 6</proc/self/mem",
    "exec 9>locked; flock 9 2>/dev/null",
    "ulimit -n 4",
    "ulimit -n 5",
    "ulimit -n 6",
    "ulimit -s 128",
    "ulimit -s unlimited",
    "ulimit -v 50000",
    "ulimit -v 500000",
    "ulimit -t 1",
    "ulimit -f 1",
    "ulimit -c 1",
    "ulimit -l 0; ulimit -n 16; ulimit -s 512",
    "umask 077",
    "umask 0777; mkdir -p made",
    "HOME=/proc/self/fd; export HOME",
    "HOME=/dev/null; export HOME",
    "HOME=$(printf '/\\377\\001'); export HOME",
    "HOME=$(printf '/a\\nb'); export HOME",
    "XDG_CACHE_HOME=relative; export XDG_CACHE_HOME",
    "XDG_CACHE_HOME=; export XDG_CACHE_HOME",
    "XDG_CACHE_HOME=/dev/full; export XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR=/; export XDG_RUNTIME_DIR",
    "XDG_RUNTIME_DIR=/dev/null; export XDG_RUNTIME_DIR",
    "TMPDIR=relative; export TMPDIR",
    "TMPDIR=/dev/null; export TMPDIR",
    "PATH=/nonexistent:$PATH; export PATH",
    "PATH=.:$PATH; export PATH",
    "LD_BIND_NOW=1; export LD_BIND_NOW",
    "LD_BIND_NOT=1; export LD_BIND_NOT",
    "GLIBC_TUNABLES=glibc.malloc.check=3:bad; export GLIBC_TUNABLES",
    "GLIBC_TUNABLES=$(head -c 60000 /dev/zero | tr '\\0' :); export GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX=1; export MALLOC_ARENA_MAX",
    "RUST_BACKTRACE=full; RUST_LOG=trace; export RUST_BACKTRACE RUST_LOG",
    "COLUMNS=0; TERM=; export COLUMNS TERM",
    "COLUMNS=99999999999; TERM=nothing; export COLUMNS TERM",
    "LC_ALL=en_US.UTF-8; LANGUAGE=tr; export LC_ALL LANGUAGE",
    "SOURCE_DATE_EPOCH=-1; TZ=:bad; export SOURCE_DATE_EPOCH TZ",
    "HUGETEXT=1; HUGETEXT_STORE=/proc; export HUGETEXT HUGETEXT_STORE",
    "trap '' SEGV BUS ILL ABRT USR1 USR2 ALRM",
    "trap '' PIPE; exec 2>&-",
    "mkdir -p shut && cd shut && chmod 0 ../shut",
    "cd /dev",
    "cd /proc/self/fd",
];

#[test]
fn an_odd_state_changes_nothing() {
    let Some(ground) = Ground::new() else { return };
    let program = ground.path("program");
    let shell = |state: &str, run: bool| -> Output {
        let script = format!("{state}\nexec \"$@\"");
        let mut command = ground.plain("/bin/sh");
        command.args(["-c", &script, "sh"]);
        if run {
            command.arg(env!("CARGO_BIN_EXE_hugetext"));
            command.args(["-q", "run", "--"]);
        }
        command.arg(&program).output().unwrap()
    };
    for state in STATES {
        let (plain, through) = (shell(state, false), shell(state, true));
        assert_eq!(
            through.status.code(),
            plain.status.code(),
            "{state}: {through:?}"
        );
        assert_eq!(through.stdout, plain.stdout, "{state}: {through:?}");
    }
    println!(
        "hostile: {0} of {0} odd states change nothing",
        STATES.len()
    );
}
