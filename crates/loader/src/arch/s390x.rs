//! s390x. The loader lies in `lib`, the libraries in `lib64`
//! (sysdeps/unix/sysv/linux/s390/s390-64/configure). AT_PLATFORM names the processor.

use super::facts::Facts;

pub(super) const FACTS: Facts = Facts {
    interpreter: "/lib/ld64.so.1",
    platform: None,
    lib: Some("lib64"),
};
