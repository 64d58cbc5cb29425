//! A server under load is promoted and mapped back again and again.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::ground::{Ground, often};

/// Ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compile(ground: &Ground) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/server.go");
    let server = ground.path("server");
    let cache = ground.path("cache");
    let mut compiler = Command::new("go");
    compiler.args(["build", "-o"]).arg(&server).arg(source);
    // Nothing is downloaded: the program needs the standard library alone.
    compiler
        .env("GOCACHE", cache)
        .env("GOFLAGS", "-mod=mod")
        .env("GOTOOLCHAIN", "local");
    if compiler.status().is_ok_and(|status| status.success()) {
        return Some(server);
    }
    println!("skipped: no Go compiler");
    None
}

#[test]
fn a_server_that_is_promoted_again_and_again_gives_each_answer() {
    let times = often(0, 512);
    if times == 0 {
        return println!("skipped: it takes minutes; make test-hostile runs it");
    }
    let Some(ground) = Ground::new() else { return };
    let Some(server) = compile(&ground) else {
        return;
    };
    let mut serving = Running(
        ground
            .plain(&server)
            .arg("serve")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut address = String::new();
    let mut said = BufReader::new(serving.0.stdout.take().unwrap());
    said.read_line(&mut address).unwrap();
    let mut load = ground.plain(&server);
    load.args(["load", address.trim()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut load = Running(load.spawn().unwrap());
    let pid = serving.0.id().to_string();
    let (mut done, mut again) = (0, 0);
    for _ in 0..times {
        for words in [
            &["promote", "--backend", "remap", &pid][..],
            &["promote", "--revert", &pid],
        ] {
            let output = ground.hugetext(words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if said.contains("ptrace_scope") || said.contains("no PMD leaf") {
                return println!("skipped: {said}");
            }
            // A busy machine may give a thread no processor for seconds, and a copy no huge pages.
            let is_small = String::from_utf8_lossy(&output.stdout).contains("is memory fragmented");
            if (said.contains("try again") || is_small) && again < times {
                again += 1;
                break;
            }
            assert!(output.status.success(), "{words:?}: {output:?}");
            done += 1;
        }
    }
    drop(load.0.stdin.take());
    let mut counts = String::new();
    load.0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut counts)
        .unwrap();
    let counts: Vec<u64> = counts
        .split_whitespace()
        .map(|count| count.parse().unwrap())
        .collect();
    println!(
        "hostile: {done} of {} changes of a Go server under load, half of them promotions, {again} to be tried again; {} of {} \
         answers wrong or missing",
        2 * times,
        counts[1],
        counts[0]
    );
    assert!(counts[0] > 0 && counts[1] == 0, "{counts:?}");
}
