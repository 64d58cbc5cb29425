//! The JSON of every subcommand, read by a strict reader.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::process::{Command, Output};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Any JSON in which no object has a key twice. Most readers silently take the last value of such
/// a key. The value holds the keys of the document.
#[derive(Default)]
struct Strict(HashSet<String>);

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
        Ok(Strict(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strict, A::Error> {
        while list.next_element::<Strict>()?.is_some() {}
        Ok(Strict::default())
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Strict, E> {
        Ok(Strict::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Strict, E> {
        Ok(Strict::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Strict, E> {
        Ok(Strict::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict::default())
    }
}

#[test]
fn a_doubled_key_is_seen() {
    let read = |text: &str| serde_json::from_str::<Strict>(text).is_ok();
    assert!(read(r#"{"a": {"b": 1.5}, "b": [null, true, -1, "x"]}"#));
    assert!(!read(r#"{"a": [{"b": 1, "b": 1}]}"#));
}

#[test]
fn no_document_has_a_key_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let [copy, fixed, lists, store] = ["program", "fixed", "lists", "store"].map(path);
    std::fs::copy(env!("CARGO_BIN_EXE_hugetext"), &copy).unwrap();
    make_store(Path::new(&store));
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = other.id().to_string();
    let own = std::process::id().to_string();
    let commands: &[&[&str]] = &[
        &["check", &copy],
        &["check", "--pid", &own],
        &["check", "--same", &copy, &copy],
        &["fix", "-o", &fixed, &copy],
        &["warm", &copy],
        &["run", "--dry-run", "--store", &store, &copy],
        &["learn", "true"],
        &["keep", "--lists", &lists, "--store", &store, "ls"],
        &["keep", "--lists", &lists, "--store", &store, "apply"],
        &["store", "--store", &store, "ls"],
        &["store", "--store", &store, "verify"],
        &["store", "--store", &store, "gc"],
        &["store", "--store", &store, "rm", "--all"],
        &["stat", &own],
        &["promote", &pid],
        &["report", "-o", &path("report.html"), &copy],
        &[
            "bench", "mprotect", "--rounds", "1", "--size", "8", "--loops", "1",
        ],
        &["bench", "tlb", "--core", "zen4", "--", "true"],
    ];
    std::fs::create_dir(&lists).unwrap();
    let documents: Vec<Output> = commands.iter().map(|command| json(command)).collect();
    other.kill().unwrap();
    other.wait().unwrap();
    for (command, output) in commands.iter().zip(documents) {
        if output.stdout.is_empty() {
            // This machine lacks what the subcommand needs, such as ptrace or an emulator.
            println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
            continue;
        }
        let document = serde_json::from_slice::<Strict>(&output.stdout);
        let keys = document.map_err(|error| format!("{command:?}: {error}"));
        let keys = keys.unwrap().0;
        assert!(
            keys.contains("schema") && keys.contains("command"),
            "{keys:?}"
        );
    }
}

fn json(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .arg("--json")
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
