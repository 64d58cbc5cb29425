//! Compares the models with hand-computed traces and with the plain reference.

mod reference;

use hugetext_leaf::Leaf;
use hugetext_tlb::{
    CORTEX_A53, CORTEX_A72, Core, GOLDEN_COVE, Misses, Model, Translation, ZEN4, ZEN5,
};
use proptest::prelude::*;
use reference::Reference;

const M2: u64 = 2 << 20;

fn page(number: u64) -> Translation {
    Translation::base_page(number << 12)
}

fn huge(number: u64) -> Translation {
    Translation {
        address: number * M2,
        leaf: Leaf::M2,
        run: Leaf::M2,
    }
}

fn contiguous(number: u64, run: Leaf) -> Translation {
    Translation {
        run,
        ..page(number)
    }
}

/// Runs a trace and returns the misses.
fn misses(core: &'static Core, trace: impl IntoIterator<Item = Translation>) -> Misses {
    let mut model = Model::new(core);
    trace
        .into_iter()
        .for_each(|translation| model.access(translation));
    model.misses()
}

#[test]
fn sixty_four_pages_fit_into_zen() {
    let rounds = |pages| (0..10).flat_map(move |_| (0..pages).map(page));
    assert_eq!(misses(&ZEN4, rounds(64)), Misses { l1: 64, l2: 64 });
    // A cycle with one page more is the worst case of LRU: every access misses. The second level
    // has all pages after the first round.
    assert_eq!(misses(&ZEN4, rounds(65)), Misses { l1: 650, l2: 65 });
}

#[test]
fn the_least_recently_used_page_goes() {
    // There are ten entries. 0 is used again, so 10 replaces 1.
    let mut trace: Vec<_> = (0..10).map(page).collect();
    trace.extend([page(0), page(10), page(0)]);
    assert_eq!(misses(&CORTEX_A53, trace.clone()).l1, 11);
    trace.push(page(1));
    assert_eq!(misses(&CORTEX_A53, trace).l1, 12);
}

#[test]
fn sets_of_the_second_level_overflow() {
    // Zen 4: 512 entries in 8 ways are 64 sets, so pages 64 apart share one. Nine of them do not
    // fit into 8 ways; between two rounds 64 other pages empty the first level.
    let rivals = || (0..9).map(|index| page(index * 64));
    let others = || (0..64).map(|index| page(index + 1_000_000 * 64 + 64));
    let trace: Vec<_> = rivals().chain(others()).chain(rivals()).collect();
    let nine = misses(&ZEN4, trace);
    // 9 + 64 cold ones. One of the others is in the same set and takes a way as well.
    assert_eq!(
        nine,
        Misses {
            l1: 82,
            l2: 9 + 64 + 9
        }
    );
    // Zen 5 has 256 sets: the same pages lie in four of them.
    let trace: Vec<_> = rivals().chain(others()).chain(rivals()).collect();
    assert_eq!(misses(&ZEN5, trace), Misses { l1: 82, l2: 73 });
}

#[test]
fn a_huge_page_is_one_entry() {
    let window = |number| {
        let whole = huge(number);
        (0..512).map(move |index| Translation {
            address: whole.address + (index << 12),
            ..whole
        })
    };
    let trace = || (0..4).flat_map(window);
    assert_eq!(misses(&ZEN5, trace()), Misses { l1: 4, l2: 4 });
    assert_eq!(misses(&GOLDEN_COVE, trace()), Misses { l1: 4, l2: 4 });
    // The first level of Cortex-A72 holds 1M at most, its second level 2M.
    assert_eq!(misses(&CORTEX_A72, trace()), Misses { l1: 8, l2: 4 });
}

#[test]
fn golden_cove_keeps_huge_pages_apart() {
    // 256 base pages fill the array of base pages, and leave 32 huge ones alone.
    let pages = || (0..256).map(page).chain((1000..1032).map(huge));
    assert_eq!(
        misses(&GOLDEN_COVE, pages().chain(pages())),
        Misses { l1: 288, l2: 288 }
    );
}

#[test]
fn contiguous_pages_become_one_entry_where_the_core_or_the_page_table_can() {
    let sixteen = |run| (0..16).map(move |number| contiguous(number, run));
    assert_eq!(misses(&ZEN4, sixteen(Leaf::K4)).l1, 16);
    assert_eq!(misses(&ZEN4, sixteen(Leaf::K16)).l1, 4);
    assert_eq!(misses(&ZEN4, sixteen(Leaf::K64)).l1, 4);
    assert_eq!(misses(&GOLDEN_COVE, sixteen(Leaf::K64)).l1, 16);
    assert_eq!(misses(&CORTEX_A53, sixteen(Leaf::K16)).l1, 16);
    assert_eq!(misses(&CORTEX_A53, sixteen(Leaf::K64)).l1, 1);
}

/// A page table over 4 GiB in which each 2M window is mapped in one way.
fn mapped(seed: u64, address: u64) -> Translation {
    let window = (address >> 21)
        .wrapping_add(seed)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        >> 62;
    let (leaf, run) = match window {
        0 => (Leaf::K4, Leaf::K4),
        1 => (Leaf::K4, Leaf::K16),
        2 => (Leaf::K4, Leaf::K64),
        _ => (Leaf::M2, Leaf::M2),
    };
    Translation { address, leaf, run }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Loops over a few pages, jumps among many, and strides that use few sets.
    #[test]
    fn agrees_with_the_reference(
        seed in any::<u64>(),
        parts in prop::collection::vec((0u64..1 << 20, 1u64..400, 0u32..12, 1usize..4), 1..8),
    ) {
        let trace: Vec<Translation> = parts
            .iter()
            .flat_map(|(start, count, stride, rounds)| {
                let pages = move |_| (0..*count).map(move |index| start + (index << stride));
                (0..*rounds).flat_map(pages)
            })
            .map(|page| mapped(seed, (page << 12) & 0xffff_ffff))
            .collect();
        for core in Core::ALL {
            let mut model = Model::new(core);
            let mut reference = Reference::new(core);
            for (step, translation) in trace.iter().enumerate() {
                model.access(*translation);
                reference.access(*translation);
                prop_assert_eq!(
                    model.misses(), reference.misses, "{}, step {}", core.name, step
                );
            }
        }
    }
}
