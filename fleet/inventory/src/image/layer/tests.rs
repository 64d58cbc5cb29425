use hugetext_leaf::{Filesystem, Version};
use proptest::prelude::*;

use super::*;

fn ground() -> Ground {
    Ground {
        kernel: Version::new(6, 18).into(),
        filesystem: Filesystem::Ext4,
        geometry: None,
        dl_honours_align: true,
    }
}

fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn read(bytes: &[u8]) -> Result<Layer, LayerError> {
    let digest = Digest::parse(&format!("{:x}", Sha256::digest(bytes))).unwrap();
    Layer::read(bytes, &digest, &ground())
}

/// A small program.
fn elf() -> Vec<u8> {
    std::fs::read("/bin/true").unwrap()
}

fn paths(layers: &[Vec<u8>]) -> Vec<String> {
    let mut tree = Tree::default();
    for layer in layers {
        tree.apply(&read(layer).unwrap());
    }
    let programs = tree.programs().into_keys();
    programs.map(|path| path.display().to_string()).collect()
}

#[test]
fn upper_layers_hide_remove_and_add() {
    let elf = elf();
    let lower = tar_of(&[
        ("usr/bin/a", &elf),
        ("usr/bin/b", &elf),
        ("usr/lib/deep/c", &elf),
        ("usr/lib/text", b"no program"),
        ("opt/d", &elf),
    ]);
    assert_eq!(
        paths(std::slice::from_ref(&lower)),
        ["/opt/d", "/usr/bin/a", "/usr/bin/b", "/usr/lib/deep/c"]
    );
    let upper = tar_of(&[
        ("usr/bin/.wh.a", b""),
        ("usr/bin/b", b"a script"),
        // Added before the mark that removes what was below.
        ("usr/lib/deep/new", &elf),
        ("usr/lib/deep/.wh..wh..opq", b""),
        (".wh.opt", b""),
        ("opt/e", &elf),
    ]);
    assert_eq!(paths(&[lower, upper]), ["/opt/e", "/usr/lib/deep/new"]);
}

#[test]
fn a_hard_link_is_the_program_that_it_leads_to() {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Link);
    header.set_size(0);
    builder.append_link(&mut header, "bin/z", "bin/a").unwrap();
    let upper = builder.into_inner().unwrap();
    let lower = tar_of(&[("bin/a", &elf())]);
    assert_eq!(paths(&[lower, upper]), ["/bin/a", "/bin/z"]);
}

#[test]
fn every_compression_is_read() {
    let plain = tar_of(&[("bin/a", &elf())]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::Write::write_all(&mut gzip, &plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(plain.as_slice(), 1).unwrap();
    for layer in [plain.clone(), gzip.clone(), zstd] {
        assert_eq!(paths(&[layer]), ["/bin/a"]);
    }
    // A docker archive names the digest of the content.
    let content = Digest::parse(&format!("{:x}", Sha256::digest(&plain))).unwrap();
    assert!(Layer::read(gzip.as_slice(), &content, &ground()).is_ok());
}

#[test]
fn a_damaged_layer_is_an_error() {
    let whole = tar_of(&[("bin/a", &elf())]);
    let digest = Digest::parse(&format!("{:x}", Sha256::digest(&whole))).unwrap();
    let mut other = whole.clone();
    other[700] ^= 1;
    for bytes in [
        &other[..],
        &whole[..whole.len() / 2],
        b"",
        b"\x1f\x8b broken",
        b"(\xb5/\xfd",
    ] {
        assert!(Layer::read(bytes, &digest, &ground()).is_err());
    }
    let out = tar_of(&[("x", b"")]);
    // The builder refuses such names, so the header is changed.
    let mut out = out;
    out[..8].copy_from_slice(b"../../x\0");
    let sum: u32 = out[..148]
        .iter()
        .chain(&out[156..512])
        .map(|byte| u32::from(*byte))
        .sum::<u32>()
        + 8 * 32;
    out[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let error = read(&out).unwrap_err().to_string();
    assert!(error.contains("leads out"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_layer_or_an_error(
        at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()
    ) {
        let mut bytes = tar_of(&[("a", b"x"), ("b/.wh.c", b""), ("d", b"\x7fELF and nothing")]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(cut.index(bytes.len()));
        let _ = read(&bytes);
    }
}
