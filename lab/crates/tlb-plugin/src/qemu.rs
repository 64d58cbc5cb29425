//! The part of QEMU's plugin interface that is used here (include/qemu/qemu-plugin.h, the same in
//! versions 1 to 4 of the interface), and the data read through its pointers.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

pub type PluginId = u64;

/// `qemu_info_t`: only its first member is read.
#[repr(C)]
pub struct Info {
    target_name: *const c_char,
}

#[repr(C)]
pub struct TranslationBlock {
    opaque: [u8; 0],
}

#[repr(C)]
pub struct Instruction {
    opaque: [u8; 0],
}

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, *mut TranslationBlock),
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut TranslationBlock,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        argument: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, c_uint, i64, i64),
    );
    pub fn qemu_plugin_register_vcpu_exit_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, c_uint),
    );
    pub fn qemu_plugin_register_atexit_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, *mut c_void),
        argument: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const TranslationBlock) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const TranslationBlock, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    fn qemu_plugin_insn_haddr(instruction: *const Instruction) -> *mut c_void;
}

/// The facts about a translation block that are used here.
pub struct Shape {
    /// Instructions in it, at least 1.
    pub instructions: usize,
    /// Guest address of its first byte.
    pub start: u64,
    /// Guest address of its last byte.
    pub last: u64,
    /// The difference between an address in this process and the guest address.
    pub guest_base: u64,
    /// The bytes of its last instruction.
    pub ending: Vec<u8>,
}

/// The shape of a block, if it has any instruction.
///
/// # Safety
/// `block` is valid: the argument of a translation callback, during that call, in user mode.
pub unsafe fn shape(block: *const TranslationBlock) -> Option<Shape> {
    // SAFETY: the block is valid, and so are its instructions below their count.
    unsafe {
        let instructions = qemu_plugin_tb_n_insns(block);
        let first = qemu_plugin_tb_get_insn(block, 0);
        let last = qemu_plugin_tb_get_insn(block, instructions.checked_sub(1)?);
        let start = qemu_plugin_insn_vaddr(first);
        let size = qemu_plugin_insn_size(last).max(1);
        Some(Shape {
            instructions,
            start,
            last: qemu_plugin_insn_vaddr(last).wrapping_add(size as u64 - 1),
            guest_base: (qemu_plugin_insn_haddr(first) as u64).wrapping_sub(start),
            // In user mode the guest's memory is this process's own, in one piece, and the
            // instruction was read from there a moment ago.
            ending: std::slice::from_raw_parts(qemu_plugin_insn_haddr(last).cast(), size).to_vec(),
        })
    }
}

/// The strings of an argument vector, without those that are not UTF-8.
///
/// # Safety
/// `argv` points to `argc` valid C strings.
pub unsafe fn strings(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    (0..usize::try_from(argc).unwrap_or(0))
        // SAFETY: the index is below argc.
        .filter_map(|index| unsafe { CStr::from_ptr(*argv.add(index)) }.to_str().ok())
        .map(str::to_owned)
        .collect()
}

/// The emulated architecture, as QEMU names it (`x86_64`, `aarch64`).
///
/// # Safety
/// `info` is what QEMU passes at installation.
pub unsafe fn target(info: *const Info) -> String {
    // SAFETY: target_name is a valid C string while the plugin is being installed.
    let name = unsafe { CStr::from_ptr((*info).target_name) };
    name.to_string_lossy().into_owned()
}
