use super::*;
use crate::condition::Conditions;

const PMD: LeafKind = LeafKind::Pmd;

fn kernel(major: u16, minor: u16) -> Kernel {
    Version::new(major, minor).into()
}

/// A kernel with CONFIG_READ_ONLY_THP_FOR_FS.
fn for_read_only_files(major: u16, minor: u16) -> Kernel {
    Kernel {
        version: Version::new(major, minor),
        met: Condition::ALL.into_iter().collect(),
    }
}

fn too_old(major: u16, minor: u16) -> Ability {
    let needs = Version::new(major, minor);
    Ability::Lacks(Cause::Kernel { needs })
}

fn never(filesystem: Filesystem) -> Ability {
    Ability::Lacks(Cause::Filesystem { filesystem })
}

/// Every kernel that the answers can differ for.
fn kernels() -> impl Iterator<Item = Kernel> {
    let versions = RULES
        .iter()
        .flat_map(|rule| [Some(rule.since), rule.until])
        .flatten()
        .chain([Version::new(4, 4), Version::new(7, 3)]);
    let conditions = [Vec::new(), Condition::ALL.to_vec()]
        .into_iter()
        .chain(Condition::ALL.map(|condition| vec![condition]))
        .collect::<Vec<_>>();
    versions.flat_map(move |version| {
        let with = conditions.clone().into_iter();
        with.map(move |conditions| Kernel {
            version,
            met: conditions.into_iter().collect(),
        })
    })
}

#[test]
fn ext4_holds_large_folios_since_6_16_only() {
    let on = |filesystem, kernel| ability(Topic::LargeFolios, filesystem, kernel, Leaf::M2);
    assert_eq!(on(Filesystem::Ext4, kernel(6, 15)), too_old(6, 16));
    assert_eq!(on(Filesystem::Ext4, kernel(6, 16)), Ability::Has);
    assert_eq!(
        on(Filesystem::Other, kernel(7, 3)),
        never(Filesystem::Other)
    );
    let larger = ability(
        Topic::LargeFolios,
        Filesystem::Ext4,
        kernel(7, 3),
        Leaf::M32,
    );
    assert_eq!(larger, never(Filesystem::Ext4));
}

/// Before, huge pages that were disabled for a process kept leaves of anonymous memory away, and not those of files.
#[test]
fn leaves_of_files_can_be_denied_since_6_12() {
    assert!(!has_leaf_denial(kernel(6, 11)));
    assert!(has_leaf_denial(kernel(6, 12)));
}

#[test]
fn text_is_collapsed_where_kernel_and_filesystem_allow() {
    let on = |filesystem, kernel| collapse(filesystem, kernel, Leaf::M2);
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Overlay] {
        assert_eq!(on(filesystem, kernel(6, 12)), too_old(7, 2));
        assert_eq!(on(filesystem, kernel(6, 18)), too_old(7, 2));
        assert_eq!(on(filesystem, kernel(7, 2)).refusal(), None);
    }
    assert_eq!(on(Filesystem::Tmpfs, kernel(6, 18)), Ability::Has);
}

/// btrfs limits its folios to 64 blocks, which are 256K, and Linux 7.2 collapses only where the page
/// cache may hold folios of that order: EINVAL on every kernel of the record.
#[test]
fn btrfs_is_not_collapsed() {
    for kernel in [kernel(6, 18), kernel(7, 2), kernel(7, 3)] {
        let answer = collapse(Filesystem::Btrfs, kernel, Leaf::M2);
        assert_eq!(answer, never(Filesystem::Btrfs));
    }
}

#[test]
fn below_an_overlay_only_a_try_can_tell() {
    let answer = collapse(Filesystem::Overlay, kernel(7, 3), Leaf::M2);
    assert_eq!(answer, Ability::Hidden);
    assert_eq!(answer.refusal(), None);
    assert!(answer.doubt().is_some());
    let folios = large_folios(Filesystem::Overlay, kernel(6, 12), PMD, Leaf::M2);
    assert_eq!(folios, Ability::Hidden);
}

#[test]
fn a_filesystem_without_large_folios_serves_where_collapsing_works() {
    let on = |filesystem, kernel, kind| large_folios(filesystem, kernel, kind, Leaf::M2);
    assert_eq!(on(Filesystem::Tmpfs, kernel(6, 1), PMD), Ability::Has);
    assert_eq!(on(Filesystem::Tmpfs, kernel(5, 15), PMD), too_old(6, 1));
    // MADV_COLLAPSE does not make blocks of PTEs.
    for (filesystem, kernel, kind) in [
        (Filesystem::Tmpfs, kernel(7, 2), LeafKind::Contpte),
        (Filesystem::Other, kernel(7, 3), PMD),
    ] {
        assert_eq!(on(filesystem, kernel, kind), never(filesystem));
    }
    assert_eq!(on(Filesystem::Ext4, kernel(6, 12), PMD), too_old(6, 16));
}

#[test]
fn a_kernel_for_read_only_files_collapses_them_on_any_filesystem() {
    for filesystem in [Filesystem::Ext4, Filesystem::Btrfs, Filesystem::Other] {
        for kernel in [for_read_only_files(6, 1), for_read_only_files(7, 1)] {
            let folios = large_folios(filesystem, kernel, PMD, Leaf::M2);
            assert_eq!(folios, Ability::Has);
            assert_eq!(collapse(filesystem, kernel, Leaf::M2), Ability::Has);
        }
    }
    let block = |kernel| large_folios(Filesystem::Btrfs, kernel, LeafKind::Contpte, Leaf::M2);
    assert_eq!(block(for_read_only_files(6, 12)), never(Filesystem::Btrfs));
    // These versions have neither MADV_COLLAPSE nor the option.
    for kernel in [for_read_only_files(6, 0), for_read_only_files(7, 2)] {
        assert!(
            large_folios(Filesystem::Btrfs, kernel, PMD, Leaf::M2)
                .doubt()
                .is_some()
        );
        assert!(
            collapse(Filesystem::Btrfs, kernel, Leaf::M2)
                .refusal()
                .is_some()
        );
    }
}

/// A tunable is named, because the user can change it. The configuration of a kernel is not.
#[test]
fn a_setting_that_forbids_is_named() {
    let denied = Kernel {
        version: Version::new(6, 18),
        met: Conditions::default(),
    };
    let condition = Condition::HugeShmem;
    let setting = Ability::Lacks(Cause::Setting { condition });
    for filesystem in [Filesystem::HugeTmpfs, Filesystem::Tmpfs] {
        assert_eq!(large_folios(filesystem, denied, PMD, Leaf::M2), setting);
        assert_eq!(collapse(filesystem, denied, Leaf::M2), setting);
    }
    let folios = large_folios(Filesystem::Btrfs, denied, PMD, Leaf::M2);
    assert_eq!(folios, never(Filesystem::Btrfs));
}

/// What promote and warm collapse, check counts as within reach: no two answers anywhere.
#[test]
fn whatever_is_collapsed_is_within_reach() {
    for filesystem in Filesystem::NAMED.into_iter().chain([Filesystem::Other]) {
        for kernel in kernels() {
            let collapses = collapse(filesystem, kernel, Leaf::M2);
            let folios = large_folios(filesystem, kernel, PMD, Leaf::M2);
            if collapses == Ability::Has {
                assert_eq!(folios, Ability::Has, "{filesystem} on {kernel:?}");
            }
            if folios == Ability::Hidden {
                assert_eq!(filesystem, Filesystem::Overlay);
            }
        }
    }
}

#[test]
fn conditions_matter_in_the_versions_of_their_rules() {
    let matters = |minor| Condition::ReadOnlyThp.matters(Version::new(6, minor));
    assert!(!matters(0) && matters(1) && matters(19));
    assert!(!Condition::ReadOnlyThp.matters(Version::new(7, 2)));
    assert!(Condition::HugeShmem.matters(Version::new(7, 3)));
}
