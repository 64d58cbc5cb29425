//! The document of `hugetext bench tlb`. The other benchmarks print that of hugetext-answer.

use hugetext_answer::output::command_line;
use hugetext_bench::Comparison;
use hugetext_host::Machine;
use schemars::JsonSchema;
use serde::Serialize;

use crate::tlb::TlbReport;

/// What a user types for this program.
pub(crate) const COMMAND: &str = "hugetext bench";

/// The result, with the parts of it that a page of HTML shows.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TlbDocument {
    #[serde(flatten)]
    pub(crate) report: TlbReport,
    /// The machine, in one line.
    pub(crate) summary: String,
    /// The command line.
    pub(crate) invocation: String,
    pub(crate) benchmarks: Vec<Comparison>,
}

impl TlbDocument {
    /// Of this machine.
    pub(crate) fn of(report: TlbReport) -> TlbDocument {
        TlbDocument {
            summary: Machine::this().to_string(),
            invocation: command_line(COMMAND),
            benchmarks: vec![report.comparison()],
            report,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use hugetext_answer::schema::framed;
    use schemars::generate::SchemaGenerator;

    use super::*;

    #[test]
    fn the_file_in_lab_is_the_schema_of_the_type() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/bench-tlb.json");
        let schema = framed(
            "bench tlb",
            SchemaGenerator::into_root_schema_for::<TlbDocument>,
        );
        let text = format!("{:#}\n", schema.to_value());
        if std::env::var_os("HUGETEXT_SCHEMA").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let written = fs::read_to_string(&file).unwrap();
        assert!(
            written == text,
            "{} is not the schema of its type: HUGETEXT_SCHEMA=1 writes it",
            file.display()
        );
    }
}
