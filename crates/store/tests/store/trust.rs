//! Whose copies are used, and who may read and write them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hugetext_store::{Store, StoreError};

use crate::{fill, find, get, grounds, open_directory, origin, original, put, set_mode, upper};

#[test]
fn what_others_could_have_written_is_refused() {
    let directory = open_directory();
    let root = directory.path().join("store");
    let store = Store::create(&root).unwrap();
    let path = original(directory.path(), "program", b"text");
    let entry = put(&store, &path).unwrap();
    set_mode(&entry.path, 0o777);
    let found = find(&store, &path);
    assert!(matches!(found, Err(StoreError::Unsafe { .. })));
    assert_eq!(store.verify().unwrap().len(), 1);
    assert_eq!(store.remove(|_| true).unwrap().len(), 1);
    assert!(put(&store, &path).is_ok());

    for unsafe_directory in [&root, &directory.path().to_owned()] {
        set_mode(unsafe_directory, 0o777);
        assert!(matches!(Store::open(&root), Err(StoreError::Unsafe { .. })));
        set_mode(unsafe_directory, 0o755);
    }
    assert!(
        Store::open(&directory.path().join("none"))
            .unwrap()
            .is_none()
    );
}

#[test]
fn no_owner_is_led_to_the_copy_of_another_by_the_content_alone() {
    for ground in grounds() {
        let at = ground.path();
        let store = Store::create(&at.join("store")).unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| original(at, name, b"text"));
        if let Err(error) = std::os::unix::fs::chown(&three, Some(12345), None) {
            println!("skipped: only root can change the owner of a file: {error}");
            return;
        }
        let mut written = 0;
        let mut put = |path: &Path| {
            let entry = fill(&store, path, "upper", |from, to| {
                written += 1;
                upper(from, to)
            });
            (entry.unwrap(), written)
        };
        let (entry, _) = put(&one);
        assert_eq!(put(&two), (entry.clone(), 1), "the same owner and content");
        assert_eq!(put(&three), (entry, 2), "the same bytes are one file");
    }
}

#[test]
fn a_container_finds_by_the_content_what_the_host_made() {
    let ground = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    set_mode(ground.path(), 0o755);
    let Ok(tmpfs) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no tmpfs on which the content counts");
        return;
    };
    set_mode(tmpfs.path(), 0o755);
    let store = Store::create(&ground.path().join("store")).unwrap();
    let entry = put(&store, &original(ground.path(), "host", b"text")).unwrap();
    let seen = original(tmpfs.path(), "seen", b"text");
    assert_eq!(get(&store, &seen), Some(entry));
}

#[test]
fn verify_goes_by_the_bytes_and_not_by_what_is_noted_of_them() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "a", b"text");
    let entry = put(&store, &path).unwrap();
    let key = entry.path.file_name().unwrap().to_owned();
    // Another entry under this name, with all that is noted of it.
    let other = put(&store, &original(directory.path(), "b", b"evil")).unwrap();
    fs::rename(&other.path, &entry.path).unwrap();
    fs::rename(origin(&other), origin(&entry)).unwrap();
    let flaws = store.verify().unwrap();
    assert_eq!(flaws.len(), 1, "{flaws:?}");
    assert_eq!(Some(flaws[0].key.as_ref()), key.to_str());
}

#[test]
fn a_copy_is_the_stores_and_nobodys_to_write() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let path = original(directory.path(), "program", b"text");
    let own = fs::metadata(&path).unwrap().uid();
    if own != 0 {
        println!("skipped: only root can change the owner of a file");
        return;
    }
    std::os::unix::fs::chown(&path, Some(12345), Some(12346)).unwrap();
    let entry = put(&store, &path).unwrap();
    let copy = fs::metadata(&entry.path).unwrap();
    assert_eq!((copy.uid(), copy.gid()), (own, 12346));
    assert_eq!(copy.mode() & 0o7777, 0o555);
    let parent = entry.path.parent().unwrap();
    assert_eq!(parent, store.root().join("entries"));
}

#[test]
fn what_lies_behind_a_closed_door_stays_there() {
    let directory = open_directory();
    let store = Store::create(&directory.path().join("store")).unwrap();
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let path = original(&closed, "program", b"text");
    set_mode(&closed, 0o700);
    let entry = put(&store, &path).unwrap();
    let private = store.root().join("private");
    assert!(entry.path.starts_with(&private), "{}", entry.path.display());
    assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o700);
    assert_eq!(get(&store, &path), Some(entry.clone()));
    // All upkeep of the store reaches the entry.
    assert_eq!(store.entries().unwrap().len(), 1);
    assert!(store.verify().unwrap().is_empty());
    store.collect(u64::MAX).unwrap();
    assert_eq!(get(&store, &path), Some(entry));
    assert_eq!(store.remove(|_| true).unwrap().len(), 1);
    assert_eq!(get(&store, &path), None);
}
