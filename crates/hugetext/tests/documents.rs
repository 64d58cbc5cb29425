//! The links in the documents lead to existing files.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The documents in the top directory, docs/, kernel/ and lab/.
fn documents() -> Vec<PathBuf> {
    let directories = [
        "",
        "docs",
        "kernel",
        "kernel/rfc/rmap",
        "lab",
        "lab/results",
    ];
    let entries = directories.map(|directory| fs::read_dir(root().join(directory)).unwrap());
    let paths = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

/// The targets in this repository of the links in a document.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

#[test]
fn every_link_leads_to_a_file() {
    let documents = documents();
    assert!(documents.len() > 20);
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            let target = document.parent().unwrap().join(link);
            assert!(target.exists(), "{} links to {link}", document.display());
        }
    }
}

#[test]
fn a_map_names_every_document() {
    for (map, folder, prefix) in [
        ("docs/README.md", "docs", ""),
        ("docs/README.md", "lab/results", "../lab/results/"),
    ] {
        let text = fs::read_to_string(root().join(map)).unwrap();
        let named: Vec<&str> = links(&text).collect();
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") && name != "README.md" {
                let name = format!("{prefix}{name}");
                assert!(named.contains(&name.as_str()), "{map} lacks {name}");
            }
        }
    }
}

/// More of them, and nobody finds what a page says, or it is said twice.
#[test]
fn docs_has_at_most_twenty_pages() {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    assert!(pages.len() <= 20, "{pages:?}");
}
