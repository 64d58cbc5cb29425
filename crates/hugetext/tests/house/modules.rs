//! Which modules of a crate use which, by the paths in their text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules of the crate below `root` that need each other in a circle, each with those that it uses.
pub(crate) fn circle(root: &Path, files: impl Iterator<Item = (PathBuf, String)>) -> Vec<String> {
    let modules = Modules::read(root, files);
    let uses = modules.uses();
    let reached = |from: &Vec<String>| {
        let mut reached = BTreeSet::new();
        let mut next: Vec<_> = uses[from].iter().collect();
        while let Some(module) = next.pop() {
            if reached.insert(*module) {
                next.extend(&uses[*module]);
            }
        }
        reached
    };
    let name = |module: &Vec<String>| {
        if module.is_empty() {
            "the root".to_owned()
        } else {
            module.join("::")
        }
    };
    let links = uses.iter().filter_map(|(module, used)| {
        let back = used.iter().filter(|used| reached(used).contains(module));
        let back: Vec<_> = back.map(|used| name(used)).collect();
        (!back.is_empty()).then(|| format!("{} uses {}", name(module), back.join(", ")))
    });
    links.collect()
}

/// The modules of a crate, as words and signs. A module is known by its path, such as `fix::rewrite`; that of
/// lib.rs is empty.
struct Modules(BTreeMap<Vec<String>, Vec<String>>);

impl Modules {
    /// From the files below `root`.
    fn read(root: &Path, files: impl Iterator<Item = (PathBuf, String)>) -> Modules {
        let module = |(path, text): (PathBuf, String)| {
            let inside = path.strip_prefix(root).unwrap().with_extension("");
            let parts = inside
                .iter()
                .map(|part| part.to_string_lossy().into_owned());
            let mut name: Vec<String> = parts.collect();
            if ["lib", "main", "mod"].contains(&name.last().unwrap().as_str()) {
                name.pop();
            }
            (name, words(&text))
        };
        Modules(files.map(module).collect())
    }

    /// What a path that stands in `module` means from the root of the crate.
    fn resolved(&self, module: &[String], path: &[String]) -> Vec<String> {
        let up = path.iter().take_while(|part| *part == "super").count();
        let start = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            _ => module[..module.len().saturating_sub(up)].to_vec(),
        };
        let skipped = ["crate", "self", "super"];
        let rest = path.iter().filter(|part| !skipped.contains(&part.as_str()));
        start.into_iter().chain(rest.cloned()).collect()
    }

    /// The module that defines what a path from the root of the crate names, also where another hands it on.
    fn of(&self, path: &[String]) -> Option<&Vec<String>> {
        let mut lengths = (0..=path.len()).rev();
        let end = lengths.find(|end| self.0.contains_key(&path[..*end]))?;
        let (module, words) = self.0.get_key_value(&path[..end])?;
        let handed_on = |item: &String| {
            let used = imports(words).into_iter();
            let mut used = used.map(|path| self.resolved(module, &path));
            used.find(|used| used.last() == Some(item) && used != path)
        };
        if let Some(path) = path.get(end).and_then(handed_on) {
            return self.of(&path).filter(|found| *found != module);
        }
        // A module that lies elsewhere, or that is named in a text that the program writes.
        let is_inside = |name: &String| {
            let mut triples = words.windows(3);
            triples.any(|triple| triple[0] == "mod" && triple[1] == *name && triple[2] == "{")
        };
        let is_elsewhere = |name: &String| name.starts_with(char::is_lowercase) && !is_inside(name);
        let [name, _, ..] = &path[end..] else {
            return Some(module);
        };
        (!is_elsewhere(name)).then_some(module)
    }

    /// The modules that each uses: by paths that begin at the root of the crate, at the parent, or at one of the
    /// modules inside it.
    fn uses(&self) -> BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> {
        let of = |module: &Vec<String>, words: &[String]| {
            let inside = |word: &str| {
                self.0
                    .contains_key(&[module, &[word.to_owned()][..]].concat())
            };
            let begins = |word: &str| ["crate", "super", "self"].contains(&word) || inside(word);
            let paths = paths(words, begins);
            let paths = paths.iter().map(|path| self.resolved(module, path));
            let mut used: BTreeSet<_> = paths.filter_map(|path| self.of(&path)).collect();
            used.remove(module);
            used
        };
        let modules = self.0.iter();
        modules
            .map(|(module, words)| (module, of(module, words)))
            .collect()
    }
}

/// A text without its comments, as words and signs. `::` is one sign.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    for line in text.lines().map(|line| line.split("//").next().unwrap()) {
        let mut before = ' ';
        for letter in line.chars().chain([' ']) {
            let is_same = (is_word(letter) && is_word(before)) || (letter == ':' && before == ':');
            match words.last_mut() {
                Some(last) if is_same => last.push(letter),
                _ if letter.is_whitespace() => {}
                _ => words.push(letter.to_string()),
            }
            before = letter;
        }
    }
    words
}

/// The paths that begin with a word that `begins` accepts.
fn paths(words: &[String], begins: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let is_path = |at: usize| words.get(at + 1).is_some_and(|next| next == "::");
    let is_inner = |at: usize| at > 0 && words[at - 1] == "::";
    let starts =
        (0..words.len()).filter(|at| begins(&words[*at]) && is_path(*at) && !is_inner(*at));
    starts.flat_map(|at| path(words, at).0).collect()
}

/// The paths that a module brings in with `use`.
fn imports(words: &[String]) -> Vec<Vec<String>> {
    let starts = (1..words.len()).filter(|at| words[at - 1] == "use");
    starts.flat_map(|at| path(words, at).0).collect()
}

/// The path at a place, or each of those in its braces, and where it ends.
fn path(words: &[String], mut at: usize) -> (Vec<Vec<String>>, usize) {
    let mut path: Vec<String> = Vec::new();
    while let Some(word) = words.get(at) {
        if word == "{" {
            let mut inside = Vec::new();
            at += 1;
            while words.get(at).is_some_and(|word| word != "}") {
                let (found, end) = self::path(words, at);
                inside.extend(found.into_iter().map(|rest| [path.clone(), rest].concat()));
                at = end + usize::from(words.get(end).is_some_and(|word| word == ","));
            }
            return (inside, at + 1);
        }
        path.push(word.clone());
        at += 1;
        if words.get(at).is_some_and(|word| word == "::") {
            at += 1;
            continue;
        }
        if words.get(at).is_some_and(|word| word == "as") {
            at += 2;
        }
        break;
    }
    (vec![path], at)
}
