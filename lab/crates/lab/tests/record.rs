//! The documents in the repository match the record of the lab, and so do the rules.

use std::path::Path;
use std::process::Command;

#[test]
fn the_rules_and_docs_support_md_follow_from_the_record() {
    let output = Command::new(env!("CARGO_BIN_EXE_hugetext-lab"))
        .args(["docs", "--check"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
