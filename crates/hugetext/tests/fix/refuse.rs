//! Refusals and failures: each prints one line and leaves the input untouched.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::headers::{self, Header, PT_LOAD};
use crate::sample::{error_line, hugetext, link, path, sample, text};

/// The exit status is 1, and the reason on standard output says that a fix would gain nothing.
fn declined(arguments: &[&str], reason: &str) {
    let output = hugetext(arguments);
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{said}{}",
        text(&output.stderr)
    );
    assert!(said.contains(reason), "{said}");
}

/// The command prints one line and exits with status 2. The file is untouched, and no other file
/// appears beside it.
fn refused(program: &Path, reason: &str) {
    let (before, names) = (fs::read(program).unwrap(), names_beside(program));
    let line = error_line(&hugetext(&["fix", path(program), "--in-place"]));
    assert!(line.contains(reason), "{line}");
    assert!(fs::read(program).unwrap() == before, "the file changed");
    assert_eq!(names_beside(program), names);
}

fn names_beside(program: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(program.parent().unwrap()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn data_after_the_image_forbids_moving_it() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = link(&directory, "lld", &["-fuse-ld=lld"]) else {
        println!("skipped: no lld on this machine");
        return;
    };
    let mut file = fs::File::options().append(true).open(&program).unwrap();
    file.write_all(b"a file system image").unwrap();
    refused(&program, "19 B follow the ELF image");
}

/// PyInstaller and Godot put their archives into sections that are not loaded.
#[test]
fn sections_of_the_programs_own_forbid_moving_them() {
    let directory = tempfile::tempdir().unwrap();
    let Some(plain) = link(&directory, "lld", &["-fuse-ld=lld"]) else {
        println!("skipped: no lld on this machine");
        return;
    };
    let program = directory.path().join("with-archive");
    let section = format!("pydata={}", path(&plain));
    let added = ["--add-section", &section, path(&plain), path(&program)];
    if crate::sample::tool("objcopy", &added).is_some() {
        refused(&program, "section pydata");
    }
}

/// Files whose PT_LOADs violate the ELF standard or share bytes. No linker makes such files.
#[test]
fn segments_that_overlap_or_are_not_in_order() {
    type Edit = fn(&mut Header, &mut Header);
    let edits: [(Edit, &str); 4] = [
        (
            |first, second| first.memsz = second.vaddr - first.vaddr + 1,
            "overlap",
        ),
        (std::mem::swap, "overlap"),
        // lld leaves a page between the addresses of the segments.
        (
            |_, second| {
                second.vaddr -= 0x1000;
                second.offset -= 0x1000;
                second.filesz += 0x1000;
                second.memsz += 0x1000;
            },
            "share bytes of the file",
        ),
        (|_, second| second.filesz = 1 << 40, "memory"),
    ];
    for (edit, reason) in edits {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = link(&directory, "lld", &["-fuse-ld=lld"]) else {
            println!("skipped: no lld on this machine");
            return;
        };
        headers::edit(&program, |_, headers| {
            let mut loads = headers.iter_mut().filter(|header| header.p_type == PT_LOAD);
            edit(loads.next().unwrap(), loads.next().unwrap());
        });
        refused(&program, reason);
    }
}

/// What eu-strip and objcopy keep for debuggers has the program headers of the program, and other bytes.
#[test]
fn debug_information_is_no_program() {
    use crate::sample::tool;
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let [debug, stripped, scanned] =
        ["debug", "stripped", "scanned"].map(|name| directory.path().join(name));
    if tool(
        "eu-strip",
        &["-f", path(&debug), "-o", path(&stripped), path(&program)],
    )
    .is_none()
    {
        return;
    }
    // Its debug information may be longer than the program.
    let file = fs::File::options().write(true).open(&debug).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len.max(16 << 20)).unwrap();
    refused(&debug, "debug information");
    error_line(&hugetext(&["check", path(&debug)]));
    fs::create_dir(&scanned).unwrap();
    fs::copy(&debug, scanned.join("debug")).unwrap();
    let report = crate::sample::json(&["check", "-r", path(&scanned)]);
    assert_eq!(report["summary"]["files"], 0, "{report}");
    assert_eq!(report["summary"]["errors"], 0, "{report}");
    fs::copy(&stripped, scanned.join("program")).unwrap();
    let report = crate::sample::json(&["check", "-r", path(&scanned)]);
    assert_eq!(report["summary"]["files"], 1, "{report}");
}

#[test]
fn text_relocations_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("textrel.s");
    fs::write(
        &source,
        ".text\n.globl f\nf: .skip 6000000\n.quad f\n.section .note.GNU-stack,\"\",@progbits\n",
    )
    .unwrap();
    let out = directory.path().join("textrel.so");
    let linked = Command::new("cc")
        .args(["-shared", "-Wl,-z,notext", path(&source), "-o", path(&out)])
        .output()
        .unwrap();
    if !linked.status.success() {
        println!(
            "skipped: no text relocations here: {}",
            text(&linked.stderr)
        );
        return;
    }
    refused(&out, "text relocations");
}

#[test]
fn small_text_is_not_padded_for() {
    declined(
        &["fix", "/bin/cat", "--dry-run", "--geometry", "x86-64"],
        "no text segment",
    );
}

#[test]
fn page_sizes_of_another_machine_are_told() {
    let arch = std::env::consts::ARCH;
    let foreign = match arch {
        "x86_64" => "arm64-4k",
        _ => "x86-64",
    };
    if !["x86_64", "aarch64"].contains(&arch) {
        println!("skipped: no page sizes are known of {arch}");
        return;
    }
    let own = env!("CARGO_BIN_EXE_hugetext");
    let options = ["fix", own, "--dry-run", "--geometry", foreign];
    let told = text(&hugetext(&options).stdout);
    assert!(told.contains(&format!("laid out for {foreign}")), "{told}");
}

#[test]
fn what_is_no_program_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    Command::new("mkfifo").arg(&fifo).status().unwrap();
    let text_file = directory.path().join("text");
    fs::write(&text_file, "hello").unwrap();
    let missing = directory.path().join("missing");
    for bad in [&fifo, &text_file, &missing, directory.path()] as [&Path; 4] {
        let line = error_line(&hugetext(&["fix", path(bad), "--in-place"]));
        assert!(line.contains(path(bad)), "{line}");
    }
}

#[test]
fn truncated_files_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = fs::read(sample(&directory)).unwrap();
    let cut = directory.path().join("cut");
    for len in [10, 63, 100, 4096, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&cut, &bytes[..len]).unwrap();
        error_line(&hugetext(&["fix", path(&cut), "--in-place"]));
        assert_eq!(fs::read(&cut).unwrap(), bytes[..len]);
    }
}

#[test]
fn outputs_that_cannot_be() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let before = fs::read(&program).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let missing = directory.path().join("missing/out");
    let outputs = [
        (path(&program), "--in-place"),
        (path(&link), "--in-place"),
        (path(directory.path()), "not a regular file"),
        ("/dev/null", "not a regular file"),
        (path(&missing), "missing"),
        ("/proc/out", "/proc"),
    ];
    for (output, says) in outputs {
        let line = error_line(&hugetext(&["fix", path(&program), "-o", output]));
        assert!(line.contains(says), "{line}");
    }
    assert_eq!(fs::read(&program).unwrap(), before);
}

#[test]
fn a_full_filesystem_leaves_the_input_alone() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    // The filesystem has 1 MiB, in a mount namespace that ends with the shell.
    let script = r#"mount -t tmpfs -o size=1m none "$1" && exec "$2" fix "$3" -o "$1/out""#;
    let place = directory.path().join("full");
    fs::create_dir(&place).unwrap();
    let output = Command::new("unshare")
        .args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            path(&place),
        ])
        .args([env!("CARGO_BIN_EXE_hugetext"), path(&program)])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    if said.contains("unshare") || said.contains("mount:") {
        println!("skipped: no private mounts here: {said}");
        return;
    }
    let line = error_line(&output);
    assert!(
        line.contains(&format!(
            "{}: cannot be written: No space left",
            path(&place.join("out"))
        )),
        "{line}"
    );
}

#[test]
fn immutable_files_and_closed_directories() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let chattr = |flag| Command::new("chattr").args([flag, path(&program)]).output();
    if !chattr("+i").is_ok_and(|output| output.status.success()) {
        println!("skipped: no immutable files here");
        return;
    }
    let output = hugetext(&["fix", path(&program), "--in-place"]);
    chattr("-i").unwrap();
    assert!(error_line(&output).contains("immutable"));
}

#[test]
fn a_user_cannot_replace_in_a_directory_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The command itself must be where that user can run it.
    let command = directory.path().join("hugetext");
    fs::copy(env!("CARGO_BIN_EXE_hugetext"), &command).unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            path(&command),
        ])
        .args(["fix", path(&program), "--in-place"])
        .output();
    match output {
        Ok(output) if !text(&output.stderr).contains("setpriv") => {
            let line = error_line(&output);
            assert!(
                line.contains("Permission denied") && line.contains("-o"),
                "{line}"
            );
        }
        _ => println!("skipped: cannot become another user"),
    }
}
