//! What `hugetext warm` is told.

use std::path::PathBuf;

use clap::Args;
use hugetext_engine::{NodeChoice, WarmPolicy};
use hugetext_leaf::replica::Node;

use crate::command::file_or_command;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Programs and shared objects: paths, commands on PATH, or libraries by name
    #[arg(required = true, value_parser = file_or_command())]
    pub(super) paths: Vec<PathBuf>,
    /// Change nothing; exit with 1 if a file is not warm
    #[arg(long, conflicts_with = "replace")]
    pub(super) check: bool,
    /// If nothing else works, write the file to a new inode and rename it into place
    #[arg(long)]
    pub(super) replace: bool,
    /// With --replace: also replace files with set-id bits or capabilities; the new file keeps them
    #[arg(long, requires = "replace", conflicts_with = "check")]
    pub(super) privileged: bool,
    /// Also warm the shared objects that each program needs
    #[arg(long)]
    pub(super) with_libs: bool,
    /// Make text huge also on a machine where leaves do harm (`hugetext host`). By default it stays as it is there,
    /// and --replace writes it in folios that no leaf maps
    #[arg(long, conflicts_with = "check")]
    pub(super) leaves: bool,
    /// Also put the text on this NUMA node: read there, or moved. spread is all nodes in turn, local the node
    /// that runs this command. Exit with 1 if some of it stays elsewhere
    #[arg(long, value_name = "N|spread|local", value_parser = node_choice)]
    pub(super) node: Option<NodeChoice>,
}

fn node_choice(word: &str) -> Result<NodeChoice, String> {
    match word {
        "spread" => Ok(NodeChoice::Spread),
        "local" => Ok(NodeChoice::Local),
        number => match number.parse() {
            Ok(number) => Ok(NodeChoice::On(Node(number))),
            Err(_) => Err("name the number of a node, spread or local".to_owned()),
        },
    }
}

impl Arguments {
    /// How far it may go.
    pub(super) fn policy(&self) -> WarmPolicy {
        match (self.check, self.replace, self.privileged) {
            (true, _, _) => WarmPolicy::LookOnly,
            (false, false, _) => WarmPolicy::InPlace,
            (false, true, false) => WarmPolicy::Replace,
            (false, true, true) => WarmPolicy::ReplacePrivileged,
        }
    }
}
