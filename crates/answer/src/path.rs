//! Paths and names for display.

pub use hugetext_engine::{escaped, escaped_lines, shown};
use hugetext_host::TextMapping;
pub use hugetext_host::lossy;
use hugetext_leaf::CopyName;

/// The file of a mapping, for display. A promoted copy is shown by the name of its original.
pub fn mapped_file(text: &TextMapping) -> String {
    let Some(path) = &text.path else {
        return "[anonymous]".to_owned();
    };
    match (CopyName::in_maps(&path.to_string_lossy()), text.deleted) {
        (Some(copy), _) => format!("{} (promoted)", copy.basename),
        (None, true) => format!("{} (replaced)", shown(path)),
        (None, false) => shown(path),
    }
}
