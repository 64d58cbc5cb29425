//! Large programs run with fixed files under their real paths, in a separate mount namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::sample::{fix, path, text, tool};

/// Mounts the second file of each pair over the first, up to `--`. Then runs the remaining words
/// as a command.
const OVERLAID: &str = r#"
while [ "$1" != -- ]; do mount --bind "$2" "$1" || exit 99; shift 2; done
shift
exec "$@"
"#;

/// Fixes files and runs a command that finds them in place of the old files.
fn run_with(
    directory: &TempDir,
    strategy: &str,
    files: &[PathBuf],
    command: &[&str],
) -> Option<Output> {
    let mut pairs = Vec::new();
    for (index, old) in files.iter().enumerate() {
        let new = directory.path().join(format!("{strategy}-{index}"));
        fix(old, &new, &["--strategy", strategy]);
        pairs.extend([old.clone(), new]);
    }
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", OVERLAID, "sh"])
        .args(&pairs)
        .arg("--")
        .args(command)
        .output()
        .ok()?;
    let mounted = output.status.code() != Some(99) && !text(&output.stderr).contains("unshare:");
    if !mounted {
        println!("skipped: no private mounts here: {}", text(&output.stderr));
    }
    mounted.then_some(output)
}

/// The shared objects of a directory whose names begin with a prefix. Links and linker scripts are
/// left out.
fn libraries(directory: &Path, names: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let big = entry
                .metadata()
                .is_ok_and(|m| m.is_file() && m.len() > 4 << 20);
            big && names.iter().any(|prefix| name.starts_with(prefix))
        })
        .map(|entry| entry.path())
        .collect()
}

fn same_with_fixed(files: &[PathBuf], command: &[&str]) {
    let plain = Command::new(command[0])
        .args(&command[1..])
        .output()
        .unwrap();
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    let directory = tempfile::tempdir().unwrap();
    for strategy in ["shift", "merge"] {
        let Some(fixed) = run_with(&directory, strategy, files, command) else {
            return;
        };
        assert!(
            fixed.status.success(),
            "{strategy}: {}",
            text(&fixed.stderr)
        );
        assert_eq!(text(&fixed.stdout), text(&plain.stdout), "{strategy}");
    }
}

#[test]
fn the_rust_compiler_compiles_with_its_driver_and_llvm_fixed() {
    let Some(sysroot) = tool("rustc", &["--print", "sysroot"]) else {
        return;
    };
    let lib = PathBuf::from(sysroot.trim_end()).join("lib");
    let files = libraries(&lib, &["librustc_driver", "libLLVM"]);
    let rustc = lib.with_file_name("bin").join("rustc");
    if files.is_empty() || !rustc.exists() {
        println!("skipped: no rustc with its own libraries");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, out) = (
        directory.path().join("hello.rs"),
        directory.path().join("hello"),
    );
    std::fs::write(&source, "fn main() { println!(\"hello from rustc\"); }").unwrap();
    let script = format!(
        "{} -O {} -o {} && {}",
        rustc.display(),
        source.display(),
        out.display(),
        out.display()
    );
    same_with_fixed(&files, &["sh", "-c", &script]);
}

#[test]
fn the_java_machine_runs_with_its_library_fixed() {
    let java = Command::new("sh")
        .args(["-c", "readlink -f $(command -v java)"])
        .output()
        .unwrap();
    let java = PathBuf::from(text(&java.stdout).trim_end());
    let Some(home) = java.parent().and_then(Path::parent) else {
        println!("skipped: no java on this machine");
        return;
    };
    let files = libraries(&home.join("lib/server"), &["libjvm"]);
    if files.is_empty() {
        println!("skipped: no libjvm.so beside java");
        return;
    }
    same_with_fixed(&files, &[path(&java), "-Xshare:off", "--list-modules"]);
}
