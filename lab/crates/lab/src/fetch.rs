//! Turns packages of the archive into units of the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::arch::Arch;
use crate::archive::Archive;
use crate::cache::{Cache, Loads, Unit};
use crate::error::{At, LabError, Result};
use crate::kernel::{Flavour, Found, KernelId, select};
use crate::tool;

/// Modules that guests load if the kernel does not have them built in: disks, the serial port to
/// the lab, vhost, whose threads promotion meets, filesystems, and the checksums that filesystems of older kernels request by name at
/// mount.
const MODULES: [&str; 17] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "vhost_net",
    "crc32c_generic",
    "crc32c_cryptoapi",
    "crc32_generic",
    "crc32_cryptoapi",
    "xxhash_generic",
    "sha256_generic",
    "blake2b_generic",
    "ext4",
    "xfs",
    "btrfs",
    "erofs",
    "f2fs",
    "overlay",
];

/// The packaged programs of guests: a real compiler, the same compiler as a shared object, the
/// libraries of both, musl's loader, and a shell.
const PROGRAMS: [&str; 11] = [
    "cpp-12",
    "libgccjit0",
    "libc6",
    "libisl23",
    "libmpc3",
    "libmpfr6",
    "libgmp10",
    "zlib1g",
    "libzstd1",
    "musl",
    "busybox-static",
];

/// The files of those packages that guests need: the shell, the compiler, and libraries under the
/// names that programs request.
const FILES: [&str; 18] = [
    "busybox",
    "cc1",
    "ld-linux-aarch64.so.1",
    "ld-linux-riscv64-lp64d.so.1",
    "ld-linux-x86-64.so.2",
    "ld-musl-aarch64.so.1",
    "ld-musl-riscv64.so.1",
    "ld-musl-x86_64.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libgccjit.so.0",
    "libgmp.so.10",
    "libisl.so.23",
    "libm.so.6",
    "libmpc.so.3",
    "libmpfr.so.6",
    "libz.so.1",
    "libzstd.so.1",
];

/// The result of a fetch.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) kernels: Vec<KernelId>,
    /// Wanted kernels that the archive lacks.
    pub(crate) missing: Vec<KernelId>,
}

/// Fetches `only` (or, if that is empty, every wanted kernel) and their guests' programs. Cached
/// units are not fetched again, unless `again` is set.
pub(crate) fn fetch(cache: &Cache, only: &[KernelId], again: bool) -> Result<Fetched> {
    let cached = |id: &KernelId| !again && cache.kernel(*id).join("manifest.json").exists();
    let programs = |arch: &Arch| !again && cache.programs(*arch).join("manifest.json").exists();
    let asked = |arch: &Arch| only.is_empty() || only.iter().any(|id| id.flavour.arch() == *arch);
    let arches: Vec<Arch> = Arch::ALL.into_iter().filter(asked).collect();
    if !only.is_empty() && only.iter().all(cached) && arches.iter().all(programs) {
        return Ok(Fetched::default());
    }
    let archive = Archive::update(cache, &arches)?;
    let names = archive.names("linux-")?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut fetched = Fetched::default();
    for arch in arches.iter().filter(|arch| !programs(arch)) {
        fetch_programs(&archive, cache, *arch)?;
    }
    let flavours = Flavour::ALL.into_iter();
    for flavour in flavours.filter(|flavour| arches.contains(&flavour.arch())) {
        let (found, missing) = select(&names, flavour);
        let asked = |id: &KernelId| only.is_empty() || only.contains(id);
        fetched.missing.extend(missing.into_iter().filter(asked));
        for found in found
            .into_iter()
            .filter(|found| asked(&found.id) && !cached(&found.id))
        {
            eprintln!("fetching {}: {}", found.id, found.packages.join(" "));
            fetch_kernel(&archive, cache, &found)?;
            fetched.kernels.push(found.id);
        }
    }
    Ok(fetched)
}

fn fetch_kernel(archive: &Archive, cache: &Cache, found: &Found) -> Result<()> {
    let target = cache.kernel(found.id);
    let work = beside(&target)?;
    let packages = archive.download(&found.packages, found.id.flavour.arch(), work.path())?;
    let root = work.path().join("root");
    unpack(&packages, &root)?;

    let filled = work.path().join("filled");
    fs::create_dir_all(filled.join("modules")).at(&filled)?;
    let modules = kernel_directory(&root);
    // Before Linux 6.19, the kernel is in /boot with the release in its name. Later it is next to
    // its modules. The name of an unsigned one ends in ".unsigned".
    // Architectures without a compressed one call it vmlinux.
    let mut places = modules.clone().into_iter().chain([root.join("boot")]);
    let vmlinuz = places.find_map(|directory| named(&directory, "vmlinu"));
    let vmlinuz = vmlinuz.ok_or_else(|| LabError::Tool {
        tool: "dpkg-deb".to_owned(),
        message: format!("no kernel in {}", found.packages.join(" ")),
    })?;
    fs::copy(&vmlinuz, filled.join("vmlinuz")).at(&vmlinuz)?;
    let loads = match modules {
        Some(modules) => fetch_modules(&root, &modules, &filled)?,
        None => {
            eprintln!(
                "{}: the archive no longer has its modules; only built-in drivers are available",
                found.id
            );
            Loads::new()
        }
    };
    Unit::keep(&filled, &target, names_of(&packages), loads)
}

/// Copies the guests' modules into `filled`.
fn fetch_modules(root: &Path, modules: &Path, filled: &Path) -> Result<Loads> {
    let release = modules.file_name().unwrap_or_default();
    tool::run(Command::new("depmod").arg("-b").arg(root).arg(release))?;
    let index = modules.join("modules.dep");
    let index = fs::read_to_string(&index).at(&index)?;
    let mut loads = Loads::new();
    for (module, paths) in load_order(&index, &MODULES) {
        let mut files = Vec::new();
        for path in paths {
            let file = format!("modules/{}.ko", module_name(&path));
            if !filled.join(&file).exists() {
                decompress(&modules.join(&path), &filled.join(&file))?;
            }
            files.push(file);
        }
        loads.insert(module, files);
    }
    Ok(loads)
}

fn fetch_programs(archive: &Archive, cache: &Cache, arch: Arch) -> Result<()> {
    eprintln!("fetching programs for {} guests", arch.debian());
    let target = cache.programs(arch);
    let work = beside(&target)?;
    let packages: Vec<String> = PROGRAMS.iter().map(|&p| p.to_owned()).collect();
    let packages = archive.download(&packages, arch, work.path())?;
    let root = work.path().join("root");
    unpack(&packages, &root)?;
    let filled = work.path().join("filled");
    fs::create_dir_all(&filled).at(&filled)?;
    collect(&root, &filled)?;
    Unit::keep(&filled, &target, names_of(&packages), Loads::new())
}

/// Copies the named files from whichever package has them, with links resolved.
fn collect(from: &Path, into: &Path) -> Result<()> {
    for entry in fs::read_dir(from).at(from)?.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && !path.is_symlink() {
            collect(&path, into)?;
            continue;
        }
        // An absolute link would lead outside the unpacked package.
        let out = fs::read_link(&path).is_ok_and(|target| target.is_absolute());
        if FILES.iter().any(|file| name == *file) && !out && path.is_file() {
            fs::copy(&path, into.join(&name)).at(&path)?;
        }
    }
    Ok(())
}

fn unpack(packages: &[PathBuf], root: &Path) -> Result<()> {
    for package in packages {
        tool::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(root))?;
    }
    // depmod expects /lib/modules; packages use /usr/lib/modules since trixie.
    let (usr, lib) = (root.join("usr/lib"), root.join("lib"));
    if usr.join("modules").exists() && !lib.exists() {
        std::os::unix::fs::symlink("usr/lib", &lib).at(&lib)?;
    }
    Ok(())
}

/// The file of `directory` whose name begins with `name`.
fn named(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let mut files = entries.filter(|entry| entry.path().is_file());
    let file = files.find(|entry| entry.file_name().to_string_lossy().starts_with(name))?;
    Some(file.path())
}

/// The only directory under lib/modules, if the packages have modules.
fn kernel_directory(root: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(root.join("lib/modules")).ok()?;
    entries.flatten().next().map(|entry| entry.path())
}

/// For each of `wanted` that modules.dep lists, the files to load, the module itself last. A line
/// names a module, then everything that it needs in reverse order of loading (modules.dep(5)).
fn load_order(index: &str, wanted: &[&str]) -> Loads {
    let lines = index.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(path, needs)| (module_name(path), path, needs))
        .filter(|(name, ..)| wanted.contains(&name.as_str()))
        .map(|(name, path, needs)| {
            let files = needs.split_whitespace().rev().chain([path]);
            (name, files.map(str::to_owned).collect())
        })
        .collect()
}

/// `kernel/fs/xfs/xfs.ko.xz` → `xfs`, with underscores as in the kernel's own name.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

fn decompress(from: &Path, to: &Path) -> Result<()> {
    let tool = match from.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::copy(from, to).map(drop).at(from),
    };
    let file = fs::File::create(to).at(to)?;
    tool::run(Command::new(tool).arg("-dc").arg(from).stdout(file)).map(drop)
}

/// `linux-image-6.1.0-44-cloud-amd64_6.1.170-1_amd64.deb` → name and version.
fn names_of(packages: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| {
        let stem = path.file_stem()?.to_string_lossy().into_owned();
        let mut parts = stem.split('_');
        Some(format!(
            "{} {}",
            parts.next()?,
            parts.next()?.replace("%3a", ":")
        ))
    };
    let mut names: Vec<String> = packages.iter().filter_map(name).collect();
    names.sort();
    names
}

/// A directory next to its target, removed when the fetch ends.
fn beside(target: &Path) -> Result<TempDir> {
    let parent = target.parent().unwrap_or(target);
    fs::create_dir_all(parent).at(parent)?;
    tempfile::Builder::new()
        .prefix(".fetch")
        .tempdir_in(parent)
        .at(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_need() {
        let index = "kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz kernel/a/crc-x.ko.xz\n\
                     kernel/lib/libcrc32c.ko.xz: kernel/a/crc-x.ko.xz\n\
                     kernel/a/crc-x.ko.xz:\n\
                     kernel/b/other.ko:\n";
        let loads = load_order(index, &["crc_x", "xfs", "not_there"]);
        let names = |module: &str| -> Vec<String> {
            loads[module].iter().map(|path| module_name(path)).collect()
        };
        assert_eq!(names("xfs"), ["crc_x", "libcrc32c", "xfs"]);
        assert_eq!(names("crc_x"), ["crc_x"]);
        assert_eq!(loads.len(), 2);
    }
}
