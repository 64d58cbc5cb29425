//! Files on a filesystem that never answers: the daemon goes on with those of others.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::fuse::Fuse;
use crate::place::{Place, Working, can_hold, run_behind_others};
use crate::small_folios::make_small;

#[test]
fn a_program_whose_filesystem_never_answers_keeps_no_other_waiting() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let at = place.path("remote");
    fs::create_dir(&at).unwrap();
    let content = fs::read(place.path("program")).unwrap();
    let Some(fuse) = Fuse::mount(&at, content) else {
        return;
    };
    let daemon = place.daemon(&[]);
    // It is dropped first: a process whose thread waits for an answer cannot end.
    let fuse = fuse;
    let _ = place.status_source();
    // It is seen, and from then on nobody can look at it.
    assert!(Command::new(at.join("program")).status().unwrap().success());
    fuse.hang();
    if place.run_until(&daemon, "held").is_some() {
        // It was not even tried: a mount says that it may never answer.
        assert!(!fuse.keeps_waiting(&daemon.child));
    }
    drop(fuse);
    daemon.end();
}

#[test]
fn a_directory_that_leads_to_such_a_filesystem_stops_nothing() {
    let place = Place::new("act");
    if !can_hold(&place) {
        return;
    }
    let at = place.path("remote");
    fs::create_dir(&at).unwrap();
    let other = place.copy_program("own/program");
    let Some(fuse) = Fuse::mount(&at, fs::read(&other).unwrap()) else {
        return;
    };
    let daemon = place.daemon(&[]);
    // It is dropped first: a process whose thread waits for an answer cannot end.
    let fuse = fuse;
    if place.run_other_until(&daemon, &other, "held").is_none() {
        return;
    }
    // No mount lies on its path, and still whoever looks its directory up waits for ever.
    fs::rename(place.path("own"), place.path("moved")).unwrap();
    fuse.hang();
    symlink(at.join("own"), place.path("own")).unwrap();
    // What is held now makes the daemon watch both directories.
    if place.run_until(&daemon, "held").is_none() {
        return;
    }
    place.install(7);
    let _ = place.run_until(&daemon, "released");
    drop(fuse);
    daemon.end();
}

/// Reads a file that is given as its argument, maps it in the meantime, and works in a third thread. Once the file's
/// server hangs, mmap(2) waits for the page that is being read, with the lock of all mappings.
const HANGING: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static int cached, direct;
static void *read_page(void *page) { return (void *)pread(cached, page, 4096, 0); }
static void *map_page(void *at) {
    for (;;) mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, direct, 0);
}
int main(int count, char **words) {
    static char page[4096];
    pthread_t reads, maps;
    cached = open(words[1], O_RDONLY);
    direct = open(words[1], O_RDONLY | O_DIRECT);
    void *at = mmap(0, 12288, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    puts(cached >= 0 && direct >= 0 && at != MAP_FAILED ? "open" : "not open");
    fflush(stdout);
    getchar();
    pthread_create(&reads, 0, read_page, page);
    pthread_create(&maps, 0, map_page, at + 4096);
    for (;;) ;
}
"#;

/// Begins a process of user `user` whose mappings cannot be read any more.
fn begin_hanging(place: &Place, fuse: &Fuse, file: &Path, user: u32) -> Working {
    let (source, program) = (place.path("hanging.c"), place.path("hanging"));
    if !program.exists() {
        fs::write(&source, HANGING).unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg("-pthread").arg("-o").args([&program, &source]);
        assert!(compiler.status().unwrap().success());
    }
    let mut command = Command::new(&program);
    command.arg(file).uid(user);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    assert_eq!(said, "open\n");
    fuse.hang();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    while !last_thread_waits(&child) {
        thread::yield_now();
    }
    Working(child)
}

/// Whether the last thread of a process waits for what no signal but that of its end interrupts.
fn last_thread_waits(child: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let ids = threads.flatten().map(|thread| thread.file_name());
    let ids = ids.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    let last = ids.max().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/task/{last}/stat", child.id()));
    last != child.id() && stat.unwrap().contains(") D ")
}

/// Commands that look at all processes end.
fn ensure_commands_end(place: &Place) {
    // Text in small folios that a process maps: who is it?
    let used = place.copy_program("used");
    make_small(&used);
    let used_by = Working(Command::new(&used).arg("works").spawn().unwrap());
    let top = ["auto", "top", "--once"].map(PathBuf::from);
    let warm = ["warm".into(), used.clone()];
    let run = ["run".into(), used.clone()];
    // Each waits for ten seconds, so all wait at the same time.
    let begun = [&top[..], &warm, &run].map(|words| {
        let mut command = Command::new("timeout");
        command.arg("60").arg(env!("CARGO_BIN_EXE_hugetext"));
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        (words, quiet.args(words).spawn().unwrap())
    });
    for (words, mut child) in begun {
        assert_ne!(child.wait().unwrap().code(), Some(124), "{words:?}");
    }
    drop(used_by);
}

/// Commands about this very process say why they cannot answer.
fn ensure_commands_tell(place: &Place, hanging: &Working) {
    let pid = hanging.0.id().to_string();
    let page = place.path("page.html").display().to_string();
    let commands = [
        vec!["check", "--pid", &pid],
        vec!["promote", &pid],
        vec!["stat", &pid],
        vec!["report", "-o", &page, &pid],
    ];
    // Each waits for ten seconds, so all wait at the same time.
    let begun: Vec<_> = commands
        .iter()
        .map(|words| {
            let mut command = Command::new("timeout");
            command.arg("60").arg(env!("CARGO_BIN_EXE_hugetext"));
            command.args(words).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for (words, child) in commands.iter().zip(begun) {
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            said.contains("its mappings cannot be listed"),
            "{words:?}: {said}"
        );
        assert_eq!(ended.status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_process_whose_mappings_are_locked_stops_nothing() {
    for source in ["records", "reports"] {
        let place = Place::new("act");
        if !can_hold(&place) {
            return;
        }
        let at = place.path("remote");
        fs::create_dir(&at).unwrap();
        let Some(fuse) = Fuse::mount(&at, vec![0; 4096]) else {
            return;
        };
        let daemon = place.daemon(&["--by", source]);
        let hanging = begin_hanging(&place, &fuse, &at.join("program"), 65_534);
        // It is dropped first: a process whose thread waits for an answer cannot end.
        let fuse = fuse;
        let given_up = || place.status()["losses"]["given_up"] != 0;
        let _ = place.status_source();
        while !given_up() {
            run_behind_others(&mut Command::new(place.path("program"))).unwrap();
        }
        if place.run_until(&daemon, "held").is_none() {
            return;
        }
        // It has been seen to work, and the other tests need the processors.
        let pid = hanging.0.id().to_string();
        let yields = Command::new("renice").args(["19", "-p", &pid]).output();
        assert!(yields.unwrap().status.success());
        thread::scope(|scope| {
            scope.spawn(|| ensure_commands_end(&place));
            scope.spawn(|| ensure_commands_tell(&place, &hanging));
        });
        drop(fuse);
        drop(hanging);
        daemon.end();
    }
}
