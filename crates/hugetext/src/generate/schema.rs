//! `hugetext generate --schema`: the JSON Schema of the document that a command prints, made from its type.

use std::fs;
use std::path::Path;

use hugetext_answer::BenchReport;
use hugetext_answer::schema::framed;
use hugetext_engine::keep::KeepList;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use crate::documents::auto::{AutoEvent, Explanation, StatusReport};
use crate::documents::check::{CheckReport, ProcessCheckReport, SameReport};
use crate::documents::fix::FixReport;
use crate::documents::host::HostReport;
use crate::documents::keep::KeepReport;
use crate::documents::learn::LearnReport;
use crate::documents::promote::PromoteReport;
use crate::documents::report::ReportWritten;
use crate::documents::run::RunPlan;
use crate::documents::stat::StatReport;
use crate::documents::store::{RanFile, StoreListing, StoreRemoval, StoreVerification};
use crate::documents::top::TopReport;
use crate::documents::warm::WarmReport;
use crate::failure::Failure;
use crate::output::Output;

/// A document.
struct Described {
    /// Its name as one word: `check-pid`.
    name: &'static str,
    /// Its field `command`, in the words of the command line: `check --pid`.
    command: &'static str,
    /// Makes the schema of its type.
    body: fn(SchemaGenerator) -> Schema,
}

const fn document<T: JsonSchema>(name: &'static str, command: &'static str) -> Described {
    Described {
        name,
        command,
        body: SchemaGenerator::into_root_schema_for::<T>,
    }
}

/// Every document.
const DOCUMENTS: [Described; 23] = [
    document::<HostReport>("host", "host"),
    document::<CheckReport>("check", "check"),
    document::<ProcessCheckReport>("check-pid", "check --pid"),
    document::<SameReport>("check-same", "check --same"),
    document::<FixReport>("fix", "fix"),
    document::<WarmReport>("warm", "warm"),
    document::<RunPlan<'static>>("run", "run"),
    document::<LearnReport>("learn", "learn"),
    document::<KeepList>("keep-ls", "keep ls"),
    document::<KeepReport>("keep-apply", "keep apply"),
    document::<StoreListing>("store-ls", "store ls"),
    document::<RanFile>("store-path", "store path"),
    document::<StoreRemoval>("store-gc", "store gc"),
    document::<StoreRemoval>("store-rm", "store rm"),
    document::<StoreVerification>("store-verify", "store verify"),
    document::<StatReport>("stat", "stat"),
    document::<PromoteReport>("promote", "promote"),
    document::<BenchReport>("bench", "bench"),
    document::<ReportWritten>("report", "report"),
    document::<AutoEvent>("auto", "auto"),
    document::<StatusReport>("auto-status", "auto status"),
    document::<Explanation>("auto-why", "auto why"),
    document::<TopReport>("auto-top", "auto top"),
];

/// The names of all documents.
pub(super) fn names() -> [&'static str; DOCUMENTS.len()] {
    DOCUMENTS.map(|document| document.name)
}

/// Prints the schema of a document.
pub(super) fn print(name: &str, output: &Output) -> Result<(), Failure> {
    let mut documents = DOCUMENTS.iter();
    match documents.find(|document| document.name == name) {
        Some(document) => output.document(&document.text()),
        None => Ok(()),
    }
}

/// Writes the schema of every document into a directory.
pub(super) fn write_all(directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    for document in &DOCUMENTS {
        let file = directory.join(format!("{}.json", document.name));
        fs::write(file, document.text())?;
    }
    Ok(())
}

impl Described {
    fn text(&self) -> String {
        format!("{:#}\n", self.schema().to_value())
    }

    fn schema(&self) -> Schema {
        framed(self.command, self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_in_docs_are_the_schemas_of_the_types() {
        let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema"));
        let mut files: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut expected: Vec<String> = names().iter().map(|name| format!("{name}.json")).collect();
        expected.sort();
        assert_eq!(files, expected);
        for document in &DOCUMENTS {
            let file = directory.join(format!("{}.json", document.name));
            let written = fs::read_to_string(&file).unwrap();
            assert!(
                written == document.text(),
                "{} is not the schema of its type: run 'make schemas'",
                file.display()
            );
        }
    }
}
