//! The older text format of Prometheus, which node_exporter's textfile collector and `promtool check
//! metrics` read.

use std::io;
use std::path::Path;

use hugetext_host::Place;

/// The same metrics in the text format 0.0.4: there the name of a counter's family ends with `_total`,
/// and there are neither units nor an end. `openmetrics` is what [`crate::openmetrics`] wrote.
pub fn prometheus_text(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let counters: std::collections::BTreeSet<&str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    for line in openmetrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let described = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|start| Some((start, line.strip_prefix(start)?.split_once(' ')?)));
        match described {
            Some((start, (name, rest))) if counters.contains(name) => {
                text.push_str(&format!("{start}{name}_total {rest}"));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Replaces the file at `path` in one step, so that node_exporter never reads half of it. The directory may be
/// another user's: a link there is replaced, and not followed.
///
/// # Errors
/// The file cannot be written or put into place. The old one then stays.
pub fn write_textfile(path: &Path, openmetrics: &str) -> io::Result<()> {
    Place::at(path)?.put(prometheus_text(openmetrics).as_bytes(), 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_of_their_series() {
        let text = "# HELP a_x Words.\n# TYPE a_x counter\na_x_total 1\n# HELP b Words.\n\
            # TYPE b gauge\n# UNIT b bytes\nb 2\n# EOF\n";
        let expected = "# HELP a_x_total Words.\n# TYPE a_x_total counter\na_x_total 1\n\
            # HELP b Words.\n# TYPE b gauge\nb 2\n";
        assert_eq!(prometheus_text(text), expected);
    }

    #[test]
    fn a_textfile_is_replaced_and_can_be_read_by_others() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hugetext.prom");
        write_textfile(&path, "a 1\n# EOF\n").unwrap();
        write_textfile(&path, "a 2\n# EOF\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a 2\n");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o444, 0o444);
        // The owner of the directory puts a link there.
        let precious = directory.path().join("precious");
        std::fs::rename(&path, &precious).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        write_textfile(&path, "a 3\n# EOF\n").unwrap();
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "a 2\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a 3\n");
        std::fs::remove_file(precious).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
