//! Two containers of one image.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::subject::{HUGETEXT, Subject, huge, in_mount_namespace, is_root, text};

/// Makes two overlays over one lower directory, in a namespace that ends with the shell. Prints
/// what the subject in each overlay reports about itself.
const TWO_CONTAINERS: &str = r#"
set -e
cd "$1"
mkdir up1 up2 w1 w2 c1 c2
for n in 1 2; do
    mount -t overlay overlay -o "lowerdir=image,upperdir=up$n,workdir=w$n" c$n || { echo no overlay; exit 0; }
done
"$2" warm image/subject >&2 || true
for n in 1 2; do c$n/subject </dev/null 2>&1 >/dev/null; done
"#;

/// Makes a store on an overlay and then hides its upper layer, as inside a container.
const STORE_ON_OVERLAY: &str = r#"
set -e
cd "$1"
mkdir lower up work root
mount -t overlay overlay -o "lowerdir=$1/lower,upperdir=$1/up,workdir=$1/work" root || { echo no overlay; exit 0; }
run() { "$2" run --backend cache --store root/store -- "$1/subject" </dev/null 2>&1 >/dev/null; }
run "$@"
mount -t tmpfs none up
run "$@"
"#;

/// The host fills a store from the file of the image. The container has the store read-only.
const STORE_OF_THE_HOST: &str = r#"
set -e
cd "$1"
mkdir image up w c shared
cp subject image/
run() { "$HUGETEXT" run -v --backend cache --store "$1/shared" -- "$2" </dev/null 2>&1 >/dev/null; }
HUGETEXT=$2
run "$1" "$1/image/subject" >&2
mount -t overlay overlay -o "lowerdir=image,upperdir=up,workdir=w" c || { echo no overlay; exit 0; }
mount --bind shared shared
mount -o remount,bind,ro shared
run "$1" "$1/c/subject"
"#;

#[test]
fn containers_use_what_the_host_alone_writes() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let Some(said) = in_a_mount_namespace(STORE_OF_THE_HOST, &subject) else {
        return;
    };
    let figures = said.lines().filter_map(|line| line.strip_prefix("huge="));
    let figures: Vec<u64> = figures.map(|figure| figure.parse().unwrap()).collect();
    assert_eq!(figures.len(), 2, "{said}");
    assert!(figures.iter().all(|huge| *huge >= 6 << 20), "{said}");
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn a_store_lies_on_an_overlay_only_where_its_layers_are_seen() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let Some(said) = in_a_mount_namespace(STORE_ON_OVERLAY, &subject) else {
        return;
    };
    let lines: Vec<&str> = said.lines().collect();
    let huge = |line: &str| line.strip_prefix("huge=")?.parse::<u64>().ok();
    assert!(huge(lines[0]) >= Some(6 << 20), "{said}");
    assert!(
        lines[1].contains("warning") && lines[1].contains("--backend store"),
        "{said}"
    );
    assert!(huge(lines[2]).is_some(), "the subject does not run: {said}");
}

/// The output of a script that runs as root with the subject's directory and the command as
/// arguments. `None`, with the reason printed, if this machine forbids it.
fn in_a_mount_namespace(script: &str, subject: &Subject) -> Option<String> {
    if !is_root() {
        println!("skipped: only root can mount an overlay");
        return None;
    }
    let said = match in_mount_namespace(script, subject.directory(), &[]) {
        Ok(output) => text(&output.stdout) + &text(&output.stderr),
        Err(error) => format!("no overlay: {error}"),
    };
    let forbidden = ["no overlay", "cannot hold"];
    if forbidden.iter().any(|reason| said.contains(reason)) {
        println!("skipped: {said}");
        return None;
    }
    Some(said)
}

#[test]
fn containers_share_what_is_warm_on_the_host() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let image = subject.directory().join("image");
    fs::create_dir(&image).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/subject.c");
    let built = Command::new("cc")
        .args(["-O1", "-Wl,-z,max-page-size=0x200000", "-o"])
        .args([&image.join("subject"), Path::new(source)])
        .status();
    assert!(built.unwrap().success());
    let Some(said) = in_a_mount_namespace(TWO_CONTAINERS, &subject) else {
        return;
    };
    let figures: Vec<u64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("huge=")?.parse().ok())
        .collect();
    assert_eq!(figures.len(), 2, "{said}");
    assert!(figures.iter().all(|huge| *huge >= 6 << 20), "{said}");
}

/// The command describes itself on standard output, and the subject describes itself on standard
/// error.
const TELL: &str = "id; cat /proc/self/uid_map /proc/self/gid_map; grep Cap /proc/self/status; \
                    \"$0\" </dev/null >/dev/null";

/// Runs a command in a container of runc whose root is the root of this machine. `None`, with the
/// reason printed, if that is not possible. Plain containers have no CAP_SYS_ADMIN.
fn in_a_container(subject: &Subject, name: &str, admin: bool, command: &[&str]) -> Option<Output> {
    let bundle = subject.directory().join(name);
    fs::create_dir_all(bundle.join("root")).unwrap();
    let runc = |arguments: &[&str]| {
        let mut runc = Command::new("runc");
        runc.current_dir(&bundle).args(arguments).output()
    };
    if !is_root() || runc(&["spec"]).is_err() {
        println!("skipped: containers need root and runc");
        return None;
    }
    let config = bundle.join("config.json");
    let mut spec: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    spec["root"] = json!({"path": "root", "readonly": false});
    spec["process"]["terminal"] = json!(false);
    spec["process"]["args"] = json!(command);
    let mounts = spec["mounts"].as_array_mut().unwrap();
    mounts.retain(|mount| mount["type"] != "cgroup");
    if admin {
        let sets = spec["process"]["capabilities"].as_object_mut().unwrap();
        for set in sets.values_mut() {
            set.as_array_mut().unwrap().push(json!("CAP_SYS_ADMIN"));
        }
    }
    fs::write(&config, spec.to_string()).unwrap();
    let id = format!("hugetext-{}-{name}", std::process::id());
    let script = "mount --bind / root && exec runc run \"$3\"";
    let output = in_mount_namespace(script, &bundle, &[&id]).unwrap();
    if text(&output.stderr).contains("runc run failed") || text(&output.stderr).contains("mount:") {
        println!("skipped: no container here: {}", text(&output.stderr));
        return None;
    }
    Some(output)
}

#[test]
fn in_a_container_the_command_is_who_it_was() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let program = subject.program.to_str().unwrap();
    let store = subject.directory().join("store");
    let run = [
        HUGETEXT,
        "run",
        "--store",
        store.to_str().unwrap(),
        "--also",
        program,
        "--",
    ];
    for (admin, gains) in [(false, false), (true, true)] {
        let tell = ["sh", "-c", TELL, program];
        let Some(plain) = in_a_container(&subject, "plain", admin, &tell) else {
            return;
        };
        let behind = [&run[..], &tell].concat();
        let Some(output) = in_a_container(&subject, "run", admin, &behind) else {
            return;
        };
        let said = text(&output.stderr);
        assert!(plain.status.success() && output.status.success(), "{said}");
        assert_eq!(text(&output.stdout), text(&plain.stdout), "{said}");
        assert_eq!(said.contains("no mount namespace"), !gains, "{said}");
        if !said.contains("huge folios") {
            assert_eq!(huge(&output) >= 6 << 20, gains, "{said}");
        }
    }
}
