//! Real programs under `hugetext run`. They answer as without it, and their text is on huge pages.
//! With `HUGETEXT_RECORD`, the test writes the record of lab/results/run-targets.md there.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hugetext_host::Pid;
use serde_json::Value;

use crate::subject::{HUGETEXT, NOBODY, is_root, text};

/// A process whose mappings stay the same in this number of consecutive looks waits for input.
const STEADY: usize = 60;
/// How long a process may take to start, or to come and go.
const PATIENCE: Duration = Duration::from_secs(6);

/// A program that reads its standard input to the end and then answers.
struct Target {
    command: Vec<String>,
    /// The name of the command in the table.
    shown: String,
    /// The program whose text is measured, by the first characters of its file name. Empty if no
    /// program waits for input.
    worker: &'static str,
    /// Programs that are not the command itself and do its work.
    also: Vec<String>,
    input: &'static str,
    directory: PathBuf,
    /// The program that must be installed.
    needs: String,
    /// Whether a user who owns no files runs it, if root runs the test.
    unprivileged: bool,
}

impl Target {
    fn new(directory: &Path, worker: &'static str, command: &[&str]) -> Target {
        Target {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            shown: command.join(" "),
            worker,
            also: Vec::new(),
            input: "a line\n",
            directory: directory.to_owned(),
            needs: command[0].to_owned(),
            unprivileged: false,
        }
    }

    fn plain(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        self.placed(command)
    }

    fn through(&self, store: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(HUGETEXT);
        let store = if self.unprivileged {
            self.directory.join("store")
        } else {
            store.to_owned()
        };
        command.args(["run", "--quiet", "--store"]).arg(store);
        for also in &self.also {
            command.arg("--also").arg(also);
        }
        command.args(options).arg("--").args(&self.command);
        self.placed(command)
    }

    fn placed(&self, mut command: Command) -> Command {
        command.current_dir(&self.directory);
        if self.unprivileged && is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn answer(&self, mut child: Child) -> Output {
        // If the program does not read all input, its answer shows that.
        let _ = child.stdin.take().unwrap().write_all(self.input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// The answer, and the worker's text in memory and on huge pages while it waits for input.
    fn seen(&self, mut command: Command) -> (String, TextInMemory) {
        let child = command.spawn().unwrap();
        let seen = match self.worker {
            "" => TextInMemory::default(),
            worker => look(Pid::of_child(&child), worker),
        };
        (comparable(&self.answer(child)), seen)
    }

    /// The files that `run` would prepare.
    fn files(&self, store: &Path) -> Vec<String> {
        let mut command = self.through(store, &["--dry-run", "--json"]);
        let plan: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let files = plan["files"].as_array().unwrap().iter();
        let touched = files.filter(|file| file["action"] != "leave");
        touched
            .filter_map(|file| Some(file["path"].as_str()?.to_owned()))
            .collect()
    }
}

/// Bytes of text that a process has in memory, and how many of them PMD leaves map.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct TextInMemory {
    mapped: u64,
    huge: u64,
}

/// The status, the output and the errors, without the lines that differ from run to run.
fn comparable(output: &Output) -> String {
    let said = text(&output.stdout) + &text(&output.stderr);
    let steady = said.lines().filter(|line| !line.contains("Finished `"));
    let lines: Vec<&str> = steady.collect();
    format!("{:?}\n{}", output.status.code(), lines.join("\n"))
}

/// The mapped text of the worker among the descendants of `child`, once it no longer changes. The
/// worker then waits for input.
fn look(child: Pid, worker: &str) -> TextInMemory {
    let begun = Instant::now();
    let (mut last, mut same) = (TextInMemory::default(), 0);
    while same < STEADY && begun.elapsed() < PATIENCE {
        let found = descendants(child).into_iter().find(|pid| {
            let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let name = exe.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(worker)
        });
        let now = found.map_or(TextInMemory::default(), text_of);
        same = if now == last && now.mapped > 0 {
            same + 1
        } else {
            0
        };
        if now.mapped > 0 {
            last = now;
        }
    }
    last
}

fn descendants(pid: Pid) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let mut all = vec![pid];
    for child in children.split_whitespace() {
        all.extend(child.parse().map(descendants).unwrap_or_default());
    }
    all
}

fn text_of(pid: Pid) -> TextInMemory {
    let output = Command::new(HUGETEXT)
        .args(["stat", "--json", &pid.to_string()])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let total = &report["processes"][0]["total"];
    TextInMemory {
        mapped: total["rss"].as_u64().unwrap_or(0),
        huge: total["pmd_mapped"].as_u64().unwrap_or(0),
    }
}

/// Puts files back into small folios, so that the next start is as without hugetext.
fn cool(files: &[String]) {
    for file in files {
        let drop = format!("if={file}");
        let _ = Command::new("dd")
            .args([&drop, "iflag=nocache", "count=0", "status=none"])
            .status();
        let _ = fs::read(file);
    }
}

fn said(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output();
    output.map_or(String::new(), |output| {
        text(&output.stdout).trim().to_owned()
    })
}

/// Starts a server, lets it answer standard input, and stops it. The argument is the directory of
/// its programs.
const DATABASE: &str = r#"
"$1/postgres" -D data -k "$PWD" -c listen_addresses= >log 2>&1 &
until "$1/pg_isready" -q -h "$PWD"; do kill -0 $! || exit; done
"$1/psql" -h "$PWD" -U test -d postgres -At
kill -INT $!
wait $!
"#;

/// Makes an empty database that belongs to the user who runs it.
fn make_database(directory: &Path, programs: &str) {
    fs::create_dir(directory).unwrap();
    let mut command = Command::new(format!("{programs}/initdb"));
    command.args(["-U", "test", "-A", "trust", "--no-sync", "data"]);
    if is_root() {
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    // If the database is not installed, the target is skipped.
    let _ = command.current_dir(directory).output();
}

fn targets(directory: &Path) -> Vec<Target> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "Cat.java",
        "public class Cat { public static void main(String[] a) throws Exception { System.in.transferTo(System.out); } }",
    );
    write(
        "Cargo.toml",
        "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"2\"\n",
    );
    for (name, dependency) in [("one", ""), ("two", "one = { path = \"../one\" }\n")] {
        let head =
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        write(
            &format!("{name}/Cargo.toml"),
            &format!("{head}[dependencies]\n{dependency}"),
        );
        write(&format!("{name}/src/lib.rs"), "pub fn one() -> u32 { 1 }\n");
    }
    said(&format!(
        "cd '{}' && git init -q repo && git -C repo -c user.name=a -c user.email=b commit -q --allow-empty -m first",
        directory.display()
    ));
    let of = |worker, command: &[&str]| Target::new(directory, worker, command);
    let sysroot = said("rustc --print sysroot");
    let rustc = format!("{sysroot}/bin/rustc");
    let cargo = format!("{sysroot}/bin/cargo");
    let postgres = said("ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1");
    write("database.sh", DATABASE);
    make_database(&directory.join("database"), &postgres);
    vec![
        Target {
            also: vec![said("gcc -print-prog-name=cc1")],
            input: "int main(void) { return 0; }\n",
            ..of("cc1", &["gcc", "-xc", "-O2", "-S", "-o", "-", "-"])
        },
        Target {
            also: vec![rustc.clone()],
            input: "pub fn one() -> u32 { 1 }\n",
            ..of(
                "rustc",
                &["rustc", "--crate-type=lib", "--emit=metadata", "-"],
            )
        },
        Target {
            also: vec![rustc, cargo],
            shown: "cargo build (two crates)".to_owned(),
            ..of("", &["sh", "-c", "rm -rf target && cargo build --offline"])
        },
        of(
            "node",
            &["node", "-e", "process.stdin.pipe(process.stdout)"],
        ),
        // The program opens this library by itself.
        Target {
            also: vec![said(
                "realpath \"$(dirname \"$(readlink -f \"$(command -v java)\")\")/../lib/server/libjvm.so\"",
            )],
            ..of("java", &["java", "-Xshare:auto", "Cat.java"])
        },
        // The command on PATH may be a script that searches for the program.
        Target {
            also: vec![said("python3 -c 'import sys; print(sys.executable)'")],
            shown: "python3".to_owned(),
            ..of(
                "python3",
                &[
                    "python3",
                    "-c",
                    "import sys; print(sys.stdin.read(), sys.executable)",
                ],
            )
        },
        Target {
            input: "HEAD\n",
            ..of("git", &["git", "-C", "repo", "cat-file", "--batch"])
        },
        Target {
            also: vec![format!("{postgres}/postgres")],
            shown: "postgres, and psql".to_owned(),
            input: "select count(*), sum(i) from generate_series(1, 100000) i;\n",
            directory: directory.join("database"),
            needs: format!("{postgres}/postgres"),
            unprivileged: true,
            ..of("postgres", &["sh", "../database.sh", &postgres])
        },
        Target {
            input: "info version\nquit\n",
            shown: "qemu-system-x86_64".to_owned(),
            ..of(
                "qemu-system-x86",
                &[
                    "qemu-system-x86_64",
                    "-S",
                    "-display",
                    "none",
                    "-nodefaults",
                    "-monitor",
                    "stdio",
                ],
            )
        },
    ]
}

/// The line of the table for an installed target.
fn line(target: &Target, store: &Path) -> [String; 4] {
    let files = target.files(store);
    cool(&files);
    let (expected, before) = target.seen(target.plain());
    let (answer, _) = target.seen(target.through(store, &[]));
    assert_eq!(answer, expected, "{}", target.shown);
    let (answer, with) = target.seen(target.through(store, &[]));
    assert_eq!(answer, expected, "{}", target.shown);
    assert!(
        with.huge >= before.huge,
        "{}: {with:?} after {before:?}",
        target.shown
    );
    let mib = |bytes: u64| match target.worker {
        "" => "-".to_owned(),
        _ => format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
    };
    [
        target.shown.clone(),
        mib(before.mapped),
        mib(before.huge),
        mib(with.huge),
    ]
}

#[test]
#[ignore = "takes minutes, and the programs it names: lab/measure run-targets"]
fn real_programs_answer_as_without() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = tempfile::tempdir().unwrap();
    let mut record = String::new();
    let mut keep = |row: [String; 4]| {
        println!("{}", row.join(", "));
        let line = serde_json::json!({ "table": "commands", "row": row });
        writeln!(record, "{line}").unwrap();
    };
    for target in targets(directory.path()) {
        let name = &target.needs;
        if said(&format!("command -v {name}")).is_empty() {
            let [mapped, huge, with] = [const { String::new() }; 3];
            keep([target.shown.clone(), mapped, huge, with]);
            continue;
        }
        keep(line(&target, store.path()));
    }
    if let Some(file) = std::env::var_os("HUGETEXT_RECORD") {
        fs::write(file, record).unwrap();
    }
}
