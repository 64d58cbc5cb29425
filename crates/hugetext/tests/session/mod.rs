//! A session on a machine about which a verdict was found. What is tested of `run` is the same on all machines.

use std::fs;
use std::path::{Path, PathBuf};

/// The verdict about machines on which leaves do no harm.
pub(crate) const HARMLESS: &str = "starts-only";

/// The directory of a session in which such a verdict was found.
pub(crate) fn session(verdict: &str, directory: &Path) -> PathBuf {
    let session = directory.join(format!("session-{verdict}"));
    let file = session.join("hugetext/host.json");
    if !file.exists() {
        let read = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let found = serde_json::json!({
            "format": 1,
            "boot": {
                "boot": read("/proc/sys/kernel/random/boot_id"),
                "machine": read("/etc/machine-id"),
            },
            "at": std::time::SystemTime::now(),
            "found": {
                "verdict": verdict,
                "platform": hugetext_host::platform(),
                "changes": [],
            },
        });
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, found.to_string()).unwrap();
    }
    session
}
