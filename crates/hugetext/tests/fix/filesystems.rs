//! The effects of a file's filesystem: shared blocks, no unnamed files, refusals, interruption.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::sample::{error_line, hugetext, link, path, run, sample, start, text};

const HUGETEXT: &str = env!("CARGO_BIN_EXE_hugetext");

/// Runs a shell script in its own mount namespace. $1 is the command, $2 a directory and $3 the
/// sample program. `None` if the script cannot mount, which it reports by status 99.
fn in_namespace(script: &str, directory: &TempDir, program: &Path) -> Option<Output> {
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .args([HUGETEXT, path(directory.path()), path(program)])
        .output();
    usable(output.ok()?)
}

/// As [`in_namespace`], but run by root itself: only root may mount a disk.
fn as_root(script: &str, directory: &TempDir, program: &Path) -> Option<Output> {
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([HUGETEXT, path(directory.path()), path(program)])
        .output();
    usable(output.ok()?)
}

fn usable(output: Output) -> Option<Output> {
    let said = text(&output.stderr);
    if output.status.code() == Some(99) || said.starts_with("unshare:") {
        println!("skipped: cannot mount here: {said}");
        return None;
    }
    Some(output)
}

/// Blocks are shared, which the free space shows. A byte that differs is found all the same.
#[test]
fn shared_blocks_are_not_copied_and_changes_to_them_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let script = r#"
        cd "$2" && truncate -s 512M disk && mkdir on || exit 99
        mkfs."$FS" disk >&2 && mount -o loop disk on || exit 99
        cp "$3" on/old && sync on/old && cd on || exit 99
        free() { sync -f . && stat -f -c %f .; }
        before=$(free)
        "$1" fix old -o new >/dev/null || exit 1
        echo blocks $((before - $(free)))
        ./old; ./new
        "$1" check --same old new >/dev/null || exit 1
        printf '\001' | dd of=new bs=1 seek=4000000 conv=notrunc status=none
        "$1" check --same old new; echo same $?
    "#;
    for filesystem in ["xfs", "btrfs"] {
        let script = format!("FS={filesystem}\n{script}");
        let scratch = tempfile::tempdir_in(directory.path()).unwrap();
        let Some(output) = as_root(&script, &scratch, &program) else {
            continue;
        };
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        let blocks = said.lines().find_map(|line| line.strip_prefix("blocks "));
        let blocks: i64 = blocks.unwrap().parse().unwrap();
        // The program has more than 1500 blocks. The new blocks are the edges of segments, and
        // those that the filesystem itself writes.
        assert!(blocks < 200, "{filesystem}: {said}");
        assert_eq!(said.matches("read-only data").count(), 2, "{said}");
        assert!(said.contains("same 1"), "{said}");
    }
}

/// The new file is made in the directory of the target, so no rename crosses filesystems. The path
/// may lead there by a mount or by a symbolic link.
#[test]
fn another_filesystem_may_hold_the_output() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let script = r#"
        mount -t tmpfs none "$2" && mkdir "$2/far" && mount -t tmpfs none "$2/far" || exit 99
        ln -s "$2/far" "$2/link" && "$1" -q fix "$3" -o "$2/link/new" && "$2/far/new" || exit 1
        cp "$3" "$2/far/old" && ln -s far/old "$2/old" && "$1" -q fix "$2/old" --in-place || exit 1
        "$2/old" && ls -A "$2" "$2/far" | tr '\n' ' '
    "#;
    let place = tempfile::tempdir().unwrap();
    if let Some(output) = in_namespace(script, &place, &program) {
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(said.matches(&run(&program)).count(), 2, "{said}");
        assert!(
            said.contains(": far link old ") && said.ends_with(": new old "),
            "{said}"
        );
    }
}

/// A mount point cannot be replaced by a rename, and a read-only mount cannot be written.
#[test]
fn mounts_in_the_way() {
    let scripts = [
        (
            r#"mount --bind "$3" "$3" || exit 99; "$1" fix "$3" --in-place"#,
            "busy",
        ),
        (
            r#"mount --bind "$2" "$2" && mount -o remount,ro,bind "$2" || exit 99
               "$1" fix "$3" --in-place"#,
            "Read-only",
        ),
    ];
    for (script, reason) in scripts {
        let directory = tempfile::tempdir().unwrap();
        let program = sample(&directory);
        let before = fs::read(&program).unwrap();
        if let Some(output) = in_namespace(script, &directory, &program) {
            let line = error_line(&output);
            assert!(line.contains(reason), "{line}");
        }
        assert!(fs::read(&program).unwrap() == before);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn an_output_that_is_being_run_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let busy = directory.path().join("busy");
    fs::copy("/bin/cat", &busy).unwrap();
    let mut child = start(&busy);
    // Writing into the file itself would fail with ETXTBSY.
    let output = hugetext(&["fix", path(&program), "-o", path(&busy)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(run(&busy), run(&program));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn append_only_and_signed_files() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let done = |command: &str, arguments: &[&str]| {
        let output = Command::new(command).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    if done("chattr", &["+a", path(&program)]) {
        let output = hugetext(&["fix", path(&program), "--in-place"]);
        done("chattr", &["-a", path(&program)]);
        assert!(error_line(&output).contains("append-only"));
    } else {
        println!("skipped: no append-only files here");
    }
    let signature = ["-n", "security.ima", "-v", "0x0301", path(&program)];
    if done("setfattr", &signature) {
        let out = directory.path().join("out");
        for place in [&["--in-place"][..], &["-o", path(&out)]] {
            let arguments = [&["fix", path(&program)], place].concat();
            let line = error_line(&hugetext(&arguments));
            assert!(line.contains("IMA"), "{line}");
        }
    } else {
        println!("skipped: cannot set security.ima here");
    }
}

/// fs-verity needs support by the kernel and by the filesystem.
#[test]
fn files_sealed_by_verity() {
    let directory = tempfile::tempdir().unwrap();
    let program = sample(&directory);
    let script = r#"
        cd "$2" && truncate -s 64M disk && mkdir on || exit 99
        mkfs.ext4 -q -O verity disk && mount -o loop disk on || exit 99
        cp "$3" on/sealed && fsverity enable on/sealed || exit 99
        exec "$1" fix on/sealed --in-place
    "#;
    let scratch = tempfile::tempdir().unwrap();
    if let Some(output) = as_root(script, &scratch, &program) {
        assert!(error_line(&output).contains("fs-verity"));
    }
}

/// A program whose fix takes long enough to be interrupted midway.
fn large(directory: &TempDir) -> Option<std::path::PathBuf> {
    let options = ["-fuse-ld=lld", "-DTEXT=\"150000000, 0x90\""];
    let program = link(directory, "large", &options);
    if program.is_none() {
        println!("skipped: no lld on this machine");
    }
    program
}

/// Fixes a program onto itself and sends a signal once the fix has `begun`. Returns whether the
/// signal came in time.
fn is_interrupted(program: &Path, signal: Signal, begun: impl Fn(&Child) -> bool) -> bool {
    // Each attempt fixes a copy. If a fix ended before the signal, a second fix of the same file
    // would have nothing to do.
    let copy = program.with_extension("copy");
    fs::copy(program, &copy).unwrap();
    let before = fs::metadata(&copy).unwrap();
    // The process that runs the tests may ignore a signal, as nohup does. An ignored signal stays
    // ignored in children.
    let mut child = Command::new("env")
        .args([
            "--default-signal",
            HUGETEXT,
            "fix",
            path(&copy),
            "--in-place",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() && !begun(&child) {
        std::thread::yield_now();
    }
    let _ = kill_process(Pid::from_child(&child), signal);
    let interrupted = !child.wait().unwrap().success();
    if interrupted {
        let after = fs::metadata(&copy).unwrap();
        assert_eq!(after.ino(), before.ino(), "{signal:?}");
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    }
    fs::remove_file(&copy).unwrap();
    let left = fs::read_dir(program.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "{signal:?} left a file behind");
    interrupted
}

/// The signal may come too late on a loaded machine.
const TRIES: usize = 20;

#[test]
fn interrupted_in_the_middle_the_old_file_stays_alone() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = large(&directory) else {
        return;
    };
    let writes = |child: &Child| {
        let open = fs::read_dir(format!("/proc/{}/fd", child.id()));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| path(&to).ends_with("(deleted)")))
    };
    for signal in [Signal::TERM, Signal::KILL, Signal::INT] {
        let in_time = (0..TRIES).any(|_| is_interrupted(&program, signal, writes));
        assert!(in_time, "{signal:?} never came in time");
    }
}

/// bindfs, by FUSE, is a filesystem that cannot make unnamed files.
struct Bindfs {
    place: TempDir,
    _under: TempDir,
}

impl Bindfs {
    fn mount() -> Option<Bindfs> {
        let (under, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mounted = Command::new("bindfs")
            .args([path(under.path()), path(place.path())])
            .output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            println!("skipped: no bindfs on this machine, or it cannot mount");
            return None;
        }
        Some(Bindfs {
            place,
            _under: under,
        })
    }
}

impl Drop for Bindfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.place.path()).status();
    }
}

#[test]
fn without_unnamed_files_a_named_one_goes_with_the_program() {
    let Some(mount) = Bindfs::mount() else { return };
    let place = &mount.place;
    let Some(program) = large(place) else { return };
    let names = || fs::read_dir(place.path()).unwrap().count();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let in_time = (0..TRIES).any(|_| is_interrupted(&program, signal, |_| names() > 2));
        assert!(in_time, "{signal:?} never came in time");
    }
    let output = hugetext(&["fix", path(&program), "--in-place"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(names(), 1);
    assert!(run(&program).starts_with("read-only data"));
}
