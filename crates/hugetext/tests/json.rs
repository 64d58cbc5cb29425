//! The JSON of every subcommand, read by a strict reader.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Any JSON in which no object has a key twice. Most readers silently take the last value of such
/// a key.
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Strict, D::Error> {
        json.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
        let mut keys = HashSet::new();
        while let Some((key, _)) = map.next_entry::<String, Strict>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("{key} twice")));
            }
        }
        Ok(Strict)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strict, A::Error> {
        while list.next_element::<Strict>()?.is_some() {}
        Ok(Strict)
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_str<E>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict)
    }
}

#[test]
fn a_doubled_key_is_seen() {
    let read = |text: &str| serde_json::from_str::<Strict>(text).is_ok();
    assert!(read(r#"{"a": {"b": 1.5}, "b": [null, true, -1, "x"]}"#));
    assert!(!read(r#"{"a": [{"b": 1, "b": 1}]}"#));
}

/// Every command whose result is one document, on a program, a store and processes of this test.
fn printed() -> Vec<(String, Output)> {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let [copy, fixed, lists, store] = ["program", "fixed", "lists", "store"].map(path);
    std::fs::copy(env!("CARGO_BIN_EXE_hugetext"), &copy).unwrap();
    make_store(Path::new(&store));
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = other.id().to_string();
    let own = std::process::id().to_string();
    let (missing, again) = (path("missing"), path("again"));
    let commands: &[&[&str]] = &[
        &["host"],
        &["host", "--remembered"],
        &["check", &copy],
        &["check", &copy, &missing],
        &["check", "--kernel", "5.4", &copy],
        &["check", "--pid", &own],
        &["check", "--same", &copy, &copy],
        &["fix", "--dry-run", "-o", &fixed, &copy],
        &["fix", "-o", &fixed, &copy],
        &["fix", "-o", &again, "--strategy", "merge", &copy],
        &["warm", &copy],
        &["warm", "--node", "local", &copy],
        &["run", "--dry-run", "--store", &store, &copy],
        &[
            "run",
            "--dry-run",
            "--replicas",
            "2",
            "--store",
            &store,
            &copy,
        ],
        &["learn", "true"],
        &["keep", "--lists", &lists, "--store", &store, "ls"],
        &["keep", "--lists", &lists, "--store", &store, "apply"],
        &["store", "--store", &store, "ls"],
        &["store", "--store", &store, "path", &copy],
        &["store", "--store", &store, "verify"],
        &["store", "--store", &store, "gc"],
        &["store", "--store", &store, "rm", "--all"],
        &["stat", &own],
        &["stat", "--nodes", &own],
        &["auto", "top", "--once"],
        &["stat", "--all"],
        &["promote", "--dry-run", &pid],
        &["promote", &pid],
        &["report", "-o", &path("report.html"), &copy],
        &[
            "bench",
            "exec",
            "--rounds",
            "1",
            "--per-round",
            "1",
            "--",
            &copy,
            "--version",
        ],
    ];
    std::fs::create_dir(&lists).unwrap();
    std::fs::write(format!("{lists}/own.toml"), format!("paths = [{copy:?}]\n")).unwrap();
    let run = |command: &&[&str]| (command.join(" "), print(command));
    let printed = commands.iter().map(run).collect();
    other.kill().unwrap();
    other.wait().unwrap();
    printed
}

/// Every document satisfies the schema that `hugetext generate --schema` prints for it.
#[test]
fn documents_are_what_their_schemas_say() {
    let mut seen = HashSet::new();
    for (command, json) in printed() {
        if json.stdout.is_empty() {
            // This machine lacks what the subcommand needs, such as ptrace or an emulator.
            println!(
                "skipped: {command}: {}",
                String::from_utf8_lossy(&json.stderr)
            );
            continue;
        }
        let keys = serde_json::from_slice::<Strict>(&json.stdout);
        keys.map_err(|error| format!("{command}: {error}")).unwrap();
        let document: Value = serde_json::from_slice(&json.stdout).unwrap();
        let named = document["command"].as_str().unwrap();
        let name = named.replace(" --", "-").replace(' ', "-");
        if let Err(problem) = validate(&document, &name) {
            panic!("{command}: {problem}");
        }
        seen.insert(name);
    }
    println!("validated: {seen:?}");
    assert!(seen.contains("check") && seen.contains("fix") && seen.contains("stat"));
}

#[test]
fn errors_stand_in_the_document() {
    let missing = "/nonexistent/program";
    let output = print(&["check", env!("CARGO_BIN_EXE_hugetext"), missing]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["summary"]["errors"], 1);
    let said = document["errors"][0]["error"].as_str().unwrap();
    assert!(said.starts_with(missing), "{document}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(said), "{stderr}");
}

#[test]
fn durations_are_nanoseconds_in_fields_that_say_so() {
    let output = print(&["warm", env!("CARGO_BIN_EXE_hugetext")]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    if let Some(file) = document["files"].get(0) {
        assert!(file["took_ns"].is_u64(), "{file}");
    }
}

#[test]
fn a_document_that_breaks_its_schema_is_seen() {
    let wrong = serde_json::json!({ "schema": 3, "command": "warm", "errors": [], "files": [{}] });
    assert!(validate(&wrong, "warm").is_err());
    let other = serde_json::json!({ "schema": 3, "command": "fix", "errors": [], "files": [] });
    assert!(validate(&other, "warm").is_err());
}

/// Validates a document against the schema of a name.
fn validate(document: &Value, name: &str) -> Result<(), String> {
    let schema = hugetext(&["generate", "--schema", name]);
    assert!(schema.status.success(), "no schema for {name}");
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    let (mut compiler, mut schemas) = (boon::Compiler::new(), boon::Schemas::new());
    compiler.add_resource("document.json", schema).unwrap();
    let compiled = compiler.compile("document.json", &mut schemas);
    let compiled = compiled.map_err(|error| format!("{error:#}"))?;
    schemas
        .validate(document, compiled)
        .map_err(|error| format!("{error:#}"))
}

fn print(arguments: &[&str]) -> Output {
    hugetext(&[&["--json"], arguments].concat())
}

fn hugetext(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(arguments)
        .output()
        .unwrap()
}

/// A store without entries.
fn make_store(root: &Path) {
    for name in ["entries", "index"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
}
