//! Rows of comma-separated values: what `--format csv` prints.

use crate::failure::Failure;
use crate::path::escaped;

/// The columns of rows of `T`: a name for the first line, and the value of a row.
pub type Columns<T> = [(&'static str, fn(&T) -> String)];

/// Rows with their names, ready to print. Names, paths and words stand as they are, but for control characters,
/// which are escaped: each row is one line. Bytes, counts and nanoseconds are integers.
pub struct Rows(csv::Result<Vec<u8>>);

impl Rows {
    /// The rows of `items`. The line of names comes first, even without items.
    pub fn of<T>(columns: &Columns<T>, items: impl IntoIterator<Item = T>) -> Rows {
        let write = || {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(columns.iter().map(|(name, _)| name))?;
            for item in items {
                writer.write_record(columns.iter().map(|(_, value)| escaped(&value(&item))))?;
            }
            writer.flush()?;
            writer
                .into_inner()
                .map_err(|error| csv::Error::from(error.into_error()))
        };
        Rows(write())
    }

    /// The text to print.
    pub fn text(self) -> Result<String, Failure> {
        let failed = |error: csv::Error| Failure::new("standard output", error);
        let bytes = self.0.map_err(failed)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// An optional value: nothing, if there is none.
pub fn maybe(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_first_and_values_are_quoted() {
        let columns: &Columns<(&str, u64)> = &[
            ("path", |row| row.0.to_owned()),
            ("text", |row| row.1.to_string()),
        ];
        let rows = Rows::of(columns, [("/e\n\u{1b}", 3)]);
        assert_eq!(rows.text().unwrap(), "path,text\n/e\\n\\u{1b},3\n");
        let rows = Rows::of(columns, [("/a,b", 1), ("/c\"d", 2)]);
        assert_eq!(
            rows.text().unwrap(),
            "path,text\n\"/a,b\",1\n\"/c\"\"d\",2\n"
        );
        assert_eq!(Rows::of(columns, []).text().unwrap(), "path,text\n");
    }
}
