//! The policies of this crate and of the kernel series are the same: a test compiles the C headers
//! of `kernel/` and compares their answers to the same questions.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugetext_leaf::{ExecFault, ExecLimit, ExecRead, Geometry, Leaf, Perms, Segment, load_leaf};

/// Number of questions of each test.
const CASES: usize = 300_000;

/// The answers of the C program `kernel/twins/NAME.c` to `questions`.
fn ask(name: &str, questions: &[u64]) -> Vec<u64> {
    let twins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/twins");
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = scratch.join(name);
    let compiled = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wno-sign-compare",
            "-Werror",
            "-o",
        ])
        .arg(&program)
        .arg("-I")
        .arg(twins.join("include"))
        .arg(twins.join(format!("{name}.c")))
        .status()
        .unwrap();
    assert!(compiled.success(), "kernel/twins/{name}.c does not compile");

    let input = scratch.join(format!("{name}.in"));
    let bytes: Vec<u8> = questions
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    fs::write(&input, bytes).unwrap();
    let answer = Command::new(&program)
        .stdin(fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    assert!(answer.status.success(), "{name}: {}", answer.status);
    answer
        .stdout
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// A fixed sequence of numbers (SplitMix64), so that a failure repeats on the next run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// A number of random magnitude, below 2^`bits`.
    fn wide(&mut self, bits: u64) -> u64 {
        let shift = 64 - self.below(bits) - 1;
        self.next() >> shift
    }

    /// A multiple of 2^`order`, a number next to one, or any number.
    fn near(&mut self, order: u32, multiples: u64) -> u64 {
        let base = self.below(multiples) << order;
        match self.below(6) {
            0..=2 => base,
            3 => base + 1,
            4 => base.saturating_sub(1),
            _ => base + self.below(1 << order),
        }
    }
}

/// Most geometries have no block between page and PMD leaf, so half of the draws are among those that do.
fn geometry(numbers: &mut Numbers) -> Geometry {
    let all: Vec<Geometry> = Geometry::all().collect();
    let blocks: Vec<Geometry> = all
        .iter()
        .copied()
        .filter(|g| g.contpte.is_some())
        .collect();
    let among = numbers.pick(&[&all, &blocks]);
    numbers.pick(among)
}

fn fault(numbers: &mut Numbers) -> ExecFault {
    let geometry = geometry(numbers);
    let order = |leaf: Leaf| leaf.order(geometry.page);
    let pmd_order = numbers.pick(&[order(geometry.pmd), order(geometry.pmd), 0]);
    let cont_order = geometry.contpte.map_or(0, order);
    let scale = numbers.pick(&[pmd_order, cont_order]);
    let index = numbers.near(scale, 64);
    let start = index.saturating_sub(numbers.near(scale, 4));
    let end = index + 1 + numbers.near(scale, 4);
    let file_pages = numbers.pick(&[end, end, end + 1]) - numbers.pick(&[0, 0, 1]);
    ExecFault {
        index,
        start,
        end,
        file_pages: numbers.pick(&[file_pages, file_pages, file_pages, 0, index + 1]),
        skew: [0, numbers.near(scale, 1 << 20).wrapping_neg()][numbers.below(2) as usize],
        ra_pages: 1 + numbers.wide(12) * 2,
        page_ns: numbers.wide(20) * numbers.below(16).min(1),
        avail_pages: numbers.wide(24) << 4,
        free_order: 13u32.saturating_sub(numbers.wide(4) as u32),
        pmd_order,
        cont_order,
        base_order: numbers.pick(&[0, 0, 2, 4]),
        pause: numbers.below(16).saturating_sub(13) as u32,
        refault: numbers.below(4) == 0,
        random: numbers.below(8) == 0,
        congested: numbers.below(16) == 0,
    }
}

fn limit(number: u64) -> ExecLimit {
    match number {
        0 => ExecLimit::None,
        1 => ExecLimit::Leaf,
        2 => ExecLimit::Shape,
        3 => ExecLimit::Device,
        4 => ExecLimit::Memory,
        5 => ExecLimit::Cached,
        _ => panic!("limit {number}"),
    }
}

fn words(fault: &ExecFault) -> [u64; 16] {
    [
        fault.index,
        fault.start,
        fault.end,
        fault.file_pages,
        fault.skew,
        fault.ra_pages,
        fault.page_ns,
        fault.avail_pages,
        fault.free_order.into(),
        fault.pmd_order.into(),
        fault.cont_order.into(),
        fault.base_order.into(),
        fault.pause.into(),
        fault.refault.into(),
        fault.random.into(),
        fault.congested.into(),
    ]
}

#[test]
fn both_read_the_same_for_a_fault_on_text() {
    let mut numbers = Numbers(1);
    let faults: Vec<ExecFault> = (0..CASES).map(|_| fault(&mut numbers)).collect();
    let answers = ask(
        "exec_order",
        &faults.iter().flat_map(words).collect::<Vec<_>>(),
    );
    assert_eq!(answers.len(), 4 * CASES);
    let (mut leaves, mut limits) = (0, [0; 6]);
    for (fault, answer) in faults.iter().zip(answers.chunks_exact(4)) {
        let read = fault.read();
        let theirs = ExecRead {
            start: answer[0],
            size: answer[1],
            order: u32::try_from(answer[2]).unwrap(),
            limit: limit(answer[3]),
        };
        assert_eq!(read, theirs, "{fault:?}");
        assert!(
            fault.start <= read.start && read.start <= fault.index,
            "{fault:?} {read:?}"
        );
        assert!(
            fault.index < read.start + read.size && read.start + read.size <= fault.end,
            "{fault:?} {read:?}"
        );
        leaves += usize::from(read.order > fault.base_order);
        limits[answer[3] as usize] += 1;
    }
    // The test is useful only if both outcomes and all reasons are common.
    assert!((CASES / 20..CASES * 19 / 20).contains(&leaves), "{leaves}");
    assert!(limits.iter().all(|n| *n > CASES / 100), "{limits:?}");
}

#[test]
fn an_800k_library_is_never_read_by_2m() {
    let pages = 800 / 16;
    for index in 0..pages {
        let fault = ExecFault {
            index,
            start: 0,
            end: pages,
            file_pages: pages,
            skew: 0,
            ra_pages: 8,
            page_ns: 1,
            avail_pages: 1 << 20,
            free_order: 11,
            pmd_order: 0,
            cont_order: 7,
            base_order: 2,
            pause: 0,
            refault: false,
            random: false,
            congested: false,
        };
        assert_eq!(fault.read().order, 2);
        assert!(fault.read().size <= 8);
    }
}

fn segment(numbers: &mut Numbers, geometry: &Geometry) -> Segment {
    let leaf = numbers.pick(&[geometry.pmd, geometry.contpte.unwrap_or(geometry.pmd)]);
    let page = numbers.pick(&[geometry.page.shift(), geometry.page.shift(), 0]);
    let order = leaf.shift() - page;
    let vaddr = numbers.near(order, 8) << page;
    let apart = match numbers.below(4) {
        0 => numbers.near(order, 4) << page,
        _ => numbers.below(4) << leaf.shift(),
    };
    let size = numbers.near(order, 4) << page;
    let perms = Perms {
        read: true,
        write: numbers.below(5) == 0,
        exec: numbers.below(2) == 0,
    };
    Segment::new(vaddr, vaddr + apart, size, size, 0, perms).unwrap()
}

#[test]
fn both_align_the_same_images() {
    const PT_LOAD: u64 = 1;
    let mut numbers = Numbers(2);
    let mut questions = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..CASES {
        let geometry = geometry(&mut numbers);
        let pmd = Some(geometry.pmd).filter(|_| numbers.below(4) > 0);
        let leaves: Vec<Leaf> = pmd.into_iter().chain(geometry.contpte).collect();
        let count = numbers.below(5) as usize;
        let segments: Vec<Segment> = (0..count)
            .map(|_| segment(&mut numbers, &geometry))
            .collect();
        let bytes = |leaf: Option<Leaf>| leaf.map_or(0, Leaf::bytes);
        questions.extend([geometry.page.bytes(), bytes(pmd), bytes(geometry.contpte)]);
        for index in 0..4 {
            questions.extend(match segments.get(index) {
                None => [0; 5],
                Some(s) => {
                    let perms = [(s.perms.exec, 1), (s.perms.write, 2), (s.perms.read, 4)];
                    let flags = perms.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
                    [PT_LOAD, flags, s.vaddr, s.offset, s.filesz]
                }
            });
        }
        ours.push(bytes(load_leaf(&segments, geometry.page, &leaves)));
    }
    let theirs = ask("elf_text_leaf", &questions);
    assert_eq!(theirs.len(), CASES);
    for (index, (mine, their)) in ours.iter().zip(&theirs).enumerate() {
        let question = &questions[index * 23..][..23];
        assert_eq!(mine, their, "image {index}: {question:#x?}");
    }
    let aligned = ours.iter().filter(|leaf| **leaf > 0).count();
    assert!(
        (CASES / 20..CASES * 19 / 20).contains(&aligned),
        "{aligned}"
    );
}
