//! A disk that is full: where tables wait, and where they go.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The disk's size in bytes.
const SIZE: usize = 256 << 10;

/// A tmpfs that is there in a mount namespace alone, which a process holds.
struct SmallDisk {
    holder: Child,
    /// Arguments of nsenter.
    enter: Vec<String>,
    path: PathBuf,
}

impl SmallDisk {
    /// One over `path`; `None`, and a reason on stderr, if this test may not mount.
    fn mount(path: &Path) -> Option<SmallDisk> {
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let mut own = vec!["--mount"];
        let mut enter = vec!["--mount".to_owned()];
        if !is_root {
            own.push("--map-root-user");
            enter.extend(["--user", "--preserve-credentials"].map(str::to_owned));
        }
        let script =
            format!("mount -t tmpfs -o size={SIZE} none \"$0\" && echo mounted && exec cat");
        let holder = Command::new("unshare")
            .args(own)
            .args(["sh", "-c", &script])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut holder = match holder {
            Ok(holder) => holder,
            Err(error) => {
                eprintln!("skipped: unshare: {error}");
                return None;
            }
        };
        let mut line = String::new();
        let said = holder.stdout.as_mut().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        if line.trim() != "mounted" {
            let mut why = String::new();
            let said = holder.stderr.as_mut().unwrap();
            said.read_to_string(&mut why).unwrap();
            holder.wait().unwrap();
            eprintln!("skipped: no small disk can be mounted: {}", why.trim());
            return None;
        }
        enter.extend(["--target".to_owned(), holder.id().to_string()]);
        Some(SmallDisk {
            holder,
            enter,
            path: path.to_owned(),
        })
    }

    /// The disk, as processes outside of the namespace see it.
    fn outside(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.path.strip_prefix("/").unwrap())
    }

    /// Leaves only `free` bytes.
    fn fill(&self, free: usize) {
        let mut file = File::create(self.outside().join("filler")).unwrap();
        // The last write ends at the end of the disk.
        while file.write(&[1; 4096]).is_ok_and(|written| written > 0) {}
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(free as u64)).unwrap();
    }

    fn empty(&self) {
        fs::remove_file(self.outside().join("filler")).unwrap();
    }

    /// Writes an inventory, where the disk is seen.
    fn write(&self, place: &Path, spool: &Path) -> Output {
        Command::new("nsenter")
            .args(&self.enter)
            .arg(env!("CARGO_BIN_EXE_hugetext-inventory"))
            .args([
                "--scan",
                "/bin/true",
                "--run-dir",
                "/nonexistent",
                "--host",
                "h",
                "--machine",
                "h",
            ])
            .arg("-o")
            .arg(place)
            .arg("--spool")
            .arg(spool)
            .output()
            .unwrap()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// All files below a directory, but for the filler and the lock.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(directory).into_iter().flatten();
    let files = entries.filter(|entry| entry.file_type().is_file());
    let files = files.map(walkdir::DirEntry::into_path);
    files
        .filter(|path| !path.ends_with("filler") && !path.ends_with("lock"))
        .collect()
}

fn tables(directory: &Path) -> Vec<PathBuf> {
    let found = files(directory).into_iter();
    found
        .filter(|path| !path.ends_with("time") && !path.ends_with("place"))
        .collect()
}

/// The only line of a run that failed.
fn only_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn assert_whole(tables: &[PathBuf]) {
    for table in tables {
        let shown = Command::new(env!("CARGO_BIN_EXE_hugetext-inventory"))
            .arg("--show")
            .arg(table)
            .output()
            .unwrap();
        assert!(shown.status.success(), "{}", table.display());
    }
}

#[test]
fn a_full_spool_is_one_line_and_the_next_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (at, target) = (
        directory.path().join("disk"),
        directory.path().join("target"),
    );
    fs::create_dir(&at).unwrap();
    let Some(disk) = SmallDisk::mount(&at) else {
        return;
    };
    // Nothing fits, or the time does and the table does not.
    for free in [0, 4096] {
        disk.fill(free);
        let line = only_line(&disk.write(&target, &at));
        assert!(line.contains(at.to_str().unwrap()), "{line}");
        assert!(
            line.contains("free space there, and run this again"),
            "{line}"
        );
        assert!(tables(&disk.outside()).is_empty() && tables(&target).is_empty());
        disk.empty();
    }
    assert!(disk.write(&target, &at).status.success());
    let written = tables(&target);
    assert_eq!(written.len(), 1);
    assert_whole(&written);
}

#[test]
fn a_full_place_keeps_what_waits_and_shows_no_part_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let (at, spool) = (
        directory.path().join("disk"),
        directory.path().join("spool"),
    );
    fs::create_dir(&at).unwrap();
    let Some(disk) = SmallDisk::mount(&at) else {
        return;
    };
    for (runs, free) in [0, 4096].into_iter().enumerate() {
        disk.fill(free);
        let line = only_line(&disk.write(&at, &spool));
        assert!(line.contains(at.to_str().unwrap()), "{line}");
        assert!(line.contains(spool.to_str().unwrap()), "{line}");
        assert!(
            line.contains("free space there, and run this again"),
            "{line}"
        );
        assert_eq!(tables(&disk.outside()), Vec::<PathBuf>::new());
        assert_eq!(tables(&spool).len(), runs + 1);
        disk.empty();
    }
    assert!(disk.write(&at, &spool).status.success());
    assert!(tables(&spool).is_empty());
    let written = tables(&disk.outside());
    // What waited, and that of the last run.
    assert_eq!(written.len(), 3);
    assert_whole(&written);
}
