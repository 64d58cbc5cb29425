//! The addresses at which the kernel and the dynamic loaders place programs and libraries of each
//! kind.

use std::fs;
use std::io;
use std::path::Path;

use hugetext_lab_agent::{PROGRAMS, Placed};

use super::memory::Geometry;
use super::methods;
use super::process::Running;

/// Starts of each program. By chance alone, an address is aligned to 2 MiB once in 512 times.
const RUNS: u32 = 5;
/// The largest alignment looked for, as an exponent: 1 GiB.
const LARGEST: u32 = 30;
/// p_align of programs linked without an option for it: the linker's maximum page size.
const DEFAULT_ALIGN: u64 = if cfg!(target_arch = "aarch64") {
    64 << 10
} else {
    4 << 10
};
/// p_align of the programs with `-2m` in their name.
const LARGE_ALIGN: u64 = 2 << 20;

pub(super) fn probe(directory: &Path, geometry: &Geometry) -> io::Result<Vec<Placed>> {
    let mut placed = Vec::new();
    for (end, p_align) in [("", DEFAULT_ALIGN), ("-2m", LARGE_ALIGN)] {
        for kind in ["exec", "pie", "static-pie"] {
            let program = format!("{kind}{end}");
            placed.push(Placed {
                kind: kind.to_owned(),
                loader: None,
                p_align,
                ..place(directory, &program, &program, geometry)?
            });
        }
        for loader in ["glibc", "musl"] {
            let program = format!("so{end}-{loader}");
            placed.push(Placed {
                kind: "so".to_owned(),
                loader: Some(loader.to_owned()),
                p_align,
                ..place(directory, &program, &format!("libtext{end}.so"), geometry)?
            });
        }
    }
    Ok(placed)
}

/// Runs `program` and reads where `file`, the program or its library, is mapped.
fn place(directory: &Path, program: &str, file: &str, geometry: &Geometry) -> io::Result<Placed> {
    let warmed = directory.join(file);
    if !warmed.exists() {
        fs::copy(Path::new(PROGRAMS).join(file), &warmed)?;
        methods::warm(&warmed, geometry)?;
    }
    let program = match directory.join(program) {
        own if own == warmed => own,
        _ => Path::new(PROGRAMS).join(program),
    };
    let mut placed = Placed {
        kind: String::new(),
        loader: None,
        p_align: 0,
        bias_align: 1 << LARGEST,
        runs: RUNS,
        possible: geometry.pmd.align_down(fs::metadata(&warmed)?.len()),
        found: Default::default(),
    };
    for _ in 0..RUNS {
        let running = Running::start(&program, directory)?;
        for mapping in running.text(&warmed)? {
            let delta = mapping.span.start.wrapping_sub(mapping.offset);
            let align = 1 << delta.trailing_zeros().min(LARGEST);
            placed.bias_align = placed.bias_align.min(align);
        }
        running.touch_text(&warmed, geometry.page)?;
        placed.found = running.huge_pages(&warmed, geometry)?;
    }
    Ok(placed)
}
