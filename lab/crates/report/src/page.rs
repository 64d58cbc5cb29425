//! A page, from its template and its record.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use minijinja::{Environment, UndefinedBehavior, context};
use serde::Serialize;

use crate::error::PageError;
use crate::filters;
use crate::record::{self, Record};

/// The names of the pages that have a template.
pub fn names(lab: &Path) -> Result<Vec<String>, PageError> {
    let reports = lab.join("reports");
    let failed = |error| PageError::file(&reports, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(&reports).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            names.extend(
                path.file_stem()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

/// The text of a page. A page without a record of its own reads those that its template names.
pub fn page(lab: &Path, name: &str) -> Result<String, PageError> {
    let template = lab.join("reports").join(format!("{name}.md"));
    let template =
        fs::read_to_string(&template).map_err(|error| PageError::file(&template, error))?;
    let records = lab.join("records");
    let own = records.join(format!("{name}.jsonl"));
    let own = if own.exists() {
        Record::new(record::lines(&own)?)
    } else {
        Record::default()
    };
    let failed = |error| PageError::Template {
        template: format!("lab/reports/{name}.md"),
        error,
    };
    let environment = with_records(Arc::from(records));
    let context = context! {
        record => own.lines, facts => own.facts, tables => own.tables, rows => own.rows
    };
    environment.render_str(&template, context).map_err(failed)
}

/// What `template` makes of `data`; `path` is where people edit it.
pub fn render(path: &str, template: &str, data: impl Serialize) -> Result<String, PageError> {
    let failed = |error| PageError::Template {
        template: path.to_owned(),
        error,
    };
    environment().render_str(template, data).map_err(failed)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    filters::add(&mut environment);
    environment
}

/// Templates of reports read records by their names, too.
fn with_records(records: Arc<Path>) -> Environment<'static> {
    let mut environment = environment();
    let failed = |error: PageError| {
        minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, error.to_string())
    };
    let within = Arc::clone(&records);
    environment.add_function("records", move |path: &str| {
        record::read(&records.join(path)).map_err(failed)
    });
    environment.add_function("documents", move |directory: &str| {
        record::documents(&within.join(directory)).map_err(failed)
    });
    environment
}
