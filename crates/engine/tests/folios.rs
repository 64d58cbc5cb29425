//! Text that holds no window, on its way into the largest folios of the page cache.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hugetext_engine::keep::{HeldFiles, KeepList};
use hugetext_engine::{
    CachedIn, HostContext, ProgramOnHost, TextFolios, WarmMethod, WarmOutcome, WarmPolicy, warm,
};
use hugetext_host::FileWindows;
use hugetext_leaf::{Filesystem, Span};
use tempfile::TempDir;

/// A copy of the shell, whose text holds no window, in small folios.
struct Shell {
    host: HostContext,
    path: PathBuf,
    _directory: TempDir,
}

impl Shell {
    /// `None`, with the reason printed, where there is none, or no large folios in the kernel or the filesystem.
    fn new() -> Option<Shell> {
        let host = match HostContext::with_huge_pages() {
            Ok(host) => host,
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shell");
        if let Err(error) = fs::copy("/bin/bash", &path) {
            println!("skipped: /bin/bash: {error}");
            return None;
        }
        let shell = Shell {
            host,
            path,
            _directory: directory,
        };
        let program = shell.open();
        let no_folios = program.large_folio_obstacle(shell.host.leaf);
        if no_folios.is_some() || program.pages == Filesystem::Tmpfs {
            println!("skipped: {} has no large folios on demand", program.pages);
            return None;
        }
        drop(program);
        Some(shell)
    }

    fn open(&self) -> ProgramOnHost<'_> {
        ProgramOnHost::open(&self.path, &self.host).unwrap()
    }

    /// Brings it into the folios of page faults, and gives what is seen of them; `None`, with the reason
    /// printed, if this user sees nothing or nothing was dropped.
    fn make_small(&self) -> Option<TextFolios> {
        let file = fs::File::open(&self.path).unwrap();
        let end = self.host.page.align_up(file.metadata().unwrap().len());
        let whole = FileWindows::readable(&file, Span::new(0, end), self.host.leaf);
        whole.make_small().unwrap();
        let found = folios(&self.warm(WarmPolicy::LookOnly));
        match found.now {
            CachedIn::Hidden => println!("skipped: only root can see folios"),
            _ if found.are_largest() => println!("skipped: no page of this filesystem is dropped"),
            _ => return Some(found),
        }
        None
    }

    fn warm(&self, policy: WarmPolicy) -> WarmOutcome {
        let outcome = warm(&self.open(), policy).unwrap();
        assert_eq!((outcome.windows, outcome.huge), (0, 0));
        outcome
    }

    /// A process that runs it until its input ends.
    fn start(&self) -> Child {
        let mut command = Command::new(&self.path);
        command.args(["-c", "echo runs; read end"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = [0; 4];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        child
    }
}

fn folios(outcome: &WarmOutcome) -> TextFolios {
    outcome.folios.unwrap()
}

#[test]
fn text_without_a_window_comes_into_the_largest_folios() {
    let Some(shell) = Shell::new() else { return };
    let Some(small) = shell.make_small() else {
        return;
    };
    let warmed = shell.warm(WarmPolicy::InPlace);
    let found = folios(&warmed);
    assert_eq!(found.before, small.now);
    if !warmed.is_in_use && !found.are_largest() {
        println!("skipped: the kernel had no memory for larger folios: {found:?}");
        return;
    }
    assert!(found.are_largest(), "{warmed:?}");
    assert_eq!(warmed.method, Some(WarmMethod::Reread));
    let again = shell.warm(WarmPolicy::InPlace);
    assert_eq!(again.method, Some(WarmMethod::AlreadyHuge));
}

#[test]
fn what_runs_in_small_folios_is_named_and_replaced_on_demand() {
    let Some(shell) = Shell::new() else { return };
    if shell.make_small().is_none() {
        return;
    }
    let mut running = shell.start();
    let before = fs::metadata(&shell.path).unwrap();
    let bytes = fs::read(&shell.path).unwrap();
    let tried = shell.warm(WarmPolicy::InPlace);
    assert!(!folios(&tried).are_largest(), "{tried:?}");
    assert!(tried.is_in_use, "{tried:?}");
    // On a machine under load, one look at all processes stands for a while.
    let file = fs::File::open(&shell.path).unwrap();
    let mut tries = (0..10_000).map(|_| shell.warm(WarmPolicy::InPlace).with_holders(&file));
    let named = tries.find(|tried| !tried.holders.is_empty()).unwrap();
    let holders: Vec<String> = named.holders.iter().map(|by| by.pid.to_string()).collect();
    assert_eq!(holders, [running.id().to_string()]);
    assert_eq!(fs::metadata(&shell.path).unwrap().ino(), before.ino());

    let replaced = shell.warm(WarmPolicy::Replace);
    assert_eq!(replaced.method, Some(WarmMethod::Replace), "{replaced:?}");
    assert_ne!(fs::metadata(&shell.path).unwrap().ino(), before.ino());
    assert_eq!(fs::read(&shell.path).unwrap(), bytes);
    drop(running.stdin.take());
    running.wait().unwrap();
}

#[test]
fn what_is_listed_is_enlarged_and_locked_unless_it_runs() {
    let Some(shell) = Shell::new() else { return };
    if shell.make_small().is_none() {
        return;
    }
    let path = shell.path.to_str().unwrap().to_owned();
    let list = KeepList::of_paths(std::iter::once(path));
    let hold = |held: HeldFiles| held.renew(&list, None, 1 << 30).unwrap();
    let mut running = shell.start();
    let before = folios(&shell.warm(WarmPolicy::LookOnly)).now;
    let (held, _) = hold(HeldFiles::default());
    let is_held = |held: &HeldFiles| held.paths().contains(&shell.path);
    assert!(!is_held(&held), "{held:?}");
    assert_eq!(folios(&shell.warm(WarmPolicy::LookOnly)).now, before);
    drop(running.stdin.take());
    running.wait().unwrap();

    let (held, report) = hold(held);
    if !is_held(&held) {
        println!("skipped: the kernel had no memory for larger folios");
        return;
    }
    assert!(report.locked > 0, "{report:?}");
    let warmed = shell.warm(WarmPolicy::LookOnly);
    assert_eq!(warmed.method, Some(WarmMethod::AlreadyHuge));
}
