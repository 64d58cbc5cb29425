//! Rows as Parquet, and back.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::row::Row;

/// The version of the columns. It changes when a column is removed or means something else.
pub(crate) const SCHEMA: &str = "1";
/// The key under which a file names it.
const KEY: &str = "hugetext.schema";
/// Rows that are turned into columns at once.
const BATCH: usize = 65_536;

/// Why bytes are no inventory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    /// Not Parquet, or cut short.
    #[error("no whole Parquet file: {0}")]
    Parquet(#[from] ParquetError),
    /// The columns are not those of this version.
    #[error("columns cannot be read: {0}")]
    Arrow(#[from] ArrowError),
    /// Another version.
    #[error("schema {0}; this program writes and reads schema {SCHEMA}")]
    Version(String),
    /// A column is missing or of another type.
    #[error("column {0} is missing or of another type")]
    Column(&'static str),
}

/// One column: its name, and how it is read from and written to rows.
struct Column {
    name: &'static str,
    of: Values,
}

enum Values {
    Text(fn(&Row) -> &str, fn(&mut Row, String)),
    MaybeText(fn(&Row) -> Option<&str>, fn(&mut Row, String)),
    Int(fn(&Row) -> i32, fn(&mut Row, i32)),
    MaybeInt(fn(&Row) -> Option<i32>, fn(&mut Row, i32)),
    Long(fn(&Row) -> i64, fn(&mut Row, i64)),
    MaybeLong(fn(&Row) -> Option<i64>, fn(&mut Row, i64)),
    Double(fn(&Row) -> f64, fn(&mut Row, f64)),
}

macro_rules! column {
    ($kind:ident $name:ident) => {
        Column {
            name: stringify!($name),
            of: column!(@ $kind $name),
        }
    };
    (@ Text $name:ident) => { Values::Text(|row| &row.$name, |row, value| row.$name = value) };
    (@ MaybeText $name:ident) => {
        Values::MaybeText(|row| row.$name.as_deref(), |row, value| row.$name = Some(value))
    };
    (@ MaybeInt $name:ident) => {
        Values::MaybeInt(|row| row.$name, |row, value| row.$name = Some(value))
    };
    (@ MaybeLong $name:ident) => {
        Values::MaybeLong(|row| row.$name, |row, value| row.$name = Some(value))
    };
    (@ $kind:ident $name:ident) => { Values::$kind(|row| row.$name, |row, value| row.$name = value) };
}

/// The columns, in their order. Date and host are in the path.
const COLUMNS: &[Column] = &[
    column!(Long time),
    column!(Text machine),
    column!(MaybeText image),
    column!(MaybeText digest),
    column!(MaybeText build_id),
    column!(Text file),
    column!(Int segment),
    column!(Long leaf),
    column!(Long text),
    column!(Long layout_now),
    column!(Long layout_fix),
    column!(Long layout_merge),
    column!(Long reach_now),
    column!(Long reach_fix),
    column!(Long reach_merge),
    column!(MaybeText cause),
    column!(MaybeInt needs_kernel),
    column!(MaybeText linker),
    column!(Text filesystem),
    column!(Text kernel),
    column!(Int kernel_number),
    column!(Text thp),
    column!(MaybeText refused),
    column!(Double starts),
    column!(Long cpu_ns),
    column!(Long huge),
    column!(MaybeLong memory_limit),
    column!(MaybeText verdict),
];

impl Column {
    fn field(&self) -> Field {
        let (data, nullable) = match self.of {
            Values::Text(..) => (DataType::Utf8, false),
            Values::MaybeText(..) => (DataType::Utf8, true),
            Values::Int(..) => (DataType::Int32, false),
            Values::MaybeInt(..) => (DataType::Int32, true),
            Values::Long(..) => (DataType::Int64, false),
            Values::MaybeLong(..) => (DataType::Int64, true),
            Values::Double(..) => (DataType::Float64, false),
        };
        Field::new(self.name, data, nullable)
    }

    fn array(&self, rows: &[Row]) -> ArrayRef {
        match self.of {
            Values::Text(get, _) => Arc::new(StringArray::from_iter_values(rows.iter().map(get))),
            Values::MaybeText(get, _) => Arc::new(rows.iter().map(get).collect::<StringArray>()),
            Values::Int(get, _) => Arc::new(Int32Array::from_iter_values(rows.iter().map(get))),
            Values::MaybeInt(get, _) => Arc::new(rows.iter().map(get).collect::<Int32Array>()),
            Values::Long(get, _) => Arc::new(Int64Array::from_iter_values(rows.iter().map(get))),
            Values::MaybeLong(get, _) => Arc::new(rows.iter().map(get).collect::<Int64Array>()),
            Values::Double(get, _) => {
                Arc::new(Float64Array::from_iter_values(rows.iter().map(get)))
            }
        }
    }

    /// Puts the values of `array` into rows.
    fn read(&self, array: &dyn Array, rows: &mut [Row]) -> Option<()> {
        macro_rules! each {
            ($kind:ty, $set:expr) => {{
                let values = array.as_any().downcast_ref::<$kind>()?;
                for (row, value) in rows.iter_mut().zip(values.iter()) {
                    if let Some(value) = value {
                        $set(row, value.into());
                    }
                }
            }};
        }
        match self.of {
            Values::Text(_, set) | Values::MaybeText(_, set) => each!(StringArray, set),
            Values::Int(_, set) | Values::MaybeInt(_, set) => each!(Int32Array, set),
            Values::Long(_, set) | Values::MaybeLong(_, set) => each!(Int64Array, set),
            Values::Double(_, set) => each!(Float64Array, set),
        }
        Some(())
    }
}

/// The rows as a Parquet file.
///
/// # Errors
/// `to` cannot be written.
pub(crate) fn write(rows: &[Row], to: &mut (impl Write + Send)) -> Result<(), TableError> {
    let schema = Arc::new(Schema::new(
        COLUMNS.iter().map(Column::field).collect::<Vec<_>>(),
    ));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(vec![KeyValue::new(KEY.to_owned(), SCHEMA.to_owned())]))
        .build();
    let mut writer = ArrowWriter::try_new(to, Arc::clone(&schema), Some(properties))?;
    for rows in rows.chunks(BATCH) {
        let columns = COLUMNS.iter().map(|column| column.array(rows)).collect();
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    writer.close()?;
    Ok(())
}

/// The rows of a Parquet file whose content is known to be what was written: the reader of arrow 60 panics at
/// some damage.
///
/// # Errors
/// The bytes are no whole inventory of this version.
pub(crate) fn read(bytes: Vec<u8>) -> Result<Vec<Row>, TableError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))?;
    let file = builder.metadata().file_metadata();
    let pairs = file.key_value_metadata().map_or(&[][..], Vec::as_slice);
    let version = pairs.iter().find(|pair| pair.key == KEY);
    let version = version
        .and_then(|pair| pair.value.clone())
        .unwrap_or_default();
    if version != SCHEMA {
        return Err(TableError::Version(version));
    }
    let mut all = Vec::new();
    for batch in builder.build()? {
        let batch = batch?;
        let mut rows = vec![Row::default(); batch.num_rows()];
        for column in COLUMNS {
            let Some(array) = batch.column_by_name(column.name) else {
                // An older program wrote no such column.
                if column.field().is_nullable() {
                    continue;
                }
                return Err(TableError::Column(column.name));
            };
            column
                .read(array, &mut rows)
                .ok_or(TableError::Column(column.name))?;
        }
        all.append(&mut rows);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_row(n: i64, name: Option<String>) -> Row {
        Row {
            time: n,
            file: format!("/usr/bin/{n}"),
            build_id: name.clone(),
            linker: name,
            needs_kernel: (n % 2 == 0).then_some(6018),
            text: n.saturating_mul(4096),
            memory_limit: (n % 3 == 0).then_some(n),
            starts: n as f64 / 3.0,
            ..Row::default()
        }
    }

    fn written(rows: &[Row]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(rows, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_document_names_every_column_and_no_other() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/inventory.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let named: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        let columns = ["date", "host"].into_iter();
        let columns: Vec<&str> = columns
            .chain(COLUMNS.iter().map(|column| column.name))
            .collect();
        assert_eq!(named, columns);
        assert!(text.contains(&format!("schema {SCHEMA}")));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(rows in prop::collection::vec((any::<i32>(), any::<Option<String>>()), 0..50)) {
            let rows: Vec<Row> = rows.into_iter().map(|(n, name)| some_row(n.into(), name)).collect();
            prop_assert_eq!(read(written(&rows)).unwrap(), rows);
        }

        #[test]
        fn a_file_cut_short_is_an_error(at in any::<prop::sample::Index>()) {
            let rows: Vec<Row> = (0..20).map(|n| some_row(n, None)).collect();
            let mut bytes = written(&rows);
            bytes.truncate(at.index(bytes.len()));
            prop_assert!(read(bytes).is_err());
        }
    }
}
