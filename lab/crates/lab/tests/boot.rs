//! Guests in the way a kernel developer uses them: a kernel from elsewhere with its built-in
//! drivers, modules from an added archive, a command, a shell. Each test prints a message and
//! passes if no kernel was fetched.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The cache of this checkout.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.cache/lab")
}

/// A fetched kernel with everything except disks built in.
fn kernel() -> Option<PathBuf> {
    let kernel = cache().join("kernels/6.18-amd64");
    if !kernel.join("manifest.json").exists() {
        println!("skipped: 6.18-amd64 is not in the cache; 'make -C lab fetch' fetches it");
        return None;
    }
    Some(kernel)
}

fn lab_boot() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext-lab"));
    command.arg("--cache").arg(cache()).arg("boot");
    command
}

/// The same kernel, used like one from elsewhere, without its modules.
fn boot(kernel: &Path) -> Command {
    let mut command = lab_boot();
    command.arg("--kernel").arg(kernel.join("vmlinuz"));
    command
}

fn document(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.stdout.is_empty(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_kernel_from_elsewhere_runs_a_command_without_modules() {
    let Some(kernel) = kernel() else { return };
    let mut boot = boot(&kernel);
    boot.args(["--fs", "hugetmpfs", "--smp", "3", "--append", "lab.word=1"]);
    let script = "nproc; cat /proc/modules /proc/cmdline; hugetext check /lab/programs/cc1";
    let output = boot.args(["--", "sh", "-c", script]).output().unwrap();
    let found = document(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    let printed = found["command"]["printed"].as_str().unwrap();
    assert!(printed.starts_with("3\n"), "{printed}");
    assert!(printed.contains("lab.word=1") && printed.contains("cc1"));
    assert_eq!(found["missing"].as_array().unwrap().len(), 0);
    assert!(Path::new(found["console"].as_str().unwrap()).exists());
}

#[test]
fn a_command_has_the_directory_named_as_its_root() {
    if kernel().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("srv")).unwrap();
    fs::write(directory.path().join("srv/mark"), "here").unwrap();
    let mut boot = lab_boot();
    boot.args(["6.18-amd64", "--fs", "xfs", "--root"]);
    boot.arg(directory.path());
    let script = "busybox cat /srv/mark && echo > /srv/new && busybox grep -q ' / ext4 ' /proc/mounts && echo mount";
    boot.args(["--", "busybox", "sh", "-c", script]);
    let found = document(&boot.output().unwrap());
    assert_eq!(found["command"]["printed"], "heremount\n", "{found}");
    assert!(!directory.path().join("srv/new").exists());
}

/// Sums `field` of the text of the only process in what `hugetext stat --nodes --json` printed.
fn text_on(stat: &Value, field: &str) -> u64 {
    stat["processes"][0]["nodes"][field].as_u64().unwrap()
}

#[test]
fn text_far_from_its_process_is_seen_and_a_copy_is_near() {
    if kernel().is_none() {
        return;
    }
    // The compiler waits for input on node 1, and its text was read on node 0.
    let script = "cd /mnt/xfs && taskset -c 0 cp /lab/programs/cc1 compiler && sync
        echo 3 > /proc/sys/vm/drop_caches && taskset -c 0 cat compiler > /dev/null
        export LD_LIBRARY_PATH=/lab/programs
        mkfifo input && exec 3<> input
        for how in '' 'hugetext run --numa --store store --'; do
            taskset -c 1 $how ./compiler -quiet -o /dev/null - < input &
            until [ \"$(cat /proc/$!/comm)\" = compiler ]; do sleep 1; done
            sleep 3
            hugetext stat --nodes --json $!
            grep -c /mnt/xfs/compiler /proc/$!/maps
            kill $!
        done";
    let mut boot = lab_boot();
    boot.args([
        "6.18-amd64",
        "--numa",
        "2",
        "--smp",
        "2",
        "--memory",
        "1536",
    ]);
    boot.args(["--fs", "xfs", "--", "sh", "-c", script]);
    let found = document(&boot.output().unwrap());
    let printed = found["command"]["printed"].as_str().unwrap();
    let mut values = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
    let mut next = || values.next().unwrap().unwrap();
    let (far, own_path, near, shown) = (next(), next(), next(), next());
    let remote = |stat| text_on(stat, "remote");
    assert!(remote(&far) > text_on(&far, "local"), "{printed}");
    assert!(remote(&near) * 100 < text_on(&near, "local"), "{printed}");
    assert!(
        own_path.as_u64() > Some(0) && shown.as_u64() > Some(0),
        "its own path: {printed}"
    );
}

/// An archive of the directory `lab`; `None` without cpio.
fn archive(directory: &Path) -> Option<PathBuf> {
    let pack = "find lab | cpio --quiet -o -H newc > more";
    let packed = Command::new("sh")
        .args(["-c", pack])
        .current_dir(directory)
        .status();
    if !packed.unwrap().success() {
        println!("skipped: no cpio on this machine");
        return None;
    }
    Some(directory.join("more"))
}

/// This test is here because kernels of developers' machines often lack fs-verity. btrfs needs no
/// preparation.
#[test]
fn fix_refuses_files_sealed_by_verity() {
    if kernel().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("lab")).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seal.c");
    let mut compile = Command::new("cc");
    compile
        .args(["-static", "-o"])
        .arg(directory.path().join("lab/seal"));
    assert!(compile.arg(source).status().unwrap().success());
    let Some(archive) = archive(directory.path()) else {
        return;
    };
    let script = "cd /mnt/btrfs && cp /lab/programs/cc1 sealed && /lab/seal sealed || exit 99
        for place in --in-place '-o new'; do hugetext fix sealed $place 2>&1; echo exit $?; done
        echo left *";
    let mut boot = lab_boot();
    boot.args(["6.18-amd64", "--initrd-add"]).arg(archive);
    boot.args(["--fs", "btrfs", "--", "sh", "-c", script]);
    let found = document(&boot.output().unwrap());
    let printed = found["command"]["printed"].as_str().unwrap();
    if found["command"]["exit"] == 99 {
        println!("skipped: this kernel has no fs-verity: {printed}");
        return;
    }
    assert_eq!(
        printed.matches("sealed: is protected by fs-verity").count(),
        2,
        "{printed}"
    );
    assert_eq!(printed.matches("exit 2").count(), 2, "{printed}");
    assert!(printed.contains("left sealed"), "{printed}");
}

/// An archive with this machine's tune2fs and its libraries, in /lab/verity; `None` without
/// tune2fs.
fn tune2fs(directory: &Path) -> Option<PathBuf> {
    let script = "mkdir -p lab/verity && tool=$(PATH=$PATH:/usr/sbin:/sbin command -v tune2fs) &&
        cp \"$tool\" $(ldd \"$tool\" | grep -o '/[^ ]*') lab/verity/ &&
        mv lab/verity/ld-linux* lab/verity/loader";
    let mut collect = Command::new("sh");
    let collected = collect.args(["-c", script]).current_dir(directory).status();
    if !collected.unwrap().success() {
        println!("skipped: no tune2fs on this machine");
        return None;
    }
    archive(directory)
}

/// This test is here because kernels of developers' machines often lack fs-verity.
#[test]
fn copies_of_run_are_sealed_by_verity() {
    if kernel().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(archive) = tune2fs(directory.path()) else {
        return;
    };
    let script = "exec 2>&1; disk=$(sed -n 's, /mnt/ext4 .*,,p' /proc/mounts); v=/lab/verity
        umount /mnt/ext4 && $v/loader --library-path $v $v/tune2fs -O verity $disk &&
            mount -t ext4 $disk /mnt/ext4 || exit 99
        cd /mnt/ext4 && cp /lab/programs/cc1 cc1; export LD_LIBRARY_PATH=/lab/programs
        run() { hugetext run --merge --backend cache --store store -- /mnt/ext4/cc1 --version; }
        run; copy=$(ls -d store/entries/* | grep -v json); before=$(ls -i $copy)
        grep -o verity $copy.json; hugetext fix --in-place $copy
        chmod u+w $copy; echo x >> $copy || echo cannot be written; chmod u-w $copy
        run; [ \"$before\" = \"$(ls -i $copy)\" ] && echo same copy; hugetext store --store store verify";
    let mut boot = lab_boot();
    boot.args(["6.18-amd64", "--initrd-add"]).arg(archive);
    boot.args(["--fs", "ext4", "--", "sh", "-c", script]);
    let found = document(&boot.output().unwrap());
    let printed = found["command"]["printed"].as_str().unwrap();
    if found["command"]["exit"] == 99 {
        println!("skipped: no ext4 with fs-verity here: {printed}");
        return;
    }
    for said in [
        "\nverity\n",
        "is protected by fs-verity",
        "cannot be written",
        "same copy",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert_eq!(found["command"]["exit"], 0, "{printed}");
}

#[test]
fn modules_of_an_added_archive_are_loaded_whatever_their_order() {
    let Some(kernel) = kernel() else { return };
    let directory = tempfile::tempdir().unwrap();
    let modules = directory.path().join("lab/modules");
    fs::create_dir_all(&modules).unwrap();
    // By name, the modules that btrfs needs come after it.
    for module in fs::read_dir(kernel.join("modules")).unwrap().flatten() {
        fs::copy(module.path(), modules.join(module.file_name())).unwrap();
    }
    let Some(archive) = archive(directory.path()) else {
        return;
    };
    let mut boot = boot(&kernel);
    boot.arg("--initrd-add").arg(archive);
    boot.args([
        "--fs",
        "btrfs",
        "--",
        "sh",
        "-c",
        "cat /proc/mounts; exit 7",
    ]);
    let output = boot.output().unwrap();
    let found = document(&output);
    assert!(
        found["command"]["printed"]
            .as_str()
            .unwrap()
            .contains(" /mnt/btrfs "),
        "{found}"
    );
    assert_eq!(found["command"]["exit"], 7);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_shell_has_the_terminal_and_ends_the_guest() {
    let Some(kernel) = kernel() else { return };
    let mut boot = boot(&kernel);
    boot.args(["--fs", "tmpfs", "--shell"]);
    boot.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut lab = boot.stderr(Stdio::null()).spawn().unwrap();
    // The serial port loses the first bytes that arrive before a process has opened it.
    let typed = "\n".repeat(40) + "hugetext --version | tr a-z A-Z; tty; exit\n";
    lab.stdin
        .as_mut()
        .unwrap()
        .write_all(typed.as_bytes())
        .unwrap();
    let output = lab.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(
        shown.contains("HUGETEXT ") && shown.contains("/dev/ttyS0"),
        "{shown}"
    );
}

#[test]
fn what_is_no_kernel_is_one_line_and_two() {
    let Some(kernel) = kernel() else { return };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("vmlinuz"), "not a kernel").unwrap();
    let missing = directory.path().join("more");
    for (kernel, add) in [(directory.path(), None), (&kernel, Some(&missing))] {
        let mut boot = boot(kernel);
        boot.args(["--fs", "tmpfs"]);
        boot.args(add.map(|path| format!("--initrd-add={}", path.display())));
        let output = boot.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.starts_with("hugetext-lab: ") && said.lines().count() == 1,
            "{said}"
        );
        assert!(
            said.contains(&*directory.path().to_string_lossy()),
            "{said}"
        );
    }
}

/// Real nodes are rare on machines that run tests.
#[test]
fn text_is_placed_on_the_nodes_of_a_guest() {
    if kernel().is_none() {
        return;
    }
    let script = "cd /mnt/ext4 && cp /lab/programs/cc1 . || exit 99
        hugetext warm --node 1 cc1 && hugetext warm --node spread cc1 && hugetext warm --node 0 cc1
        hugetext warm --node 2 cc1
        hugetext run --numa --dry-run cc1 2>&1
        hugetext bench numa --rounds 1 --size 8 --flush 4 --directory .";
    let mut boot = lab_boot();
    boot.args(["6.18-amd64", "--numa", "2", "--fs", "ext4"]);
    let found = document(&boot.args(["--", "sh", "-c", script]).output().unwrap());
    let command = &found["command"];
    let printed = command["printed"].as_str().unwrap();
    assert_eq!(command["exit"], 0, "{found}");
    // "hugetext: " ends so too.
    assert_eq!(printed.matches("  text: ").count(), 3, "{printed}");
    assert!(!printed.contains("elsewhere"), "{printed}");
    let said = command["said"].as_str().unwrap();
    assert!(said.contains("node 2 has no memory"), "{said}");
    assert!(printed.contains("it gets the text of node 0"), "{printed}");
    assert!(printed.contains("local"), "{printed}");
}
