//! Expands $ORIGIN, $LIB and $PLATFORM in search paths and names.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The values of the tokens for one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens<'a> {
    /// The directory of the object that contains the path or name.
    pub(crate) origin: &'a Path,
    /// `lib`, `lib64` or `lib/TRIPLET`; musl has no such token.
    pub(crate) lib: Option<&'a [u8]>,
    /// AT_PLATFORM, if the kernel gives one; musl has no such token.
    pub(crate) platform: Option<&'a [u8]>,
}

impl<'a> Tokens<'a> {
    /// The tokens of musl: $ORIGIN only.
    pub(crate) fn origin_only(origin: &'a Path) -> Tokens<'a> {
        Tokens {
            origin,
            lib: None,
            platform: None,
        }
    }

    /// Replaces `$NAME` and `${NAME}` in `text`. An unknown name stays unchanged, as in glibc.
    pub(crate) fn expand(&self, text: &[u8]) -> Vec<u8> {
        let mut expanded = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
            let (before, from) = rest.split_at(at);
            expanded.extend_from_slice(before);
            match self.token(from) {
                Some((value, used)) => {
                    expanded.extend_from_slice(value);
                    rest = from.get(used..).unwrap_or_default();
                }
                None => {
                    expanded.push(b'$');
                    rest = from.get(1..).unwrap_or_default();
                }
            }
        }
        expanded.extend_from_slice(rest);
        expanded
    }

    /// The value of the token that `text` starts with, and the token's length.
    fn token(&self, text: &[u8]) -> Option<(&[u8], usize)> {
        let known = [
            (&b"ORIGIN"[..], Some(self.origin.as_os_str().as_bytes())),
            (b"LIB", self.lib),
            (b"PLATFORM", self.platform),
        ];
        let name = text.strip_prefix(b"$")?;
        for (token, value) in known {
            let braced = name
                .strip_prefix(b"{")
                .and_then(|name| name.strip_prefix(token))
                .is_some_and(|rest| rest.starts_with(b"}"));
            let bare = name.strip_prefix(token).is_some_and(ends_a_name);
            if braced || bare {
                let used = token.len() + if braced { 3 } else { 1 };
                return value.map(|value| (value, used));
            }
        }
        None
    }
}

/// Whether a token may end where `rest` begins: `$ORIGINAL` is not `$ORIGIN`.
fn ends_a_name(rest: &[u8]) -> bool {
    rest.first()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_what_is_a_token_and_nothing_else() {
        let tokens = Tokens {
            origin: Path::new("/opt/app"),
            lib: Some(b"lib64"),
            platform: None,
        };
        let expand = |text: &str| String::from_utf8(tokens.expand(text.as_bytes())).unwrap();
        assert_eq!(expand("$ORIGIN/../$LIB/x"), "/opt/app/../lib64/x");
        assert_eq!(expand("${ORIGIN}s"), "/opt/apps");
        assert_eq!(expand("/a/$ORIGINAL/${LIB"), "/a/$ORIGINAL/${LIB");
        assert_eq!(expand("$PLATFORM$"), "$PLATFORM$");
        assert_eq!(expand("/usr/lib"), "/usr/lib");
    }
}
