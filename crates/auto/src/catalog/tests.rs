use std::collections::BTreeSet;
use std::time::Duration;

use hugetext_leaf::hold::HalfLife;

use super::*;
use crate::owners::Groups;

const NOW: Duration = Duration::from_secs(10);
const COSTS: Costs = Costs {
    fault: 500.0,
    fill: 300_000.0,
    system_call: None,
    set_share: Some(0.02),
};

fn moment() -> EvidenceTime {
    EvidenceTime {
        now: NOW,
        half_life: HalfLife::new(Duration::from_secs(3600)),
    }
}

fn file(ino: u64, generation: u64) -> MappedFile {
    MappedFile {
        id: FileId { dev: 1, ino },
        generation,
    }
}

fn user(user: u32) -> Principal {
    Principal { user, group: 1 }
}

fn text(path: &str) -> FileText {
    FileText {
        path: PathBuf::from(path),
        leaf: Leaf::M2,
        gain: Gain::Windows(4),
        ranges: vec![Span::new(0, 8 << 20)],
        obstacle: None,
        stays: true,
        state: FileState::of(&std::fs::metadata("/proc/self/exe").unwrap()),
        is_public: true,
    }
}

fn start(catalog: &mut Catalog, by: u32, file: MappedFile, path: &str) -> Option<Key> {
    match catalog.started(|| user(by), (file, PathBuf::from(path)), moment()) {
        Started::Unread(key) => Some(key),
        Started::Small | Started::Known | Started::Uncounted => None,
    }
}

#[test]
fn a_file_is_looked_at_once_and_every_start_counts() {
    let mut catalog = Catalog::default();
    let key = start(&mut catalog, 1000, file(7, 0), "/bin/cc").unwrap();
    assert_eq!(start(&mut catalog, 1000, file(7, 0), "/bin/cc"), Some(key));
    let mut levels = Levels::new();
    let all = |_: &Path, _| Ok(());
    assert!(
        catalog
            .candidates(&mut levels, &COSTS, moment(), all)
            .0
            .is_empty()
    );
    catalog.identified(key, file(7, 0), Some(text("/bin/cc")), moment());
    for _ in 0..998 {
        assert_eq!(start(&mut catalog, 1001, file(7, 0), "/bin/cc"), None);
    }
    let known = catalog.get(key).unwrap();
    assert!((known.starts(moment()) - 1000.0).abs() < 1e-6);
    let (candidates, _) = catalog.candidates(&mut levels, &COSTS, moment(), all);
    assert_eq!(candidates[0].bytes, 8 << 20);
    assert_eq!(candidates[0].claims.len(), 2);
    assert!(candidates[0].level.is_worth_it());
    let of_user = |_: &Path, by: Principal| match by.user {
        1000 => Ok(()),
        _ => Err(Exclusion::Denied(1)),
    };
    let (only, _) = catalog.candidates(&mut levels, &COSTS, moment(), of_user);
    assert!(!only[0].level.is_worth_it());
    // Of several reasons, the one that will pass is told.
    let nobody = |_: &Path, by: Principal| match by.user {
        1000 => Err(Exclusion::GroupShort),
        _ => Err(Exclusion::Denied(1)),
    };
    let (none, excluded) = catalog.candidates(&mut levels, &COSTS, moment(), nobody);
    assert!(none.is_empty());
    assert_eq!(excluded[&key], Exclusion::GroupShort);
}

#[test]
fn an_inode_that_is_used_again_is_another_file() {
    let mut catalog = Catalog::default();
    start(&mut catalog, 0, file(7, 1), "/bin/cc").unwrap();
    assert!(start(&mut catalog, 0, file(7, 2), "/bin/ld").is_some());
}

#[test]
fn an_upgrade_takes_over_what_was_seen() {
    let mut catalog = Catalog::default();
    let old = start(&mut catalog, 0, file(7, 0), "/bin/cc").unwrap();
    catalog.identified(old, file(7, 0), Some(text("/bin/cc")), moment());
    let new = start(&mut catalog, 0, file(8, 0), "/bin/cc").unwrap();
    let known = catalog.identified(new, file(8, 0), Some(text("/bin/cc")), moment());
    assert_eq!(known, Some(old));
    assert_eq!(catalog.iter().count(), 1);
    assert_eq!(catalog.of_id(FileId { dev: 1, ino: 8 }), Some(old));
    let known = catalog.get(old).unwrap();
    assert!((known.starts(moment()) - 2.0).abs() < 1e-9);
    assert_eq!(known.file, file(8, 0));
}

#[test]
fn the_same_layer_in_two_containers_is_one_file() {
    let mut catalog = Catalog::default();
    let layer = file(7, 0);
    for (ino, pid) in [(100, 1), (200, 2)] {
        let key = start(&mut catalog, pid, file(ino, 0), "/usr/bin/node").unwrap();
        catalog.identified(
            key,
            layer,
            Some(text("/var/lib/images/1/usr/bin/node")),
            moment(),
        );
    }
    assert_eq!(catalog.iter().count(), 1);
    assert_eq!(
        catalog.of_id(FileId { dev: 1, ino: 100 }),
        catalog.of_id(FileId { dev: 1, ino: 200 })
    );
    assert_eq!(start(&mut catalog, 3, file(200, 0), "/usr/bin/node"), None);
    let (_, known) = catalog.iter().next().unwrap();
    assert!((known.starts(moment()) - 3.0).abs() < 1e-9);
}

#[test]
fn what_holds_nothing_huge_costs_one_look() {
    let mut catalog = Catalog::default();
    let key = start(&mut catalog, 0, file(7, 0), "/bin/true").unwrap();
    catalog.identified(key, file(7, 0), None, moment());
    assert_eq!(start(&mut catalog, 0, file(7, 0), "/bin/true"), None);
    assert_eq!(catalog.iter().count(), 0);
}

#[test]
fn ten_thousand_programs_of_one_user_leave_those_of_others_known() {
    let mut catalog = Catalog::default();
    let mut groups = Groups::default();
    let held = BTreeSet::new();
    let own = start(&mut catalog, 1000, file(1, 0), "/home/alice/bin/x").unwrap();
    catalog.identified(own, file(1, 0), Some(text("/home/alice/bin/x")), moment());
    for number in 0..10_000 {
        let path = format!("/home/mallory/{number}");
        for _ in 0..2 {
            start(&mut catalog, 1001, file(number + 100, 0), &path);
        }
        let key = catalog
            .of_id(FileId {
                dev: 1,
                ino: number + 100,
            })
            .unwrap();
        catalog.identified(key, file(number + 100, 0), Some(text(&path)), moment());
        if number % 1000 == 0 {
            catalog.forget(&COSTS, moment(), &held, &mut groups);
        }
    }
    catalog.forget(&COSTS, moment(), &held, &mut groups);
    assert!(catalog.iter().count() <= MOST_FILES);
    assert!(catalog.get(own).is_some());
}

#[test]
fn new_files_that_come_too_fast_are_counted() {
    let mut catalog = Catalog::default();
    for number in 0..2 * MOST_UNREAD as u64 {
        start(&mut catalog, 0, file(number, 0), "/bin/x");
    }
    assert_eq!(catalog.iter().count(), MOST_UNREAD);
    assert_eq!(catalog.uncounted, MOST_UNREAD as u64);
}

#[test]
fn files_that_are_gone_before_they_are_looked_at_leave_room_for_others() {
    let mut catalog = Catalog::default();
    for number in 0..10 * MOST_UNREAD as u64 {
        let key = start(&mut catalog, 0, file(number, 0), "/tmp/conftest").unwrap();
        catalog.failed(key);
        catalog.failed(key);
    }
    assert_eq!(catalog.uncounted, 0);
    assert_eq!(catalog.iter().count(), MOST_UNREADABLE);
    // The last of them can be looked at after all.
    let (last, _) = catalog.iter().last().unwrap();
    catalog.identified(last, file(0, 0), Some(text("/tmp/conftest")), moment());
    assert_eq!(catalog.iter().count(), MOST_UNREADABLE);
    for number in 0..2 * MOST_UNREAD as u64 {
        start(&mut catalog, 0, file(number, 1), "/bin/x");
    }
    assert_eq!(catalog.uncounted, MOST_UNREAD as u64);
}

#[test]
fn what_is_remembered_is_recalled() {
    let mut catalog = Catalog::default();
    let mut groups = Groups::default();
    let by = Principal {
        user: 1000,
        group: groups.number("/user.slice"),
    };
    let told = (file(7, 0), PathBuf::from("/bin/cc"));
    catalog.started(|| by, told, moment());
    let key = catalog.of_id(FileId { dev: 1, ino: 7 }).unwrap();
    catalog.identified(key, file(7, 0), Some(text("/bin/cc")), moment());
    let records = catalog.records(&groups, moment());
    let (mut later, mut names) = (Catalog::default(), Groups::default());
    let key = later.recall(records[0].clone(), &mut names, NOW);
    let known = later.get(key).unwrap();
    let (principal, seen) = known.by.iter().next().unwrap();
    assert_eq!(names.name(principal.group), "/user.slice");
    assert_eq!(seen.starts.at(moment()), 1.0);
}

#[test]
fn what_is_remembered_leaves_room_for_what_is_new() {
    let (mut catalog, mut groups) = (Catalog::default(), Groups::default());
    for number in 0..MOST_FILES {
        let path = PathBuf::from(format!("/bin/{number}"));
        let record = Record {
            name: path.clone(),
            path,
            by: Vec::new(),
        };
        catalog.recall(record, &mut groups, NOW);
    }
    assert!(start(&mut catalog, 0, file(7, 0), "/bin/cc").is_some());
}
