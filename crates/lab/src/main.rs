//! The lab: boots stock kernels in QEMU and measures what each does with program text.

mod archive;
mod args;
mod boot;
mod cache;
mod cpio;
mod error;
mod fetch;
mod guest;
mod image;
mod kernel;
mod qemu;
mod tool;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Mode};
use crate::boot::Lab;
use crate::cache::Cache;
use crate::error::Result;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hugetext-lab: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let cache = Cache::at(&args.cache)?;
    match &args.mode {
        Mode::Fetch { kernels, again } => {
            let fetched = fetch::fetch(&cache, kernels, *again)?;
            for id in &fetched.missing {
                eprintln!("skipped: {id} is not in the archive");
            }
            for id in cache.kernels() {
                println!("{id}");
            }
        }
        Mode::Boot(boot) => {
            let lab = Lab::new(cache)?;
            let kernel = boot.kernel()?;
            if boot.shell {
                return lab.shell(&kernel, &boot.options());
            }
            let said = lab.boot_to_end(&kernel, &boot.options(), boot.cells())?;
            println!("{}", said.to_json());
        }
    }
    Ok(())
}
