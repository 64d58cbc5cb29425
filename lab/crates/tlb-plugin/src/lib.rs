//! QEMU TCG plugin for user-mode emulation: writes the pages that a program executes, in order, to
//! a pipe, in the frames of `wire.rs`.
//!
//! Most work is done once per translation block. A block lies in one page, or its last instruction
//! extends into the next, so its instruction count and its one or two pages are known when it is
//! translated. They are passed as the callback's argument. A block that faults half-way is counted
//! whole.
//!
//! Arguments: `fd=N`, the pipe.

mod arch;
mod qemu;
mod trace;
#[path = "../../tlb/src/wire.rs"]
#[allow(dead_code, reason = "the models read what is only written here")]
mod wire;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use trace::{Block, Recorder};

/// The version of the plugin interface: version 1, QEMU 6.0 to 8.2. QEMU 9 and later refuse it,
/// although every function used here is the same there. Therefore the number is set to the one that
/// the program that loads the plugin asks for (see [`negotiate`]).
#[unsafe(no_mangle)]
pub static mut qemu_plugin_version: c_int = 1;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Runs when the plugin is mapped, before QEMU reads [`qemu_plugin_version`].
#[unsafe(link_section = ".init_array")]
#[used]
static NEGOTIATE: extern "C" fn() = negotiate;

extern "C" fn negotiate() {
    let wanted = std::env::var("HUGETEXT_PLUGIN_API").ok();
    if let Some(version) = wanted.and_then(|text| text.parse().ok()) {
        // SAFETY: the dynamic loader runs initialisers before dlopen returns, so no other code can
        // read or write the variable yet.
        unsafe { qemu_plugin_version = version };
    }
}

/// Called by QEMU once, when it has loaded the plugin.
///
/// # Safety
/// QEMU passes `argc` valid strings in `argv` and a valid `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu::PluginId,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as this function's own contract says.
    let (arguments, target) = unsafe { (qemu::strings(argc, argv), qemu::target(info)) };
    let fd = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("fd=")?.parse().ok());
    let Some(recorder) = fd.and_then(|fd| Recorder::new(fd, &target)) else {
        eprintln!("hugetext: the plugin needs fd=N, an open pipe");
        return 1;
    };
    if RECORDER.set(recorder).is_err() {
        return 1;
    }
    // SAFETY: the callbacks have the signatures QEMU calls them with, and live as long as the
    // plugin is mapped.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, syscall_returned);
        qemu::qemu_plugin_register_vcpu_exit_cb(id, thread_ended);
        qemu::qemu_plugin_register_atexit_cb(id, program_ended, std::ptr::null_mut());
    }
    0
}

extern "C" fn translated(_: qemu::PluginId, block: *mut qemu::TranslationBlock) {
    let Some(recorder) = RECORDER.get() else {
        return;
    };
    // SAFETY: QEMU passes a block that is valid during this call.
    let Some(shape) = (unsafe { qemu::shape(block) }) else {
        return;
    };
    let word = recorder.block(&shape).word();
    // SAFETY: as above; `executed` has the signature for QEMU_PLUGIN_CB_NO_REGS (0), and its
    // argument is a number, not an address.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, word as *mut c_void);
    }
}

extern "C" fn executed(vcpu: c_uint, word: *mut c_void) {
    if let Some(recorder) = RECORDER.get() {
        // SAFETY: QEMU calls this on the thread that emulates `vcpu`, and no other thread has it.
        unsafe { recorder.executed(vcpu as usize, Block::from_word(word as u64)) };
    }
}

extern "C" fn syscall_returned(_: qemu::PluginId, _: c_uint, number: i64, _: i64) {
    if let Some(recorder) = RECORDER.get() {
        recorder.syscall_returned(number);
    }
}

extern "C" fn thread_ended(_: qemu::PluginId, vcpu: c_uint) {
    if let Some(recorder) = RECORDER.get() {
        // SAFETY: QEMU calls this on the thread that emulated `vcpu`, after its last block.
        unsafe { recorder.thread_ended(vcpu as usize) };
    }
}

extern "C" fn program_ended(_: qemu::PluginId, _: *mut c_void) {
    if let Some(recorder) = RECORDER.get() {
        // SAFETY: QEMU stops every other thread, and takes the block callbacks away, before it
        // calls this (qemu_plugin_user_exit, plugins/core.c).
        unsafe { recorder.program_ended() };
    }
}
