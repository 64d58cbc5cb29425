//! Finds the programs that a shell script replaces itself by with `exec`, as far as the text of
//! the script shows them.
//!
//! The values of a variable are those that the script assigns in a form that is known without
//! running it, and its value in the environment. The result is a guess, and only existing programs
//! in it are used. In the worst case, a program is prepared that does not run.

use std::collections::HashMap;
use std::path::Path;

/// How many targets of one script are followed.
const MOST: usize = 64;
/// How many values of a word are followed.
const MAX_VALUES: usize = 32;
/// A value longer than this, in bytes, is no path (PATH_MAX). Without this limit, a script of 40
/// lines in which each variable holds the previous one twice would take all memory.
const MAX_LENGTH: usize = 4096;
/// Words after which the shell reads a new command.
const KEYWORDS: [&str; 9] = [
    "then", "else", "elif", "do", "if", "while", "until", "!", "{",
];
/// Commands that launchers use to print the directory of the script.
const OWN_DIRECTORY: [&str; 4] = ["pwd", "dirname", "readlink", "realpath"];

/// The words that `exec` may execute, in the order of the script: paths, and names to look up on
/// PATH. `script` is the path of the file, with links resolved; `environment` gives the values of
/// variables.
pub(crate) fn executed(
    script: &Path,
    text: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let directory = script.parent().and_then(Path::to_str).unwrap_or_default();
    let mut scope = Scope {
        directory,
        environment,
        assigned: HashMap::new(),
    };
    let mut found = Vec::new();
    for line in text.replace("\\\n", " ").lines() {
        for command in commands(line) {
            for target in scope.run(&command) {
                if found.len() < MOST && !found.contains(&target) {
                    found.push(target);
                }
            }
        }
    }
    found
}

/// The known values of variables.
struct Scope<'s, E> {
    directory: &'s str,
    environment: E,
    assigned: HashMap<String, Vec<String>>,
}

impl<E: Fn(&str) -> Option<String>> Scope<'_, E> {
    /// Records the assignments of a command. If it is `exec`, returns what it may execute.
    fn run(&mut self, command: &[Word]) -> Vec<String> {
        let mut words = command.iter().skip_while(|word| {
            let text = word.literal();
            text.is_some_and(|text| KEYWORDS.contains(&text))
        });
        let mut first = words.next();
        while let Some(word) = first {
            match (word.assignment(), word.literal()) {
                (Some((name, value)), _) => {
                    let values = self.values(&value);
                    let known = self.assigned.entry(name).or_default();
                    known.extend(values);
                    known.truncate(MAX_VALUES);
                }
                (None, Some("export" | "readonly" | "local")) => {}
                (None, Some("exec")) => return self.handed_over(words),
                _ => return Vec::new(),
            }
            first = words.next();
        }
        Vec::new()
    }

    fn handed_over<'w>(&self, words: impl Iterator<Item = &'w Word>) -> Vec<String> {
        let mut targets = Vec::new();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            match word.literal() {
                // The name that the program receives (bash).
                Some("-a") => drop(words.next()),
                Some("env") => {}
                Some(option) if option.starts_with('-') => {}
                _ if word.assignment().is_some() => {}
                _ => {
                    let values = self.values(&word.0);
                    let may_be_nothing = values.iter().any(String::is_empty);
                    targets.extend(values.into_iter().filter(|value| !value.is_empty()));
                    if !may_be_nothing {
                        break;
                    }
                }
            }
        }
        targets
    }

    /// The possible values of a word; none if it depends on more than the script.
    fn values(&self, parts: &[Part]) -> Vec<String> {
        let mut values = vec![String::new()];
        for part in parts {
            let next = match part {
                Part::Text(text) => vec![text.clone()],
                Part::Variable(name) => self.variable(name),
                Part::Output(command) => {
                    if OWN_DIRECTORY.iter().any(|c| command.contains(c)) {
                        vec![self.directory.to_owned()]
                    } else {
                        Vec::new()
                    }
                }
                Part::Unknown => Vec::new(),
            };
            let joined = values
                .iter()
                .flat_map(|head| next.iter().map(move |tail| (head, tail)))
                .filter(|(head, tail)| head.len().saturating_add(tail.len()) < MAX_LENGTH)
                .map(|(head, tail)| format!("{head}{tail}"));
            values = joined.take(MAX_VALUES).collect();
        }
        values
    }

    /// Its values in the script so far, and its value, or absence, in the environment.
    fn variable(&self, name: &str) -> Vec<String> {
        let mut values = self.assigned.get(name).cloned().unwrap_or_default();
        values.push((self.environment)(name).unwrap_or_default());
        values
    }
}

/// A word of a script, before the shell expands it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Word(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// `$NAME` or `${NAME}`.
    Variable(String),
    /// The output of a command: `$(…)` or `` `…` ``.
    Output(String),
    /// Any other expansion of the shell.
    Unknown,
}

impl Word {
    fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// An assignment: a name and its value.
    fn assignment(&self) -> Option<(String, Vec<Part>)> {
        let (Part::Text(head), rest) = self.0.split_first()? else {
            return None;
        };
        let (name, value) = head.split_once('=')?;
        if name.is_empty() || !name.chars().all(is_of_name) {
            return None;
        }
        let mut parts = vec![Part::Text(value.to_owned())];
        parts.extend_from_slice(rest);
        Some((name.to_owned(), parts))
    }

    fn push(&mut self, character: char) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => text.push(character),
            _ => self.0.push(Part::Text(character.to_string())),
        }
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

type Characters<'l> = std::iter::Peekable<std::str::Chars<'l>>;

/// The commands of one line. An open quote ends with the line, so that text in a here-document
/// affects only its own line.
fn commands(line: &str) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut rest = line.chars().peekable();
    let end = |commands: &mut Vec<Vec<Word>>, word: &mut Option<Word>| {
        if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
            command.push(word);
        }
    };
    while let Some(character) = rest.next() {
        match character {
            '#' if word.is_none() => break,
            ' ' | '\t' => end(&mut commands, &mut word),
            ';' | '&' | '|' | '(' | ')' => {
                end(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            _ => take(character, &mut rest, word.get_or_insert_default()),
        }
    }
    end(&mut commands, &mut word);
    commands
}

/// Adds to a word the part that begins with `first`.
fn take(first: char, rest: &mut Characters<'_>, word: &mut Word) {
    match first {
        '\'' => rest
            .by_ref()
            .take_while(|character| *character != '\'')
            .for_each(|character| word.push(character)),
        '"' => {
            // An empty quoted string is a word too.
            word.0.push(Part::Text(String::new()));
            while let Some(character) = rest.next().filter(|character| *character != '"') {
                expand(character, rest, word);
            }
        }
        other => expand(other, rest, word),
    }
}

/// Adds the part that double quotes do not protect.
fn expand(first: char, rest: &mut Characters<'_>, word: &mut Word) {
    match first {
        '\\' => rest.next().into_iter().for_each(|next| word.push(next)),
        '`' => {
            let command = rest.by_ref().take_while(|character| *character != '`');
            word.0.push(Part::Output(command.collect()));
        }
        '$' => word.0.push(dollar(rest)),
        '*' | '?' | '[' => word.0.push(Part::Unknown),
        other => word.push(other),
    }
}

fn dollar(rest: &mut Characters<'_>) -> Part {
    match rest.peek() {
        Some('(') => Part::Output(in_parentheses(rest)),
        Some('{') => {
            rest.next();
            let inside: String = rest.by_ref().take_while(|c| *c != '}').collect();
            let is_name = !inside.is_empty() && inside.chars().all(is_of_name);
            if is_name && !inside.starts_with(|c: char| c.is_ascii_digit()) {
                Part::Variable(inside)
            } else {
                Part::Unknown
            }
        }
        Some(first) if is_of_name(*first) && !first.is_ascii_digit() => {
            let mut name = String::new();
            while let Some(character) = rest.next_if(|character| is_of_name(*character)) {
                name.push(character);
            }
            Part::Variable(name)
        }
        // A parameter of the script or of the shell.
        Some('0'..='9' | '@' | '*' | '#' | '?' | '$' | '!' | '-') => {
            rest.next();
            Part::Unknown
        }
        _ => Part::Text("$".to_owned()),
    }
}

fn in_parentheses(rest: &mut Characters<'_>) -> String {
    let mut depth = 0_usize;
    let mut inside = String::new();
    for character in rest.by_ref() {
        match character {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        inside.push(character);
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let environment = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        executed(Path::new("/opt/app/bin/start"), text, environment)
    }

    #[test]
    fn words_and_variables_are_told() {
        assert_eq!(found("exec /usr/bin/prog \"$@\""), ["/usr/bin/prog"]);
        assert_eq!(found("exec 'with space' x"), ["with space"]);
        assert_eq!(found("exec -a name env A=b prog"), ["prog"]);
        assert_eq!(found("[ -x x ] && exec prog || exit 1"), ["prog"]);
        assert_eq!(found("if true; then exec prog; fi"), ["prog"]);
        assert_eq!(found("exec \\\n  prog"), ["prog"]);
        assert_eq!(found("exec ~/x $HOME/bin/y"), ["~/x"]);
        assert_eq!(found("exec \"$HOME/bin/y\""), ["/home/me/bin/y"]);
        let nothing: [&str; 0] = [];
        for none in [
            "# exec prog",
            "find . -exec rm {} \\;",
            "echo exec prog",
            "exec > log 2>&1",
            "exec \"$1\"",
            "exec \"${X:-prog}\"",
            "cat <<E\nit's\nE",
        ] {
            assert!(
                found(none).iter().all(|word| word.starts_with('>')),
                "{none}: {:?}",
                found(none)
            );
        }
        assert_eq!(found(""), nothing);
    }

    #[test]
    fn launchers_of_real_programs_are_understood() {
        // The launchers of chromium, R and soffice use these forms.
        let chromium = "APPNAME=chromium\nLIBDIR=/usr/lib/$APPNAME\n\
                        if true ; then\n  exec $LIBDIR/$APPNAME $FLAGS \"$@\"\nfi";
        assert!(found(chromium).contains(&"/usr/lib/chromium/chromium".to_owned()));
        let r = "R_HOME_DIR=/usr/lib/R\nR_HOME=\"${R_HOME_DIR}\"\ndebugger=\n\
                 debugger=\"${2}\"; shift\nR_ARCH=\"/${2}\"\n\
                 R_binary=\"${R_HOME}/bin/exec${R_ARCH}/R\"\n\
                 exec ${debugger} ${debugger_args} \"${R_binary}\" ${args} \"${@}\"";
        assert!(found(r).contains(&"/usr/lib/R/bin/exec/R".to_owned()));
        let soffice = "sd_dirname=$(dirname \"$sd_res\")\ncd \"$sd_dirname\" || exit $?\n\
                       sd_prog=$(pwd)\nexec $RRCHECK $STRACECHECK \"$sd_prog/oosplash\" \"$@\"";
        assert!(found(soffice).contains(&"/opt/app/bin/oosplash".to_owned()));
    }

    #[test]
    fn any_text_ends() {
        for text in [
            "$",
            "${",
            "$(",
            "`",
            "\"",
            "'",
            "\\",
            "a=${",
            "exec $(((",
            "exec ${}",
        ] {
            found(text);
        }
        let many = "a=x\n".repeat(100) + "b=$a$a$a$a$a$a\nexec $b$b$b$b";
        assert!(found(&many).len() <= MAX_VALUES);
        let mut doubling = "v0=xxxx\n".to_owned();
        for number in 1..40 {
            doubling += &format!("v{number}=$v{0}$v{0}\n", number - 1);
        }
        let found = found(&(doubling + "exec $v39"));
        assert!(found.iter().all(|word| word.len() < MAX_LENGTH));
    }
}
