//! A program in this process, one handler at a time, for those who decide themselves when an
//! internal event arrives.
//!
//! Many packets are under way at once: each has a buffer of its own, taken from a free list. Events
//! between handlers wait as the bytes the generated code made of them, pointer to the packet
//! included, until they are run or forgotten.

use std::ffi::c_void;

use nicforge_codegen::LogFormat;
use nicforge_codegen::host::HostArtifact;
use nicforge_ir::{EventId, Output, ReasonId, Type, Verified, io};

use super::ffi::{Env, Hooks, Packet, TraceItem};
use super::{HEADROOM, HostProgram};

/// Room behind a frame, for headers that do not fit in front.
const TAILROOM: usize = 256;
/// Frames up to this size share buffers.
const USUAL: usize = 2048;
/// No packet goes with the event.
const NONE: u32 = u32::MAX;

/// What left a handler. Lengths are in bytes, messages are numbers for [`Stepper::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEffect {
    /// An internal event; `steer` is what [`Stepper::steer_by`] asked for, `bytes` the size of the
    /// packet it carries.
    Generate {
        event: EventId,
        message: u32,
        steer: u32,
        /// See [`Stepper::count_zeros`].
        zeros: u32,
        bytes: Option<u32>,
    },
    Send {
        port: u32,
        bytes: u32,
    },
    Drop {
        reason: ReasonId,
    },
    /// The packet had no room for its headers.
    NoRoom,
    Stack {
        bytes: u32,
    },
    Host {
        bytes: u32,
    },
    /// A frame made of a table's byte string, to a port or to the host side.
    Made {
        port: Option<u32>,
        bytes: u32,
    },
    /// A message to the host side or a DMA write.
    ToHost {
        bytes: u32,
    },
}

/// A packet between handlers, as it enters a program in the middle or leaves it there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Underway {
    pub in_port: u32,
    pub frame: Vec<u8>,
    /// How many bytes of the frame were read.
    pub cursor: u32,
    /// Headers that were emitted and wait to be put in front.
    pub staged: Vec<u8>,
}

/// An internal event that enters a program or leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The bytes of its parameters as generated code has them; the packet's are whatever they were.
    pub params: Vec<u8>,
    pub packet: Option<Underway>,
    pub time_ns: u64,
    pub seed: u64,
    /// Random numbers the event has drawn so far.
    pub draws: u64,
}

/// A program whose handlers are run one by one.
pub struct Stepper {
    program: HostProgram,
    /// Boxed: messages and generated code hold pointers to the packets in them.
    #[expect(clippy::vec_box)]
    slots: Vec<Box<Slot>>,
    state: Box<State>,
    staged_bytes: usize,
    net_recv: Option<EventId>,
}

/// A packet with its buffer.
struct Slot {
    packet: Packet,
    buffer: Vec<u8>,
    /// Generated code writes it through `packet`.
    staged: Vec<u8>,
}

/// Places and sizes of an event's parameters, as generated code has them.
fn places(program: &nicforge_ir::Program, event: EventId) -> Vec<(usize, usize)> {
    let mut at = 0;
    let place = |param: &nicforge_ir::Param| {
        let size = if param.ty == Type::Packet { 8 } else { program.size_of(param.ty) as usize };
        at += size;
        (at - size, size)
    };
    program.events[event].params.iter().map(place).collect()
}

/// State that the hooks see.
struct State {
    messages: Vec<Message>,
    free_messages: Vec<u32>,
    free_slots: Vec<u32>,
    effects: Vec<StepEffect>,
    /// By event: place of the bytes to hash, or of a number.
    steer: Vec<Option<(usize, usize, bool)>>,
    /// By event: places and sizes of byte strings.
    strings: Vec<Vec<(usize, usize)>>,
    reasons: u32,
    /// Of the message that runs.
    time_ns: u64,
    seed: u64,
    outputs: Option<Vec<Output>>,
    logs: Vec<LogFormat>,
}

#[derive(Default)]
struct Message {
    event: u32,
    slot: u32,
    params: Vec<u8>,
    time_ns: u64,
    seed: u64,
    draws: u64,
}

impl State {
    fn message(&mut self) -> u32 {
        self.free_messages.pop().unwrap_or_else(|| {
            self.messages.push(Message::default());
            self.messages.len() as u32 - 1
        })
    }

    fn keep(&mut self, output: impl FnOnce() -> Output) {
        if let Some(outputs) = &mut self.outputs {
            outputs.push(output());
        }
    }
}

impl Stepper {
    /// Takes a program over. `keep`: what leaves is kept for [`Stepper::outputs`].
    pub fn new(program: HostProgram, keep: bool) -> Stepper {
        let events = program.artifact.event_sizes.len();
        let state = State {
            messages: Vec::new(),
            free_messages: Vec::new(),
            free_slots: Vec::new(),
            effects: Vec::new(),
            steer: vec![None; events],
            strings: vec![Vec::new(); events],
            reasons: program.artifact.reasons.len() as u32 - 1,
            time_ns: 0,
            seed: 0,
            outputs: keep.then(Vec::new),
            logs: program.artifact.logs.clone(),
        };
        let mut stepper = Stepper {
            staged_bytes: program.artifact.staged_bytes.max(1) as usize,
            net_recv: program.net_recv,
            program,
            slots: Vec::new(),
            state: Box::new(state),
        };
        stepper.program.env.hooks = &HOOKS;
        stepper.program.env.user = (&raw mut *stepper.state).cast();
        stepper
    }

    /// The program with its tables.
    pub fn program(&mut self) -> &mut HostProgram {
        &mut self.program
    }

    /// The artifact that was generated of the program.
    pub fn artifact(&self) -> &HostArtifact {
        self.program.artifact()
    }

    /// Outputs of the program so far, if they are kept.
    pub fn outputs(&self) -> &[Output] {
        self.state.outputs.as_deref().unwrap_or_default()
    }

    /// From now on internal events of this kind come with a hash of this parameter, or with its
    /// value if it is a number.
    pub fn steer_by(
        &mut self,
        program: &Verified<nicforge_ir::Program>,
        event: EventId,
        param: usize,
        number: bool,
    ) {
        self.state.steer[event.as_u32() as usize] =
            places(program, event).get(param).map(|(at, size)| (*at, *size, number));
    }

    /// From now on internal events come with the zeros at the ends of their byte strings.
    pub fn count_zeros(&mut self, program: &Verified<nicforge_ir::Program>) {
        for (event, data) in &program.events {
            let places = places(program, event).into_iter().zip(&data.params);
            self.state.strings[event.as_u32() as usize] = places
                .filter(|(_, param)| program.is_string(param.ty))
                .map(|(place, _)| place)
                .collect();
        }
    }

    /// A frame that came in by a port, as a message.
    pub fn arrive(&mut self, port: u32, frame: &[u8], time_ns: u64, seed: u64) -> u32 {
        let number = self.slot();
        let slot = &mut self.slots[number as usize];
        slot.fill(number, port, frame);
        let packet: *mut Packet = &mut slot.packet;
        let message = self.state.message();
        let data = &mut self.state.messages[message as usize];
        data.event = self.net_recv.map_or(u32::MAX, EventId::as_u32);
        (data.slot, data.time_ns, data.seed, data.draws) = (number, time_ns, seed, 0);
        data.params.clear();
        data.params.extend_from_slice(&(packet as usize).to_ne_bytes());
        message
    }

    /// A tick of a timer, as a message.
    pub fn tick(&mut self, timer: EventId, time_ns: u64, seed: u64) -> u32 {
        let message = self.state.message();
        let data = &mut self.state.messages[message as usize];
        (data.event, data.slot) = (timer.as_u32(), NONE);
        (data.time_ns, data.seed, data.draws) = (time_ns, seed, 0);
        // An event without parameters has one byte in C.
        data.params.clear();
        data.params.push(0);
        message
    }

    /// An internal event that comes from elsewhere, as a message. `packet_at` is where in the
    /// parameters the packet's pointer belongs.
    pub fn enter(&mut self, event: EventId, passage: &Passage, packet_at: Option<usize>) -> u32 {
        let message = self.state.message();
        let mut number = NONE;
        let mut pointer = None;
        if let Some(packet) = &passage.packet {
            number = self.slot();
            let slot = &mut self.slots[number as usize];
            slot.fill(number, packet.in_port, &packet.frame);
            let staged = packet.staged.len().min(slot.staged.len());
            slot.staged[..staged].copy_from_slice(&packet.staged[..staged]);
            (slot.packet.cursor, slot.packet.staged_len) = (packet.cursor, staged as u32);
            pointer = Some((&raw mut slot.packet) as usize);
        }
        let data = &mut self.state.messages[message as usize];
        (data.event, data.slot) = (event.as_u32(), number);
        (data.time_ns, data.seed, data.draws) = (passage.time_ns, passage.seed, passage.draws);
        data.params.clear();
        data.params.extend_from_slice(&passage.params);
        if let (Some(at), Some(pointer)) = (packet_at, pointer) {
            data.params[at..at + size_of::<usize>()].copy_from_slice(&pointer.to_ne_bytes());
        }
        message
    }

    /// The bytes of a message's parameters, as generated code has them.
    pub fn params(&self, message: u32) -> &[u8] {
        &self.state.messages[message as usize].params
    }

    /// Takes a message out, to be handled elsewhere.
    pub fn leave(&mut self, message: u32) -> Passage {
        let data = &mut self.state.messages[message as usize];
        let mut passage = Passage {
            params: std::mem::take(&mut data.params),
            packet: None,
            time_ns: data.time_ns,
            seed: data.seed,
            draws: data.draws,
        };
        if data.slot != NONE {
            let slot = &self.slots[data.slot as usize];
            let packet = &slot.packet;
            // SAFETY: the message holds the packet, whose data and end lie in the slot's buffer.
            let frame = unsafe { frame(packet) };
            let staged = slot.staged[..packet.staged_len as usize].to_vec();
            passage.packet =
                Some(Underway { in_port: packet.in_port, frame, cursor: packet.cursor, staged });
        }
        self.discard(message);
        passage
    }

    /// Takes what left the program so far.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        self.state.outputs.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn slot(&mut self) -> u32 {
        self.state.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(self.staged_bytes));
            self.slots.len() as u32 - 1
        })
    }

    /// Runs the handler of a message, which is then no more; what left it, in order.
    pub fn run(&mut self, message: u32) -> &[StepEffect] {
        let state = &mut *self.state;
        state.effects.clear();
        let data = &mut state.messages[message as usize];
        let params = std::mem::take(&mut data.params);
        let event = data.event;
        let env = &mut *self.program.env;
        (env.now, env.seed, env.draws) = (data.time_ns, data.seed, data.draws);
        (state.time_ns, state.seed) = (data.time_ns, data.seed);
        (self.program.trace.count, self.program.trace.lost) = (0, 0);
        self.program.call(event, params.as_ptr().cast());
        let drawn = self.program.env.draws;
        let state = &mut *self.state;
        for effect in &state.effects {
            if let StepEffect::Generate { message, .. } = effect {
                state.messages[*message as usize].draws = drawn;
            }
        }
        state.messages[message as usize].params = params;
        state.free_messages.push(message);
        &self.state.effects
    }

    /// Instructions of the last handler; empty unless built to count.
    pub fn trace(&self) -> &[TraceItem] {
        self.program.trace()
    }

    /// Forgets all messages, and what was kept of outputs; tables stay.
    pub fn reset(&mut self) {
        let state = &mut *self.state;
        state.free_messages = (0..state.messages.len() as u32).collect();
        state.free_slots = (0..self.slots.len() as u32).collect();
        if let Some(outputs) = &mut state.outputs {
            outputs.clear();
        }
    }

    /// Forgets a message and its packet.
    pub fn discard(&mut self, message: u32) {
        let slot = self.state.messages[message as usize].slot;
        if slot != NONE {
            self.state.free_slots.push(slot);
        }
        self.state.free_messages.push(message);
    }
}

impl Slot {
    fn new(staged_bytes: usize) -> Box<Slot> {
        let mut staged = vec![0u8; staged_bytes];
        let nothing = std::ptr::null_mut();
        let packet = Packet {
            data: nothing,
            end: nothing,
            head: nothing,
            tail: nothing,
            staged: staged.as_mut_ptr(),
            cursor: 0,
            staged_len: 0,
            in_port: 0,
            spare: 0,
            owner: std::ptr::null_mut(),
            owner_data: nothing,
            owner_end: nothing,
        };
        Box::new(Slot { packet, buffer: Vec::new(), staged })
    }

    fn fill(&mut self, number: u32, port: u32, frame: &[u8]) {
        let size = HEADROOM + frame.len().max(USUAL) + TAILROOM;
        if self.buffer.len() < size {
            self.buffer = vec![0; size];
        }
        self.buffer[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        let packet = &mut self.packet;
        packet.head = self.buffer.as_mut_ptr();
        // SAFETY: the buffer is at least as long as headroom, frame and tailroom.
        unsafe {
            packet.tail = packet.head.add(self.buffer.len());
            packet.data = packet.head.add(HEADROOM);
            packet.end = packet.data.add(frame.len());
        }
        (packet.cursor, packet.staged_len, packet.in_port) = (0, 0, port);
        packet.owner = std::ptr::without_provenance_mut(number as usize);
    }
}

static HOOKS: Hooks = Hooks {
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

/// # Safety
/// `user` of the environment must be a stepper's state that nobody else uses during the call.
unsafe fn state<'a>(env: *mut Env) -> &'a mut State {
    // SAFETY: as the caller promises.
    unsafe { &mut *(*env).user.cast() }
}

/// Gives the packet's buffer back; the length of its frame.
///
/// # Safety
/// The packet must be a slot's that the generated code has finished.
unsafe fn take(state: &mut State, pkt: *const Packet) -> u32 {
    // SAFETY: data and end lie in one buffer, in this order.
    unsafe {
        state.free_slots.push((*pkt).owner.addr() as u32);
        (*pkt).end.offset_from((*pkt).data) as u32
    }
}

/// # Safety
/// `size` bytes must lie at `at`.
unsafe fn bytes<'a>(at: *const c_void, size: u32) -> &'a [u8] {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size as usize) }
}

/// # Safety
/// As [`take`].
unsafe fn frame(pkt: *const Packet) -> Vec<u8> {
    // SAFETY: data and end lie in one buffer, in this order.
    unsafe { bytes((*pkt).data.cast(), (*pkt).end.offset_from((*pkt).data) as u32).to_vec() }
}

unsafe extern "C" fn send(env: *mut Env, pkt: *mut Packet, port: u32) {
    // SAFETY: generated code calls with the environment it was given and its packet.
    unsafe {
        let state = state(env);
        state.keep(|| Output::Send { port, frame: frame(pkt) });
        let bytes = take(state, pkt);
        state.effects.push(StepEffect::Send { port, bytes });
    }
}

unsafe extern "C" fn stack(env: *mut Env, pkt: *mut Packet) {
    // SAFETY: see `send`.
    unsafe {
        let state = state(env);
        state.keep(|| Output::Stack { frame: frame(pkt) });
        let bytes = take(state, pkt);
        state.effects.push(StepEffect::Stack { bytes });
    }
}

unsafe extern "C" fn host(env: *mut Env, pkt: *mut Packet) {
    // SAFETY: see `send`.
    unsafe {
        let state = state(env);
        state.keep(|| Output::HostPacket { frame: frame(pkt) });
        let bytes = take(state, pkt);
        state.effects.push(StepEffect::Host { bytes });
    }
}

unsafe extern "C" fn drop_packet(env: *mut Env, pkt: *mut Packet, reason: u32) {
    // SAFETY: see `send`.
    unsafe {
        let state = state(env);
        // A frame without room has no data pointer any more: only its buffer counts.
        state.free_slots.push((*pkt).owner.addr() as u32);
        if reason == state.reasons {
            state.effects.push(StepEffect::NoRoom);
        } else {
            let reason = ReasonId::from_u32(reason);
            state.keep(|| Output::Drop { reason });
            state.effects.push(StepEffect::Drop { reason });
        }
    }
}

unsafe extern "C" fn send_bytes(env: *mut Env, port: u32, at: *const c_void, size: u32) {
    // SAFETY: generated code calls with bytes of a table's entry.
    unsafe {
        let state = state(env);
        state.keep(|| Output::Send { port, frame: bytes(at, size).to_vec() });
        state.effects.push(StepEffect::Made { port: Some(port), bytes: size });
    }
}

unsafe extern "C" fn host_bytes(env: *mut Env, at: *const c_void, size: u32) {
    // SAFETY: see `send_bytes`.
    unsafe {
        let state = state(env);
        state.keep(|| Output::HostPacket { frame: bytes(at, size).to_vec() });
        state.effects.push(StepEffect::Made { port: None, bytes: size });
    }
}

unsafe extern "C" fn host_msg(env: *mut Env, at: *const c_void, size: u32) {
    // SAFETY: generated code calls with bytes of a variable.
    unsafe {
        let state = state(env);
        state.keep(|| Output::HostMessage { bytes: bytes(at, size).to_vec() });
        state.effects.push(StepEffect::ToHost { bytes: size });
    }
}

unsafe extern "C" fn dma_write(env: *mut Env, addr: u64, at: *const c_void, size: u32) {
    // SAFETY: generated code calls with bytes of the frame.
    unsafe {
        let state = state(env);
        state.keep(|| Output::DmaWrite { addr, data: bytes(at, size).to_vec() });
        state.effects.push(StepEffect::ToHost { bytes: size });
    }
}

unsafe extern "C" fn log(env: *mut Env, log: u32, args: *const u64, count: u32) {
    // SAFETY: generated code calls with an array of at least `count` words.
    unsafe {
        let state = state(env);
        if let Some(outputs) = &mut state.outputs {
            let args = std::slice::from_raw_parts(args, count as usize);
            outputs.push(Output::Log { text: state.logs[log as usize].line(args) });
        }
    }
}

unsafe extern "C" fn generate(
    env: *mut Env,
    event: u32,
    params: *const c_void,
    size: u32,
    pkt: *mut Packet,
) {
    // SAFETY: generated code calls with the event's parameters, and its packet or null.
    unsafe {
        let state = state(env);
        let message = state.message();
        let (time_ns, seed) = (state.time_ns, state.seed);
        let made = &mut state.messages[message as usize];
        made.params.clear();
        made.params.extend_from_slice(bytes(params, size));
        (made.event, made.time_ns, made.seed) = (event, time_ns, seed);
        let packet = pkt.as_ref();
        made.slot = packet.map_or(NONE, |packet| packet.owner.addr() as u32);
        let steer = state.steer[event as usize]
            .and_then(|(at, size, number)| Some((made.params.get(at..at + size)?, number)));
        let steer =
            steer.map_or(0, |(b, number)| if number { io::number(b) } else { io::hash(0, b) });
        let bytes =
            packet.map(|packet| packet.end.offset_from(packet.data) as u32 + packet.staged_len);
        let event = EventId::from_u32(event);
        let strings = state.strings[event.as_u32() as usize].iter();
        let params = &state.messages[message as usize].params;
        let zeros =
            strings.filter_map(|(at, size)| params.get(*at..at + size)).map(io::string_zeros).sum();
        state.effects.push(StepEffect::Generate { event, message, steer, zeros, bytes });
    }
}

/// Steppers are built to count, not to tell keys.
unsafe extern "C" fn touch(_env: *mut Env, _table: u32, _key: *const c_void, _size: u32) {}
