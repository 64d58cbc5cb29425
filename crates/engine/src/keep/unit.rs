//! Finds the programs that a systemd unit starts, in its files (systemd.unit(5),
//! systemd.service(5)).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hugetext_host::read_regular;

/// The directories in which systemd looks for units; the first match counts.
const DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The programs of a unit's ExecStart lines; `None` if the unit does not exist.
pub(super) fn programs(unit: &str) -> Option<Vec<String>> {
    programs_in(&DIRECTORIES.map(Path::new), unit)
}

/// The files and drop-in directories that tell which programs a unit starts.
pub(super) fn files(unit: &str) -> impl Iterator<Item = PathBuf> {
    let mut names = vec![unit.to_owned()];
    names.extend(Instance::of(unit).as_ref().map(Instance::template));
    let drop_ins: Vec<String> = names.iter().map(|name| format!("{name}.d")).collect();
    names.extend(drop_ins);
    DIRECTORIES.into_iter().flat_map(move |directory| {
        let names = names.clone().into_iter();
        names.map(move |name| Path::new(directory).join(name))
    })
}

fn programs_in(directories: &[&Path], unit: &str) -> Option<Vec<String>> {
    let instance = Instance::of(unit);
    let mut names = vec![unit.to_owned()];
    names.extend(instance.as_ref().map(Instance::template));
    let main = names.iter().find_map(|name| {
        let mut paths = directories.iter().map(|directory| directory.join(name));
        paths.find_map(|path| read_regular(&path).ok())
    })?;
    let mut programs = Vec::new();
    read_exec_start(&main, &mut programs);
    for text in drop_ins(directories, &names) {
        read_exec_start(&text, &mut programs);
    }
    if let Some(instance) = instance {
        programs
            .iter_mut()
            .for_each(|program| *program = instance.expand(program));
    }
    Some(programs)
}

/// The drop-ins in the order of systemd: by name, whatever their directory. Of two drop-ins with
/// the same name, the first found hides the other.
fn drop_ins(directories: &[&Path], names: &[String]) -> Vec<String> {
    let mut found = BTreeMap::new();
    for directory in directories {
        for name in names {
            let entries = fs::read_dir(directory.join(format!("{name}.d")));
            for entry in entries.into_iter().flatten().flatten() {
                let name = entry.file_name();
                if Path::new(&name).extension().is_some_and(|e| e == "conf") {
                    found.entry(name).or_insert(entry.path());
                }
            }
        }
    }
    let texts = found.into_values().map(|path| read_regular(&path));
    texts.filter_map(Result::ok).collect()
}

/// Adds the programs of ExecStart lines, without the special characters before the path. An empty
/// line removes the programs before it.
fn read_exec_start(text: &str, programs: &mut Vec<String>) {
    let text = text.replace("\\\n", " ");
    let settings = text.lines().filter_map(|line| line.split_once('='));
    for (_, value) in settings.filter(|(name, _)| name.trim() == "ExecStart") {
        let Some(word) = value.split_whitespace().next() else {
            programs.clear();
            continue;
        };
        let path = word.trim_start_matches(['@', '-', ':', '+', '!', '|']);
        if path.starts_with('/') {
            programs.push(path.to_owned());
        }
    }
}

/// The parts of PREFIX@INSTANCE.SUFFIX.
struct Instance<'u> {
    prefix: &'u str,
    instance: &'u str,
    suffix: &'u str,
}

impl<'u> Instance<'u> {
    fn of(unit: &'u str) -> Option<Instance<'u>> {
        let (prefix, rest) = unit.split_once('@')?;
        let (instance, suffix) = rest.rsplit_once('.')?;
        (!instance.is_empty()).then_some(Instance {
            prefix,
            instance,
            suffix,
        })
    }

    fn template(&self) -> String {
        format!("{}@.{}", self.prefix, self.suffix)
    }

    /// A word with the specifiers of an instance replaced; other specifiers stay.
    fn expand(&self, word: &str) -> String {
        let mut pieces = word.split('%');
        let mut expanded = pieces.next().unwrap_or_default().to_owned();
        while let Some(piece) = pieces.next() {
            let (value, rest) = match piece.split_at_checked(1) {
                Some(("i", rest)) => (self.instance.to_owned(), rest),
                Some(("I", rest)) => (unescape(self.instance), rest),
                Some(("p", rest)) => (self.prefix.to_owned(), rest),
                // "%%" is a percent sign, and the text after it is not a specifier.
                _ if piece.is_empty() => ("%".to_owned(), pieces.next().unwrap_or_default()),
                _ => ("%".to_owned(), piece),
            };
            expanded.push_str(&value);
            expanded.push_str(rest);
        }
        expanded
    }
}

/// The inverse of systemd-escape(1): "-" stands for "/", and `\x2d` for the byte 2d.
fn unescape(name: &str) -> String {
    let name = name.replace('-', "/");
    let mut pieces = name.split("\\x");
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let byte = piece.get(..2).map(|hex| u8::from_str_radix(hex, 16));
        match byte {
            Some(Ok(byte)) => {
                bytes.push(byte);
                bytes.extend(piece.bytes().skip(2));
            }
            _ => bytes.extend(format!("\\x{piece}").bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_a_unit_are_what_its_drop_ins_leave() {
        let root = tempfile::tempdir().unwrap();
        let (etc, lib) = (root.path().join("etc"), root.path().join("lib"));
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let programs = |unit: &str| programs_in(&[&etc, &lib], unit);
        assert_eq!(programs("a.service"), None);
        let unit = "[Service]\n#ExecStart=/no\nExecStart=-/bin/one -f $OPTS\n \
                    ExecStart = \\\n  @!/bin/two b\nExecStartPre=/no\n";
        write(&lib.join("a.service"), unit);
        let one_and_two = ["/bin/one", "/bin/two"].map(str::to_owned).to_vec();
        assert_eq!(programs("a.service"), Some(one_and_two));

        write(&etc.join("a.service.d/20.conf"), "ExecStart=/bin/four\n");
        let reset = "ExecStart=\nExecStart=/bin/three\n";
        write(&lib.join("a.service.d/10.conf"), reset);
        write(&lib.join("a.service.d/20.conf"), "ExecStart=/hidden\n");
        let three_and_four = ["/bin/three", "/bin/four"].map(str::to_owned).to_vec();
        assert_eq!(programs("a.service"), Some(three_and_four));
    }

    #[test]
    fn an_instance_is_made_from_its_template() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path();
        fs::write(lib.join("db@.service"), "ExecStart=/opt/%p/%I/%i/100%%i\n").unwrap();
        fs::create_dir(lib.join("db@.service.d")).unwrap();
        fs::write(lib.join("db@.service.d/a.conf"), "ExecStart=/bin/a\n").unwrap();
        fs::create_dir(lib.join("db@15-main.service.d")).unwrap();
        fs::write(
            lib.join("db@15-main.service.d/b.conf"),
            "ExecStart=/bin/b\n",
        )
        .unwrap();
        assert_eq!(
            programs_in(&[lib], "db@15-main.service").unwrap(),
            ["/opt/db/15/main/15-main/100%i", "/bin/a", "/bin/b"]
        );
        assert_eq!(programs_in(&[lib], "other@15-main.service"), None);
        assert_eq!(unescape(r"dev-my\x2ddisk\xc3\xa4\xz"), r"dev/my-diskä\xz");
    }
}
