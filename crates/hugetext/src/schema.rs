//! `hugetext schema`: the JSON Schema of the document that a command prints, made from its type.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use hugetext_answer::BenchReport;
use hugetext_answer::schema::framed;
use hugetext_engine::keep::KeepList;
use schemars::Schema;
use schemars::generate::SchemaGenerator;

use crate::documents::Document;
use crate::documents::auto::{AutoEvent, Explanation, StatusReport};
use crate::documents::check::{CheckReport, ProcessCheckReport, SameReport};
use crate::documents::fix::FixReport;
use crate::documents::keep::{DaemonReport, KeepReport};
use crate::documents::learn::LearnReport;
use crate::documents::promote::PromoteReport;
use crate::documents::report::ReportWritten;
use crate::documents::run::RunPlan;
use crate::documents::stat::StatReport;
use crate::documents::store::{StoreCopy, StoreListing, StoreRemoval, StoreVerification};
use crate::documents::top::TopReport;
use crate::documents::warm::WarmReport;
use crate::failure::Failure;
use crate::output::Output;
use crate::verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The document
    #[arg(required_unless_present = "all", value_parser = PossibleValuesParser::new(names()))]
    document: Option<String>,
    /// Write the schema of every document into this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "document")]
    all: Option<PathBuf>,
}

/// A document.
struct Described {
    /// Its name as one word: `check-pid`.
    name: &'static str,
    /// Its field `command`, in the words of the command line: `check --pid`.
    command: &'static str,
    /// Makes the schema of its type.
    body: fn(SchemaGenerator) -> Schema,
}

const fn document<T: Document>(name: &'static str, command: &'static str) -> Described {
    Described {
        name,
        command,
        body: SchemaGenerator::into_root_schema_for::<T>,
    }
}

/// Every document.
const DOCUMENTS: [Described; 23] = [
    document::<CheckReport>("check", "check"),
    document::<ProcessCheckReport>("check-pid", "check --pid"),
    document::<SameReport>("check-same", "check --same"),
    document::<FixReport>("fix", "fix"),
    document::<WarmReport>("warm", "warm"),
    document::<RunPlan<'static>>("run", "run"),
    document::<LearnReport>("learn", "learn"),
    document::<KeepList>("keep-ls", "keep ls"),
    document::<KeepReport>("keep-apply", "keep apply"),
    document::<DaemonReport>("keep-daemon", "keep daemon"),
    document::<StoreListing>("store-ls", "store ls"),
    document::<StoreCopy>("store-path", "store path"),
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
    document::<TopReport>("top", "top"),
];

fn names() -> [&'static str; DOCUMENTS.len()] {
    DOCUMENTS.map(|document| document.name)
}

/// Answers `hugetext schema`.
pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<Verdict, Failure> {
    if let Some(directory) = &arguments.all {
        write_all(directory).map_err(|error| Failure::io(directory, &error))?;
    }
    let named = |document: &&Described| Some(document.name) == arguments.document.as_deref();
    if let Some(document) = DOCUMENTS.iter().find(named) {
        output.document(&document.text())?;
    }
    Ok(Verdict::Done)
}

fn write_all(directory: &Path) -> std::io::Result<()> {
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
