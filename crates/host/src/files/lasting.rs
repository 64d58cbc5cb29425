//! Which filesystems stay mounted while the machine runs, and which may be unmounted at any time: a file that is held on
//! one of these would keep it busy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::MountInfo;

use super::filesystem::MountedOn;
use crate::listed::mount_infos;

/// The major number of loop devices (Documentation/admin-guide/devices.txt). Whoever mounts an image takes it away again.
const LOOP: u32 = 7;
/// Where units of systemd are, and their generators put those of fstab.
const UNITS: [&str; 3] = [
    "run/systemd/generator",
    "etc/systemd/system",
    "usr/lib/systemd/system",
];

/// The filesystems that stay mounted, by their devices as mountinfo names them.
#[derive(Debug, Default)]
pub struct LastingMounts(BTreeSet<String>);

impl LastingMounts {
    /// Those of this machine.
    pub fn read() -> LastingMounts {
        // A service in a container serves the machine, whose first process has the machine's mounts.
        let all = [
            ("/proc/self/mountinfo", "/"),
            ("/proc/1/mountinfo", "/proc/1/root"),
        ];
        let devices = all.into_iter().flat_map(|(list, root)| {
            let mounts = mount_infos(list).unwrap_or_default();
            devices(&mounts, &BootMounts::of(Path::new(root)))
        });
        LastingMounts(devices.collect())
    }

    /// Whether a filesystem is one of them. One whose mount is not listed is not.
    pub fn has(&self, mount: &MountedOn) -> bool {
        let device = mount.device.as_ref();
        device.is_some_and(|device| self.0.contains(device))
    }
}

fn devices(mounts: &[MountInfo], at_boot: &BootMounts) -> BTreeSet<String> {
    let stays = |mount: &&MountInfo| {
        let major = mount.majmin.split(':').next();
        major.and_then(|major| major.parse().ok()) != Some(LOOP) && at_boot.has(&mount.mount_point)
    };
    let all = mounts.iter().filter(stays);
    all.map(|mount| mount.majmin.clone()).collect()
}

/// Where a machine mounts filesystems when it boots.
struct BootMounts {
    places: BTreeSet<PathBuf>,
    /// Names of units that another unit wants.
    units: BTreeSet<String>,
}

impl BootMounts {
    fn of(root: &Path) -> BootMounts {
        let fstab = fs::read_to_string(root.join("etc/fstab")).unwrap_or_default();
        BootMounts {
            places: places(&fstab),
            units: UNITS.iter().flat_map(|at| wanted(&root.join(at))).collect(),
        }
    }

    fn has(&self, place: &Path) -> bool {
        let always = [Path::new("/"), Path::new("/usr")];
        always.contains(&place)
            || self.places.contains(place)
            || unit_name(place).is_some_and(|unit| self.units.contains(&unit))
    }
}

/// The places of fstab(5) that are mounted at boot.
fn places(fstab: &str) -> BTreeSet<PathBuf> {
    let lines = fstab
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let fields = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let at_boot = fields.filter_map(|fields| {
        let options = fields.get(3).copied().unwrap_or_default();
        let is_late = options.split(',').any(|option| option == "noauto");
        fields.get(1).filter(|_| !is_late).map(PathBuf::from)
    });
    at_boot.collect()
}

/// The units that units in a directory want or require.
fn wanted(directory: &Path) -> Vec<String> {
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    };
    let wanting = names(directory).filter(|name| {
        let name = Path::new(name);
        name.extension()
            .is_some_and(|kind| kind == "wants" || kind == "requires")
    });
    wanting
        .flat_map(|by| names(&directory.join(by)).collect::<Vec<_>>())
        .collect()
}

/// The name of the mount unit of a place (systemd-escape(1), --path); `None` for a place with letters that it escapes.
fn unit_name(place: &Path) -> Option<String> {
    let inside = place.to_str()?.strip_prefix('/')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/_.:".contains(letter);
    let mut unit = String::new();
    for letter in inside.chars() {
        match letter {
            '/' => unit.push('-'),
            '-' => unit.push_str("\\x2d"),
            letter if plain(letter) => unit.push(letter),
            _ => return None,
        }
    }
    Some(format!("{unit}.mount"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed::parse_mounts;

    #[test]
    fn root_usr_and_what_boots_mount_stay_and_images_and_sticks_do_not() {
        let mounts = parse_mounts(
            b"1 0 254:0 / / rw - ext4 /dev/vda rw\n\
              2 1 254:1 / /usr ro - ext4 /dev/vdb ro\n\
              3 1 254:2 / /srv/data rw - xfs /dev/vdc rw\n\
              4 1 254:3 / /opt/my-tools rw - xfs /dev/vdd rw\n\
              5 1 8:1 / /media/stick rw - ext4 /dev/sda1 rw\n\
              6 1 7:0 / /snap/x ro - squashfs /dev/loop0 ro\n\
              7 1 254:4 / /backup rw - xfs /dev/vde rw\n\
              8 1 254:0 /home /home rw - ext4 /dev/vda rw\n",
        )
        .unwrap();
        let fstab = "# what\n/dev/vdc /srv/data xfs defaults 0 2\n/dev/vde /backup xfs rw,noauto 0 2\n/dev/loop0 /snap/x squashfs ro 0 0\n";
        let at_boot = BootMounts {
            places: places(fstab),
            units: BTreeSet::from(["opt-my\\x2dtools.mount".to_owned()]),
        };
        let stays: Vec<String> = devices(&mounts, &at_boot).into_iter().collect();
        assert_eq!(stays, ["254:0", "254:1", "254:2", "254:3"]);
    }

    #[test]
    fn a_unit_that_something_wants_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("local-fs.target.requires");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("srv.mount"), "").unwrap();
        fs::write(directory.path().join("media-stick.mount"), "").unwrap();
        assert_eq!(wanted(directory.path()), ["srv.mount"]);
    }
}
