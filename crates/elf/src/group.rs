//! Which PT_LOADs share a mapping, and the alignment that each mapping needs.

use hugetext_leaf::{LIMIT, Leaf, Segment, Span};

use crate::options::{Options, Strategy};
use crate::refusal::Refusal;

/// Bytes of the longest ELF header. A PT_LOAD that begins among them stays.
pub(crate) const ELF_HEADER: u64 = 64;

/// Consecutive PT_LOADs, `first..=last`, that become one mapping. Most groups hold one PT_LOAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// A group, and what its mapping needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapping<'s> {
    /// The index of its first PT_LOAD.
    pub(crate) first: usize,
    /// Its PT_LOADs.
    pub(crate) members: &'s [Segment],
    /// Addresses from the first byte of the first member to the last file byte of the last.
    pub(crate) addresses: Span,
    /// Whether text lies in a whole window of it.
    pub(crate) is_worth_it: bool,
    /// The modulus to which its address and offset must be congruent.
    pub(crate) demand: Leaf,
    /// Bytes that are added to its end.
    pub(crate) extension: u64,
}

impl Mapping<'_> {
    /// Whether it joins several PT_LOADs.
    pub(crate) fn is_merged(&self) -> bool {
        self.members.len() > 1
    }
}

impl Group {
    /// What the mappings of these groups need; an error if no text would gain.
    pub(crate) fn mappings<'s>(
        groups: &[Group],
        segments: &'s [Segment],
        options: &Options,
    ) -> Result<Vec<Mapping<'s>>, Refusal> {
        let mapping = |group: &Group| Mapping {
            first: group.first,
            members: group.members(segments),
            addresses: group.addresses(segments),
            is_worth_it: group.is_worth_it(segments, options),
            demand: group.demand(segments, options),
            extension: group.extension(segments, options),
        };
        let mappings: Vec<Mapping<'_>> = groups.iter().map(mapping).collect();
        if mappings.iter().any(|mapping| mapping.is_worth_it) {
            return Ok(mappings);
        }
        let writable = segments
            .iter()
            .any(|s| s.is_text() && s.perms.write && s.filesz >= options.leaf.bytes());
        Err(if writable {
            Refusal::Writable
        } else {
            Refusal::Small { leaf: options.leaf }
        })
    }

    /// The mappings that `strategy` makes of PT_LOADs. It merges only where text gains from a
    /// merge.
    pub(crate) fn of(segments: &[Segment], strategy: Strategy, options: &Options) -> Vec<Group> {
        let alone = Group::each_alone(segments);
        if strategy != Strategy::Merge {
            return alone;
        }
        let merged = Group::merged(segments, options.leaf);
        let gains: Vec<Group> = merged
            .into_iter()
            .filter(|group| group.is_worth_it(segments, options))
            .collect();
        let joined = |one: &Group| {
            let mut gains = gains.iter();
            gains.any(|group| group.first <= one.first && one.last <= group.last)
        };
        let mut groups: Vec<Group> = alone.into_iter().filter(|one| !joined(one)).collect();
        groups.extend(&gains);
        groups.sort_by_key(|group| group.first);
        groups
    }

    /// The groups with neighbours of writable data joined, where nothing but the end of a page lies between
    /// them: GNU ld makes one PT_LOAD of data with and without RELRO, lld and mold make two.
    pub(crate) fn with_data_joined(
        groups: Vec<Group>,
        segments: &[Segment],
        page: Leaf,
    ) -> Vec<Group> {
        Group::joined(groups, segments, |_, a, b| joins_data(a, b, page))
    }

    fn each_alone(segments: &[Segment]) -> Vec<Group> {
        (0..segments.len())
            .map(|index| Group {
                first: index,
                last: index,
            })
            .collect()
    }

    /// Groups of read-only neighbours. Neighbours with an unmapped window between them are not
    /// joined.
    fn merged(segments: &[Segment], leaf: Leaf) -> Vec<Group> {
        Group::joined(Group::each_alone(segments), segments, |first, a, b| {
            joins(a, b, leaf) && !is_stuck(first, leaf)
        })
    }

    /// The groups with neighbours joined for which `may_join` holds, by the first member of the group,
    /// its last one, and the first one of the next group. None are joined if the file's order differs
    /// from that of memory.
    fn joined(
        mut groups: Vec<Group>,
        segments: &[Segment],
        may_join: impl Fn(&Segment, &Segment, &Segment) -> bool,
    ) -> Vec<Group> {
        if !segments.is_sorted_by_key(|segment| segment.offset) {
            return groups;
        }
        groups.dedup_by(|after, before| {
            let first = segments.get(before.first);
            let pair = segments.get(before.last).zip(segments.get(after.first));
            let joined = first
                .zip(pair)
                .is_some_and(|(first, (a, b))| may_join(first, a, b));
            if joined {
                before.last = after.last;
            }
            joined
        });
        groups
    }

    fn members<'a>(&self, segments: &'a [Segment]) -> &'a [Segment] {
        segments.get(self.first..=self.last).unwrap_or_default()
    }

    /// Addresses from the first byte of the first member to the last file byte of the last.
    fn addresses(&self, segments: &[Segment]) -> Span {
        let members = self.members(segments);
        let start = members.first().map_or(0, |segment| segment.vaddr);
        let end = members
            .last()
            .map_or(0, |segment| segment.file_backed().end);
        Span::new(start, end)
    }

    /// Whether text of the group lies in a whole window of its mapping.
    pub(crate) fn is_worth_it(&self, segments: &[Segment], options: &Options) -> bool {
        let addresses = self.addresses(segments);
        let end = addresses
            .end
            .saturating_add(self.extension(segments, options));
        let windows = Span::new(
            options
                .leaf
                .align_up(options.page.align_down(addresses.start)),
            options.leaf.align_down(options.page.align_up(end)),
        );
        self.members(segments)
            .iter()
            .any(|s| s.is_text() && !s.perms.write && s.file_backed().overlaps(&windows))
    }

    /// The modulus to which address and offset of a group must be congruent: the leaf if the group
    /// gains from it, else the alignment that the loader was asked for before.
    fn demand(&self, segments: &[Segment], options: &Options) -> Leaf {
        let Some(first) = self.members(segments).first() else {
            return options.page;
        };
        let delta = first.vaddr.wrapping_sub(first.offset);
        let asked = Leaf::from_bytes(first.align.max(1)).map(|align| align.max(options.page));
        let kept = [
            asked,
            Some(options.page),
            Some(Leaf::K4),
            Leaf::from_bytes(1),
        ];
        let own = kept
            .into_iter()
            .flatten()
            .find(|align| align.is_aligned(delta))
            .unwrap_or(options.page);
        if self.is_worth_it(segments, options) {
            own.max(options.leaf)
        } else {
            own
        }
    }

    /// Bytes from the end of the group to the end of its last window, if no other segment is there.
    /// Text smaller than a leaf is not padded.
    fn extension(&self, segments: &[Segment], options: &Options) -> u64 {
        let leaf = options.leaf;
        let members = self.members(segments);
        let extends = options.extend_tail
            && members.iter().any(Segment::is_text)
            && members.iter().all(|member| !member.perms.write)
            && members.last().is_some_and(|last| last.memsz == last.filesz);
        let addresses = self.addresses(segments);
        let window = leaf.align_up(addresses.end);
        let next = segments.get(self.last.saturating_add(1));
        let free = next.is_none_or(|next| window <= options.page.align_down(next.vaddr));
        if extends && free && addresses.len() >= leaf.bytes() && window <= LIMIT {
            window - addresses.end
        } else {
            0
        }
    }
}

/// Whether the segment holds the ELF header at an address that is not congruent to offset 0. The
/// ELF header cannot move, so a mapping with this segment can never be reached.
fn is_stuck(segment: &Segment, leaf: Leaf) -> bool {
    let is_pinned = segment.offset < ELF_HEADER && segment.filesz > 0;
    is_pinned && !leaf.is_aligned(segment.vaddr.wrapping_sub(segment.offset))
}

/// Whether `after` can be mapped together with `before`: neither is writable, both or none can be
/// read, the file keeps its order, and the memory between them can be a hole of the file. Bytes of
/// the file between them stay behind `before`, where bss would have to be zero.
fn joins(before: &Segment, after: &Segment, leaf: Leaf) -> bool {
    let only_hole = leaf.align_up(before.memory().end) < leaf.align_down(after.vaddr);
    let no_bss = before.memsz == before.filesz || before.file().end == after.offset;
    !before.perms.write
        && !after.perms.write
        && before.perms.read == after.perms.read
        && are_in_order(before, after)
        && !only_hole
        && no_bss
}

/// Whether both have bytes of the file, and `after` can be mapped behind `before` by adding to the file.
fn are_in_order(before: &Segment, after: &Segment) -> bool {
    let delta = |segment: &Segment| i128::from(segment.vaddr) - i128::from(segment.offset);
    before.filesz > 0
        && after.filesz > 0
        && before.file().end <= after.offset
        && delta(before) <= delta(after)
}

/// Whether `after` is more data of `before`, with the same rights. Between them may lie what alignment
/// leaves: bytes that are zero in memory, and at most a page of `after` that nothing maps.
fn joins_data(before: &Segment, after: &Segment, page: Leaf) -> bool {
    let most = page.bytes().max(after.align);
    before.perms.write
        && before.perms == after.perms
        && before.align >= after.align
        && are_in_order(before, after)
        && after.vaddr.saturating_sub(before.file_backed().end) <= most.saturating_mul(2)
}
