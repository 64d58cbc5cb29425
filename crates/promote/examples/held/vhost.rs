//! vhost: a thread of the kernel in the process, which would serve a virtual machine (Linux 6.4 and later).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use crate::{Held, Prepare, done, result};

pub(crate) const KINDS: &[(&str, Prepare)] = &[("vhost-worker", || {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/vhost-net")?;
    // SAFETY: the request has no argument.
    done(unsafe { libc::ioctl(device.as_raw_fd(), VHOST_SET_OWNER as _, 0) }.into())?;
    let (reader, mut writer) = io::pipe()?;
    let call = move || {
        let _device = device;
        let mut wait = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live structure.
        result(unsafe { libc::poll(&raw mut wait, 1, -1) }.into())
    };
    Ok(Held::new(1, call, move || writer.write_all(b"x").unwrap()))
})];

/// include/uapi/linux/vhost.h: _IO(VHOST_VIRTIO, 0x01).
const VHOST_SET_OWNER: u32 = 0xaf01;
