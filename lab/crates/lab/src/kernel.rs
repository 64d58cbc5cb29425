//! The kernels that the lab knows, and the packages of the archive that contain them. Pure.

use std::fmt;
use std::str::FromStr;

use hugetext_leaf::Version;
use serde::{Deserialize, Serialize};

use crate::arch::Arch;

/// A variant of Debian's kernel: architecture and page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Flavour {
    Amd64,
    /// With every filesystem, for the filesystems that the variant above lacks.
    Amd64Generic,
    Arm64,
    Arm64_16k,
    Riscv64,
}

impl Flavour {
    pub(crate) const ALL: [Flavour; 5] = [
        Flavour::Amd64,
        Flavour::Amd64Generic,
        Flavour::Arm64,
        Flavour::Arm64_16k,
        Flavour::Riscv64,
    ];

    pub(crate) fn arch(self) -> Arch {
        match self {
            Flavour::Amd64 | Flavour::Amd64Generic => Arch::Amd64,
            Flavour::Arm64 | Flavour::Arm64_16k => Arch::Arm64,
            Flavour::Riscv64 => Arch::Riscv64,
        }
    }

    /// The end of the names of kernel packages. The cloud flavours have the drivers of a virtual
    /// machine and are a third of the size.
    fn suffix(self) -> &'static str {
        match self {
            Flavour::Amd64 => "-cloud-amd64",
            Flavour::Amd64Generic => "-amd64",
            Flavour::Arm64 => "-cloud-arm64",
            Flavour::Arm64_16k => "-arm64-16k",
            Flavour::Riscv64 => "-riscv64",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Flavour::Amd64 => "amd64",
            Flavour::Amd64Generic => "amd64-generic",
            Flavour::Arm64 => "arm64",
            Flavour::Arm64_16k => "arm64-16k",
            Flavour::Riscv64 => "riscv64",
        }
    }
}

impl FromStr for Flavour {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Flavour::ALL
            .into_iter()
            .find(|flavour| flavour.name() == name);
        let known = || Flavour::ALL.map(Flavour::name).join(", ");
        found.ok_or_else(|| format!("unknown flavour '{name}'; the known ones are {}", known()))
    }
}

/// A kernel of the lab: `6.18-amd64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KernelId {
    pub(crate) flavour: Flavour,
    pub(crate) version: Version,
}

impl fmt::Display for KernelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.version, self.flavour.name()))
    }
}

impl FromStr for KernelId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || format!("'{text}' is not a kernel of the lab; an example is 6.18-amd64");
        let (version, name) = text.split_once('-').ok_or_else(unknown)?;
        Ok(KernelId {
            flavour: name.parse().map_err(|_| unknown())?,
            version: version.parse().map_err(|_| unknown())?,
        })
    }
}

impl Serialize for KernelId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KernelId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Kernel versions that the matrix wants of each flavour, oldest first. Newer versions in the
/// archive are added automatically.
pub(crate) fn wanted(flavour: Flavour) -> Vec<KernelId> {
    let versions: &[(u16, u16)] = match flavour {
        Flavour::Amd64 => &[
            (6, 1),
            (6, 12),
            (6, 16),
            (6, 17),
            (6, 18),
            (6, 19),
            (7, 0),
            (7, 1),
            (7, 2),
            (7, 3),
        ],
        Flavour::Amd64Generic => &[(6, 12), (7, 3)],
        Flavour::Arm64 => &[(6, 1), (6, 12), (6, 16), (6, 18), (7, 2), (7, 3)],
        // Debian builds kernels with 16K pages since 6.12.
        Flavour::Arm64_16k => &[(6, 12), (6, 18), (7, 2), (7, 3)],
        // The kernel of Debian 13, the first release for it.
        Flavour::Riscv64 => &[(6, 12)],
    };
    versions
        .iter()
        .map(|(major, minor)| KernelId {
            flavour,
            version: Version::new(*major, *minor),
        })
        .collect()
}

/// A kernel found in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: KernelId,
    /// The names of packages to fetch together.
    pub(crate) packages: Vec<String>,
}

/// Selects from all package names in the archive the newest build of each wanted kernel, and of
/// each kernel newer than those. It also returns the wanted kernels that are missing.
pub(crate) fn select(names: &[&str], flavour: Flavour) -> (Vec<Found>, Vec<KernelId>) {
    let mut wanted = wanted(flavour);
    let newest_wanted = wanted.last().map(|id| id.version);
    let releases: Vec<Release<'_>> = names
        .iter()
        .filter_map(|name| Release::of_image(name, flavour))
        .collect();
    for release in &releases {
        let id = KernelId {
            flavour,
            version: release.version,
        };
        if Some(release.version) > newest_wanted && !wanted.contains(&id) {
            wanted.push(id);
        }
    }
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for id in wanted {
        let of_version = releases.iter().filter(|r| r.version == id.version);
        match of_version.max_by_key(|release| &release.order) {
            Some(release) => found.push(Found {
                id,
                packages: release.packages(names, flavour),
            }),
            None => missing.push(id),
        }
    }
    (found, missing)
}

/// A kernel build, as package names give it: `6.18.15+deb13`, `6.1.0-44`.
struct Release<'a> {
    name: &'a str,
    version: Version,
    /// Its numbers, by which builds of one version are compared.
    order: Vec<u32>,
}

/// Prefixes of packages with the kernel itself. Before Linux 6.19, one package has all parts; since
/// then, they are separate. Packages that are not signed for secure boot come before signed ones.
const IMAGES: [&str; 4] = [
    "linux-binary-",
    "linux-image-",
    "linux-binary-unsigned-",
    "linux-image-unsigned-",
];

impl<'a> Release<'a> {
    fn of_image(package: &'a str, flavour: Flavour) -> Option<Release<'a>> {
        let name = IMAGES.iter().find_map(|prefix| {
            let name = package
                .strip_prefix(prefix)?
                .strip_suffix(flavour.suffix())?;
            name.starts_with(|c: char| c.is_ascii_digit())
                .then_some(name)
        })?;
        // Names such as `6.12-cloud-amd64` have no build.
        let order: Vec<u32> = name
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        // Some other flavours end with the same words: `6.12.1-rt-amd64`.
        let other = name.ends_with("-rt") || name.ends_with("-cloud");
        (order.len() > 2 && !other).then_some(())?;
        Some(Release {
            name,
            version: name.parse().ok()?,
            order,
        })
    }

    /// The packages of this build: the first image that exists, its modules and their index.
    fn packages(&self, names: &[&str], flavour: Flavour) -> Vec<String> {
        let named = |prefix: &str| format!("{prefix}{}{}", self.name, flavour.suffix());
        let there = |name: &String| names.contains(&name.as_str());
        let image = IMAGES.iter().map(|prefix| named(prefix)).find(there);
        let parts = ["linux-modules-", "linux-base-"].map(named);
        image
            .into_iter()
            .chain(parts.into_iter().filter(there))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_build_of_each_version_is_taken_whole() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-44-cloud-amd64",
            "linux-image-6.12-cloud-amd64",
            "linux-image-7.2.9+deb13-cloud-amd64",
            "linux-binary-7.2.9+deb13-cloud-amd64",
            "linux-binary-7.2.13+deb14-cloud-amd64",
            "linux-modules-7.2.13+deb14-cloud-amd64",
            "linux-base-7.2.13+deb14-cloud-amd64",
            "linux-binary-unsigned-8.0.1+deb14-cloud-amd64",
            "linux-binary-7.2.13+deb14-cloud-arm64",
        ];
        let (found, missing) = select(&names, Flavour::Amd64);
        let packages = |id: &str| {
            let id: KernelId = id.parse().unwrap();
            let found = found.iter().find(|found| found.id == id);
            found
                .map(|found| found.packages.clone())
                .unwrap_or_default()
        };
        assert_eq!(packages("6.1-amd64"), ["linux-image-6.1.0-44-cloud-amd64"]);
        assert_eq!(
            packages("7.2-amd64"),
            [
                "linux-binary-7.2.13+deb14-cloud-amd64",
                "linux-modules-7.2.13+deb14-cloud-amd64",
                "linux-base-7.2.13+deb14-cloud-amd64"
            ]
        );
        assert_eq!(
            packages("8.0-amd64").len(),
            1,
            "newer than the wanted ones, so added"
        );
        assert!(missing.contains(&"6.12-amd64".parse().unwrap()));
        assert_eq!(select(&names, Flavour::Amd64Generic).0, []);
    }

    #[test]
    fn names_round_trip() {
        for flavour in Flavour::ALL {
            for id in wanted(flavour) {
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
        assert!("6.18".parse::<KernelId>().is_err());
        assert!("6-amd64".parse::<KernelId>().is_err());
    }
}
