//! Writes a line to the system log for every process that was changed.

use std::os::unix::net::UnixDatagram;

use super::outcome::PromotedProcess;

const SOCKET: &str = "/dev/log";
/// LOG_AUTHPRIV | LOG_INFO (syslog.h).
const PRIORITY: u32 = 10 << 3 | 6;

/// Logs the changes of processes. Returns the log they were written to; `None` if nothing was
/// changed or no log service listens.
pub fn log_promotions(processes: &[PromotedProcess], revert: bool) -> Option<&'static str> {
    let verb = if revert { "revert" } else { "promote" };
    let changed = processes.iter().filter(|process| process.changed() > 0);
    let lines: Vec<String> = changed
        .map(|process| {
            let pause = process.longest_pause();
            let pause = pause.map_or(0, |pause| pause.total.as_micros());
            format!(
                "<{PRIORITY}>hugetext[{}]: {verb} pid={} name={:?} bytes={} copied={} pause_us={pause}",
                std::process::id(),
                process.pid,
                process.name,
                process.changed(),
                process.copied,
            )
        })
        .collect();
    let socket = UnixDatagram::unbound().ok()?;
    let sent = lines
        .iter()
        .all(|line| socket.send_to(line.as_bytes(), SOCKET).is_ok());
    (sent && !lines.is_empty()).then_some(SOCKET)
}
