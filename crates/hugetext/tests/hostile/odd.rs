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
