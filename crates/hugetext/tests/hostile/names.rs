//! Names of any bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::ground::{Ground, assert_ran};

const NAMES: &[&[u8]] = &[
    b"x\xff",
    b"\xc3",
    b"a\nb",
    b"a\tb",
    b"\x1b[31mred",
    b"\xc2\x9b31m",
    b"\x7f",
    b" leading",
    b"trailing ",
    b"-v",
    b"--",
    b"a'b\"c",
    b"$(id)",
    b"*",
    b"%s%n",
    b"a,b",
    b"{}",
    b" (deleted)",
    "é\u{202e}".as_bytes(),
];

#[test]
fn a_name_is_only_a_name() {
    let Some(ground) = Ground::new() else { return };
    let mut outputs = 0;
    for name in NAMES {
        let program = ground.copy(OsStr::from_bytes(name));
        assert_ran(&ground.run("store", &program).output().unwrap());
        for words in [
            &["check", "--"][..],
            &["check", "--json", "--"],
            &["warm", "--check", "--"],
            &["fix", "--dry-run", "--"],
        ] {
            let output = ground.hugetext(words).arg(&program).output().unwrap();
            let status = output.status.code();
            assert!(
                matches!(status, Some(0 | 1)),
                "{words:?} {name:?}: {output:?}"
            );
            for text in [&output.stdout, &output.stderr] {
                let text = String::from_utf8_lossy(text);
                let is_harmless = text.chars().all(|l| l == '\n' || !l.is_control());
                assert!(is_harmless, "{words:?} {name:?}: {text:?}");
            }
            outputs += 1;
        }
    }
    for words in [
        &["store", "--store", "store", "ls"][..],
        &["--json", "store", "--store", "store", "ls"],
    ] {
        let output = ground.hugetext(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.chars().all(|l| l == '\n' || !l.is_control()),
            "{text:?}"
        );
        outputs += 1;
    }
    println!(
        "hostile: {} names in {outputs} outputs reach no terminal raw",
        NAMES.len()
    );
}
