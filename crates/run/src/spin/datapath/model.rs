//! nf_spin_top in this process: the model that Verilator makes of it, with the pins driven by
//! `runtime/rtl/nf_spin.cpp`.

use std::collections::BTreeMap;
use std::ffi::c_void;

use libloading::Library;
use serde::Deserialize;

use crate::rtl::{RtlError, Verilator};

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../../rtl/", $path)))),*]
    };
}

/// Every module of the datapath, by its path under `rtl`.
pub const SOURCES: &[(&str, &str)] = sources!(
    "spin/nf_spin_top.sv",
    "spin/nf_spin_match.sv",
    "spin/nf_spin_word.sv",
    "spin/nf_spin_ingress.sv",
    "spin/nf_spin_alloc.sv",
    "spin/nf_spin_memory.sv",
    "spin/nf_spin_her.sv",
    "spin/nf_spin_scheduler.sv",
    "spin/nf_spin_egress.sv",
    "spin/nf_spin_align.sv",
    "spin/nf_spin_host_dma.sv",
    "spin/nf_spin_registers.sv",
    "nf_axil_registers.sv",
    "nf_arbiter.sv",
    "nf_line_ram.sv",
    "nf_queue.sv",
    "nf_slots.sv",
);
const AROUND: (&str, &str) =
    ("nf_spin.cpp", include_str!("../../../../../runtime/rtl/nf_spin.cpp"));
const REGISTERS: &str = include_str!("../../../../../rtl/spin/nf_spin_registers.json");

/// Where packet memory begins; the module's PACKETS.
pub const PACKETS: u32 = 0x1c10_0000;

#[derive(Deserialize)]
struct Registers {
    registers: Vec<Register>,
}

#[derive(Deserialize)]
struct Register {
    name: String,
    address: u32,
}

/// An event of the model, as C++ has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawEvent {
    time: u64,
    user: u64,
    kind: u32,
    words: [u32; 16],
    bytes: u32,
    data: *const u8,
}

/// Something that happened: kinds and words are those of nf_spin.cpp.
#[derive(Clone, Debug)]
pub struct Event {
    pub time: u64,
    pub user: u64,
    pub kind: u32,
    pub words: [u32; 16],
    pub data: Vec<u8>,
}

pub const TO_HOST: u32 = 1;
pub const DROPPED: u32 = 2;
pub const ARRIVED: u32 = 3;
pub const PICKED: u32 = 4;
pub const TASK: u32 = 5;
pub const FREED: u32 = 6;
pub const SENT: u32 = 7;
pub const WRITTEN: u32 = 8;
pub const GRANTED: u32 = 9;
pub const ENDED: u32 = 10;
pub const CREDITED: u32 = 11;

/// Cycles of something: least, most, mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycles {
    pub least: u64,
    pub most: u64,
    pub mean: f64,
}

/// Measured in the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latencies {
    /// From a frame's first beat in to its first beat out of the matcher, with its decision.
    pub matching: Cycles,
    /// From there until it is written and described.
    pub ingress: Cycles,
    /// From there to its first task.
    pub scheduler: Cycles,
    /// From a write burst's address to the descriptor for the host's DMA engine, if there was one.
    pub host: Cycles,
}

type Handle = *mut c_void;

struct Functions {
    delete: unsafe extern "C" fn(Handle),
    write: unsafe extern "C" fn(Handle, u32, u32),
    read: unsafe extern "C" fn(Handle, u32) -> u32,
    arrive: unsafe extern "C" fn(Handle, u64, u64, *const u8, u32),
    credit: unsafe extern "C" fn(Handle, u32),
    end: unsafe extern "C" fn(Handle, *const u32),
    send: unsafe extern "C" fn(Handle, u32, u32, *const u8, u32),
    write_host: unsafe extern "C" fn(Handle, u32, u64, *const u8, u32),
    next: unsafe extern "C" fn(Handle) -> u64,
    run: unsafe extern "C" fn(Handle, u64, u64) -> u32,
    events: unsafe extern "C" fn(Handle) -> *const RawEvent,
    latencies: unsafe extern "C" fn(Handle, *mut u64),
}

/// The model.
pub struct Model {
    handle: Handle,
    functions: Functions,
    registers: BTreeMap<String, u32>,
    _library: Library,
}

// SAFETY: the handle is used by whoever has the model alone, and the library keeps nothing by
// thread.
unsafe impl Send for Model {}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Model")
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by the library's `new`, and given back once.
        unsafe { (self.functions.delete)(self.handle) }
    }
}

impl Model {
    /// Builds the model, or takes it from the cache. With a seed that is not 0 streams wait at
    /// random.
    ///
    /// # Errors
    /// Verilator is missing, or refuses the design.
    pub fn new(seed: u64) -> Result<Model, RtlError> {
        let flat: Vec<(&str, &str)> = SOURCES
            .iter()
            .map(|(path, text)| (path.rsplit('/').next().unwrap_or(path), *text))
            .collect();
        let constants = [format!("-DNF_PACKETS={PACKETS:#x}u")];
        let path = Verilator::find()?.shared("nf_spin_top", &flat, AROUND, &constants)?;
        let registers: Registers =
            serde_json::from_str(REGISTERS).map_err(|e| RtlError::Results(e.to_string()))?;
        // SAFETY: the library was built of AROUND, whose functions have these types; it has no
        // initialisers with effects.
        unsafe {
            let library = Library::new(path)?;
            macro_rules! function {
                ($name:literal) => {
                    *library.get($name)?
                };
            }
            let new: unsafe extern "C" fn(u64) -> Handle = function!(b"nf_spin_new\0");
            let functions = Functions {
                delete: function!(b"nf_spin_delete\0"),
                write: function!(b"nf_spin_write\0"),
                read: function!(b"nf_spin_read\0"),
                arrive: function!(b"nf_spin_arrive\0"),
                credit: function!(b"nf_spin_credit\0"),
                end: function!(b"nf_spin_end\0"),
                send: function!(b"nf_spin_send\0"),
                write_host: function!(b"nf_spin_write_host\0"),
                next: function!(b"nf_spin_next\0"),
                run: function!(b"nf_spin_run\0"),
                events: function!(b"nf_spin_events\0"),
                latencies: function!(b"nf_spin_latencies\0"),
            };
            let registers = registers.registers.into_iter().map(|r| (r.name, r.address)).collect();
            Ok(Model { handle: new(seed), functions, registers, _library: library })
        }
    }

    /// Writes words from a register on.
    pub fn write(&mut self, register: &str, at: usize, words: &[u32]) {
        let address = self.registers[register] + 4 * at as u32;
        for (word, address) in words.iter().zip((address..).step_by(4)) {
            // SAFETY: the handle is the library's.
            unsafe { (self.functions.write)(self.handle, address, *word) }
        }
    }

    pub fn read(&mut self, register: &str) -> u32 {
        // SAFETY: as above.
        unsafe { (self.functions.read)(self.handle, self.registers[register]) }
    }

    pub fn arrive(&mut self, user: u64, time: u64, bytes: &[u8]) {
        // SAFETY: as above; the library copies the bytes.
        unsafe {
            (self.functions.arrive)(self.handle, user, time, bytes.as_ptr(), bytes.len() as u32)
        }
    }

    pub fn credit(&mut self, cluster: usize) {
        // SAFETY: as above.
        unsafe { (self.functions.credit)(self.handle, cluster as u32) }
    }

    pub fn end(&mut self, words: &[u32; 16]) {
        // SAFETY: as above; the library copies the words.
        unsafe { (self.functions.end)(self.handle, words.as_ptr()) }
    }

    pub fn send(&mut self, number: usize, address: u32, bytes: &[u8]) {
        let (number, count) = (number as u32, bytes.len() as u32);
        // SAFETY: as above; the library copies the bytes.
        unsafe { (self.functions.send)(self.handle, number, address, bytes.as_ptr(), count) }
    }

    pub fn write_host(&mut self, number: usize, address: u64, bytes: &[u8]) {
        let (number, count) = (number as u32, bytes.len() as u32);
        // SAFETY: as above; the library copies the bytes.
        unsafe { (self.functions.write_host)(self.handle, number, address, bytes.as_ptr(), count) }
    }

    /// When something may happen; `None` until something comes from outside.
    pub fn next(&self) -> Option<u64> {
        // SAFETY: as above.
        let next = unsafe { (self.functions.next)(self.handle) };
        (next < u64::MAX).then_some(next)
    }

    /// Runs until a cycle, or until something has happened.
    pub fn run(&mut self, from: u64, until: u64) -> Vec<Event> {
        // SAFETY: as above; events and their data stay until the next run, and are copied here.
        unsafe {
            let count = (self.functions.run)(self.handle, from, until) as usize;
            let events = (self.functions.events)(self.handle);
            (0..count)
                .map(|at| {
                    let RawEvent { time, user, kind, words, bytes, data } = *events.add(at);
                    let data = match bytes {
                        0 => Vec::new(),
                        bytes => std::slice::from_raw_parts(data, bytes as usize).to_vec(),
                    };
                    Event { time, user, kind, words, data }
                })
                .collect()
        }
    }

    pub fn latencies(&self) -> Latencies {
        let mut raw = [0u64; 16];
        // SAFETY: as above; sixteen numbers are written.
        unsafe { (self.functions.latencies)(self.handle, raw.as_mut_ptr()) }
        let cycles = |at: usize| Cycles {
            least: raw[at],
            most: raw[at + 1],
            mean: raw[at + 2] as f64 / raw[at + 3].max(1) as f64,
        };
        Latencies {
            matching: cycles(0),
            ingress: cycles(4),
            scheduler: cycles(8),
            host: cycles(12),
        }
    }
}
