//! The dependencies are what deny.toml allows: licences, bans and sources.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The workspace whose dependencies are looked at: the whole one, or that in this directory of it.
fn workspace() -> PathBuf {
    root().join(std::env::var_os("HUGETEXT_WORKSPACE").unwrap_or_default())
}

fn policy() -> toml::Table {
    let text = std::fs::read_to_string(workspace().join("deny.toml")).unwrap();
    text.parse().unwrap()
}

/// The crates of this machine's build, including those of the workspace.
fn packages() -> Vec<Value> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", &platform])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Whether licences that `allow` accepts satisfy an SPDX expression or an expression of the older
/// form `MIT/Apache-2.0`.
fn permitted(expression: &str, allow: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ")
        .replace(" WITH ", "-WITH-");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    alternatives(&mut rest, allow) && rest.is_empty()
}

fn alternatives(rest: &mut &[&str], allow: &dyn Fn(&str) -> bool) -> bool {
    let mut any = all(rest, allow);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        any |= all(rest, allow);
    }
    any
}

fn all(rest: &mut &[&str], allow: &dyn Fn(&str) -> bool) -> bool {
    let mut every = one(rest, allow);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        every &= one(rest, allow);
    }
    every
}

fn one(rest: &mut &[&str], allow: &dyn Fn(&str) -> bool) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let inside = alternatives(rest, allow);
            if let [")", after @ ..] = *rest {
                *rest = after;
            }
            inside
        }
        [licence, after @ ..] => {
            *rest = after;
            allow(licence)
        }
        [] => false,
    }
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    let mit = |licence: &str| licence == "MIT";
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-2.0 OR MIT", true),
        ("MIT/Apache-2.0", true),
        ("MIT AND Zlib", false),
        ("(MIT OR Apache-2.0) AND Zlib", false),
        ("Zlib AND Zlib OR MIT", true),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("", false),
    ] {
        assert_eq!(permitted(expression, &mit), expected, "{expression}");
    }
}

#[test]
fn licences_and_sources_are_those_that_deny_toml_allows() {
    let policy = policy();
    let licences = policy["licenses"]["allow"].as_array().unwrap();
    let allow = |licence: &str| licences.iter().any(|known| known.as_str() == Some(licence));
    let mut sources = BTreeSet::new();
    for package in packages() {
        // The crates of the workspace have no source.
        let Some(source) = package["source"].as_str() else {
            continue;
        };
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(
            permitted(licence, &allow),
            "{name} has the licence {licence}"
        );
        assert!(
            source.starts_with("registry+"),
            "{name} comes from {source}"
        );
        sources.insert(source.to_owned());
    }
    // Cargo's own registry is the only known source. A second source would be unknown.
    assert_eq!(sources.len(), 1, "{sources:?}");
}

#[test]
fn nothing_that_is_banned_is_there() {
    let policy = policy();
    let banned = policy["bans"]["deny"].as_array().unwrap();
    let banned: Vec<&str> = banned
        .iter()
        .map(|b| b["crate"].as_str().unwrap())
        .collect();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        assert!(!banned.contains(&name), "{name} is banned");
        if package["source"].is_string() {
            continue;
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let wildcard = dependency["req"] == "*" && dependency["path"].is_null();
            assert!(!wildcard, "{name} takes any {}", dependency["name"]);
        }
    }
}
