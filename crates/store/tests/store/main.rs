//! The store, with real files.

#![allow(clippy::unwrap_used, reason = "a failed helper fails the test")]

mod trust;

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hugetext_store::{Entry, Identity, Original, Store, StoreError, WriteError};
use tempfile::TempDir;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn original(directory: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    set_mode(&path, 0o755);
    path
}

/// Calls `act` with the file at `path` as an original.
fn with_original<T>(path: &Path, act: impl FnOnce(Original<'_>) -> T) -> T {
    let file = File::open(path).unwrap();
    let identity = Identity::of(&file).unwrap();
    act(Original {
        file: &file,
        path,
        identity: &identity,
    })
}

fn fill(
    store: &Store,
    path: &Path,
    recipe: &str,
    write: impl FnMut(&File, &File) -> Result<(), WriteError>,
) -> Result<Entry, StoreError> {
    with_original(path, |original| store.fill(original, recipe, write))
}

fn put(store: &Store, path: &Path) -> Result<Entry, StoreError> {
    fill(store, path, "upper", upper)
}

fn upper(mut from: &File, mut to: &File) -> Result<(), WriteError> {
    let mut content = Vec::new();
    from.read_to_end(&mut content)?;
    Ok(to.write_all(&content.to_ascii_uppercase())?)
}

fn find(store: &Store, path: &Path) -> Result<Option<Entry>, StoreError> {
    with_original(path, |original| store.find(original, "upper"))
}

fn get(store: &Store, path: &Path) -> Option<Entry> {
    find(store, path).unwrap()
}

/// A directory that everybody can search, as directories of programs are.
fn open_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    set_mode(directory.path(), 0o755);
    directory
}

/// Where the store keeps what it made from this entry's original.
fn origin(entry: &Entry) -> PathBuf {
    entry.path.with_extension("json")
}

#[test]
fn an_entry_has_the_rights_of_its_original_and_is_found_again() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "program", b"text");
    set_mode(&path, 0o711);
    assert_eq!(get(&store, &path), None);
    let entry = put(&store, &path).unwrap();
    assert_eq!(get(&store, &path), Some(entry.clone()));
    assert_eq!(fs::read(&entry.path).unwrap(), b"TEXT");
    let (old, new) = (
        fs::metadata(&path).unwrap(),
        fs::metadata(&entry.path).unwrap(),
    );
    assert_eq!((old.mode() & !0o222, old.gid()), (new.mode(), new.gid()));
    assert_eq!(old.mtime_nsec(), new.mtime_nsec());
    assert!(store.verify().unwrap().is_empty());
}

#[test]
fn an_entry_carries_the_security_label_of_its_original() {
    // The directory is where the page cache of programs is. A tmpfs may lack labels.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "program", b"text");
    let label = |path: &Path| {
        let mut value = vec![0; 256];
        let len = rustix::fs::getxattr(path, "security.selinux", &mut value[..]).unwrap();
        value.truncate(len);
        value
    };
    let mut entries = Vec::new();
    for context in [
        "system_u:object_r:bin_t:s0\0",
        "system_u:object_r:ssh_exec_t:s0\0",
    ] {
        // This needs root and no SELinux. With SELinux, its policy decides who may set labels.
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(&path, "security.selinux", context.as_bytes(), flags);
        if let Err(error) = set {
            println!("skipped: cannot label a file: {error}");
            return;
        }
        let entry = put(&store, &path).unwrap();
        assert_eq!(label(&entry.path), context.as_bytes());
        entries.push(entry);
    }
    assert_ne!(entries[0], entries[1], "another label is another entry");
}

#[test]
fn who_finds_it_busy_does_not_wait_for_ever() {
    let directory = open_directory();
    let root = directory.path().join("store");
    let store = Store::create(&root).unwrap().with_patience(Duration::ZERO);
    let path = original(directory.path(), "program", b"text");
    let lock = File::create(root.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(matches!(put(&store, &path), Err(StoreError::Busy(_))));
    drop(lock);
    put(&store, &path).unwrap();
}

#[test]
fn a_changed_original_has_no_entry_and_an_equal_one_shares_it() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let one = original(directory.path(), "one", b"text");
    let two = original(directory.path(), "two", b"text");
    let entry = put(&store, &one).unwrap();
    assert_eq!(put(&store, &two).unwrap(), entry);
    assert_eq!(store.entries().unwrap().len(), 1);

    let times = fs::metadata(&one).unwrap().modified().unwrap();
    fs::write(&one, b"tax!").unwrap();
    File::options()
        .write(true)
        .open(&one)
        .unwrap()
        .set_modified(times)
        .unwrap();
    assert_eq!(get(&store, &one), None, "ctime tells what mtime hides");
    set_mode(&two, 0o700);
    assert_eq!(get(&store, &two), None, "another mode is another entry");
    assert_ne!(put(&store, &two).unwrap(), entry);
}

#[test]
fn the_least_recently_used_entries_go_first() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let paths: Vec<PathBuf> = [1u8, 2, 3]
        .iter()
        .map(|n| original(directory.path(), &format!("p{n}"), &vec![*n; 100_000]))
        .collect();
    let entries: Vec<Entry> = paths
        .iter()
        .map(|path| put(&store, path).unwrap())
        .collect();
    for (entry, age) in entries.iter().zip([1, 3, 2]) {
        let used = std::time::SystemTime::now() - std::time::Duration::from_secs(age * 86400);
        let times = fs::FileTimes::new().set_accessed(used);
        File::open(&entry.path).unwrap().set_times(times).unwrap();
        let times = fs::FileTimes::new().set_modified(used);
        File::open(origin(entry)).unwrap().set_times(times).unwrap();
    }
    let sizes: u64 = store
        .entries()
        .unwrap()
        .iter()
        .map(|entry| entry.size)
        .sum();
    let done = store.collect(sizes * 2 / 3).unwrap();
    assert_eq!(done.removed.len(), 1);
    assert_eq!(get(&store, &paths[1]), None);
    assert_eq!(get(&store, &paths[2]).as_ref(), Some(&entries[2]));

    // The last lookup was a use, so the first entry is now the oldest and is removed to make room.
    store.set_limit(sizes * 2 / 3 + 8192).unwrap();
    put(&store, &paths[1]).unwrap();
    assert_eq!(get(&store, &paths[0]), None);
    store.set_limit(1000).unwrap();
    let large = original(directory.path(), "large", &[0; 10_000]);
    assert!(matches!(put(&store, &large), Err(StoreError::Full { .. })));
}

#[test]
fn a_copy_in_use_goes_last() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let put = |n: u8| {
        let path = original(directory.path(), &format!("p{n}"), &vec![n; 100_000]);
        put(&store, &path).unwrap()
    };
    let entries = [1, 2, 3].map(put);
    let day = Duration::from_secs(86400);
    for (entry, age) in entries.iter().zip([3, 2, 1]) {
        let used = std::time::SystemTime::now() - day * age;
        let times = fs::FileTimes::new().set_accessed(used);
        File::open(&entry.path).unwrap().set_times(times).unwrap();
        let times = fs::FileTimes::new().set_modified(used);
        File::open(origin(entry)).unwrap().set_times(times).unwrap();
    }
    let size = store.entries().unwrap()[0].size;
    // As a process has it that runs the program.
    let user = File::open(&entries[0].path).unwrap();
    store.collect(2 * size).unwrap();
    let left = || entries.each_ref().map(|entry| entry.path.exists());
    assert_eq!(left(), [true, false, true]);
    store.collect(size).unwrap();
    assert_eq!(left(), [true, false, false]);
    drop(user);
    store.collect(0).unwrap();
    assert_eq!(left(), [false; 3]);
}

#[test]
fn each_file_leads_to_the_copy_that_it_shares() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let [one, two, other] = [("one", "text"), ("two", "text"), ("other", "else")]
        .map(|(name, content)| original(directory.path(), name, content.as_bytes()));
    let entry = put(&store, &one).unwrap();
    assert_eq!(put(&store, &two).unwrap(), entry);
    put(&store, &other).unwrap();
    for path in [one, two] {
        let copies = store.copies_of(&path, &File::open(&path).unwrap()).unwrap();
        let files: Vec<&PathBuf> = copies.iter().map(|copy| &copy.file).collect();
        assert_eq!(files, [&entry.path], "{}", path.display());
    }
}

#[test]
fn a_damaged_limit_is_said_until_it_is_set_again() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "program", b"x");
    assert_eq!(store.limit().unwrap(), hugetext_store::DEFAULT_LIMIT);
    for damage in [&b"4 GiB"[..], b"", b"\xff"] {
        fs::write(store.root().join("limit"), damage).unwrap();
        assert!(matches!(store.limit(), Err(StoreError::DamagedLimit(_))));
        assert!(matches!(
            put(&store, &path),
            Err(StoreError::DamagedLimit(_))
        ));
    }
    store.set_limit(1 << 20).unwrap();
    assert_eq!(store.limit().unwrap(), 1 << 20);
    put(&store, &path).unwrap();
}

#[test]
fn damage_is_found_and_made_good() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "a", b"text");
    let entry = put(&store, &path).unwrap();
    let times = fs::metadata(&entry.path).unwrap().modified().unwrap();
    set_mode(&entry.path, 0o755);
    let written = fs::write(&entry.path, "TEXt");
    set_mode(&entry.path, 0o555);
    if let Err(error) = written {
        println!("skipped: the kernel itself keeps the copy as it is: {error}");
        return;
    }
    let file = File::open(&entry.path).unwrap();
    file.set_modified(times).unwrap();
    let flaws = store.verify().unwrap();
    assert_eq!(flaws.len(), 1);
    assert_eq!(Path::new(&flaws[0].path), path);
    assert!(matches!(find(&store, &path), Err(StoreError::Damaged(_))));
    let again = put(&store, &path).unwrap();
    assert_eq!(fs::read(&again.path).unwrap(), b"TEXT");
    assert_eq!(get(&store, &path), Some(again));
    assert!(store.verify().unwrap().is_empty());
}

/// Directories on a filesystem whose kernel tells of changes, and on one of which nothing is believed.
fn grounds() -> Vec<TempDir> {
    let grounds = [
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        Path::new("/dev/shm"),
    ];
    let grounds = grounds
        .into_iter()
        .filter_map(|on| tempfile::tempdir_in(on).ok());
    let grounds: Vec<TempDir> = grounds.collect();
    grounds
        .iter()
        .for_each(|ground| set_mode(ground.path(), 0o755));
    grounds
}

#[test]
fn what_changes_while_it_is_copied_is_never_shown_in_the_place_of_another() {
    for ground in grounds() {
        let at = ground.path();
        let store = Store::create(&at.join("store")).unwrap();
        let (changing, victim) = (original(at, "a", b"text"), original(at, "b", b"text"));
        let rewrite = |content| fs::write(&changing, content).unwrap();
        let changed = with_original(&changing, |it| {
            store.fill(it, "upper", |from, to| {
                rewrite(b"evil");
                upper(from, to)?;
                rewrite(b"text");
                Ok(())
            })
        });
        for path in [&victim, &changing] {
            assert_eq!(fs::read(put(&store, path).unwrap().path).unwrap(), b"TEXT");
        }
        assert!(store.verify().unwrap().is_empty());
        println!("{}: {changed:?}", at.display());
    }
}

#[test]
fn what_is_written_through_a_mapping_is_not_mistaken_for_what_was_copied() {
    for ground in grounds() {
        let at = ground.path();
        let store = Store::create(&at.join("store")).unwrap();
        let path = original(at, "program", b"text");
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        let on_tmpfs = at.starts_with("/dev/shm");
        let found = put(&store, &path);
        match found {
            Err(StoreError::OpenForWriting) => assert!(!on_tmpfs),
            other => assert_eq!(fs::read(other.unwrap().path).unwrap(), b"TEXT"),
        }
        drop(writer);
        put(&store, &path).unwrap();
    }
}

#[test]
fn entries_of_an_older_version_are_not_used_and_go() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "a", b"text");
    let entry = put(&store, &path).unwrap();
    let noted = fs::read_to_string(origin(&entry)).unwrap();
    fs::write(origin(&entry), noted.replace("\"format\":1,", "")).unwrap();
    assert!(matches!(find(&store, &path), Err(StoreError::Damaged(_))));
    assert_eq!(store.verify().unwrap().len(), 1);
    store.collect(u64::MAX).unwrap();
    assert!(store.entries().unwrap().is_empty());
    assert_eq!(get(&store, &path), None);
}

#[test]
fn a_touched_entry_of_the_same_content_is_used_on() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "a", b"text");
    let entry = put(&store, &path).unwrap();
    File::open(&entry.path)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    assert_eq!(get(&store, &path), Some(entry));
}

#[test]
fn a_restored_file_with_all_its_times_is_another() {
    let directory = open_directory();
    let path = original(directory.path(), "program", &[1; 100_000]);
    let file = File::open(&path).unwrap();
    let identity = Identity::of(&file).unwrap();
    assert_eq!(Identity::of(&file).unwrap(), identity);
    let begun = std::time::Instant::now();
    let rounds = 100;
    for _ in 0..rounds {
        Identity::of(&file).unwrap();
    }
    let each = begun.elapsed() / rounds;
    println!("an identity takes {} µs", each.as_micros());
    fs::write(&path, [2; 100_000]).unwrap();
    assert_ne!(Identity::of(&file).unwrap(), identity);
}

#[test]
fn what_a_killed_process_left_is_swept() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "a", b"text");
    let entry = put(&store, &path).unwrap();
    let left = store.root().join("entries/.hugetext-1-3");
    fs::write(&left, "half").unwrap();
    fs::write(entry.path.with_file_name("f".repeat(64) + ".json"), "{").unwrap();
    std::os::unix::fs::symlink("gone", store.root().join("index/1-2-3")).unwrap();
    store.collect(u64::MAX).unwrap();
    assert_eq!(
        fs::read_dir(store.root().join("entries")).unwrap().count(),
        2
    );
    let left = fs::read_dir(store.root().join("index")).unwrap();
    assert!(left.flatten().all(|link| link.file_name() != "1-2-3"));
    assert_eq!(get(&store, &path), Some(entry));
}

#[test]
fn many_fill_one_entry_once() {
    let directory = open_directory();
    let root = directory.path().join("store");
    let path = original(directory.path(), "a", &vec![b'x'; 1 << 20]);
    let written = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                let store = Store::create(&root).unwrap();
                let entry = fill(&store, &path, "copy", |_, mut to| {
                    written.fetch_add(1, Ordering::Relaxed);
                    Ok(to.write_all(&fs::read(&path)?)?)
                });
                assert_eq!(fs::metadata(entry.unwrap().path).unwrap().len(), 1 << 20);
            });
        }
    });
    assert_eq!(written.into_inner(), 1);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "a", b"text");
    let failed = fill(&store, &path, "copy", |_, _| Err("no".into()));
    assert!(matches!(failed, Err(StoreError::Write(_))));
    assert_eq!(
        fs::read_dir(store.root().join("entries")).unwrap().count(),
        0
    );
}
