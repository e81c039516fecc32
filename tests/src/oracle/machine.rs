//! One program of an object, its tables, and what the event that runs has done.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_void};
use std::rc::Rc;

use nicforge_ir::{Entry, Input, InputEvent};

use super::build::Object;
use super::calls::Value;
use super::packet::Packet;
use super::statics::Values;
use super::tables::{Kind, Table};

/// What went to outside, as [`nicforge_ir::Output`] with the reason of a drop as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Send { port: u32, frame: Vec<u8> },
    Stack { frame: Vec<u8> },
    HostPacket { frame: Vec<u8> },
    HostMessage { bytes: Vec<u8> },
    DmaWrite { addr: u64, data: Vec<u8> },
    Drop { reason: String },
    Log { text: String },
}

/// `struct nf_oracle_table`.
#[repr(C)]
pub struct RawTable {
    name: *const c_char,
    kind: *const c_char,
    capacity: u32,
    strings: u32,
    key: Value,
    value: Value,
    itself: *const c_void,
}

/// `struct nf_oracle_program`.
#[repr(C)]
pub struct RawProgram {
    net_recv: Option<unsafe extern "C" fn(*mut c_void)>,
    host_send: Option<unsafe extern "C" fn(Value)>,
    message: Value,
    tables: *const RawTable,
    end: *const RawTable,
    timers: *const RawTimer,
}

/// `struct nf_oracle_timer`.
#[repr(C)]
pub struct RawTimer {
    name: *const c_char,
    tick: Option<unsafe extern "C" fn()>,
}

/// The head of a block (clang's `-fblocks`): a function and what it captured, all of it plain data
/// here.
#[repr(C)]
pub struct Block {
    isa: *const c_void,
    flags: i32,
    reserved: i32,
    invoke: unsafe extern "C" fn(*mut c_void),
    descriptor: *const [usize; 2],
}

/// A program that runs.
pub struct Oracle {
    id: usize,
    at: *const RawProgram,
    raw: RawProgram,
    object: Rc<Object>,
    pub(super) tables: Vec<Table>,
    pub(super) by_name: HashMap<usize, usize>,
    pub(super) packets: Vec<Option<Packet>>,
    pub(super) said: Vec<Said>,
    later: VecDeque<Vec<u64>>,
    pub(super) now: u64,
    seed: u64,
    drawn: u64,
}

thread_local! {
    static RUNS: Cell<*mut Oracle> = const { Cell::new(std::ptr::null_mut()) };
}

/// The oracle whose event runs on this thread.
pub(super) fn current() -> &'static mut Oracle {
    // SAFETY: set by `Oracle::run` around calls into the program, which alone calls this.
    unsafe { RUNS.get().as_mut() }.expect("calls come from a program that runs")
}

fn text(at: *const c_char) -> String {
    // SAFETY: string literals of the program.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

impl Oracle {
    /// Program number `id` of an object.
    ///
    /// # Safety
    /// `at` is of the object.
    pub(super) unsafe fn new(id: usize, at: *const RawProgram, object: Rc<Object>) -> Oracle {
        // SAFETY: as above; tables lie side by side in their section.
        let (raw, raw_tables) = unsafe {
            let raw = at.read();
            let count = (raw.end as usize - raw.tables as usize) / size_of::<RawTable>();
            let tables =
                if count == 0 { &[][..] } else { std::slice::from_raw_parts(raw.tables, count) };
            (raw, tables)
        };
        let table = |table: &RawTable| {
            let kind = match text(table.kind).as_str() {
                "hash" => Kind::Hash,
                "lru" => Kind::Lru,
                "array" => Kind::Array,
                "lpm" => Kind::Lpm,
                _ => Kind::Ternary,
            };
            let masks = [object.mask(&table.key), object.mask(&table.value)].map(<[u8]>::to_vec);
            Table::new(
                text(table.name),
                kind,
                table.capacity as usize,
                table.strings as usize,
                masks,
            )
        };
        let tables = raw_tables.iter().map(table).collect();
        let by_name =
            raw_tables.iter().enumerate().map(|(i, table)| (table.itself as usize, i)).collect();
        let (packets, said, later) = (Vec::new(), Vec::new(), VecDeque::new());
        let (now, seed, drawn) = (0, 0, 0);
        Oracle { id, at, raw, object, tables, by_name, packets, said, later, now, seed, drawn }
    }

    /// A new run of this program: tables are empty, and variables as they were at first.
    pub fn fresh(&self) -> Oracle {
        self.object.statics.reset();
        // SAFETY: it is of the object.
        unsafe { Oracle::new(self.id, self.at, self.object.clone()) }
    }

    /// Puts an entry into a table.
    pub fn set(&mut self, table: &str, values: &Values, entry: &Entry) {
        match self.tables.iter_mut().find(|t| t.name == table) {
            Some(table) => table.set(entry),
            None => {
                let found = self.object.statics.set(self.id, table, values, entry);
                assert!(found || !self.has(table, values), "several variables `{table}`");
            }
        }
    }

    /// True if there is a table of this name, or a variable that plain C uses.
    pub fn has(&self, table: &str, values: &Values) -> bool {
        self.tables.iter().any(|t| t.name == table)
            || self.object.statics.has(self.id, table, values)
    }

    /// The entries of a table, sorted by key; `None` if there is neither a table of that name nor
    /// exactly one variable.
    pub fn entries(&self, table: &str, values: &Values) -> Option<Vec<Entry>> {
        match self.tables.iter().find(|t| t.name == table) {
            Some(table) => Some(table.entries()),
            None => self.object.statics.entries(self.id, table, values),
        }
    }

    /// Insertions that a table refused, and entries it evicted.
    pub fn counts(&self, table: &str) -> (u64, u64) {
        self.tables.iter().find(|t| t.name == table).map_or((0, 0), |t| (t.refused, t.evicted))
    }

    /// Runs one event; what went to outside.
    pub fn run(&mut self, event: &InputEvent) -> Vec<Said> {
        (self.now, self.seed, self.drawn) = (event.time_ns, event.seed, 0);
        self.packets.clear();
        RUNS.set(self);
        match &event.input {
            Input::Net { port, frame } => {
                self.packets.push(Some(Packet {
                    bytes: frame.clone(),
                    port: *port,
                    ..Packet::default()
                }));
                let handler = self.raw.net_recv.expect("the program takes packets");
                // SAFETY: packets are numbers from 1 on.
                unsafe { handler(std::ptr::without_provenance_mut(1)) };
            }
            Input::Host { message } => {
                let mut bytes = message.clone();
                self.object.clear_padding(&self.raw.message, &mut bytes);
                let handler = self.raw.host_send.expect("the program takes messages");
                let message = Value { bytes: bytes.as_mut_ptr().cast(), ..self.raw.message };
                // SAFETY: the message has the parameter's size.
                unsafe { handler(message) };
            }
            Input::Tick { timer } => {
                let tick = self.timer(timer).expect("a timer of the program");
                // SAFETY: the handler of a timer, which has no parameters.
                unsafe { tick() };
            }
        }
        while let Some(mut block) = self.later.pop_front() {
            let at: *mut Block = block.as_mut_ptr().cast();
            // SAFETY: a copy of a block whose captures are plain data.
            unsafe { ((*at).invoke)(at.cast()) };
        }
        RUNS.set(std::ptr::null_mut());
        std::mem::take(&mut self.said)
    }

    /// The handler of a timer.
    fn timer(&self, name: &str) -> Option<unsafe extern "C" fn()> {
        // SAFETY: the list ends with an entry without a name.
        let list = (0..).map(|at| unsafe { &*self.raw.timers.add(at) });
        let mut named = list.take_while(|timer| !timer.name.is_null());
        named.find(|timer| text(timer.name) == name)?.tick
    }

    /// Keeps a call for later.
    ///
    /// # Safety
    /// `block` is one.
    pub(super) unsafe fn keep(&mut self, block: *const Block) {
        // SAFETY: the descriptor has the size of the block with its captures.
        unsafe {
            let size = (*(*block).descriptor)[1];
            let mut copy = vec![0u64; size.div_ceil(8)];
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), copy.as_mut_ptr().cast(), size);
            self.later.push_back(copy);
        }
    }

    /// The bytes of a variable without padding.
    pub(super) fn read(&self, value: &Value) -> Vec<u8> {
        // SAFETY: address and size are of a variable.
        let mut bytes =
            unsafe { std::slice::from_raw_parts(value.bytes.cast::<u8>(), value.size as usize) }
                .to_vec();
        self.object.clear_padding(value, &mut bytes);
        bytes
    }

    /// Sets a variable, without padding; to zero if there is nothing. Whether there was.
    pub(super) fn write(&self, value: &Value, bytes: Option<&[u8]>) -> bool {
        let mut new = bytes.map_or_else(|| vec![0; value.size as usize], <[u8]>::to_vec);
        self.object.clear_padding(value, &mut new);
        // SAFETY: address and size are of a variable.
        unsafe {
            std::ptr::copy_nonoverlapping(new.as_ptr(), value.bytes.cast(), value.size as usize)
        };
        bytes.is_some()
    }

    /// The next number of the event's stream: SplitMix64, upper half.
    pub(super) fn random(&mut self) -> u32 {
        self.drawn += 1;
        let mut z = self.seed.wrapping_add(self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }
}
