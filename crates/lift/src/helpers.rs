//! Helpers by number: what they read, and constants that they share.

/// Room in front of a packet, less what the kernel keeps there.
pub const HEADROOM: i64 = 256 - 40;
pub const EINVAL: u64 = -22i64 as u64;
pub const XDP_REDIRECT: u64 = 4;
pub const TC_ACT_REDIRECT: u64 = 7;
/// Offsets that helpers take at most.
pub const MOST_OFFSET: u64 = 0xffff;

/// Numbers of helper functions in the kernel's interface.
pub mod number {
    pub const MAP_LOOKUP: i32 = 1;
    pub const MAP_UPDATE: i32 = 2;
    pub const MAP_DELETE: i32 = 3;
    pub const PROBE_READ: i32 = 4;
    pub const KTIME_GET_NS: i32 = 5;
    pub const TRACE_PRINTK: i32 = 6;
    pub const PRANDOM: i32 = 7;
    pub const PROCESSOR: i32 = 8;
    pub const CLONE_REDIRECT: i32 = 13;
    pub const SKB_STORE_BYTES: i32 = 9;
    pub const L3_CSUM_REPLACE: i32 = 10;
    pub const L4_CSUM_REPLACE: i32 = 11;
    pub const TAIL_CALL: i32 = 12;
    pub const REDIRECT: i32 = 23;
    pub const PERF_EVENT_OUTPUT: i32 = 25;
    pub const SKB_LOAD_BYTES: i32 = 26;
    pub const CSUM_DIFF: i32 = 28;
    pub const SKB_CHANGE_TAIL: i32 = 38;
    pub const SKB_PULL_DATA: i32 = 39;
    pub const CSUM_UPDATE: i32 = 40;
    pub const ADJUST_HEAD: i32 = 44;
    pub const REDIRECT_MAP: i32 = 51;
    pub const SKB_ADJUST_ROOM: i32 = 50;
    pub const ADJUST_META: i32 = 54;
    pub const ADJUST_TAIL: i32 = 65;
    pub const SKB_LOAD_BYTES_RELATIVE: i32 = 68;
    pub const FIB_LOOKUP: i32 = 69;
    pub const PUSH_ELEM: i32 = 87;
    pub const POP_ELEM: i32 = 88;
    pub const PEEK_ELEM: i32 = 89;
    pub const SPIN_LOCK: i32 = 93;
    pub const SPIN_UNLOCK: i32 = 94;
    pub const PROBE_READ_KERNEL: i32 = 113;
    pub const KTIME_GET_BOOT_NS: i32 = 125;
    pub const RINGBUF_OUTPUT: i32 = 130;
    pub const RINGBUF_RESERVE: i32 = 131;
    pub const RINGBUF_SUBMIT: i32 = 132;
    pub const RINGBUF_DISCARD: i32 = 133;
    pub const KTIME_GET_COARSE_NS: i32 = 160;
    pub const FOR_EACH_MAP_ELEM: i32 = 164;
    pub const TRACE_VPRINTK: i32 = 177;
    pub const LOOP: i32 = nicforge_isa::ebpf::LOOP;
    pub const GET_BUFF_LEN: i32 = 188;
    pub const LOAD_BYTES: i32 = 189;
    pub const STORE_BYTES: i32 = 190;
    pub const DYNPTR_FROM_MEM: i32 = 197;
    pub const RINGBUF_RESERVE_DYNPTR: i32 = 198;
    pub const RINGBUF_SUBMIT_DYNPTR: i32 = 199;
    pub const RINGBUF_DISCARD_DYNPTR: i32 = 200;
    pub const DYNPTR_READ: i32 = 201;
    pub const DYNPTR_WRITE: i32 = 202;
    pub const DYNPTR_DATA: i32 = 203;
    /// Of no kernel: entries of a map.
    pub const ENTRIES: i32 = -1000;
}

/// Registers that a helper reads, a bit each; all five of those that are not known.
pub fn reads(helper: i32) -> u16 {
    use number as n;
    let arguments = match helper {
        n::KTIME_GET_NS | n::PRANDOM | n::PROCESSOR | n::KTIME_GET_BOOT_NS => 0,
        n::KTIME_GET_COARSE_NS => 0,
        n::SPIN_LOCK | n::SPIN_UNLOCK | n::GET_BUFF_LEN | n::ENTRIES => 1,
        n::RINGBUF_SUBMIT | n::RINGBUF_DISCARD => 2,
        n::MAP_LOOKUP | n::MAP_DELETE | n::REDIRECT => 2,
        n::POP_ELEM | n::PEEK_ELEM => 2,
        n::PUSH_ELEM => 3,
        n::ADJUST_HEAD | n::ADJUST_META | n::ADJUST_TAIL => 2,
        n::SKB_PULL_DATA | n::CSUM_UPDATE => 2,
        n::CLONE_REDIRECT | n::SKB_CHANGE_TAIL => 3,
        n::SKB_ADJUST_ROOM => 4,
        n::RINGBUF_RESERVE
        | n::REDIRECT_MAP
        | n::PROBE_READ
        | n::PROBE_READ_KERNEL
        | n::TAIL_CALL => 3,
        n::MAP_UPDATE | n::FIB_LOOKUP | n::RINGBUF_OUTPUT | n::LOAD_BYTES | n::STORE_BYTES => 4,
        n::SKB_LOAD_BYTES | n::TRACE_VPRINTK => 4,
        n::RINGBUF_SUBMIT_DYNPTR | n::RINGBUF_DISCARD_DYNPTR => 2,
        n::DYNPTR_FROM_MEM | n::RINGBUF_RESERVE_DYNPTR => 4,
        n::DYNPTR_DATA => 3,
        _ => 5,
    };
    ((1u16 << (arguments + 1)) - 1) & !1
}
