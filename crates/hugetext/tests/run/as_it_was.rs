//! Even if the preparation fails, the command starts as without hugetext: with the same identity,
//! working directory and resources.

use std::fs;
use std::io::Read;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::subject::{HUGETEXT, Subject, is_root, text};

/// Prints the user, the directory, the capabilities, the limits, the descriptors and the signals.
const TELL: &str = "
    id; umask; ulimit -a; ls -l /proc/self/ns | sed 's/.* \\([a-z_]* ->\\)/\\1/'
    cat /proc/self/uid_map /proc/self/gid_map
    grep -E '^(Cap|Sig[PBIC]|Shd|Groups|Seccomp:|NoNewPrivs)' /proc/self/status
    cat /proc/self/oom_score_adj
    for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && echo open $n; done; true";

/// A user who has no entry in /etc/passwd.
const SOMEBODY: &str = "12345";

/// A way to start a command, as the words of a command line.
struct Way<'w> {
    words: Vec<&'w str>,
}

impl Way<'_> {
    fn start(&self, rest: &[&str]) -> Output {
        let (program, words) = self.words.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(words).args(rest).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// The output of a command that describes itself, started directly and by `run`. `None`, with
    /// the reason printed, if it cannot be started in this way. `run` prepares the subject.
    fn compare(&self, subject: &Subject, store: &str) -> Option<(String, Output)> {
        let plain = self.start(&["sh", "-c", TELL]);
        if !plain.status.success() {
            println!("skipped: {:?}: {}", self.words, text(&plain.stderr));
            return None;
        }
        let subject = subject.program.to_str().unwrap();
        let run = [HUGETEXT, "run", "-v", "--store", store, "--also", subject];
        let run = self.start(&[&run[..], &["--", "sh", "-c", TELL]].concat());
        Some((text(&plain.stdout), run))
    }

    fn changes_nothing(&self, subject: &Subject, store: &str) {
        if let Some((plain, run)) = self.compare(subject, store) {
            let said = text(&run.stderr);
            assert_eq!(text(&run.stdout), plain, "{:?}: {said}", self.words);
            assert!(run.status.success(), "{:?}: {said}", self.words);
            assert!(said.contains("hugetext: "), "no step was refused: {said}");
        }
    }
}

/// A directory that SOMEBODY may write to.
fn home(subject: &Subject) -> String {
    let home = subject.directory().join("somebody");
    fs::create_dir_all(&home).unwrap();
    let user = SOMEBODY.parse().ok();
    if is_root() {
        chown(&home, user, user).unwrap();
    }
    home.to_str().unwrap().to_owned()
}

fn own_store(subject: &Subject) -> String {
    let store = subject.directory().join("store");
    store.to_str().unwrap().to_owned()
}

/// The subject, if this test may start commands in ways that need root.
fn as_root() -> Option<Subject> {
    may_be_others().then(Subject::build).flatten()
}

fn may_be_others() -> bool {
    if !is_root() {
        println!("skipped: only root can start a command as another user");
    }
    is_root()
}

#[test]
fn root_without_powers_stays_root() {
    if !may_be_others() {
        return;
    }
    for subject in Subject::both() {
        for cut in ["-sys_admin,-setfcap", "-sys_admin", "-all"] {
            let words = vec!["setpriv", "--bounding-set", cut];
            Way { words }.changes_nothing(&subject, &own_store(&subject));
        }
    }
}

#[test]
fn a_user_with_capabilities_keeps_them() {
    if !may_be_others() {
        return;
    }
    for subject in Subject::both() {
        let words = "setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps \
                     +net_bind_service --ambient-caps +net_bind_service";
        let words = words.split_whitespace().collect();
        Way { words }.changes_nothing(&subject, &format!("{}/s", home(&subject)));
    }
}

#[test]
fn who_may_change_a_files_owner_still_may() {
    let Some(subject) = as_root() else { return };
    let file = subject.directory().join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let words = "setpriv --bounding-set -sys_admin".split_whitespace();
    let way = Way {
        words: words.collect(),
    };
    let program = subject.program.display();
    let run = format!(
        "{HUGETEXT} run --store {} --also {program} --",
        own_store(&subject)
    );
    for command in ["chown 33:33", "setpriv --reuid 33 --clear-groups test -r"] {
        let words: Vec<&str> = run.split(' ').chain(command.split(' ')).collect();
        let output = way.start(&[&words[..], &[file]].concat());
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

/// AppArmor as Ubuntu configures it, and some sandboxes, permit the creation of a user namespace
/// and then refuse the write of its maps. A /proc that is not writable has the same effect.
#[test]
fn a_namespace_that_is_refused_halfway_is_not_entered() {
    let Some(subject) = as_root() else { return };
    // Both start in one namespace, because its number is among what they tell.
    let script = "mount --bind /proc /proc && mount -o remount,bind,ro /proc && echo made && cat";
    let mut made = Command::new("unshare");
    made.args(["--mount", "sh", "-c", script]);
    let mut made = made
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 5];
    made.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"made\n");
    let namespace = format!("--mount=/proc/{}/ns/mnt", made.id());
    let user = [
        "setpriv",
        "--reuid",
        SOMEBODY,
        "--regid",
        SOMEBODY,
        "--clear-groups",
    ];
    let words = [&["nsenter", namespace.as_str()], &user[..]].concat();
    Way { words }.changes_nothing(&subject, &format!("{}/s", home(&subject)));
    drop(made.stdin.take());
    made.wait().unwrap();
}

#[test]
fn a_sandbox_that_refuses_does_not_reach_the_command() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let refuse = subject.refuse();
    let calls = [
        system_call("unshare"),
        system_call("mount_setattr"),
        system_call("move_mount"),
    ];
    for how in ["errno", "kill"] {
        for call in &calls {
            let Some(call) = call else { continue };
            let words = vec![refuse.to_str().unwrap(), how, call, "--"];
            Way { words }.changes_nothing(&subject, &own_store(&subject));
        }
    }
}

/// The number of a system call on this architecture, from the C compiler's headers.
pub(crate) fn system_call(name: &str) -> Option<String> {
    let source = format!("#include <sys/syscall.h>\nnumber SYS_{name}\n");
    let mut compiler = Command::new("cc");
    let pipes = compiler
        .args(["-E", "-P", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), source.as_bytes()).unwrap();
    let output = text(&child.wait_with_output().unwrap().stdout);
    let number = output.lines().find_map(|line| line.strip_prefix("number "));
    number
        .filter(|number| number.parse::<u32>().is_ok())
        .map(str::to_owned)
}

#[test]
fn inside_bubblewrap_a_user_stays_who_it_was() {
    let Some(subject) = as_root() else { return };
    let home = home(&subject);
    if Command::new("bwrap").arg("--version").output().is_err() {
        println!("skipped: bwrap is not installed");
        return;
    }
    let directory = subject.directory().to_str().unwrap();
    let words = format!(
        "setpriv --reuid 12345 --regid 12345 --clear-groups bwrap --ro-bind / / --ro-bind \
         {directory} {directory} --bind {home} {home} --unshare-all"
    );
    let words = words.split_whitespace().collect();
    let Some((plain, run)) = Way { words }.compare(&subject, &format!("{home}/s")) else {
        return;
    };
    let who = |said: &str| said.lines().next().map(str::to_owned);
    assert_eq!(who(&text(&run.stdout)), who(&plain), "{run:?}");
}

#[test]
fn limits_that_are_too_small_are_the_preparations_alone() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let program = subject.program.to_str().unwrap();
    for (number, limit) in [
        "-f 0", "-f 10", "-f 1000", "-d 4096", "-d 2048", "-n 5", "-t 1", "-c 0",
    ]
    .iter()
    .enumerate()
    {
        let script = format!("ulimit {limit} && exec \"$@\"");
        let way = Way {
            words: vec!["sh", "-c", &script, "sh"],
        };
        let plain = way.start(&[program, "exit"]);
        assert_eq!(plain.status.code(), Some(42), "{limit}");
        let store = subject.directory().join(format!("store{number}"));
        let store = store.to_str().unwrap();
        let run = way.start(&[HUGETEXT, "run", "--store", store, "--", program, "exit"]);
        assert_eq!(run.status.code(), Some(42), "{limit}: {run:?}");
        assert!(text(&run.stderr).lines().count() <= 1, "{limit}: {run:?}");
    }
}

#[test]
fn fix_names_the_limit_instead_of_dying_of_it() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let out = subject.directory().join("fixed");
    let script = "ulimit -f 100 && exec \"$@\"";
    let way = Way {
        words: vec!["sh", "-c", script, "sh"],
    };
    let program = subject.program.to_str().unwrap();
    let fix = way.start(&[HUGETEXT, "fix", program, "-o", out.to_str().unwrap()]);
    assert_eq!(fix.status.code(), Some(2), "{fix:?}");
    let said = text(&fix.stderr);
    assert!(
        said.contains("fixed: cannot be written: File too large"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!out.exists());
}

#[test]
fn in_a_small_memory_cgroup_it_runs() {
    let Some(subject) = as_root() else { return };
    let program = subject.program.to_str().unwrap();
    for megabytes in [8_u64, 16, 32] {
        let Some(group) = Group::with_memory(megabytes << 20) else {
            return;
        };
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0);
        let way = Way {
            words: vec!["sh", "-c", &script, "sh"],
        };
        let plain = way.start(&[program, "exit"]);
        assert_eq!(plain.status.code(), Some(42), "{plain:?}");
        for backend in ["auto", "store"] {
            let store = subject.directory().join(format!("{megabytes}{backend}"));
            let store = store.to_str().unwrap();
            let run = [
                HUGETEXT,
                "run",
                "-v",
                "--backend",
                backend,
                "--store",
                store,
            ];
            let run = way.start(&[&run[..], &["--", program, "exit"]].concat());
            assert_eq!(run.status.code(), Some(42), "{megabytes} MiB: {run:?}");
            assert!(text(&run.stderr).contains("too little memory"), "{run:?}");
        }
    }
}

/// A control group that is removed when this value is dropped.
pub(crate) struct Group(pub(crate) String);

impl Group {
    /// `None`, with the reason printed, if this machine does not permit a control group.
    pub(crate) fn with_memory(limit: u64) -> Option<Group> {
        let name = format!("hugetext-test-{}-{limit}", std::process::id());
        for (root, file) in [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ] {
            if !Path::new(root).join("cgroup.procs").exists() {
                continue;
            }
            let group = Group(format!("{root}/{name}"));
            let made = fs::create_dir(&group.0)
                .and_then(|()| fs::write(format!("{}/{file}", group.0), limit.to_string()));
            if made.is_ok() {
                return Some(group);
            }
        }
        println!("skipped: no memory cgroup can be made here");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_store_that_others_hold_is_not_waited_for() {
    let Some(subject) = Subject::build() else {
        return;
    };
    if !subject.can_be_shown() {
        return;
    }
    let store = own_store(&subject);
    fs::create_dir_all(&store).unwrap();
    let lock = fs::File::create(format!("{store}/lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let copies: Vec<String> = (0..3)
        .map(|number| {
            let copy = subject.directory().join(format!("copy{number}"));
            fs::copy(&subject.program, &copy).unwrap();
            copy.to_str().unwrap().to_owned()
        })
        .collect();
    let mut run = subject.run();
    run.args(["-v", "--backend", "cache"]);
    for copy in &copies {
        run.args(["--also", copy]);
    }
    let output = run.args(["--", "true"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    if !said.contains("huge folios") {
        assert_eq!(said.matches("is busy").count(), 3, "{said}");
    }
}

#[test]
fn what_is_closed_stays_closed() {
    let Some(subject) = Subject::build() else {
        return;
    };
    let list = "for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && echo open $n; done >> $1; true";
    for closing in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let out = subject.directory().join("out");
        let mut said = Vec::new();
        let run = format!("{HUGETEXT} run --store {}", own_store(&subject));
        for run in ["", &run] {
            let _ = fs::remove_file(&out);
            let script = format!("{run} sh -c '{list}' sh {} {closing}", out.display());
            let status = Command::new("sh").args(["-c", &script]).status();
            assert!(status.unwrap().success());
            said.push(fs::read_to_string(&out).unwrap());
        }
        assert_eq!(said[0], said[1], "{closing}");
    }
}
