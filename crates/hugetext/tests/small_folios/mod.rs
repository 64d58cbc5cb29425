//! Files of the page cache as a machine without this project has them.

use std::fs::File;
use std::path::Path;

use hugetext_host::FileWindows;
use hugetext_leaf::{Leaf, Span};

/// Brings a file into the small folios of page faults.
pub(crate) fn make_small(path: &Path) {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let end = len.next_multiple_of(rustix::param::page_size() as u64);
    let whole = FileWindows::readable(&file, Span::new(0, end), Leaf::M2);
    whole.make_small().unwrap();
}
