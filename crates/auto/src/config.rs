//! The configuration, /etc/hugetext/auto.toml. Every unknown line is an error.

mod values;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugetext_host::read_trusted;
use hugetext_leaf::hold::HalfLife;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use values::{Budget, Listen, Metrics, Pattern, Replicas, Share, Span, ValueError};

/// Where the configuration is.
pub const PATH: &str = "/etc/hugetext/auto.toml";

/// Whether text is made huge and held, or only looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Says what it would do.
    #[default]
    Observe,
    /// Does it.
    Act,
}

/// What to do with what a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It may be held.
    Allow,
    /// It may be held, and processes of containers whose pod asks for it may be promoted.
    PromoteIfAsked,
    /// It may be held, and processes that run it may be promoted.
    Promote,
    /// It is never held.
    Deny,
}

/// A rule about some files. The first one that matches counts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Paths of programs and libraries, as the machine names them; all if it is missing.
    pub path: Option<Pattern>,
    /// Control groups whose starts count, as `/system.slice/*`; all if it is missing.
    pub cgroup: Option<Pattern>,
    /// Whether they may be held.
    pub verdict: Verdict,
    /// Hold at most so much of all that this rule matches.
    pub budget: Option<Budget>,
}

/// The settings. What a file leaves out is as in [`Config::default`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// Whether to act.
    pub mode: Mode,
    /// Hold at most so much in all.
    pub budget: Budget,
    /// What was seen so long ago counts half.
    pub half_life: Span,
    /// The share of processor time in text that huge leaves save; if it is missing, what the machine's system
    /// calls leave of it.
    pub share: Option<Share>,
    /// Where numbers about the daemon go.
    pub metrics: Metrics,
    /// When copies of a file are worth it.
    pub replicas: Replicas,
    /// Which files and whose starts; what no rule matches may be held.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::Observe,
            budget: Budget::Share(0.1),
            half_life: Span(Duration::from_secs(12 * 3600)),
            share: None,
            metrics: Metrics::default(),
            replicas: Replicas::default(),
            rules: Vec::new(),
        }
    }
}

/// The most bytes that are read.
const LONGEST: u64 = 16 << 20;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A line is unknown.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it, and what it could be.
        problem: String,
    },
}

impl Config {
    /// Reads the configuration at `path`; the default if there is none.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        match read_trusted(path, LONGEST) {
            Ok(text) => Config::parse(&text, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
            Err(error) => Err(ConfigError::Read {
                path: path.to_owned(),
                error,
            }),
        }
    }

    /// The configuration in `text`, which came from `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let config: Config = toml::from_str(text).map_err(|error| {
            let before = error
                .span()
                .and_then(|span| text.as_bytes().get(..span.start));
            let newlines = before
                .unwrap_or_default()
                .iter()
                .filter(|byte| **byte == b'\n');
            ConfigError::Line {
                path: path.to_owned(),
                line: newlines.count().saturating_add(1),
                problem: error.message().replace('\n', "; "),
            }
        })?;
        Ok(config)
    }

    /// The half-life.
    pub fn half_life(&self) -> HalfLife {
        HalfLife::new(self.half_life.0)
    }

    /// The share of processor time in text that leaves save, 0 to 1, if it is set.
    pub fn set_share(&self) -> Option<f64> {
        self.share.map(|share| share.0)
    }

    /// The first rule for a file that a control group started, by number; `None` if no rule matches.
    pub fn rule(&self, path: &Path, cgroup: &str) -> Option<(usize, &Rule)> {
        self.rules.iter().enumerate().find(|(_, rule)| {
            let path_matches = rule
                .path
                .as_ref()
                .is_none_or(|pattern| pattern.matches(path));
            let cgroup = Path::new(cgroup);
            let cgroup_matches = rule
                .cgroup
                .as_ref()
                .is_none_or(|pattern| pattern.matches(cgroup));
            path_matches && cgroup_matches
        })
    }

    /// The number of the rule, counted from 1, that keeps a file from being held because of the starts of a control
    /// group; `None` if it may be.
    pub fn denies(&self, path: &Path, cgroup: &str) -> Option<usize> {
        let (number, rule) = self.rule(path, cgroup)?;
        (rule.verdict == Verdict::Deny).then(|| number.saturating_add(1))
    }

    /// Whether a process of a control group may be promoted because it runs a file. `is_asked` says whether its pod
    /// asks for that.
    pub fn promotes(&self, path: &Path, cgroup: &str, is_asked: impl FnOnce() -> bool) -> bool {
        match self.rule(path, cgroup).map(|(_, rule)| rule.verdict) {
            Some(Verdict::Promote) => true,
            Some(Verdict::PromoteIfAsked) => is_asked(),
            Some(Verdict::Allow | Verdict::Deny) | None => false,
        }
    }

    /// Whether any process may be promoted.
    pub fn promotes_any(&self) -> bool {
        let promotes =
            |rule: &Rule| matches!(rule.verdict, Verdict::Promote | Verdict::PromoteIfAsked);
        self.mode == Mode::Act && self.rules.iter().any(promotes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("auto.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn all_settings_are_read() {
        let text = "mode = \"act\"\nbudget = \"512M\"\nhalf-life = \"90m\"\nshare = 0.03\n\
            [[rule]]\npath = \"/home/**\"\nverdict = \"deny\"\n\
            [[rule]]\ncgroup = \"/system.slice/*\"\nverdict = \"allow\"\nbudget = \"25%\"\n";
        let config = parse(text).unwrap();
        assert_eq!(config.mode, Mode::Act);
        assert_eq!(config.budget.bytes(1 << 40), 512 << 20);
        assert_eq!(config.half_life().duration(), Duration::from_secs(5400));
        assert_eq!(config.set_share(), Some(0.03));
        assert_eq!(Config::default().set_share(), None);
        let denies = |path, group| config.denies(Path::new(path), group);
        let service = "/system.slice/cron.service";
        assert_eq!(denies("/home/mallory/bin/x", service), Some(1));
        let rule = config.rule(Path::new("/usr/bin/cc"), "/system.slice/cron.service");
        assert_eq!(rule.unwrap().1.budget.unwrap().bytes(1000), 250);
        assert!(
            config
                .rule(Path::new("/usr/bin/cc"), "/user.slice")
                .is_none()
        );
        assert_eq!(denies("/usr/bin/cc", "/user.slice"), None);
    }

    #[test]
    fn a_configuration_that_others_could_have_written_is_refused_at_once() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("auto.toml");
        std::fs::write(&path, "mode = \"act\"\n").unwrap();
        assert_eq!(Config::read(&path).unwrap().mode, Mode::Act);
        for mode in [0o646, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Config::read(&path).unwrap_err().to_string();
            assert!(error.contains("others may write to it"), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        if chown(&path, Some(4242), None).is_ok() {
            assert!(Config::read(&path).is_err());
        }
        // Nobody ever writes to it.
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let error = Config::read(&fifo).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn metrics_leave_the_machine_only_if_somebody_says_so() {
        let text = "[metrics]\nlisten = \"0.0.0.0:9897\"\nallow-remote = true\n";
        let remote = parse(text).unwrap().metrics.listen.unwrap();
        assert!(remote.0.is_remote());
        let text = "[metrics]\nlisten = \"unix:/run/x\"\ntextfile = \"/x/hugetext.prom\"\n";
        let metrics = parse(text).unwrap().metrics;
        assert_eq!(metrics.textfile.unwrap(), Path::new("/x/hugetext.prom"));
        assert_eq!(Config::default().metrics, Metrics::default());
    }

    #[test]
    fn only_a_rule_lets_processes_be_promoted_and_the_first_one_counts() {
        let text = "[[rule]]\npath = \"/opt/a\"\nverdict = \"allow\"\n\
            [[rule]]\ncgroup = \"/system.slice/*\"\nverdict = \"promote\"\n";
        let observing = parse(text).unwrap();
        let acting = parse(&format!("mode = \"act\"\n{text}")).unwrap();
        let service = "/system.slice/db.service";
        let unasked = || panic!("nobody has a say in it");
        assert!(acting.promotes(Path::new("/opt/b"), service, unasked));
        assert_eq!(acting.denies(Path::new("/opt/b"), service), None);
        assert!(!acting.promotes(Path::new("/opt/a"), service, unasked));
        assert!(!acting.promotes(Path::new("/opt/b"), "/user.slice", unasked));
        assert!(acting.promotes_any() && !observing.promotes_any());
        assert!(!Config::default().promotes(Path::new("/opt/b"), service, unasked));
    }

    #[test]
    fn where_a_rule_says_so_a_process_is_promoted_if_its_pod_asks() {
        let text = "mode = \"act\"\n[[rule]]\npath = \"/opt/a\"\nverdict = \"deny\"\n\
            [[rule]]\nverdict = \"promote-if-asked\"\n";
        let config = parse(text).unwrap();
        let (file, denied) = (Path::new("/opt/b"), Path::new("/opt/a"));
        assert!(config.promotes(file, "/x", || true));
        assert!(!config.promotes(file, "/x", || false));
        assert!(!config.promotes(denied, "/x", || true));
        assert!(config.denies(file, "/x").is_none() && config.promotes_any());
    }

    #[test]
    fn nothing_is_the_default_and_only_observes() {
        assert_eq!(parse("").unwrap(), Config::default());
        assert_eq!(Config::default().mode, Mode::Observe);
        let none = Config::read(Path::new("/no/such/auto.toml")).unwrap();
        assert_eq!(none, Config::default());
    }

    #[test]
    fn the_shipped_file_says_what_holds_without_it() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/auto.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Config::parse(&text, &path).unwrap(), Config::default());
        // The examples are settings, too.
        let examples = text.replace("# [", "[").replace("\n# path", "\npath");
        let examples = examples.replace("\n# listen", "\nlisten");
        let examples = examples.replace("\n# textfile", "\ntextfile");
        let examples = examples.replace("\n# starts", "\nstarts");
        let examples = examples.replace("\n# most", "\nmost");
        let examples = examples.replace("\n# cgroup", "\ncgroup");
        let examples = examples.replace("\n# verdict", "\nverdict");
        let examples = examples.replace("\n# budget", "\nbudget");
        let examples = Config::parse(&examples, &path).unwrap();
        assert_eq!(examples.rules.len(), 3);
        assert_eq!(examples.replicas, Replicas::default());
        assert!(examples.metrics.listen.is_some() && examples.metrics.textfile.is_some());
    }

    #[test]
    fn every_line_that_means_nothing_is_an_error_with_its_place() {
        for (text, says) in [
            (
                "[metrics]\nlisten = \"0.0.0.0:9897\"\n",
                "auto.toml:1: other machines reach metrics at 0.0.0.0:9897; write allow-remote = true",
            ),
            (
                "[metrics]\nlisten = \"localhost:1\"\n",
                "auto.toml:2: \"localhost:1\" is no address; write",
            ),
            (
                "[metrics]\ntextfile = \"x.prom\"\n",
                "auto.toml:1: x.prom is no textfile; write",
            ),
            (
                "[metrics]\nserve = true\n",
                "auto.toml:2: unknown field `serve`",
            ),
            (
                "mode = \"act\"\nbugdet = \"1G\"\n",
                "auto.toml:2: unknown field `bugdet`, expected one of",
            ),
            (
                "\n\nbudget = \"a lot\"\n",
                "auto.toml:3: \"a lot\" is no size",
            ),
            ("budget = \"120%\"\n", "auto.toml:1: \"120%\" is no share"),
            (
                "[replicas]\nstarts-per-copy = 0\n",
                "auto.toml:2: invalid value: integer `0`, expected a nonzero u64",
            ),
            (
                "[replicas]\nleast = 1\n",
                "auto.toml:2: unknown field `least`",
            ),
            ("half-life = \"12\"\n", "auto.toml:1: \"12\" is no duration"),
            ("half-life = \"0s\"\n", "auto.toml:1: \"0s\" is no duration"),
            ("share = 2.0\n", "auto.toml:1: 2 is no share"),
            (
                "mode = \"on\"\n",
                "auto.toml:1: unknown variant `on`, expected `observe` or `act`",
            ),
            (
                "[[rule]]\npath = \"[\"\nverdict = \"deny\"",
                "auto.toml:2: \"[\" is no pattern",
            ),
            (
                "[[rule]]\npath = \"usr\"\nverdict = \"deny\"",
                "auto.toml:2: \"usr\" is no pattern",
            ),
            (
                "[[rule]]\npath = \"/usr\"\n",
                "auto.toml:1: missing field `verdict`",
            ),
            ("mode = \n", "auto.toml:1: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
    }
}
