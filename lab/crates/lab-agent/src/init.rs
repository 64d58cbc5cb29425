//! The set-up before the first probe: pseudo filesystems, modules, disks, the connection to the
//! lab.

use std::ffi::{CString, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_lab_agent::{Hello, MODULES, PORT, PROGRAMS, Place, ROOT};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind_recursive, mount_move};

/// Why the guest could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// A file of the guest could not be used.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A pseudo filesystem could not be mounted.
    #[error("{0}: {1}")]
    Mount(&'static str, Errno),
    /// No disk has the label of the root.
    #[error("no disk is labelled '{ROOT}'")]
    NoRoot,
    /// No virtio-serial port has the lab's name: the kernel lacks CONFIG_VIRTIO_CONSOLE.
    #[error("no virtio-serial port named '{PORT}': the kernel needs CONFIG_VIRTIO_CONSOLE")]
    NoPort,
}

/// The modules and places that failed, with the kernel's error.
pub(crate) type Missing = (String, String);

/// Mounts proc, sysfs, devtmpfs and tracefs; the last may be missing.
pub(crate) fn mount_pseudo() -> Result<(), InitError> {
    for (fstype, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(at)?;
        mount(fstype, at, fstype, MountFlags::empty(), c"")
            .map_err(|errno| InitError::Mount(at, errno))?;
    }
    // What udev makes on other machines.
    for (name, fd) in [
        ("fd", ""),
        ("stdin", "/0"),
        ("stdout", "/1"),
        ("stderr", "/2"),
    ] {
        symlink(format!("/proc/self/fd{fd}"), Path::new("/dev").join(name))?;
    }
    let _ = mount(
        "tracefs",
        "/sys/kernel/tracing",
        "tracefs",
        MountFlags::empty(),
        c"",
    );
    Ok(())
}

/// Loads modules in the given order, then all others in [`MODULES`], in an order found by trial.
pub(crate) fn load_modules(paths: &[String]) -> Vec<Missing> {
    let mut missing: Vec<Missing> = paths.iter().filter_map(|path| load(path).err()).collect();
    let others = fs::read_dir(MODULES).into_iter().flatten().flatten();
    let mut left: Vec<String> = others
        .map(|entry| entry.path().to_string_lossy().into_owned())
        .filter(|path| path.ends_with(".ko") && !paths.contains(path))
        .collect();
    loop {
        let before = left.len();
        let failed: Vec<Missing> = left.iter().filter_map(|path| load(path).err()).collect();
        left = failed.iter().map(|(path, _)| path.clone()).collect();
        if left.len() == before || left.is_empty() {
            missing.extend(failed);
            return missing;
        }
    }
}

/// EEXIST is not an error: the module is built in or already loaded.
fn load(path: &String) -> Result<(), Missing> {
    let load = || -> io::Result<()> {
        let file = File::open(path)?;
        match rustix::system::finit_module(&file, c"", 0) {
            Err(errno) if errno != Errno::EXIST => Err(errno.into()),
            _ => Ok(()),
        }
    };
    load().map_err(|error| (path.clone(), error.to_string()))
}

/// Links for the shell's tools, under their names in /bin.
pub(crate) fn install_tools() {
    let mut busybox = Command::new(Path::new(PROGRAMS).join("busybox"));
    // A missing tool shows when a command needs it.
    let _ = busybox.args(["--install", "-s", "/bin"]).status();
}

/// Mounts each place at /mnt/NAME.
pub(crate) fn mount_places(places: &[Place]) -> Vec<Missing> {
    let attempt = |place: &Place| -> io::Result<()> {
        let at = Path::new("/mnt").join(&place.name);
        fs::create_dir_all(&at)?;
        if place.fstype == "overlay" {
            // The parent must not be created: it exists only if the filesystem below is mounted.
            for layer in place.options.split(',').filter_map(|o| o.split_once('=')) {
                fs::create_dir(layer.1)?;
            }
        }
        let sources = if place.disk {
            disks()?
        } else {
            vec![PathBuf::from(&place.name)]
        };
        let mut outcome = Err(io::ErrorKind::NotFound.into());
        for source in sources {
            outcome = mount_one(&source, &at, place);
            if outcome.is_ok() {
                return outcome;
            }
        }
        // Without the mount, the directory would be one of the initramfs.
        let _ = fs::remove_dir(&at);
        outcome
    };
    places
        .iter()
        .filter_map(|place| Some((place.name.clone(), attempt(place).err()?.to_string())))
        .collect()
}

fn mount_one(source: &Path, at: &Path, place: &Place) -> io::Result<()> {
    let options = CString::new(place.options.as_str())?;
    let attempt = |flags| mount(source, at, place.fstype.as_str(), flags, options.as_c_str());
    Ok(match attempt(MountFlags::empty()) {
        Err(Errno::ROFS | Errno::ACCESS) => attempt(MountFlags::RDONLY),
        other => other,
    }?)
}

/// Makes the disk labelled [`ROOT`] the root directory, with the usual pseudo filesystems and
/// [`PROGRAMS`] in it. The initramfs lies hidden below it from then on.
pub(crate) fn enter_root() -> Result<(), InitError> {
    let labelled = disks()?
        .into_iter()
        .find(|disk| label(disk).is_ok_and(|label| label == ROOT));
    let root = Path::new("/mnt/root");
    fs::create_dir_all(root)?;
    mount(
        labelled.ok_or(InitError::NoRoot)?,
        root,
        "ext4",
        MountFlags::empty(),
        c"",
    )
    .map_err(|errno| InitError::Mount(ROOT, errno))?;
    for from in ["/proc", "/sys", "/dev", PROGRAMS] {
        let to = root.join(from.trim_start_matches('/'));
        fs::create_dir_all(&to)?;
        mount_bind_recursive(from, &to).map_err(|errno| InitError::Mount(from, errno))?;
    }
    // As on real machines, only root can change /run.
    for (fstype, at, options) in [
        ("tmpfs", "/run", c"mode=0755"),
        ("tmpfs", "/tmp", c""),
        ("devpts", "/dev/pts", c""),
        ("tmpfs", "/dev/shm", c""),
    ] {
        let to = root.join(at.trim_start_matches('/'));
        fs::create_dir_all(&to)?;
        mount(fstype, &to, fstype, MountFlags::empty(), options)
            .map_err(|errno| InitError::Mount(at, errno))?;
    }
    rustix::process::chdir(root).map_err(io::Error::from)?;
    mount_move(".", "/").map_err(|errno| InitError::Mount("/", errno))?;
    rustix::process::chroot(".").map_err(io::Error::from)?;
    rustix::process::chdir("/").map_err(io::Error::from)?;
    Ok(())
}

/// The volume name of an ext4 filesystem: 16 bytes, 120 bytes into the superblock, which begins 1024
/// bytes into the disk (Documentation/filesystems/ext4/super.rst).
fn label(disk: &Path) -> io::Result<String> {
    let mut name = [0; 16];
    File::open(disk)?.read_exact_at(&mut name, 1024 + 120)?;
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// The devices of the guest's disks.
fn disks() -> io::Result<Vec<PathBuf>> {
    let names = fs::read_dir("/sys/block")?
        .flatten()
        .map(|entry| entry.file_name());
    let disk = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("vd") || name.starts_with("nvme")
    };
    let mut disks: Vec<PathBuf> = names
        .filter(disk)
        .map(|name| Path::new("/dev").join(name))
        .collect();
    disks.sort();
    Ok(disks)
}

/// Connects a command to the terminal behind the console. Only that terminal can be the controlling
/// terminal that job control and interrupts need; the console itself cannot.
pub(crate) fn on_terminal(command: &mut Command) -> &mut Command {
    let active = fs::read_to_string("/sys/class/tty/console/active").unwrap_or_default();
    let name = active.split_whitespace().next_back().unwrap_or("console");
    let device = Path::new("/dev").join(name);
    let open = || OpenOptions::new().read(true).write(true).open(&device);
    if let (Ok(stdin), Ok(stdout), Ok(stderr)) = (open(), open(), open()) {
        command.stdin(stdin).stdout(stdout).stderr(stderr);
    }
    command
}

/// The virtio-serial port that the lab reads.
pub(crate) fn event_port() -> Result<File, InitError> {
    let ports = fs::read_dir("/sys/class/virtio-ports").map_err(|_| InitError::NoPort)?;
    for port in ports.flatten() {
        let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
        if name.trim() == PORT {
            let device = Path::new("/dev").join(port.file_name());
            return Ok(OpenOptions::new().write(true).open(device)?);
        }
    }
    Err(InitError::NoPort)
}

/// The kernel's facts about itself.
pub(crate) fn hello() -> io::Result<Hello> {
    let uname = rustix::system::uname();
    let page = rustix::param::page_size() as u64;
    let machine = uname.machine().to_string_lossy().into_owned();
    let pmd = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    let contpte = match (machine.as_str(), page >> 10) {
        ("aarch64", 4) => 64 << 10,
        ("aarch64", 16 | 64) => 2 << 20,
        _ => 0,
    };
    let memory = fs::read_to_string("/proc/meminfo")?
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        })
        .map_or(0, |kib: u64| kib << 10);
    Ok(Hello {
        release: uname.release().to_string_lossy().into_owned(),
        machine,
        page,
        pmd,
        contpte,
        cpus: std::thread::available_parallelism()?.get() as u64,
        memory,
    })
}
