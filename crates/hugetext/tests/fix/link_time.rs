//! The snippets of docs/link-time.md, run unchanged. They align text to 2 MiB.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sample::{json, path, text};

const GUIDE: &str = include_str!("../../../../docs/link-time.md");
const SAMPLE: &str = include_str!("sample.c");
const H: u64 = 2 << 20;

/// The first indented block under a heading of the guide, without its indentation.
fn snippet(heading: &str) -> String {
    let section = GUIDE.split("\n## ").find(|part| part.starts_with(heading));
    let lines = section.unwrap().lines().skip(1);
    let block = lines
        .skip_while(|line| !line.starts_with("    "))
        .take_while(|line| line.starts_with("    ") || line.is_empty());
    block
        .map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n")
        .collect()
}

/// Runs a build in a directory. Returns whether its tools are installed. If they are, the build
/// must succeed.
fn built(directory: &Path, tools: &[&str], script: &str) -> bool {
    for tool in tools {
        if which::which(tool).is_err() {
            println!("skipped: no {tool} on this machine");
            return false;
        }
    }
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(directory)
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    true
}

/// Checks that each segment is aligned and congruent. Returns the bytes of text that leaves reach
/// without a fix.
fn is_aligned(program: &Path) -> u64 {
    let report = json(&["check", "--geometry", "x86-64", path(program)]);
    let file = &report["files"][0];
    let segments = file["segments"].as_array().unwrap();
    assert!(!segments.is_empty(), "{file}");
    for segment in segments {
        let number = |name: &str| segment[name].as_u64().unwrap();
        assert!(number("align") >= H, "{segment}");
        assert_eq!(number("vaddr").wrapping_sub(number("offset")) % H, 0);
    }
    file["now"][0]["reached"].as_u64().unwrap()
}

#[test]
fn cargo() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::create_dir_all(place.join(".cargo")).unwrap();
    fs::create_dir_all(place.join("src")).unwrap();
    fs::write(place.join(".cargo/config.toml"), snippet("cargo")).unwrap();
    fs::write(
        place.join("Cargo.toml"),
        "[package]\nname = \"program\"\nedition = \"2021\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(place.join("src/main.rs"), "fn main() {}").unwrap();
    // The snippet names one architecture.
    let script = "unset RUSTFLAGS CARGO_TARGET_DIR; cargo build -q --offline";
    if cfg!(target_arch = "x86_64") && built(place, &["cargo"], script) {
        is_aligned(&place.join("target/debug/program"));
    }
}

/// Builds the sample program by a project file of this name. The file consists of `project` and
/// the snippet under a heading.
fn sample_is_built_by(name: &str, project: &str, heading: &str, tools: &[&str], script: &str) {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("program.c"), SAMPLE).unwrap();
    fs::write(place.join(name), project.to_owned() + &snippet(heading)).unwrap();
    if built(place, tools, script) {
        assert!(is_aligned(&place.join("build/program")) > 0);
    }
}

#[test]
fn cmake() {
    let project = "cmake_minimum_required(VERSION 3.13)\nproject(program C)\n\
                   add_executable(program program.c)\n";
    let script = "cmake -S . -B build; cmake --build build";
    sample_is_built_by(
        "CMakeLists.txt",
        project,
        "CMake",
        &["cmake", "make"],
        script,
    );
}

#[test]
fn meson() {
    let project = "project('program', 'c')\nsources = ['program.c']\n";
    let script = "meson setup build; meson compile -C build";
    sample_is_built_by("meson.build", project, "Meson", &["meson", "ninja"], script);
}

#[test]
fn go() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("go.mod"), "module program\n\ngo 1.19\n").unwrap();
    fs::write(
        place.join("main.go"),
        "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n",
    )
    .unwrap();
    let script = format!("export CGO_ENABLED=1 GOFLAGS=; {}", snippet("Go"));
    if built(place, &["go", "cc"], &script) {
        is_aligned(&place.join("program"));
    }
}
