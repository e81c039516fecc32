//! What a program gives out while it runs in this process: the hooks of `struct nf_env` write it
//! down.

use std::collections::VecDeque;
use std::ffi::c_void;

use nicforge_codegen::LogFormat;
use nicforge_ir::{Output, ReasonId, TableId};

use super::ffi::{Env, Hooks, Packet};

/// Outputs and internal events of one event's run.
pub struct Collector {
    pub outputs: Vec<Output>,
    pub queue: VecDeque<(u32, Vec<u8>)>,
    pub drops: Vec<u64>,
    pub logs: Vec<LogFormat>,
    /// A packet was dropped by the runtime itself.
    pub no_room: bool,
    /// Tables and keys, of programs that are built to tell.
    pub touched: Vec<(TableId, Vec<u8>)>,
}

pub static HOOKS: Hooks = Hooks {
    send,
    stack,
    host,
    drop: drop_packet,
    send_bytes,
    host_bytes,
    host_msg,
    dma_write,
    log,
    generate,
    touch,
};

/// The collector behind an environment.
///
/// # Safety
/// `user` of the environment must be a collector that nobody else uses during the call.
unsafe fn collector<'a>(env: *mut Env) -> &'a mut Collector {
    // SAFETY: as the caller promises.
    unsafe { &mut *(*env).user.cast() }
}

/// The frame a packet holds.
///
/// # Safety
/// The packet must be one that the generated code was given or has finished.
unsafe fn frame(pkt: *const Packet) -> Vec<u8> {
    // SAFETY: data and end lie in one buffer, in this order.
    unsafe { bytes((*pkt).data.cast(), (*pkt).end.offset_from((*pkt).data) as u32) }
}

/// # Safety
/// `size` bytes must lie at `at`.
unsafe fn bytes(at: *const c_void, size: u32) -> Vec<u8> {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size as usize).to_vec() }
}

unsafe extern "C" fn send(env: *mut Env, pkt: *mut Packet, port: u32) {
    // SAFETY: generated code calls with the environment it was given and its packet.
    unsafe { collector(env).outputs.push(Output::Send { port, frame: frame(pkt) }) }
}

unsafe extern "C" fn stack(env: *mut Env, pkt: *mut Packet) {
    // SAFETY: see `send`.
    unsafe { collector(env).outputs.push(Output::Stack { frame: frame(pkt) }) }
}

unsafe extern "C" fn host(env: *mut Env, pkt: *mut Packet) {
    // SAFETY: see `send`.
    unsafe { collector(env).outputs.push(Output::HostPacket { frame: frame(pkt) }) }
}

unsafe extern "C" fn drop_packet(env: *mut Env, _pkt: *mut Packet, reason: u32) {
    // SAFETY: see `send`.
    let collector = unsafe { collector(env) };
    collector.drops[reason as usize] += 1;
    if reason as usize + 1 == collector.drops.len() {
        collector.no_room = true;
    } else {
        collector.outputs.push(Output::Drop { reason: ReasonId::from_u32(reason) });
    }
}

unsafe extern "C" fn send_bytes(env: *mut Env, port: u32, at: *const c_void, size: u32) {
    // SAFETY: generated code calls with bytes of a table's entry.
    unsafe { collector(env).outputs.push(Output::Send { port, frame: bytes(at, size) }) }
}

unsafe extern "C" fn host_bytes(env: *mut Env, at: *const c_void, size: u32) {
    // SAFETY: see `send_bytes`.
    unsafe { collector(env).outputs.push(Output::HostPacket { frame: bytes(at, size) }) }
}

unsafe extern "C" fn host_msg(env: *mut Env, at: *const c_void, size: u32) {
    // SAFETY: generated code calls with bytes of a variable.
    unsafe { collector(env).outputs.push(Output::HostMessage { bytes: bytes(at, size) }) }
}

unsafe extern "C" fn dma_write(env: *mut Env, addr: u64, at: *const c_void, size: u32) {
    // SAFETY: generated code calls with bytes of the frame.
    unsafe { collector(env).outputs.push(Output::DmaWrite { addr, data: bytes(at, size) }) }
}

unsafe extern "C" fn log(env: *mut Env, log: u32, args: *const u64, count: u32) {
    // SAFETY: generated code calls with an array of at least `count` words.
    unsafe {
        let collector = collector(env);
        let args = std::slice::from_raw_parts(args, count as usize);
        let text = collector.logs[log as usize].line(args);
        collector.outputs.push(Output::Log { text });
    }
}

unsafe extern "C" fn generate(
    env: *mut Env,
    event: u32,
    params: *const c_void,
    size: u32,
    _pkt: *mut Packet,
) {
    // SAFETY: generated code calls with the event's parameters.
    unsafe { collector(env).queue.push_back((event, bytes(params, size))) }
}

unsafe extern "C" fn touch(env: *mut Env, table: u32, key: *const c_void, size: u32) {
    // SAFETY: generated code calls with the environment it was given and a key of `size` bytes.
    unsafe { collector(env).touched.push((TableId::from_u32(table), bytes(key, size))) };
}
