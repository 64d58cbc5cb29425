//! `hugetext-report`: the pages of lab/results from the templates of lab/reports, which have all prose, and from the
//! records of lab/records, which have all figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use hugetext_report::{PageError, names, page};

/// Write the pages of lab/results from their templates and records
#[derive(Debug, Parser)]
struct Args {
    /// Write nothing; exit with 1 if a page is not what its template and its record give
    #[arg(long)]
    check: bool,
    /// The directory of the laboratory
    #[arg(long, value_name = "DIR", default_value = "lab")]
    lab: PathBuf,
    /// Pages by their names, such as folios [default: all that have a template]
    names: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("hugetext-report: {error}");
            ExitCode::from(2)
        }
    }
}

/// False if a page differs.
fn run(args: &Args) -> Result<bool, PageError> {
    let names = match args.names.as_slice() {
        [] => names(&args.lab)?,
        names => names.to_vec(),
    };
    let mut same = true;
    for name in names {
        let text = page(&args.lab, &name)?;
        let path = args.lab.join("results").join(format!("{name}.md"));
        if args.check {
            if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
                let path = path.display();
                println!("{path}: differs: run 'lab/run hugetext-report {name}'");
                same = false;
            }
        } else {
            write(&path, &text)?;
        }
    }
    Ok(same)
}

/// Writes a page whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), PageError> {
    let new = path.with_extension("md.new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| PageError::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_what_its_template_and_its_record_give() {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let names = names(&lab).unwrap();
        assert!(names.len() > 2, "{names:?}");
        for name in names {
            let text = page(&lab, &name).unwrap();
            let kept = fs::read_to_string(lab.join(format!("results/{name}.md"))).unwrap();
            assert!(text == kept, "run 'lab/run hugetext-report {name}'");
        }
    }
}
