//! On whose behalf a process runs.

use super::id::Pid;
use super::status::ProcessStatus;
use crate::machine::{cgroups, memory_group};

/// The control group that limits the memory of a process; `None` if the process has ended.
pub fn group_of_process(pid: Pid) -> Option<String> {
    Some(memory_group(cgroups(pid).ok()?)?.pathname)
}

/// The user of a process in a control group; `None` if the process has ended.
pub fn user_of_process(pid: Pid, group: Option<&str>) -> Option<u32> {
    // The owner of /proc/PID itself is root for programs that must not be read.
    let real = || ProcessStatus::of(pid).ok()?.first("Uid");
    group.and_then(user_of_slice).or_else(real)
}

/// The user whose slice of systemd a control group lies in (user-1000.slice), whatever the ids inside:
/// a user may have thousands of ids (subuid(5)), and is one.
fn user_of_slice(group: &str) -> Option<u32> {
    let slice = group.strip_prefix("/user.slice/user-")?;
    let (user, _) = slice.split_once(".slice")?;
    user.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_that_of_the_slice_or_of_the_process() {
        let group = "/user.slice/user-1000.slice/session-2.scope";
        assert_eq!(user_of_slice(group), Some(1000));
        assert_eq!(user_of_slice("/docker/5f"), None);
        let own = rustix::process::getuid().as_raw();
        assert_eq!(user_of_process(Pid::own(), None), Some(own));
    }
}
