//! Finds the owners of a file's checksum: of its bytes, or of the whole file. To them, the same
//! program in another layout is a different file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hugetext_elf::Dependencies;

use super::kinds::Voucher;
use crate::program::Program;

/// The checksum that is compared with the bytes of `program` at every use. Where the comparison
/// fails, the program fails, in any directory.
pub(crate) fn checked_at_use(program: &Program) -> Option<Voucher> {
    let names = names(program);
    let is_openssl = names.iter().any(|name| name == "fips.so");
    beside(&program.path, &names)
        .map(Voucher::Beside)
        .or_else(|| is_openssl.then(|| Voucher::Openssl(fipsmodule_cnf(&program.path))))
        .or_else(|| {
            let itself = program.image.checks_itself(&program.file);
            itself.unwrap_or(false).then_some(Voucher::Itself)
        })
}

/// The names by which a file may be checked: the path's, the link target's, and DT_SONAME.
fn names(program: &Program) -> Vec<OsString> {
    let real = fs::canonicalize(&program.path).ok();
    let paths = [Some(program.path.as_path()), real.as_deref()];
    let mut names: Vec<OsString> = paths
        .into_iter()
        .flatten()
        .filter_map(|path| path.file_name().map(ToOwned::to_owned))
        .collect();
    let dependencies = Dependencies::read(&program.file, &program.image);
    let soname = dependencies.ok().and_then(|found| found.soname);
    names.extend(soname.map(OsString::from_vec));
    names.dedup();
    names
}

/// The first file in a directory of `path` that holds a checksum of one of `names`, by its file
/// name.
fn beside(path: &Path, names: &[OsString]) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok();
    let directories = [path.parent(), real.as_deref().and_then(Path::parent)];
    let directories = directories.into_iter().flatten();
    let candidates = directories.flat_map(|directory| {
        let names = names.iter().flat_map(|name| sidecars(name));
        names.map(|name| directory.join(name))
    });
    let mut candidates: Vec<PathBuf> = candidates.collect();
    candidates.dedup();
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// Names of possible checksum files, relative to the directory of a file.
fn sidecars(name: &OsStr) -> Vec<PathBuf> {
    let with = |before: &str, suffix: &str| {
        PathBuf::from(OsString::from_vec(
            [before.as_bytes(), name.as_bytes(), suffix.as_bytes()].concat(),
        ))
    };
    let mut found = vec![
        with(".", ".hmac"),          // libraries: fipscheck, GnuTLS, libkcapi
        with("", ".hmac"),           // programs
        with("fipscheck/", ".hmac"), // RHEL 7
        with("hmaccalc/", ".hmac"),  // RHEL 7 to 9
        with("", ".sig"),            // Widevine
    ];
    // NSS: libsoftokn3.so has libsoftokn3.chk.
    if let Some(stem) = name.as_bytes().strip_suffix(b".so") {
        found.push(PathBuf::from(OsString::from_vec([stem, b".chk"].concat())));
    }
    found
}

/// OpenSSL's configuration of its FIPS module: at the paths of Debian, Fedora and OpenSSL itself,
/// or in the tree that the module is installed in.
fn fipsmodule_cnf(module: &Path) -> Option<PathBuf> {
    const NAME: &str = "fipsmodule.cnf";
    let usual = ["/etc/ssl", "/etc/pki/tls", "/usr/local/ssl", "/usr/lib/ssl"];
    let usual = usual.map(PathBuf::from).into_iter();
    let ancestors = module.ancestors().skip(1).take(4);
    let own = ancestors.flat_map(|above| [above.to_owned(), above.join("ssl")]);
    own.chain(usual)
        .map(|directory| directory.join(NAME))
        .find(|path| path.is_file())
}
