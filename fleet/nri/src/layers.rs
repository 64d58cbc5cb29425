//! The directories that a container's root is made of, and the files in them.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use hugetext_leaf::Filesystem;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::messages::SnapshotMount;

/// More than any overlay has (OVL_MAX_STACK is 500).
const MOST: usize = 500;

/// Why the layers of a container are not known.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum LayersError {
    /// The snapshotter mounts something else than directories.
    #[error(
        "its root is mounted as {0}; only overlays and directories are known, as the snapshotters overlayfs and native make them"
    )]
    Unknown(String),
    /// A layer that is no absolute path, or more layers than an overlay can have.
    #[error("the snapshotter names no usable layers")]
    Unusable,
}

/// The layers of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layers {
    /// Their directories, the topmost first.
    pub(crate) directories: Vec<PathBuf>,
    /// The filesystem through which the container sees them, if it is not their own.
    pub(crate) seen_through: Option<Filesystem>,
}

impl Layers {
    /// The layers of a container that was not started yet: nothing was written to its own layer.
    pub(crate) fn of(mounts: &[SnapshotMount]) -> Result<Layers, LayersError> {
        let [mount] = mounts else {
            return Err(LayersError::Unusable);
        };
        let (directories, seen_through) = match mount.r#type.as_str() {
            "overlay" => {
                let lower: Vec<_> = lower(mount).map(PathBuf::from).collect();
                (lower, Some(Filesystem::Overlay))
            }
            "bind" | "rbind" => (vec![PathBuf::from(&mount.source)], None),
            other => return Err(LayersError::Unknown(other.to_owned())),
        };
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        let usable = |path: &PathBuf| path.is_absolute() && path.components().all(is_plain);
        if directories.len() > MOST || !directories.iter().all(usable) {
            return Err(LayersError::Unusable);
        }
        Ok(Layers {
            directories,
            seen_through,
        })
    }

    /// The file of a layer that the container sees at `path`, a path without symbolic links. The kernel holds
    /// the look-up inside the layer, also where there are links.
    pub(crate) fn file(&self, path: &Path) -> Option<PathBuf> {
        let relative = path.strip_prefix("/").ok()?;
        self.directories.iter().find_map(|layer| {
            let found = is_file_in(layer, relative);
            found.then(|| layer.join(relative))
        })
    }
}

fn lower(mount: &SnapshotMount) -> impl Iterator<Item = &str> {
    let mut options = mount.options.iter();
    let lower = options.find_map(|option| option.strip_prefix("lowerdir="));
    lower.unwrap_or_default().split(':')
}

fn is_file_in(layer: &Path, relative: &Path) -> bool {
    let found = || {
        let directory = File::open(layer)?;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let found = openat2(&directory, relative, flags, Mode::empty(), resolve)?;
        File::from(found).metadata()
    };
    found().is_ok_and(|metadata| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mount(r#type: &str, source: &str, options: &[&str]) -> SnapshotMount {
        SnapshotMount {
            r#type: r#type.to_owned(),
            source: source.to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        }
    }

    #[test]
    fn layers_are_those_below_the_containers_own() {
        let options = [
            "index=off",
            "workdir=/s/9/work",
            "upperdir=/s/9/fs",
            "lowerdir=/s/2/fs:/s/1/fs",
        ];
        let layers = Layers::of(&[mount("overlay", "overlay", &options)]).unwrap();
        assert_eq!(
            layers.directories,
            [Path::new("/s/2/fs"), Path::new("/s/1/fs")]
        );
        let one = Layers::of(&[mount("bind", "/s/1/fs", &["rbind", "rw"])]).unwrap();
        assert_eq!(one.directories, [Path::new("/s/1/fs")]);
    }

    #[test]
    fn other_roots_are_left() {
        let device = [mount("ext4", "/dev/dm-3", &[])];
        assert_eq!(
            Layers::of(&device),
            Err(LayersError::Unknown("ext4".to_owned()))
        );
        for odd in [
            "lowerdir=s/1/fs",
            "lowerdir=/s/../1",
            "lowerdir=",
            "upperdir=/s",
        ] {
            let mount = mount("overlay", "overlay", &[odd]);
            assert_eq!(Layers::of(&[mount]), Err(LayersError::Unusable), "{odd}");
        }
        assert_eq!(Layers::of(&[]), Err(LayersError::Unusable));
    }

    #[test]
    fn a_file_is_that_of_its_topmost_layer() {
        let root = tempfile::tempdir().unwrap();
        for path in ["top/usr", "bottom/usr", "outside"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        for path in [
            "top/usr/a",
            "bottom/usr/a",
            "bottom/usr/b",
            "outside/secret",
        ] {
            fs::write(root.path().join(path), path).unwrap();
        }
        let layers = Layers {
            directories: ["top", "bottom"].map(|name| root.path().join(name)).into(),
            seen_through: Some(Filesystem::Overlay),
        };
        let file = |path: &str| layers.file(Path::new(path));
        assert_eq!(file("/usr/a"), Some(root.path().join("top/usr/a")));
        assert_eq!(file("/usr/b"), Some(root.path().join("bottom/usr/b")));
        assert_eq!(file("/usr"), None);
        assert_eq!(file("/usr/c"), None);
    }

    #[test]
    fn no_path_leaves_the_layers() {
        let root = tempfile::tempdir().unwrap();
        let layer = root.path().join("layer");
        fs::create_dir_all(layer.join("usr")).unwrap();
        fs::write(root.path().join("secret"), "").unwrap();
        symlink(root.path().join("secret"), layer.join("usr/absolute")).unwrap();
        symlink("../../secret", layer.join("usr/relative")).unwrap();
        symlink("../..", layer.join("usr/up")).unwrap();
        symlink("/proc/self/root", layer.join("usr/magic")).unwrap();
        let layers = Layers {
            directories: vec![layer],
            seen_through: None,
        };
        for path in [
            "/usr/absolute",
            "/usr/relative",
            "/usr/up/secret",
            "/usr/magic/etc/passwd",
            "/../secret",
            "/usr/../../secret",
            "secret",
            "/",
        ] {
            assert_eq!(layers.file(Path::new(path)), None, "{path}");
        }
    }
}
