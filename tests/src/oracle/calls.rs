//! What the shim calls: `struct nf_oracle_calls`, in its order.

use std::ffi::{CStr, c_char, c_void};

use super::machine::{Block, Oracle, Said, current};
use super::packet::Packet;
use super::tables::Table;

/// `struct nf_value`: a variable and one that stands for its type.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value {
    pub bytes: *mut c_void,
    pub size: u32,
    pub marker: *const c_void,
}

/// `struct nf_logged`.
#[repr(C)]
pub struct Logged {
    bits: u64,
    is_signed: bool,
}

type Pkt = *mut c_void;
type Name = *const c_void;
type Bytes = *mut u8;

#[repr(C)]
pub struct Calls {
    extract: extern "C" fn(Pkt, Value) -> bool,
    emit: extern "C" fn(Pkt, Value),
    strip: extern "C" fn(Pkt, u32) -> bool,
    trim: extern "C" fn(Pkt, u32) -> bool,
    reset: extern "C" fn(Pkt),
    len: extern "C" fn(Pkt) -> u32,
    load: extern "C" fn(Pkt, u32, Value) -> bool,
    store: extern "C" fn(Pkt, u32, Value) -> bool,
    port: extern "C" fn(Pkt) -> u32,
    send: extern "C" fn(Pkt, u32),
    pass: extern "C" fn(Pkt),
    to_host: extern "C" fn(Pkt),
    drop: extern "C" fn(Pkt, *const c_char, *const c_char, u32),
    host_msg: extern "C" fn(Value),
    dma_write: extern "C" fn(Pkt, u64, u32),
    clone: extern "C" fn(Pkt) -> Pkt,
    fresh: extern "C" fn(Value, u32) -> Pkt,
    later: extern "C" fn(*const Block),
    lookup: extern "C" fn(Name, Bytes, Bytes) -> bool,
    lookup_bits: extern "C" fn(Name, Bytes, u32, Bytes) -> bool,
    contains: extern "C" fn(Name, Bytes) -> bool,
    update: extern "C" fn(Name, Bytes, Bytes) -> bool,
    remove: extern "C" fn(Name, Bytes) -> bool,
    least: extern "C" fn(Name, Bytes, Bytes, u32, u32, bool) -> bool,
    entry: extern "C" fn(Name, Bytes, Bytes) -> bool,
    append_pkt: extern "C" fn(Name, Bytes, Pkt, u32) -> bool,
    append: extern "C" fn(Name, Bytes, Value) -> bool,
    buf_len: extern "C" fn(Name, Bytes) -> u32,
    buf_read: extern "C" fn(Name, Bytes, u32, Value) -> bool,
    buf_clear: extern "C" fn(Name, Bytes),
    buf_leave: extern "C" fn(Name, Bytes, i64) -> bool,
    hash: extern "C" fn(u32, Value) -> u32,
    csum_add: extern "C" fn(u32, Value) -> u32,
    csum_payload: extern "C" fn(Pkt, u32, u32) -> u32,
    crypto: extern "C" fn(*const c_char, Pkt, u32, *const Value, u32) -> bool,
    now: extern "C" fn() -> u64,
    random: extern "C" fn() -> u32,
    log: extern "C" fn(*const c_char, *const Logged, u32),
}

pub static CALLS: Calls = Calls {
    extract,
    emit,
    strip,
    trim,
    reset,
    len,
    load,
    store,
    port,
    send,
    pass,
    to_host,
    drop,
    host_msg,
    dma_write,
    clone,
    fresh,
    later,
    lookup,
    lookup_bits,
    contains,
    update,
    remove,
    least,
    entry,
    append_pkt,
    append,
    buf_len,
    buf_read,
    buf_clear,
    buf_leave,
    hash,
    csum_add,
    csum_payload,
    crypto,
    now,
    random,
    log,
};

// ---- packets -------------------------------------------------------------------------------------------------

fn packet(pkt: Pkt) -> &'static mut Packet {
    current().packets[pkt as usize - 1].as_mut().expect("a packet is used until it is given away")
}

fn give(pkt: Pkt, said: impl FnOnce(Vec<u8>) -> Said) {
    let oracle = current();
    let packet = oracle.packets[pkt as usize - 1].take().expect("a packet is given away once");
    oracle.said.push(said(packet.leave()));
}

extern "C" fn extract(pkt: Pkt, value: Value) -> bool {
    let packet = packet(pkt);
    let bytes = packet.part(0, value.size).map(|bytes| bytes.to_vec());
    packet.read += bytes.as_ref().map_or(0, Vec::len);
    current().write(&value, bytes.as_deref())
}

extern "C" fn emit(pkt: Pkt, value: Value) {
    let bytes = current().read(&value);
    packet(pkt).emitted.extend(bytes);
}

extern "C" fn strip(pkt: Pkt, len: u32) -> bool {
    let packet = packet(pkt);
    let there = packet.part(0, len).is_some();
    packet.read += if there { len as usize } else { 0 };
    there
}

extern "C" fn trim(pkt: Pkt, len: u32) -> bool {
    let packet = packet(pkt);
    let there = packet.part(0, len).is_some();
    if there {
        packet.bytes.truncate(packet.read + len as usize);
    }
    there
}

extern "C" fn reset(pkt: Pkt) {
    let packet = packet(pkt);
    packet.read = 0;
    packet.emitted.clear();
}

extern "C" fn len(pkt: Pkt) -> u32 {
    packet(pkt).rest().len() as u32
}

extern "C" fn load(pkt: Pkt, off: u32, value: Value) -> bool {
    let bytes = packet(pkt).part(off, value.size).map(|bytes| bytes.to_vec());
    current().write(&value, bytes.as_deref())
}

extern "C" fn store(pkt: Pkt, off: u32, value: Value) -> bool {
    let bytes = current().read(&value);
    packet(pkt).part(off, value.size).map(|place| place.copy_from_slice(&bytes)).is_some()
}

extern "C" fn port(pkt: Pkt) -> u32 {
    packet(pkt).port
}

extern "C" fn send(pkt: Pkt, port: u32) {
    give(pkt, |frame| Said::Send { port, frame });
}

extern "C" fn pass(pkt: Pkt) {
    give(pkt, |frame| Said::Stack { frame });
}

extern "C" fn to_host(pkt: Pkt) {
    give(pkt, |frame| Said::HostPacket { frame });
}

extern "C" fn drop(pkt: Pkt, reason: *const c_char, file: *const c_char, line: u32) {
    // SAFETY: string literals.
    let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
    let reason = text(reason);
    let reason =
        if reason.is_empty() { format!("dropped at {}:{line}", text(file)) } else { reason };
    give(pkt, |_| Said::Drop { reason });
}

extern "C" fn host_msg(value: Value) {
    let bytes = current().read(&value);
    current().said.push(Said::HostMessage { bytes });
}

extern "C" fn dma_write(pkt: Pkt, addr: u64, len: u32) {
    let data = packet(pkt).first(len);
    current().said.push(Said::DmaWrite { addr, data });
}

extern "C" fn fresh(value: Value, len: u32) -> Pkt {
    let mut bytes = current().read(&value);
    bytes.truncate(len as usize);
    keep(Packet { bytes, read: 0, emitted: Vec::new(), port: 0 })
}

extern "C" fn clone(pkt: Pkt) -> Pkt {
    keep(packet(pkt).clone())
}

/// A packet that is given away later.
fn keep(copy: Packet) -> Pkt {
    let packets = &mut current().packets;
    packets.push(Some(copy));
    packets.len() as Pkt
}

extern "C" fn later(block: *const Block) {
    // SAFETY: the shim hands a block.
    unsafe { current().keep(block) };
}

// ---- tables --------------------------------------------------------------------------------------------------

/// A table and the bytes of a key.
fn table(name: Name, key: Bytes) -> (&'static mut Table, Vec<u8>) {
    let oracle: &'static mut Oracle = current();
    let table = &mut oracle.tables[oracle.by_name[&(name as usize)]];
    let key = clean(key, &table.key_mask);
    (table, key)
}

fn clean(bytes: Bytes, mask: &[u8]) -> Vec<u8> {
    // SAFETY: a variable of the type that the mask is of.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, mask.len()) };
    bytes.iter().zip(mask).map(|(byte, mask)| byte & mask).collect()
}

/// Sets a value's variable.
fn put(value: Bytes, bytes: &[u8]) {
    // SAFETY: a variable of the table's value type.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value, bytes.len()) };
}

extern "C" fn lookup(name: Name, key: Bytes, value: Bytes) -> bool {
    lookup_bits(name, key, u32::MAX, value)
}

extern "C" fn lookup_bits(name: Name, key: Bytes, bits: u32, value: Bytes) -> bool {
    let (table, key) = table(name, key);
    let zero = vec![0; table.value_mask.len()];
    let found = table.find_bits(&key, bits).map(|slot| slot.value.clone());
    put(value, found.as_ref().unwrap_or(&zero));
    found.is_some()
}

extern "C" fn contains(name: Name, key: Bytes) -> bool {
    let (table, key) = table(name, key);
    table.find(&key).is_some()
}

extern "C" fn update(name: Name, key: Bytes, value: Bytes) -> bool {
    let (table, key) = table(name, key);
    let value = clean(value, &table.value_mask);
    table.make(&key).map(|slot| slot.value = value).is_some()
}

extern "C" fn remove(name: Name, key: Bytes) -> bool {
    let (table, key) = table(name, key);
    table.remove(&key)
}

extern "C" fn least(
    name: Name,
    key: Bytes,
    value: Bytes,
    at: u32,
    size: u32,
    signed: bool,
) -> bool {
    let oracle: &'static mut Oracle = current();
    let table = &oracle.tables[oracle.by_name[&(name as usize)]];
    let found = table.least(at as usize, size as usize, signed);
    let zero = || (vec![0; table.key_mask.len()], vec![0; table.value_mask.len()]);
    let (key_bytes, value_bytes) = found.clone().unwrap_or_else(zero);
    put(key, &key_bytes);
    put(value, &value_bytes);
    found.is_some()
}

extern "C" fn entry(name: Name, key: Bytes, value: Bytes) -> bool {
    let (table, key) = table(name, key);
    table.make(&key).map(|slot| put(value, &slot.value)).is_some()
}

fn append_bytes(name: Name, key: Bytes, bytes: &[u8]) -> bool {
    let (table, key) = table(name, key);
    let room = table.room;
    let slot = table.find(&key).filter(|slot| slot.string.len() + bytes.len() <= room);
    slot.map(|slot| slot.string.extend(bytes)).is_some()
}

extern "C" fn append_pkt(name: Name, key: Bytes, pkt: Pkt, len: u32) -> bool {
    append_bytes(name, key, &packet(pkt).first(len))
}

extern "C" fn append(name: Name, key: Bytes, value: Value) -> bool {
    let bytes = current().read(&value);
    append_bytes(name, key, &bytes)
}

extern "C" fn buf_len(name: Name, key: Bytes) -> u32 {
    let (table, key) = table(name, key);
    table.find(&key).map_or(0, |slot| slot.string.len() as u32)
}

extern "C" fn buf_read(name: Name, key: Bytes, off: u32, value: Value) -> bool {
    let (table, key) = table(name, key);
    let (off, end) = (off as usize, off as usize + value.size as usize);
    let bytes = table.find(&key).and_then(|slot| slot.string.get(off..end).map(<[u8]>::to_vec));
    current().write(&value, bytes.as_deref())
}

extern "C" fn buf_clear(name: Name, key: Bytes) {
    let (table, key) = table(name, key);
    if let Some(slot) = table.find(&key) {
        slot.string.clear();
    }
}

extern "C" fn buf_leave(name: Name, key: Bytes, port: i64) -> bool {
    let (table, key) = table(name, key);
    let Some(frame) = table.find(&key).map(|slot| std::mem::take(&mut slot.string)) else {
        return false;
    };
    let to_net = |port| Said::Send { port, frame: frame.clone() };
    let said =
        u32::try_from(port).map_or_else(|_| Said::HostPacket { frame: frame.clone() }, to_net);
    current().said.push(said);
    true
}

// ---- helpers -------------------------------------------------------------------------------------------------

/// CRC-32C bit by bit, then MurmurHash3's last steps.
extern "C" fn hash(seed: u32, value: Value) -> u32 {
    let bytes = current().read(&value);
    let mut crc = !0u32;
    for byte in seed.to_le_bytes().into_iter().chain(bytes) {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    let mut h = !crc ^ seed;
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

fn sum_of(sum: u32, bytes: &[u8]) -> u32 {
    let mut total = u64::from(sum);
    for (at, byte) in bytes.iter().enumerate() {
        total += u64::from(*byte) << if at % 2 == 0 { 8 } else { 0 };
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u32
}

extern "C" fn csum_add(sum: u32, value: Value) -> u32 {
    sum_of(sum, &current().read(&value))
}

extern "C" fn csum_payload(pkt: Pkt, sum: u32, len: u32) -> u32 {
    sum_of(sum, &packet(pkt).first(len))
}

/// What [`build::judge`] does to the packet, with arguments of which padding is zero.
extern "C" fn crypto(
    word: *const c_char,
    pkt: Pkt,
    len: u32,
    values: *const Value,
    count: u32,
) -> bool {
    // SAFETY: the shim passes an array of this length.
    let values = unsafe { std::slice::from_raw_parts(values, count as usize) };
    let mut args: Vec<Vec<u8>> = values.iter().map(|value| current().read(value)).collect();
    let sizes: Vec<u32> = values.iter().map(|value| value.size).collect();
    let places: Vec<*mut u8> = args.iter_mut().map(|arg| arg.as_mut_ptr()).collect();
    let rest = packet(pkt).rest();
    let n = rest.len().min(len as usize);
    // SAFETY: a literal, so many bytes, and as many arguments as the function of this word takes.
    let ok = unsafe {
        super::build::judge()(word, rest.as_mut_ptr(), n as u32, places.as_ptr(), sizes.as_ptr())
    };
    // SAFETY: another literal.
    let word = unsafe { CStr::from_ptr(word) };
    let gives = !matches!(word.to_bytes(), b"aes_gcm_open" | b"aes_ctr")
        && !word.to_bytes().starts_with(b"aes_cbc");
    if let (true, Some((arg, value))) = (gives, args.last().zip(values.last())) {
        current().write(value, Some(arg));
    }
    ok
}

extern "C" fn now() -> u64 {
    current().now
}

extern "C" fn random() -> u32 {
    current().random()
}

extern "C" fn log(format: *const c_char, values: *const Logged, count: u32) {
    // SAFETY: a string literal and an array of this length.
    let (format, values) = unsafe {
        (
            CStr::from_ptr(format).to_string_lossy(),
            std::slice::from_raw_parts(values, count as usize),
        )
    };
    let mut text = String::new();
    for (at, piece) in format.split("{}").enumerate() {
        if let Some(value) = at.checked_sub(1).and_then(|at| values.get(at)) {
            let shown = if value.is_signed {
                (value.bits as i64).to_string()
            } else {
                value.bits.to_string()
            };
            text.push_str(&shown);
        }
        text.push_str(piece);
    }
    current().said.push(Said::Log { text });
}
