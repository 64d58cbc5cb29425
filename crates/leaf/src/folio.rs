//! The largest folios of the page cache that can hold a part of a file.

use crate::geometry::Leaf;
use crate::segment::Span;

/// The largest order of a folio of the page cache (MAX_XAS_ORDER, include/linux/pagemap.h).
const MOST_ORDER: u32 = 11;

/// The number of folios that hold `part` of a file of `len` bytes if each is as large as readahead makes
/// it: a power of two, a multiple of its size in the file, not beyond the page that holds the end of the
/// file, and at most a PMD leaf (page_cache_ra_order(), mm/readahead.c).
pub fn least_folios(part: Span, len: u64, page: Leaf, pmd: Leaf) -> u64 {
    let end = page.align_up(len);
    let part = Span::new(part.start, part.end.min(end));
    if part.start >= part.end {
        return 0;
    }
    let mut folio = match pmd.order(page) {
        0..=MOST_ORDER => pmd.bytes(),
        _ => page.bytes() << MOST_ORDER,
    };
    let whole = end - end % folio;
    let in_whole = part.end.min(whole).div_ceil(folio);
    let mut found = in_whole.saturating_sub(part.start / folio);
    // What is left of the file is divided by the bits of its length.
    let mut at = whole;
    while at < end && folio > page.bytes() {
        folio /= 2;
        if end - at >= folio {
            let next = Span::new(at, at + folio);
            found += u64::from(next.overlaps(&part));
            at = next.end;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const K: u64 = 1024;

    fn least(start: u64, end: u64, len: u64) -> u64 {
        least_folios(Span::new(start, end), len, Leaf::K4, Leaf::M2)
    }

    #[test]
    fn the_tail_is_divided_by_the_bits_of_its_length() {
        // 1024K, 512K, 32K and a page.
        let len = (2048 + 1024 + 512 + 32) * K + 1;
        assert_eq!(least(0, len, len), 5);
        assert_eq!(least(0, 2048 * K, len), 1);
        assert_eq!(least(2048 * K, 3072 * K, len), 1);
        assert_eq!(least(2047 * K, 3073 * K, len), 3);
        assert_eq!(least(len - 1, len, len), 1);
        assert_eq!(least(0, 0, len), 0);
        assert_eq!(least(len + 4 * K, len + 8 * K, len), 0);
    }

    #[test]
    fn no_folio_is_larger_than_the_page_cache_holds() {
        let part = Span::new(0, Leaf::M512.bytes());
        let folios = least_folios(part, part.end, Leaf::K64, Leaf::M512);
        assert_eq!(folios, 4);
    }

    proptest! {
        /// Page by page: the folio of each page is the largest aligned one that ends in the file.
        #[test]
        fn each_page_lies_in_one_folio(pages in 1u64..3000, start in 0u64..3000, count in 1u64..3000) {
            let of_page = |index: u64| {
                let fits = |order: &u32| (index >> order << order) + (1 << order) <= pages;
                // The tail of a block that does not fit begins at the same place for each order below.
                (0..=9).rev().find(fits).map(|order| index >> order << order)
            };
            let page = Leaf::K4.bytes();
            let mut heads: Vec<u64> = (start..start + count).take_while(|at| *at < pages).filter_map(of_page).collect();
            heads.dedup();
            let part = Span::new(start * page, (start + count) * page);
            prop_assert_eq!(least_folios(part, pages * page, Leaf::K4, Leaf::M2), heads.len() as u64);
        }

        #[test]
        fn any_numbers_do(start: u64, end: u64, len in 0..=crate::LIMIT) {
            let part = Span::new(start.min(end), end.max(start));
            least_folios(part, len, Leaf::K4, Leaf::M2);
        }
    }
}
