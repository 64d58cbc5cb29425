//! A mount namespace of a plain user with very many mounts.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::ground::{Ground, assert_ran, often};

/// Enters namespaces of its own, makes that many mounts below a directory, and executes the rest of the words.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
static void map(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (file) { fputs(text, file); fclose(file); }
}
int main(int count, char **words) {
    char line[64];
    int user = getuid(), group = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) return 70;
    map("/proc/self/setgroups", "deny");
    sprintf(line, "%d %d 1", user, user);
    map("/proc/self/uid_map", line);
    sprintf(line, "%d %d 1", group, group);
    map("/proc/self/gid_map", line);
    /* A stack of many mounts at one place would take the kernel long. */
    for (int left = atoi(words[1]); left > 0; left--) {
        char place[4096];
        snprintf(place, sizeof place, "%s/%d", words[2], left % 1000);
        mkdir(place, 0700);
        if (mount(place, place, 0, MS_BIND, 0)) return 71;
    }
    execv(words[3], words + 3);
    return 72;
}
"#;

#[test]
fn very_many_mounts_are_no_reason_not_to_run() {
    let mounts = often(2_000, 50_000);
    let Some(ground) = Ground::new() else { return };
    let (source, mounter) = (ground.path("mounter.c"), ground.path("mounter"));
    fs::write(&source, SOURCE).unwrap();
    let compiled = Command::new("cc")
        .args([source.as_path(), Path::new("-w"), Path::new("-o"), &mounter])
        .status();
    assert!(compiled.unwrap().success());
    let place = ground.path("place");
    fs::create_dir(&place).unwrap();
    ground.give(&place);
    let started = |run: bool| {
        let mut command = ground.plain(&mounter);
        command.arg(mounts.to_string()).arg(&place);
        if run {
            command.arg(env!("CARGO_BIN_EXE_hugetext"));
            command.args(["-q", "run", "--store", "store", "--"]);
        }
        command.arg(ground.path("program")).output().unwrap()
    };
    let plain = started(false);
    if let Some(code @ (70 | 71)) = plain.status.code() {
        return println!("skipped: a plain user may not mount here ({code})");
    }
    assert_ran(&plain);
    assert_ran(&started(true));
    println!("hostile: {mounts} mounts in the namespace of a plain user harm no start there");
}
