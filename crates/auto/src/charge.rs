//! Who pays for the page cache: the control group whose process read a page first. Nobody else can give the page
//! back to a group at its limit, so it is not locked there.

use hugetext_leaf::Span;

/// Which huge text may be locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lockable {
    /// All of it.
    All,
    /// What the daemon itself makes huge, and these ranges of the file, which it holds already. A control group with
    /// a memory limit runs the file and may pay for the rest. The kernel would kill its processes before it
    /// took locked pages from the group.
    Own(Vec<Span>),
}

impl Lockable {
    /// Those of the windows of `huge` that may not be locked. These are huge before the daemon makes others huge. Where
    /// all may be locked, nobody need look which are huge.
    pub(crate) fn foreign<E>(
        &self,
        huge: impl FnOnce() -> Result<Vec<Span>, E>,
    ) -> Result<Vec<Span>, E> {
        let Lockable::Own(own) = self else {
            return Ok(Vec::new());
        };
        let mut foreign = huge()?;
        foreign.retain(|window| !own.iter().any(|range| range.contains(window.start)));
        Ok(foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limited_group_may_pay_for_is_foreign() {
        let windows = || Ok::<_, ()>([0, 2, 4].map(|at| Span::new(at, at + 2)).to_vec());
        assert_eq!(Lockable::All.foreign(windows), Ok(vec![]));
        let own = Lockable::Own(vec![Span::new(2, 6)]);
        assert_eq!(own.foreign(windows), Ok(vec![Span::new(0, 2)]));
        let none = Lockable::Own(Vec::new()).foreign(windows);
        assert_eq!(none.map(|foreign| foreign.len()), Ok(3));
    }
}
