//! ELF program images.
