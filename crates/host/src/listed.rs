//! Lists of /proc whose paths may hold any byte. The library that reads the lists takes UTF-8.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use procfs::FromRead;
use procfs::process::{MMapPath, MemoryMap, MemoryMaps, MountInfo, MountInfos};

/// Turns procfs errors into the I/O errors that mostly cause them.
pub fn io_error(error: procfs::ProcError) -> io::Error {
    match error {
        procfs::ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        procfs::ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
        procfs::ProcError::Io(error, _) => error,
        other => io::Error::other(other),
    }
}

/// The mappings in the text of /proc/PID/maps or smaps.
pub fn parse_mappings(text: &[u8]) -> io::Result<Vec<MemoryMap>> {
    let letters = Letters::of(text);
    let maps = MemoryMaps::from_read(letters.text.as_bytes()).map_err(io_error)?;
    let mut maps: Vec<MemoryMap> = maps.into_iter().collect();
    for map in &mut maps {
        if let MMapPath::Path(path) = &mut map.pathname {
            letters.restore(path);
        }
    }
    Ok(maps)
}

/// The mounts in a file such as /proc/self/mountinfo. Only the mount points are exact.
pub(crate) fn mount_infos(file: &str) -> io::Result<Vec<MountInfo>> {
    parse_mounts(&fs::read(file)?)
}

pub(crate) fn parse_mounts(text: &[u8]) -> io::Result<Vec<MountInfo>> {
    let letters = Letters::of(text);
    let mounts = MountInfos::from_read(letters.text.as_bytes()).map_err(io_error)?;
    let mut mounts: Vec<MountInfo> = mounts.into_iter().collect();
    for mount in &mut mounts {
        letters.restore(&mut mount.mount_point);
        mount.mount_point = unescaped(&mount.mount_point);
    }
    Ok(mounts)
}

/// Text as UTF-8, from which its paths can be restored.
struct Letters {
    text: String,
    /// Whether each byte became the letter of its number, since not all of them were UTF-8.
    is_by_byte: bool,
}

impl Letters {
    fn of(bytes: &[u8]) -> Letters {
        match str::from_utf8(bytes) {
            Ok(text) => Letters {
                text: text.to_owned(),
                is_by_byte: false,
            },
            Err(_) => Letters {
                text: bytes.iter().copied().map(char::from).collect(),
                is_by_byte: true,
            },
        }
    }

    fn restore(&self, path: &mut PathBuf) {
        if self.is_by_byte {
            *path = exact(path);
        }
    }
}

fn exact(letters: &Path) -> PathBuf {
    let letters = letters.to_string_lossy();
    let bytes = letters
        .chars()
        .map(|letter| u8::try_from(letter).unwrap_or(b'?'));
    OsString::from_vec(bytes.collect()).into()
}

/// A path of which the kernel wrote spaces, tabs, line breaks and backslashes in octal (proc_pid_mountinfo(5)).
fn unescaped(path: &Path) -> PathBuf {
    let mut rest = path.as_os_str().as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, others)) = rest.split_first() {
        let escaped = rest
            .get(1..4)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = match escaped {
            Some(_) => rest.get(4..).unwrap_or_default(),
            None => others,
        };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_path_is_kept() {
        let names: [&[u8]; 3] = [b"/a/x\xff", "/é".as_bytes(), b"/\xc3 (deleted)"];
        for name in names {
            let mut text = b"1000-2000 r-xp 00000000 fe:00 7                          ".to_vec();
            text.extend(name);
            text.push(b'\n');
            let maps = parse_mappings(&text).unwrap();
            let [
                MemoryMap {
                    pathname: MMapPath::Path(path),
                    ..
                },
            ] = &maps[..]
            else {
                panic!("{maps:?}");
            };
            assert_eq!(path.as_os_str().as_bytes(), name);
        }
    }

    #[test]
    fn a_mount_point_of_any_bytes_hides_no_mount() {
        let text =
            b"30 1 0:5 / /a\xff\\040b rw - tmpfs none rw\n31 1 0:6 / /b rw - tmpfs none rw\n";
        let mounts = parse_mounts(text).unwrap();
        let points = mounts.iter().map(|mount| mount.mount_point.as_os_str());
        let points: Vec<&[u8]> = points.map(OsStrExt::as_bytes).collect();
        assert_eq!(points, [&b"/a\xff b"[..], b"/b"]);
    }
}
