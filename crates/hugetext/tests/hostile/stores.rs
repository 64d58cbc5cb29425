//! Stores that change, fill up, lose their makers, and are damaged.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Stdio;
use std::thread;

use crate::ground::{Ground, assert_ran};

#[test]
fn what_changes_while_it_is_copied_is_shown_in_no_other_place() {
    const TRIES: usize = 40;
    let Some(ground) = Ground::new() else { return };
    let changing = ground.copy("changing");
    for number in 0..TRIES {
        let store = format!("store{number}");
        let mut run = ground.hugetext(&["run", "--store", &store, "--also"]);
        let run = run
            .arg(&changing)
            .args(["--", "true"])
            .stderr(Stdio::null());
        let mut run = run.spawn().unwrap();
        let file = File::options().write(true).open(&changing).unwrap();
        // Another moment each time.
        (0..number * 2_000).for_each(|_| thread::yield_now());
        file.write_all_at(b"B", ground.mark).unwrap();
        (0..number * 500).for_each(|_| thread::yield_now());
        file.write_all_at(b"A", ground.mark).unwrap();
        drop(file);
        run.wait().unwrap();
        let victim = ground.copy(format!("victim{number}"));
        assert_ran(&ground.run(&store, &victim).output().unwrap());
        ground.sound(&store);
    }
    println!("hostile: {TRIES} of {TRIES} changes while a file was copied reached no other file");
}

#[test]
fn many_first_starts_at_once_make_one_copy() {
    const STARTS: usize = 50;
    let Some(ground) = Ground::new() else { return };
    let program = ground.path("program");
    let start = |_| {
        let mut run = ground.run("store", &program);
        run.stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let started: Vec<_> = (0..STARTS).map(start).collect();
    for run in started {
        assert_ran(&run.wait_with_output().unwrap());
    }
    let copies = ground.sound("store");
    assert!(copies <= 1, "{copies} copies");
    println!("hostile: {STARTS} of {STARTS} first starts at once, {copies} copies");
}

#[test]
fn who_is_killed_while_copying_leaves_nothing_that_harms() {
    const KILLS: usize = 60;
    let Some(ground) = Ground::new() else { return };
    let mut early = 0;
    for number in 0..KILLS {
        let program = ground.copy(format!("program{number}"));
        let mut run = ground.run("store", &program);
        let mut run = run
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        (0..number * 300).for_each(|_| thread::yield_now());
        let _ = run.kill();
        early += usize::from(!run.wait().unwrap().success());
        assert_ran(&ground.run("store", &program).output().unwrap());
        ground.sound("store");
    }
    let collected = ground
        .hugetext(&["store", "--store", "store", "gc"])
        .output();
    assert!(collected.unwrap().status.success());
    let left = fs::read_dir(ground.path("store/entries"))
        .into_iter()
        .flatten();
    let left = left.flatten().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with('.') || name == "unfinished"
    });
    assert_eq!(left.count(), 0);
    println!("hostile: {KILLS} kills, {early} before the command had ended; nothing was left");
}

#[test]
fn a_damaged_store_is_no_reason_not_to_run() {
    let Some(ground) = Ground::new() else { return };
    let program = ground.path("program");
    let entries = |end: &str| {
        let listed = fs::read_dir(ground.path("store/entries"))
            .into_iter()
            .flatten();
        let paths = listed.flatten().map(|entry| entry.path());
        let matching = paths.filter(|path| path.to_string_lossy().ends_with(end) != end.is_empty());
        matching.collect::<Vec<_>>()
    };
    let damages: [(&str, &dyn Fn()); 8] = [
        ("no damage", &|| {}),
        ("copies without content", &|| {
            for path in entries(".json").iter().map(|path| path.with_extension("")) {
                let _ = fs::remove_file(&path);
                fs::write(&path, "").unwrap();
                ground.give(&path);
            }
        }),
        ("origins that are no JSON", &|| {
            entries(".json")
                .iter()
                .for_each(|path| fs::write(path, "{").unwrap());
        }),
        ("copies that are directories", &|| {
            for path in entries(".json").iter().map(|path| path.with_extension("")) {
                let _ = fs::remove_file(&path);
                fs::create_dir(&path).unwrap();
                ground.give(&path);
            }
        }),
        ("a limit that is no number", &|| {
            fs::write(ground.path("store/limit"), "many").unwrap();
        }),
        ("a store that others may write", &|| {
            fs::set_permissions(ground.path("store"), Permissions::from_mode(0o777)).unwrap();
        }),
        ("a store that nobody may write", &|| {
            fs::set_permissions(ground.path("store"), Permissions::from_mode(0o500)).unwrap();
        }),
        ("a file in its place", &|| {
            fs::set_permissions(ground.path("store"), Permissions::from_mode(0o700)).unwrap();
            fs::remove_dir_all(ground.path("store")).unwrap();
            fs::write(ground.path("store"), "").unwrap();
        }),
    ];
    assert_ran(&ground.run("store", &program).output().unwrap());
    for (what, damage) in &damages {
        damage();
        let output = ground.run("store", &program).output().unwrap();
        assert!(
            output.status.success() && output.stdout == b"A\n",
            "{what}: {output:?}"
        );
    }
    println!(
        "hostile: {0} of {0} damaged stores harm no start",
        damages.len()
    );
}

#[test]
fn a_full_store_is_no_reason_not_to_run() {
    let Some(ground) = Ground::new() else { return };
    let program = ground.path("program");
    let mut tried = 0;
    // Sizes below and above that of the program.
    for size in ["64k", "1m", "4m", "9m", "64m"] {
        let script =
            "mount -t tmpfs -o size=$1 none full && exec \"$2\" run --store full/store -- \"$3\"";
        fs::create_dir_all(ground.path("full")).unwrap();
        let mut unshare = ground.plain("unshare");
        unshare.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            size,
        ]);
        let output = unshare
            .arg(env!("CARGO_BIN_EXE_hugetext"))
            .arg(&program)
            .output();
        let Ok(output) = output else {
            return println!("skipped: no unshare");
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("unshare: ") || said.contains("mount: ") {
            return println!("skipped: {said}");
        }
        assert_ran(&output);
        tried += 1;
    }
    println!("hostile: {tried} of {tried} sizes of a full filesystem harm no start");
}
