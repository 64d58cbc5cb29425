//! What a check of one file means for its user, and the next command.

use hugetext_engine::{Assessment, Program, libraries_of};
use hugetext_leaf::{Leaf, ObjectKind};

use crate::documents::check::TextIn;
use crate::output::quoted;
use crate::path::shown;
use crate::table::{bytes, percent};

/// The library that holds most of the text that a program maps, if it has more than the program itself, and more than a
/// window.
pub(super) fn text_elsewhere(program: &Assessment) -> Option<TextIn> {
    if program.kind == ObjectKind::SharedObject {
        return None;
    }
    let libraries = libraries_of(std::slice::from_ref(&program.path)).found;
    let sized = libraries.into_iter().filter_map(|path| {
        let text = Program::open(&path).ok()?.image.text_len();
        Some(TextIn { path, text })
    });
    sized
        .max_by_key(|library| library.text)
        .filter(|library| library.text > program.text.max(Leaf::M2.bytes()))
}

/// One or two sentences.
pub(super) fn of(file: &Assessment, elsewhere: Option<&TextIn>) -> String {
    if let Some(library) = elsewhere {
        return format!(
            "Most of the text that it maps is in {}: {}. Next: hugetext check {}",
            shown(&library.path),
            bytes(library.text),
            quoted(&shown(&library.path)),
        );
    }
    let name = quoted(&shown(&file.path));
    if file.text == 0 {
        return "It has no text, so there is nothing to do.".to_owned();
    }
    let best = file.reached.max(file.after_fix).max(file.after_merge);
    if best == 0 && file.is_forbidden() {
        return format!("Leaves cannot map it from this filesystem. Next: hugetext run {name}");
    }
    if best == 0 {
        return format!(
            "It is too small for a leaf; larger folios help a little (hugetext warm {name}). \
             Next: if it opens libraries itself, hugetext learn {name} finds them"
        );
    }
    let warm = file
        .cache
        .as_ref()
        .is_some_and(|cache| cache.huge > 0 && cache.huge == cache.total());
    if file.after_fix > file.reached {
        let share = percent(file.after_fix, file.text);
        let try_it = match file.kind {
            ObjectKind::SharedObject => format!("hugetext fix --dry-run {name}"),
            _ => format!("hugetext run {name}"),
        };
        return format!(
            "A fix, or a copy that run makes, brings {share} of its text within reach. Next: {try_it}"
        );
    }
    if warm {
        return format!(
            "All that leaves can map of it is huge now. Next: hugetext bench exec {name}"
        );
    }
    format!("Its layout is right, but its text is not in huge folios. Next: hugetext warm {name}")
}
