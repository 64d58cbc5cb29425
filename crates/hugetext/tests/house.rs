//! The structure that ARCHITECTURE.md describes: what may use what. `cargo test -p hugetext --test
//! house -- --nocapture` prints the counts.

#![allow(clippy::unwrap_used)]

#[path = "house/modules.rs"]
mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use modules::circle;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates of the laboratory, which is a workspace of its own.
fn laboratory() -> PathBuf {
    crates().join("../lab/crates")
}

/// The manifests of the crates of a directory, by the names of their folders.
fn manifests(directory: &Path) -> Vec<(String, toml::Table)> {
    let folders = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    folders
        .map(|folder| {
            let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
            let name = folder.file_name().into_string().unwrap();
            (name, manifest.parse().unwrap())
        })
        .collect()
}

/// The crates of fleet/, which has other folders, too.
fn crates_of_fleet() -> Vec<PathBuf> {
    let fleet = crates().join("../fleet");
    let manifest = fs::read_to_string(fleet.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    let members = members.iter().map(|member| member.as_str().unwrap());
    members.map(|member| fleet.join(member)).collect()
}

/// Every Rust file below a directory, with its text.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let files = ignore::WalkBuilder::new(directory).build().flatten();
    let files = files.map(ignore::DirEntry::into_path);
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut found: Vec<_> = rust
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    found.sort();
    found
}

/// The text of a file without what only its tests have.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let own = line.trim_start();
        if !own.starts_with("#[cfg(test)]") && !own.starts_with("#[cfg(all(test,") {
            code.extend([line, "\n"]);
            continue;
        }
        // Its item ends on the next line of this indent that ends so.
        let indent = &line[..line.len() - own.len()];
        let mut item = lines.by_ref().filter_map(|line| line.strip_prefix(indent));
        item.find(|line| line.starts_with('}') || (line.ends_with(';') && !line.starts_with(' ')));
    }
    code
}

/// The subcommands, which are the variants of `Mode` in main.rs. Each has a file or folder of its
/// name.
fn subcommands(main: &str) -> BTreeSet<String> {
    let variants = main.split_once("enum Mode {").unwrap().1;
    let variants = variants.split_once('}').unwrap().0.lines();
    let named = variants.filter_map(|line| line.trim().split_once('('));
    let names = named.map(|(name, _)| name.to_ascii_lowercase());
    names
        .filter(|name| name.chars().all(char::is_alphabetic))
        .collect()
}

/// The modules of the command itself that a text names, as `crate::NAME` or in `crate::{…}`.
fn modules_named(text: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let list = rest.strip_prefix('{').map_or(rest, |list| {
            list.split_once('}').map_or(list, |(inside, _)| inside)
        });
        let many = rest.starts_with('{');
        for item in list.split(',').take(if many { usize::MAX } else { 1 }) {
            let item = item.trim_start();
            let end = item.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            named.insert(item[..end.unwrap_or(item.len())].to_owned());
        }
    }
    named
}

#[test]
fn no_command_uses_the_folder_of_another() {
    let root = crates().join("hugetext/src");
    let main = fs::read_to_string(root.join("main.rs")).unwrap();
    let commands = subcommands(&main);
    assert!(
        commands.contains("check") && commands.len() > 8,
        "{commands:?}"
    );
    let mut uses = Vec::new();
    for (path, text) in sources(&root) {
        let inside = path.strip_prefix(&root).unwrap();
        let own = inside.components().next().unwrap().as_os_str();
        let own = own.to_string_lossy().trim_end_matches(".rs").to_owned();
        if own == "main" {
            continue;
        }
        let others = modules_named(&text).into_iter();
        let others = others.filter(|name| commands.contains(name) && *name != own);
        uses.extend(others.map(|other| format!("{} uses {other}", inside.display())));
    }
    println!("uses of one command's folder by another: {}", uses.len());
    assert!(uses.is_empty(), "{uses:#?}");
}

#[test]
fn nothing_is_imported_from_main() {
    let root = crates().join("hugetext/src");
    let main = fs::read_to_string(root.join("main.rs")).unwrap();
    let items = main.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub(crate) ");
        let item = ["struct ", "enum ", "const ", "fn "];
        item.iter().find_map(|kind| line.strip_prefix(kind))
    });
    let end = |item: &str| item.find(|c: char| !c.is_alphanumeric() && c != '_');
    let names = items.map(|item| item[..end(item).unwrap_or(item.len())].to_owned());
    let items: BTreeSet<String> = names.collect();
    assert!(items.contains("Cli"), "{items:?}");
    for (path, text) in sources(&root) {
        let named: Vec<String> = modules_named(&text).intersection(&items).cloned().collect();
        // A module may have the name of a function of main.rs.
        let named: Vec<_> = named.iter().filter(|name| *name != "run").collect();
        assert!(named.is_empty(), "{}: {named:?}", path.display());
    }
}

#[test]
fn the_engine_and_the_benchmarks_neither_print_nor_read_a_command_line() {
    for name in ["engine", "bench"] {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("clap"), "{name}");
        for (path, text) in sources(&crates().join(name).join("src")) {
            // Tests print why they skip.
            let code = without_tests(&text);
            for line in code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
            {
                for word in [
                    "println!",
                    "print!(",
                    "eprint",
                    "io::stdout",
                    "args_os",
                    "clap::",
                ] {
                    assert!(!line.contains(word), "{}: {line}", path.display());
                }
            }
        }
    }
}

#[test]
fn dependencies_point_one_way() {
    // Each crate may use those before it, and none after it.
    let order = [
        "leaf", "elf", "loader", "host", "store", "promote", "engine", "metrics", "auto", "bench",
        "answer", "hugetext",
    ];
    for (name, manifest) in manifests(&crates()) {
        let at = order.iter().position(|known| *known == name);
        let at = at.unwrap_or_else(|| panic!("crates/{name} has no place in the order"));
        let used = manifest.get("dependencies").and_then(toml::Value::as_table);
        for dependency in used.into_iter().flat_map(toml::Table::keys) {
            let own = dependency.strip_prefix("hugetext-");
            let place = own.and_then(|own| order.iter().position(|known| *known == own));
            assert!(place.is_none_or(|place| place < at), "{name}: {dependency}");
        }
    }
}

#[test]
fn the_product_never_depends_on_the_laboratory() {
    let name = |manifest: &toml::Table| manifest["package"]["name"].as_str().unwrap().to_owned();
    let inside = manifests(&laboratory());
    let inside: BTreeSet<String> = inside.iter().map(|(_, manifest)| name(manifest)).collect();
    assert!(inside.contains("hugetext-lab"), "{inside:?}");
    for (folder, manifest) in manifests(&crates()) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let named = manifest.get(kind).and_then(toml::Value::as_table);
            let named = named.into_iter().flat_map(toml::Table::keys);
            let inside: Vec<_> = named.filter(|name| inside.contains(*name)).collect();
            assert!(inside.is_empty(), "crates/{folder}: {inside:?}");
        }
        for (path, text) in sources(&crates().join(folder).join("src")) {
            let included = text.lines().filter(|line| line.contains("include"));
            let beside = included.filter(|line| line.contains("lab/")).count();
            assert_eq!(beside, 0, "{} includes a file of lab/", path.display());
        }
    }
}

/// Two files that need each other are read as one. What both need moves down, also from a module to one inside it.
#[test]
fn no_modules_use_each_other_in_a_circle() {
    let mut circles = Vec::new();
    let all = [crates(), laboratory()].into_iter().flat_map(|place| {
        let all = manifests(&place).into_iter();
        all.map(move |(name, _)| place.join(name))
    });
    for folder in all.chain(crates_of_fleet()) {
        let root = folder.join("src");
        let files = sources(&root).into_iter();
        let files = files.filter(|(path, _)| !is_of_tests(path));
        let files = files.map(|(path, text)| (path, without_tests(&text)));
        let links = circle(&root, files);
        circles.extend(
            links
                .iter()
                .map(|link| format!("{}: {link}", folder.display())),
        );
    }
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn a_parent_that_uses_its_child_is_in_a_circle_with_it() {
    let links = |parent: &str, child: &str| {
        let files = [("lib.rs", parent), ("child.rs", child), ("below.rs", "")];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
        circle(Path::new(""), files.into_iter())
    };
    let both = ["the root uses child", "child uses the root"];
    let parent = "mod child; use child::make; pub struct Made;";
    assert_eq!(links(parent, "pub fn make() -> super::Made {}"), both);
    assert_eq!(links(parent, "use crate::Made; pub fn make() {}"), both);
    let in_code = "mod child; pub struct Made; fn both() { child::make(); }";
    assert_eq!(links(in_code, "use super::Made;"), both);
    let apart = "mod child; pub struct Made;";
    assert!(links(apart, "use super::Made;").is_empty());
    let handed_on = "mod below; mod child; pub use below::Made; use child::make;";
    assert!(links(handed_on, "use super::Made;").is_empty());
}

/// Whether a file of `src` is a module of its tests.
fn is_of_tests(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.to_string_lossy().ends_with("_tests.rs")
}

/// A rule that plan and proof share is wrong in both at once, so that the proof cannot see it.
#[test]
fn the_proof_shares_the_reader_with_the_plan_and_nothing_else() {
    let reader = [
        "encoding", "error", "headers", "image", "repeats", "section", "sections", "source",
        "verify",
    ];
    let root = crates().join("elf/src");
    let inside = sources(&root.join("verify"));
    let own = root.join("verify.rs");
    let own = (own.clone(), fs::read_to_string(own).unwrap());
    for (path, text) in inside.into_iter().chain([own]) {
        let named = modules_named(&without_tests(&text)).into_iter();
        let others: Vec<_> = named.filter(|name| !reader.contains(&&**name)).collect();
        assert!(others.is_empty(), "{}: {others:?}", path.display());
    }
    // The reader itself must not decide.
    for name in [
        "encoding", "error", "headers", "image", "section", "sections", "source",
    ] {
        let text = fs::read_to_string(root.join(name).with_extension("rs")).unwrap();
        let named = modules_named(&without_tests(&text))
            .into_iter()
            .filter(|name| *name != "arch");
        let others: Vec<_> = named.filter(|name| !reader.contains(&&**name)).collect();
        assert!(others.is_empty(), "{name}: {others:?}");
    }
}

#[test]
fn every_type_has_a_name_that_a_search_finds() {
    for (path, text) in [crates(), laboratory()]
        .iter()
        .flat_map(|place| sources(place))
    {
        for word in ["Report", "Outcome", "Text", "Process", "Summary", "Kind"] {
            for kind in ["struct", "enum"] {
                let vague = format!("{kind} {word} {{");
                let vague = text.lines().find(|line| line.trim_end().ends_with(&vague));
                assert!(vague.is_none(), "{}: {vague:?}", path.display());
            }
        }
    }
}

/// `hugetext_host::Pid` and `Tid` hold the numbers of processes and threads. Bare numbers are for
/// system calls and records alone, where no field or parameter has such a name.
#[test]
fn a_process_is_no_bare_number() {
    let numbers = ["i32", "u32", "i64", "u64", "pid_t"];
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    for (path, text) in [crates(), laboratory()]
        .iter()
        .flat_map(|place| sources(place))
    {
        for line in text.lines() {
            for (at, _) in line.match_indices(": ") {
                let (name, kind) = line.split_at(at);
                let name = name.rsplit(|letter| !is_word(letter)).next().unwrap();
                let kind = kind.split([',', ')', '=', '{']).next().unwrap();
                let bare = kind
                    .split(|letter| !is_word(letter))
                    .any(|word| numbers.contains(&word));
                let names = ["pid", "pids", "tid", "tids", "ppid", "tgid"];
                assert!(
                    !(bare && names.contains(&name)),
                    "{}: {line}",
                    path.display()
                );
            }
        }
    }
}
