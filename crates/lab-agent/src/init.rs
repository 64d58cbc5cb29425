//! Everything before the first probe: pseudo filesystems, modules, disks, the line to the lab.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use hugetext_lab_agent::{Hello, PORT, Place};
use rustix::mount::{MountFlags, mount};

/// Why the guest could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// A file of the guest could not be used.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A pseudo filesystem could not be mounted.
    #[error("{0}: {1}")]
    Mount(&'static str, rustix::io::Errno),
    /// No virtio-serial port has the lab's name: the kernel lacks CONFIG_VIRTIO_CONSOLE.
    #[error("no virtio-serial port named '{PORT}': the kernel needs CONFIG_VIRTIO_CONSOLE")]
    NoPort,
}

/// What did not come up, and the kernel's answer.
pub(crate) type Missing = (String, String);

/// Mounts proc, sysfs, devtmpfs and tracefs; the last may be missing.
pub(crate) fn mount_pseudo() -> Result<(), InitError> {
    for (fstype, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(at)?;
        mount(fstype, at, fstype, MountFlags::empty(), c"")
            .map_err(|errno| InitError::Mount(at, errno))?;
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

/// Loads modules in the given order. EEXIST is none: built in or loaded already.
pub(crate) fn load_modules(paths: &[String]) -> Vec<Missing> {
    let load = |path: &String| -> io::Result<()> {
        let file = File::open(path)?;
        match rustix::system::finit_module(&file, c"", 0) {
            Err(errno) if errno != rustix::io::Errno::EXIST => Err(errno.into()),
            _ => Ok(()),
        }
    };
    paths
        .iter()
        .filter_map(|path| Some((path.clone(), load(path).err()?.to_string())))
        .collect()
}

/// Mounts each place at /mnt/NAME.
pub(crate) fn mount_places(places: &[Place]) -> Vec<Missing> {
    let attempt = |place: &Place| -> io::Result<()> {
        let at = Path::new("/mnt").join(&place.name);
        fs::create_dir_all(&at)?;
        if place.fstype == "overlay" {
            for layer in place.options.split(',').filter_map(|o| o.split_once('=')) {
                fs::create_dir_all(layer.1)?;
            }
        }
        let options = CString::new(place.options.as_str())?;
        let (source, fstype) = (place.source.as_str(), place.fstype.as_str());
        let flags = MountFlags::empty();
        match mount(source, &at, fstype, flags, options.as_c_str()) {
            Err(rustix::io::Errno::ROFS | rustix::io::Errno::ACCESS) => {
                mount(source, &at, fstype, MountFlags::RDONLY, options.as_c_str())
            }
            other => other,
        }
        .map_err(|errno| {
            // Without the mount the directory would be one of the initramfs.
            let _ = fs::remove_dir(&at);
            errno.into()
        })
    };
    places
        .iter()
        .filter_map(|place| Some((place.name.clone(), attempt(place).err()?.to_string())))
        .collect()
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

/// What this kernel says of itself.
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
