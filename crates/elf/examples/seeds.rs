//! Writes seed files for fuzzing: `seeds DIRECTORY`. Without seeds, fuzzing does not get past the
//! checks of the reader.

#[path = "../tests/generate/mod.rs"]
mod generate;

use std::path::PathBuf;
use std::{env, fs, io};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// Number of files generated. Files that are too long are skipped.
const COUNT: usize = 150;
/// -max_len of the fuzzer.
const MAX_LEN: usize = 50_000;
/// Bytes of the largest segment: a few leaves of the smallest size that is tried.
const MOST: u64 = 16_000;

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1).map(PathBuf::from);
    let directory = directory.ok_or_else(|| io::Error::other("name a directory"))?;
    fs::create_dir_all(&directory)?;
    let programs = generate::program(MOST);
    let mut runner = TestRunner::deterministic();
    for index in 0..COUNT {
        let program = programs.new_tree(&mut runner);
        let program = program.map_err(|error| io::Error::other(error.to_string()))?;
        let file = program.current().bytes();
        if file.len() >= MAX_LEN {
            continue;
        }
        // The last byte chooses leaf, page and extension.
        for choice in [0xc0u8, 0xc4, 0x00, 0x06] {
            let seed = [&file[..], &[choice]].concat();
            fs::write(directory.join(format!("seed-{index}-{choice:02x}")), seed)?;
        }
    }
    Ok(())
}
