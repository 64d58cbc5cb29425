//! Names of files and processes in messages. They may hold control characters, which are escaped here, so
//! that a name stays on one line and sends no control sequence to a terminal.

use std::path::Path;

/// A path in a message: control characters are escaped.
pub fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

/// Text on one line: control characters, line breaks included, are escaped.
pub fn escaped(text: &str) -> String {
    escaped_except(text, |_| false)
}

/// Text of several lines: line breaks stay, other control characters are escaped.
pub fn escaped_lines(text: &str) -> String {
    escaped_except(text, |letter| letter == '\n')
}

fn escaped_except(text: &str, kept: fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() && !kept(letter) {
            escaped.extend(letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_characters_are_escaped() {
        let name = Path::new("a\\ b\u{1b}[31m\n\u{9b}é\u{7f}");
        assert_eq!(shown(name), r"a\ b\u{1b}[31m\n\u{9b}é\u{7f}");
        assert_eq!(escaped_lines("a\r\n"), "a\\r\n");
    }
}
