//! The structs and functions of `runtime/host/nf_rt.h` and `nf_tables.h`, as Rust sees them.

use std::ffi::c_void;

/// `struct nf_packet`
#[repr(C)]
pub struct Packet {
    pub data: *mut u8,
    pub end: *mut u8,
    pub head: *mut u8,
    pub tail: *mut u8,
    pub staged: *mut u8,
    pub cursor: u32,
    pub staged_len: u32,
    pub in_port: u32,
    pub spare: u32,
    pub owner: *mut c_void,
    pub owner_data: *mut u8,
    pub owner_end: *mut u8,
}

/// One thing a handler did, when it was built to count (`struct nf_trace_item`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceItem {
    /// 1: straight line number `id` of the artifact ran. 2 and 3: table `id` was read or written
    /// under a key whose hash is `amount`; where that is 0, under the table's last key. 4: `amount`
    /// bytes of a frame or byte string were summed or copied.
    pub kind: u16,
    pub id: u16,
    pub amount: u32,
}

/// `struct nf_trace`
#[repr(C)]
pub struct Trace {
    pub items: *mut TraceItem,
    pub count: u32,
    pub room: u32,
    pub lost: u32,
}

/// `struct nf_table`, never looked into from here.
#[repr(C)]
pub struct Table {
    _private: [u8; 0],
}

/// `struct nf_hooks`
#[repr(C)]
pub struct Hooks {
    pub send: unsafe extern "C" fn(*mut Env, *mut Packet, u32),
    pub stack: unsafe extern "C" fn(*mut Env, *mut Packet),
    pub host: unsafe extern "C" fn(*mut Env, *mut Packet),
    pub drop: unsafe extern "C" fn(*mut Env, *mut Packet, u32),
    pub send_bytes: unsafe extern "C" fn(*mut Env, u32, *const c_void, u32),
    pub host_bytes: unsafe extern "C" fn(*mut Env, *const c_void, u32),
    pub host_msg: unsafe extern "C" fn(*mut Env, *const c_void, u32),
    pub dma_write: unsafe extern "C" fn(*mut Env, u64, *const c_void, u32),
    pub log: unsafe extern "C" fn(*mut Env, u32, *const u64, u32),
    pub generate: unsafe extern "C" fn(*mut Env, u32, *const c_void, u32, *mut Packet),
    pub touch: unsafe extern "C" fn(*mut Env, u32, *const c_void, u32),
}

/// `struct nf_env`
#[repr(C)]
pub struct Env {
    pub now: u64,
    pub seed: u64,
    pub draws: u64,
    pub worker: u32,
    pub spare: u32,
    pub tables: *mut *mut Table,
    pub hooks: *const Hooks,
    pub trace: *mut Trace,
    pub user: *mut c_void,
}

/// `nf_dispatch`
pub type Dispatch = unsafe extern "C" fn(*mut Env, u32, *const c_void);

/// The functions of `nf_tables.c`.
#[derive(Clone, Copy)]
pub struct TableFunctions {
    pub new: unsafe extern "C" fn(u32, u32, u32, u32, u32) -> *mut Table,
    pub free: unsafe extern "C" fn(*mut Table),
    pub get: unsafe extern "C" fn(*mut Table, *const u8, *const u8, u32) -> *mut u8,
    pub put: unsafe extern "C" fn(*mut Table, *const u8, *const u8, u32) -> *mut u8,
    pub remove: unsafe extern "C" fn(*mut Table, *const u8, *const u8, u32) -> bool,
    pub next: unsafe extern "C" fn(*mut Table, *mut u32) -> *mut c_void,
    pub key: unsafe extern "C" fn(*mut c_void) -> *const u8,
    pub detail: unsafe extern "C" fn(*const c_void) -> u32,
    pub value: unsafe extern "C" fn(*const Table, *mut c_void) -> *mut u8,
    pub refused: unsafe extern "C" fn(*const Table) -> u64,
    pub evicted: unsafe extern "C" fn(*const Table) -> u64,
}
