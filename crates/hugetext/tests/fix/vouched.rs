//! Files whose checksum is kept elsewhere. They are not fixed unless the user permits it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::sample::{error_line, hugetext, link, path, text};

/// A program of this name that a fix would change. `None` without lld.
fn unfixed(directory: &TempDir, name: &str, options: &[&str]) -> Option<PathBuf> {
    let program = link(directory, name, &[&["-fuse-ld=lld"], options].concat());
    if program.is_none() {
        println!("skipped: no lld on this machine");
    }
    program
}

/// The fix is refused for `reason`, both in place and as a copy. It succeeds when the user permits
/// it.
fn is_refused(program: &Path, reason: &str) {
    let before = fs::read(program).unwrap();
    let out = program.with_extension("out");
    for target in [&["--in-place"][..], &["-o", path(&out)]] {
        let arguments = [&["fix", path(program)], target].concat();
        let line = error_line(&hugetext(&arguments));
        assert!(
            line.contains(reason) && line.contains("--vouched"),
            "{line}"
        );
        assert!(!out.exists() && fs::read(program).unwrap() == before);
    }
    let line = error_line(&hugetext(&["fix", path(program), "--dry-run"]));
    assert!(line.contains(reason), "{line}");
    let told = hugetext(&["fix", path(program), "--dry-run", "--vouched"]);
    assert!(
        text(&told.stdout).contains(reason),
        "{}",
        text(&told.stdout)
    );
    let told = text(&hugetext(&["check", "--verbose", path(program)]).stdout);
    assert!(told.contains(reason) && !told.contains("  fix: "), "{told}");
    let done = hugetext(&["fix", path(program), "-o", path(&out), "--vouched"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(
        text(&done.stdout).contains(reason),
        "{}",
        text(&done.stdout)
    );
}

#[test]
fn checksums_beside_the_file() {
    for (name, beside) in [
        ("libsoftokn3.so", "libsoftokn3.chk"),
        ("libcrypto.so.1.1.1k", ".libcrypto.so.1.1.1k.hmac"),
        ("tool", "tool.hmac"),
        ("tool", "fipscheck/tool.hmac"),
        ("libwidevinecdm.so", "libwidevinecdm.so.sig"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = unfixed(&directory, name, &[]) else {
            return;
        };
        let beside = directory.path().join(beside);
        fs::create_dir_all(beside.parent().unwrap()).unwrap();
        fs::write(&beside, "00").unwrap();
        is_refused(&program, path(&beside));
    }
}

/// RHEL 8 names the checksum file after DT_SONAME and the library after its version.
#[test]
fn a_checksum_by_soname() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["-shared", "-fPIC", "-Wl,-soname,libown.so.3"];
    let Some(program) = unfixed(&directory, "libown.so.3.0.7", &options) else {
        return;
    };
    fs::write(directory.path().join(".libown.so.3.hmac"), "00").unwrap();
    is_refused(&program, ".libown.so.3.hmac");
}

#[test]
fn the_fips_module_of_openssl() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("lib/ossl-modules")).unwrap();
    let Some(program) = unfixed(&directory, "lib/ossl-modules/fips.so", &[]) else {
        return;
    };
    let configuration = directory.path().join("ssl/fipsmodule.cnf");
    fs::create_dir(configuration.parent().unwrap()).unwrap();
    fs::write(&configuration, "[fips_sect]\nmodule-mac = 00\n").unwrap();
    is_refused(&program, path(&configuration));
}

#[test]
fn a_program_with_a_checksum_of_itself() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("note.s");
    let note = ".section .note.fdo.integrity,\"a\",@note\n.balign 4\n.long 4, 32, 0xcafe2a8e\n\
                .ascii \"FDO\\0\"\n.skip 32\n.section .note.GNU-stack,\"\",@progbits\n";
    fs::write(&source, note).unwrap();
    if let Some(program) = unfixed(&directory, "itself", &[path(&source)]) {
        is_refused(&program, "checks its own file");
    }
}

/// A file of a package is not replaced. A copy elsewhere belongs to no package.
#[test]
fn files_of_packages() {
    let directory = tempfile::tempdir().unwrap();
    let asked = Command::new("gcc").arg("-print-prog-name=cc1").output();
    let cc1 = asked.map(|output| PathBuf::from(text(&output.stdout).trim_end()));
    let owner = cc1.as_ref().ok().and_then(|cc1| {
        let output = Command::new("dpkg-query").args(["-S", path(cc1)]).output();
        output.ok().filter(|output| output.status.success())
    });
    let (Ok(cc1), Some(owner)) = (cc1, owner) else {
        println!("skipped: cc1 is no file of a Debian package here");
        return;
    };
    let owner = text(&owner.stdout);
    let (package, _) = owner.split_once(": ").unwrap();
    let line = hugetext(&["fix", path(&cc1), "--in-place", "--strategy", "merge"]);
    let line = error_line(&line);
    assert!(
        line.contains(package) && line.contains("--vouched"),
        "{line}"
    );
    let out = directory.path().join("cc1");
    let copy = hugetext(&["fix", path(&cc1), "-o", path(&out), "--strategy", "merge"]);
    assert!(copy.status.success(), "{}", text(&copy.stderr));
}
