//! Names that lie elsewhere than in the program: debug files that are found by .gnu_debuglink or asked of a server, and the
//! archives of perf. They are right, or missing, and never those of another function.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::profiles::{
    AT_FIXED_ADDRESS, CONGRUENT, PIE, Profiled, RUN, cores_are_files, is_honest,
};
use crate::subject::{HUGETEXT, text};

/// Moves the names of the program into `debug/prog.debug`. False, with the reason printed, without binutils.
fn split(profiled: &Profiled) -> bool {
    fs::create_dir(profiled.path("debug")).unwrap();
    let mut all = [
        &["objcopy", "--only-keep-debug", "prog", "debug/prog.debug"][..],
        &["strip", "--strip-all", "prog"],
        &["objcopy", "--add-gnu-debuglink=debug/prog.debug", "prog"],
    ]
    .into_iter();
    let done = all.all(|words| {
        let status = profiled.command(words[0]).args(&words[1..]).status();
        status.is_ok_and(|status| status.success())
    });
    if !done {
        println!("skipped: no binutils");
    }
    done
}

/// The backtrace of the only core dump, with these options before the files.
fn backtrace(
    profiled: &Profiled,
    program: &Path,
    options: &[&str],
    server: Option<&str>,
) -> String {
    let mut gdb = profiled.command("gdb");
    gdb.args(["-q", "-batch", "-iex", "set debuginfod enabled on"])
        .args(options);
    gdb.args(["-ex", "bt"]).arg(program).arg(profiled.core());
    gdb.env("DEBUGINFOD_CACHE_PATH", profiled.path("cache"));
    if let Some(server) = server {
        gdb.env("DEBUGINFOD_URLS", server);
    }
    text(&gdb.output().unwrap().stdout)
}

fn names(said: &str) -> bool {
    said.contains("hot (") && said.contains("main (")
}

/// A program, how it ran when its core was dumped, and whether it was fixed before.
fn dumped(linked: [&str; 2], words: &[&str], fixed: bool) -> Option<Profiled> {
    let profiled = Profiled::build(linked)?;
    if !cores_are_files() || !split(&profiled) {
        return None;
    }
    if fixed {
        let fix = ["fix", "-q", "--in-place", "prog"];
        let status = profiled.command(HUGETEXT).args(fix).status();
        assert!(status.unwrap().success());
    }
    profiled.dump(words);
    Some(profiled)
}

#[test]
fn a_debug_file_is_found_by_its_link() {
    for (linked, words, fixed) in [
        (PIE, &RUN[..], false),
        (CONGRUENT, &RUN, false),
        (PIE, &["./prog"], true),
        (AT_FIXED_ADDRESS, &["./prog"], true),
    ] {
        let Some(profiled) = dumped(linked, words, fixed) else {
            return;
        };
        let none = backtrace(&profiled, &profiled.path("prog"), &[], None);
        assert!(!none.contains("hot ("), "the program has no names: {none}");
        let directory = format!(
            "set debug-file-directory {}",
            profiled.path("debug").display()
        );
        // The link names the file, and gdb looks beside the program and below that directory.
        fs::rename(
            profiled.path("debug/prog.debug"),
            profiled.path("prog.debug"),
        )
        .unwrap();
        let found = backtrace(
            &profiled,
            &profiled.path("prog"),
            &["-iex", &directory],
            None,
        );
        assert!(names(&found), "{linked:?}: {found}");
    }
}

/// A copy lies elsewhere, so its link leads nowhere. Its build-id does, as that of the program.
#[test]
fn the_debug_file_of_a_copy_is_found_by_build_id_and_not_by_its_link() {
    let Some(profiled) = dumped(AT_FIXED_ADDRESS, &RUN, false) else {
        return;
    };
    let copy = profiled.ran(profiled.core());
    assert!(copy.starts_with(profiled.path("store")));
    let none = backtrace(&profiled, &copy, &[], None);
    assert!(
        !none.contains("hot (") && !none.contains("beside"),
        "{none}"
    );
    let notes = profiled.command("readelf").args(["-n", "prog"]).output();
    let notes = text(&notes.unwrap().stdout);
    let mut lines = notes.lines();
    let id = lines.find_map(|line| line.trim().strip_prefix("Build ID: "));
    let (first, rest) = id.unwrap().split_at(2);
    let place = profiled.path(&format!("all/.build-id/{first}"));
    fs::create_dir_all(&place).unwrap();
    let debug = place.join(format!("{rest}.debug"));
    fs::rename(profiled.path("debug/prog.debug"), debug).unwrap();
    let all = format!(
        "set debug-file-directory {}",
        profiled.path("all").display()
    );
    let found = backtrace(&profiled, &copy, &["-iex", &all], None);
    assert!(names(&found), "{found}");
}

/// A server of debug files on a port of this machine, which ends with this value.
struct Server(Child, String);

impl Server {
    /// `None`, with the reason printed, without one.
    fn of(directory: PathBuf) -> Option<Server> {
        // The port is free again, and mostly still free when the server takes it.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut server = Command::new("debuginfod");
        server.args(["-d", ":memory:", "-v", "-t", "0", "-g", "0"]);
        server.args(["-p", &port.to_string(), "-F"]).arg(directory);
        server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let Ok(mut child) = server.spawn() else {
            println!("skipped: no debuginfod");
            return None;
        };
        let mut said = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let is_ready = said.any(|line| line.contains("fts traversed") || line.contains("scanned"));
        // Nobody may wait for a pipe that is full.
        std::thread::spawn(move || said.for_each(drop));
        let server = Server(child, format!("http://127.0.0.1:{port}"));
        if !is_ready {
            println!("skipped: debuginfod ended");
            return None;
        }
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A fix and a copy keep the build-id and every address, so the debug file of the old layout is that of the new one.
#[test]
fn a_debug_file_is_found_by_build_id_at_a_server() {
    for (linked, words, fixed) in [
        (PIE, &RUN[..], false),
        (AT_FIXED_ADDRESS, &RUN, false),
        (PIE, &["./prog"], true),
    ] {
        let Some(profiled) = dumped(linked, words, fixed) else {
            return;
        };
        let Some(server) = Server::of(profiled.path("debug")) else {
            return;
        };
        let ran = profiled.ran(profiled.core());
        let found = backtrace(&profiled, &ran, &[], Some(&server.1));
        assert!(names(&found), "{linked:?}: {found}");
    }
}

/// What perf takes to another machine names the same functions there.
#[test]
fn an_archive_of_perf_names_no_other_function() {
    for (linked, is_own_file) in [(PIE, true), (AT_FIXED_ADDRESS, false)] {
        let Some(profiled) = Profiled::build(linked) else {
            return;
        };
        if !profiled.record("perf.data", &[], &RUN) {
            return;
        }
        let archived = profiled
            .command("perf")
            .args(["archive", "perf.data"])
            .output();
        let archived = archived.unwrap();
        let archive = profiled.path("perf.data.tar.bz2");
        if !archived.status.success() || !archive.is_file() {
            return println!("skipped: no perf archive: {}", text(&archived.stderr));
        }
        // The other machine has neither the program nor what perf kept here.
        fs::remove_dir_all(profiled.path(".debug")).unwrap();
        fs::remove_file(profiled.path("prog")).unwrap();
        fs::create_dir(profiled.path(".debug")).unwrap();
        let mut unpacked = profiled.command("tar");
        unpacked.args(["-xjf"]).arg(&archive).args(["-C", ".debug"]);
        assert!(unpacked.status().unwrap().success());
        let named = profiled.busiest("perf.data");
        let right = if is_own_file {
            named == "hot"
        } else {
            is_honest(&named)
        };
        assert!(right, "{linked:?}: {named}");
    }
}
