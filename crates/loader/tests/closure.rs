//! Compares the closure with the behaviour of the loaders of this machine.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_loader::{Closure, Environment, Loader, Role, closure};

/// The libraries that the loader itself lists, symbolic links resolved; `None` if the program is static or
/// missing. It is given to its loader and not executed: a set-id program would run, whatever
/// LD_TRACE_LOADED_OBJECTS says.
fn traced(program: &Path, library_path: Option<&str>) -> Option<BTreeSet<PathBuf>> {
    let closure = closure(program, &Environment::default()).ok()?;
    let mut objects = closure.objects.iter();
    let loader = objects.find(|object| object.role == Role::Interpreter)?;
    let mut command = Command::new(&loader.path);
    // $ORIGIN of a program that is executed is that of the file, and not of a link to it.
    command
        .arg(fs::canonicalize(program).ok()?)
        .env("LD_TRACE_LOADED_OBJECTS", "1");
    if let Some(list) = library_path {
        command.env("LD_LIBRARY_PATH", list);
    }
    let output = command.output().ok()?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = listing.lines().filter_map(|line| {
        let path = line.split("=>").last()?.trim().split(" (0x").next()?;
        path.starts_with('/').then(|| fs::canonicalize(path).ok())?
    });
    Some(paths.collect())
}

fn libraries(closure: &Closure) -> BTreeSet<PathBuf> {
    closure
        .objects
        .iter()
        .filter(|object| object.role != Role::Program)
        .map(|object| fs::canonicalize(&object.path).unwrap())
        .collect()
}

fn environment(library_path: Option<&str>) -> Environment {
    Environment {
        library_path: library_path.map(|list| list.as_bytes().to_vec()),
        ..Environment::current()
    }
}

/// Every dynamic executable of the directory, up to `limit`.
fn programs(directory: &str, limit: usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    paths.retain(|path| {
        closure(path, &Environment::default())
            .is_ok_and(|closure| closure.loader == Loader::Glibc && closure.objects.len() > 1)
    });
    // The sample is spread over the alphabet, so that a limit does not select the letter a.
    let step = paths.len().div_ceil(limit).max(1);
    paths.into_iter().step_by(step).collect()
}

#[test]
fn agrees_with_the_loader_on_the_programs_of_this_machine() {
    let mut checked = 0;
    let directories = ["/usr/bin", "/usr/lib/postgresql/15/bin", "/usr/sbin"];
    for program in directories.iter().flat_map(|d| programs(d, 120)) {
        let Some(expected) = traced(&program, None).filter(|set| !set.is_empty()) else {
            continue;
        };
        let closure = closure(&program, &environment(None)).unwrap();
        assert_eq!(libraries(&closure), expected, "{}", program.display());
        assert!(closure.missing.is_empty(), "{}", program.display());
        checked += 1;
    }
    eprintln!("{checked} programs agree");
    if checked == 0 {
        eprintln!("skipped: no dynamic program of glibc here");
    }
}

fn compiler(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}

fn compile(compiler: &str, directory: &Path, source: &str, arguments: &[&str]) {
    let file = directory.join("source.c");
    fs::write(&file, source).unwrap();
    let status = Command::new(compiler)
        .current_dir(directory)
        .args(["-x", "c", "source.c"])
        .args(["-x", "none"])
        .args(arguments)
        .status();
    assert!(status.unwrap().success(), "{compiler} {arguments:?}");
}

/// main → liba (in `a`, found by the main program's path) → libb (in `b`, which only the main
/// program's path names).
fn build_chain(compiler: &str, directory: &Path, tag: &str) -> PathBuf {
    for name in ["a", "b"] {
        fs::create_dir_all(directory.join(name)).unwrap();
    }
    let b = ["-shared", "-fPIC", "-o", "b/libb.so", "-Wl,-soname,libb.so"];
    compile(compiler, directory, "int b(void){return 1;}", &b);
    let a = ["-shared", "-fPIC", "-o", "a/liba.so", "-Lb", "-lb"];
    compile(
        compiler,
        directory,
        "int b(void);int a(void){return b();}",
        &a,
    );
    let path = format!("-Wl,{tag},-rpath,$ORIGIN/a:${{ORIGIN}}/b");
    let main = ["-o", "main", "-La", "-la", &path, "-Wl,-rpath-link,b"];
    compile(
        compiler,
        directory,
        "int a(void);int main(void){return a()-1;}",
        &main,
    );
    directory.join("main")
}

fn names(closure: &Closure) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    closure
        .objects
        .iter()
        .map(|object| name(&object.path))
        .collect()
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    if !compiler("gcc") {
        eprintln!("skipped: no gcc");
        return;
    }
    for (tag, inherited) in [("--disable-new-dtags", true), ("--enable-new-dtags", false)] {
        let directory = tempfile::tempdir().unwrap();
        let program = build_chain("gcc", directory.path(), tag);
        let closure = closure(&program, &environment(None)).unwrap();
        assert_eq!(names(&closure).contains(&"libb.so".to_owned()), inherited);
        assert_eq!(closure.missing.is_empty(), inherited);
        assert_eq!(libraries(&closure), traced(&program, None).unwrap());
        if !inherited {
            assert_eq!(closure.missing[0].name, Path::new("libb.so"));
            assert!(closure.missing[0].needed_by.ends_with("a/liba.so"));
        }
    }
}

#[test]
fn the_library_path_comes_before_runpath_and_after_rpath() {
    if !compiler("gcc") {
        eprintln!("skipped: no gcc");
        return;
    }
    for tag in ["--disable-new-dtags", "--enable-new-dtags"] {
        let directory = tempfile::tempdir().unwrap();
        let program = build_chain("gcc", directory.path(), tag);
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::copy(directory.path().join("a/liba.so"), other.join("liba.so")).unwrap();
        fs::copy(directory.path().join("b/libb.so"), other.join("libb.so")).unwrap();
        let list = format!("/nonexistent:{}", other.display());
        let closure = closure(&program, &environment(Some(&list))).unwrap();
        assert_eq!(libraries(&closure), traced(&program, Some(&list)).unwrap());
        let from_other = closure.objects.iter().any(|o| o.path.starts_with(&other));
        assert_eq!(from_other, tag == "--enable-new-dtags");
    }
}

#[test]
fn levels_of_the_processor_are_preferred() {
    let environment = environment(None);
    let Some(level) = environment.hwcaps.first().filter(|_| compiler("gcc")) else {
        eprintln!("skipped: no gcc, or a processor without levels");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let program = build_chain("gcc", directory.path(), "--disable-new-dtags");
    let better = directory.path().join("b/glibc-hwcaps").join(level);
    fs::create_dir_all(&better).unwrap();
    fs::copy(directory.path().join("b/libb.so"), better.join("libb.so")).unwrap();
    let closure = closure(&program, &environment).unwrap();
    assert!(
        closure
            .objects
            .iter()
            .any(|object| object.path.starts_with(&better))
    );
    assert_eq!(libraries(&closure), traced(&program, None).unwrap());
}

#[test]
fn preloaded_libraries_come_first_and_once() {
    if !compiler("gcc") {
        eprintln!("skipped: no gcc");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = build_chain("gcc", directory.path(), "--disable-new-dtags");
    let environment = Environment {
        preload: Some(
            directory
                .path()
                .join("b/libb.so")
                .into_os_string()
                .into_encoded_bytes(),
        ),
        ..Environment::current()
    };
    let closure = closure(&program, &environment).unwrap();
    let preloads: Vec<_> = closure
        .objects
        .iter()
        .filter(|o| o.role == Role::Preload)
        .collect();
    assert_eq!(preloads.len(), 1);
    assert_eq!(
        names(&closure)
            .iter()
            .filter(|name| *name == "libb.so")
            .count(),
        1
    );
}

#[test]
fn follows_musl() {
    if !compiler("musl-gcc") {
        eprintln!("skipped: no musl-gcc");
        return;
    }
    // musl treats both tags alike, and objects inherit them.
    for tag in ["--disable-new-dtags", "--enable-new-dtags"] {
        let directory = tempfile::tempdir().unwrap();
        let program = build_chain("musl-gcc", directory.path(), tag);
        assert!(Command::new(&program).status().unwrap().success());
        let closure = closure(&program, &environment(None)).unwrap();
        assert_eq!(closure.loader, Loader::Musl);
        assert!(closure.missing.is_empty(), "{:?}", closure.missing);
        let names = names(&closure);
        let expected = ["main", "ld-musl-x86_64.so.1", "liba.so", "libb.so"];
        assert!(
            cfg!(not(target_arch = "x86_64")) || names == expected,
            "{names:?}"
        );
    }
}

#[test]
fn a_static_program_is_alone_and_what_is_no_program_an_error() {
    assert!(closure(Path::new("/nonexistent"), &Environment::default()).is_err());
    assert!(closure(Path::new("/etc/passwd"), &Environment::default()).is_err());
    assert!(closure(Path::new("/"), &Environment::default()).is_err());
    if !compiler("gcc") {
        eprintln!("skipped: no gcc");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    compile(
        "gcc",
        directory.path(),
        "int main(void){return 0;}",
        &["-static", "-o", "main"],
    );
    let closure = closure(&directory.path().join("main"), &environment(None)).unwrap();
    assert_eq!((closure.loader, closure.objects.len()), (Loader::None, 1));
}

#[test]
fn a_loader_nobody_knows_is_said_to_be_unknown() {
    if !compiler("gcc") {
        eprintln!("skipped: no gcc");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["-o", "main", "-Wl,--dynamic-linker,/system/bin/linker64"];
    compile(
        "gcc",
        directory.path(),
        "int main(void){return 0;}",
        &arguments,
    );
    let closure = closure(&directory.path().join("main"), &environment(None)).unwrap();
    assert_eq!(
        (closure.loader, closure.objects.len()),
        (Loader::Unknown, 1)
    );
    assert_eq!(closure.missing[0].name, Path::new("/system/bin/linker64"));
}
