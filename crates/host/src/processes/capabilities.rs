//! Capabilities that are given up when what they are for is done (capabilities(7)).

use std::io;

use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

/// Gives up CAP_SYS_ADMIN for good: this thread and those that it creates from now on cannot get it
/// back. Other threads keep it, so this is called before there are any.
pub fn give_up_administration() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    if !sets.permitted.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(());
    }
    // A program that root executes would have it again. Without CAP_SETPCAP, no_new_privs has to
    // prevent that.
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN)?;
    }
    for set in [
        &mut sets.effective,
        &mut sets.permitted,
        &mut sets.inheritable,
    ] {
        set.remove(CapabilitySet::SYS_ADMIN);
    }
    Ok(set_capabilities(None, sets)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_does_not_come_back() {
        let after = std::thread::spawn(|| {
            give_up_administration().unwrap();
            let _ = set_capabilities(None, capabilities(None).unwrap());
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let status = after.join().unwrap();
        for kind in ["CapEff:", "CapPrm:", "CapInh:"] {
            let line = status.lines().find_map(|line| line.strip_prefix(kind));
            let bits = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
            assert_eq!(bits & CapabilitySet::SYS_ADMIN.bits(), 0, "{kind}");
        }
    }
}
