//! Uprobes on promoted text.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use hugetext_promote::{Copies, Probe, probes};

use crate::copies::copies;
use crate::{Busy, leaf, program, promote_all, revert_all};

/// A uprobe event, removed when dropped.
struct Event(&'static str);

impl Event {
    const FILE: &str = "/sys/kernel/tracing/uprobe_events";

    fn write(line: &str) -> std::io::Result<()> {
        let mut events = OpenOptions::new().append(true).open(Event::FILE)?;
        events.write_all(line.as_bytes())
    }

    fn set(name: &'static str, file: &Path, offset: u64) -> std::io::Result<Event> {
        Event::write(&format!("p:hugetext/{name} {}:{offset:#x}", file.display()))?;
        let event = Event(name);
        event.enable(true)?;
        Ok(event)
    }

    fn enable(&self, on: bool) -> std::io::Result<()> {
        let path = format!("/sys/kernel/tracing/events/hugetext/{}/enable", self.0);
        std::fs::write(path, if on { "1" } else { "0" })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.enable(false);
        let _ = Event::write(&format!("-:hugetext/{}", self.0));
    }
}

/// A uprobe on the program file does not fire in a promoted process, which is said; it fires after
/// mapping back. One on the copy fires, and is a reason not to map back.
#[test]
fn probes_on_promoted_text_are_named() {
    let Some(leaf) = leaf() else { return };
    // A file of its own: a uprobe is set in every process that maps the file.
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("busy");
    std::fs::copy(program(), &own).unwrap();
    let mut busy = Busy::run(Command::new(&own).arg("2"));
    let target = busy.target().unwrap();
    if promote_all(&target, leaf, &mut Copies::default()).is_none() {
        return;
    }
    let mappings = target.mappings().unwrap();
    let (vma, name) = mappings.copies().next().unwrap();
    let address = vma.addresses.start;
    let event = match Event::set("on_program", &own, name.offset + (vma.offset - name.at)) {
        Ok(event) => event,
        Err(error) => return eprintln!("skipped: no uprobe can be set: {error}"),
    };
    let probe = |name: &str, address, on_copy| Probe {
        event: format!("hugetext/{name}"),
        address,
        on_copy,
    };
    assert_eq!(probes(&mappings), [probe("on_program", address, false)]);
    let outcome = revert_all(&target);
    assert_eq!((outcome.left.len(), outcome.probed), (0, vec![address]));
    let mut byte = [0];
    target.read(address, &mut byte).unwrap();
    drop(event);

    // Where the kernel left the page of the probe to the process, its window stays as it is, and the first
    // copy is that of the next window.
    promote_all(&target, leaf, &mut Copies::default()).unwrap();
    let mappings = target.mappings().unwrap();
    let (vma, _) = mappings.copies().next().unwrap();
    let address = vma.addresses.start;
    let event = Event::set("on_copy", &copies(&target).remove(0), vma.offset).unwrap();
    assert_eq!(probes(&mappings), [probe("on_copy", address, true)]);
    let outcome = revert_all(&target);
    assert!(outcome.left[0].reason.contains("probe"), "{outcome:?}");
    drop(event);
    // The page that the probe was written to stays the process's own, and holds the old text.
    let outcome = revert_all(&target);
    assert!(
        outcome.left.is_empty() && !outcome.done.is_empty(),
        "{outcome:?}"
    );
    busy.assert_well();
    busy.finish();
}
