//! The verdict of this boot, in a file.
//!
//! The file of the session comes first. The file of root serves all users. A file of anybody else is not
//! believed, nor one of another boot, of another machine (an image that was copied), of another processor (a guest that
//! moved) or of another format.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hugetext_host::{Place, boot_id, is_root, make_directories, platform, read_trusted};
use hugetext_leaf::verdict::Doubt;
use serde::{Deserialize, Serialize};

use super::verdict::MachineVerdict;
use crate::user;

/// The file of root.
const SYSTEM: &str = "/run/hugetext/host.json";
/// The file below the directory of a user.
const NAME: &str = "hugetext/host.json";
/// The number of the format.
const FORMAT: u32 = 1;

/// How long it counts that trials disagreed: until the machine may be quieter.
const DISAGREEMENT: Duration = Duration::from_secs(3600);

#[derive(Serialize, Deserialize)]
struct Remembered {
    format: u32,
    boot: Boot,
    at: SystemTime,
    found: MachineVerdict,
}

/// What the verdict is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Boot {
    /// The identity of the boot, or of the boot of the sandbox.
    boot: String,
    /// The identity of the installation; empty in a container without one.
    machine: String,
}

impl Boot {
    fn this() -> io::Result<Boot> {
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        Ok(Boot {
            boot: boot_id()?,
            machine: machine.trim().to_owned(),
        })
    }
}

/// The file of the session.
fn of_session() -> Option<PathBuf> {
    Some(user::session()?.join(NAME))
}

/// The file that this user writes.
fn own() -> Option<PathBuf> {
    if is_root() {
        return Some(PathBuf::from(SYSTEM));
    }
    let cache = || Some(user::directory("XDG_CACHE_HOME", ".cache")?.join(NAME));
    of_session().or_else(cache)
}

/// Makes the file, with no verdict in it yet. Returns whether this user has a place for it.
pub(super) fn has_place() -> bool {
    own().is_some_and(|file| put(&file, b"").is_ok())
}

/// What was found since the machine has booted.
pub(super) fn read() -> Option<MachineVerdict> {
    let boot = Boot::this().ok()?;
    let files = [of_session(), Some(PathBuf::from(SYSTEM)), own()];
    let mut read = files.into_iter().flatten();
    read.find_map(|file| read_from(&file, &boot))
}

/// At most so many bytes are read.
const LONGEST: u64 = 64 << 10;

/// Damage is no error: it is as if nothing was found.
fn read_from(path: &Path, boot: &Boot) -> Option<MachineVerdict> {
    let text = read_trusted(path, LONGEST).ok()?;
    let remembered: Remembered = serde_json::from_str(&text).ok()?;
    let counts = remembered.format == FORMAT
        && remembered.boot == *boot
        && remembered.found.platform == platform();
    let disagreed = remembered.found.judgement.doubt == Some(Doubt::Disagreement);
    // A time to come is no age: the clock was set.
    let age = SystemTime::now().duration_since(remembered.at);
    let is_fresh = !disagreed || age.is_ok_and(|age| age < DISAGREEMENT);
    (counts && is_fresh).then_some(remembered.found)
}

/// Remembers what was found until the machine boots again.
pub(super) fn write(found: &MachineVerdict) -> io::Result<()> {
    let path = own().ok_or(io::ErrorKind::NotFound)?;
    write_to(&path, Boot::this()?, found)
}

fn write_to(path: &Path, boot: Boot, found: &MachineVerdict) -> io::Result<()> {
    let remembered = Remembered {
        format: FORMAT,
        boot,
        at: SystemTime::now(),
        found: found.clone(),
    };
    let text = serde_json::to_string(&remembered).map_err(io::Error::other)?;
    put(path, text.as_bytes())
}

fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        make_directories(directory, 0o755)?;
    }
    Place::at(path)?.put(content, 0o644)
}

#[cfg(test)]
mod tests {
    use hugetext_leaf::verdict::Judgement;

    use super::*;

    fn boot(name: &str) -> Boot {
        Boot {
            boot: name.to_owned(),
            machine: "machine".to_owned(),
        }
    }

    #[test]
    fn a_verdict_holds_for_its_boot_and_damage_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/host.json");
        let found = MachineVerdict::of(Judgement::doubtful(Doubt::NoMisses));
        write_to(&path, boot("one"), &found).unwrap();
        assert_eq!(read_from(&path, &boot("one")).as_ref(), Some(&found));
        let mut moved = found.clone();
        moved.platform.intel = !moved.platform.intel;
        write_to(&path, boot("one"), &moved).unwrap();
        assert_eq!(read_from(&path, &boot("one")), None);
        write_to(&path, boot("one"), &found).unwrap();
        assert_eq!(read_from(&path, &boot("two")), None);
        let text = fs::read_to_string(&path).unwrap();
        for end in [0, 1, text.len() / 2, text.len() - 1] {
            fs::write(&path, &text[..end]).unwrap();
            assert_eq!(read_from(&path, &boot("one")), None);
        }
        fs::write(&path, text.replace("\"format\":1", "\"format\":2")).unwrap();
        assert_eq!(read_from(&path, &boot("one")), None);
    }

    #[test]
    fn the_file_of_another_user_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("host.json");
        let found = MachineVerdict::of(Judgement::doubtful(Doubt::NoMisses));
        write_to(&path, boot("one"), &found).unwrap();
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            return println!("skipped: only root can give files away");
        }
        assert_eq!(read_from(&path, &boot("one")), None);
    }
}
