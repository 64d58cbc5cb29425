//! Very many starts of very many programs by a plain user, and what the daemon keeps of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::place::{Place, can_hold};

/// Starts each of the programs that its words name, that many times in all.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    for (int left = atoi(words[1]), at = 2; left > 0; left--, at = at + 1 < count ? at + 1 : 2) {
        pid_t child = vfork();
        if (child == 0) { execl(words[at], words[at], (char *)0); _exit(77); }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    return 0;
}
"#;

/// As [`SOURCE`] for HUGETEXT_HOSTILE, and less otherwise.
fn often(few: usize, all: usize) -> usize {
    match std::env::var_os("HUGETEXT_HOSTILE") {
        Some(_) => all,
        None => few,
    }
}

#[test]
fn very_many_starts_stop_nothing() {
    let (programs, starts) = (often(100, 1_000), often(1_000, 30_000));
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let (source, starter) = (place.path("starter.c"), place.path("starter"));
    fs::write(&source, SOURCE).unwrap();
    let words = [source.as_path(), Path::new("-w"), Path::new("-o"), &starter];
    let compiled = Command::new("cc").args(words).status();
    assert!(compiled.unwrap().success());
    place.install_with(0, 64 << 10);
    let directory = place.path("programs");
    fs::create_dir(&directory).unwrap();
    let paths: Vec<_> = (0..programs)
        .map(|number| directory.join(number.to_string()))
        .collect();
    for path in &paths {
        fs::copy(place.path("program"), path).unwrap();
    }
    let daemon = place.daemon(&[]);
    let source = place.status_source();
    let mut user = Command::new(&starter);
    user.arg(starts.to_string())
        .args(&paths)
        .uid(65534)
        .gid(65534);
    assert!(user.status().unwrap().success());
    // Whoever starts something afterwards is seen as before.
    place.install(0);
    if place.run_until(&daemon, "held").is_none() {
        return;
    }
    let status = place.status().to_string();
    println!(
        "hostile: {starts} starts of {programs} programs seen by {source}; then a program is held as before, and all.json has {} KiB",
        status.len() >> 10
    );
    daemon.end();
}
