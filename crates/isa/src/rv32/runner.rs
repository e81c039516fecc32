//! Runs a whole program that talks to its surroundings by Linux's `write` and `exit` calls: for
//! tests and benchmarks.

use super::bus::FlatMemory;
use super::code::Code;
use super::decode::Decoder;
use super::hart::{Cause, Hart, Trap};
use super::run::Stop;
use super::timing::Timing;
use crate::object::riscv::Image;

/// Numbers of calls, the same on all newer architectures of Linux.
const WRITE: u32 = 64;
const EXIT: u32 = 93;
const EXIT_GROUP: u32 = 94;
/// Most bytes of memory that a program's segments may span.
const MOST: u32 = 64 << 20;
/// Bytes of stack above the last segment.
const STACK: u32 = 64 << 10;
/// Bytes of zeros that a program without arguments finds at its stack pointer.
const NO_ARGUMENTS: u32 = 16;
const NO_SUCH_CALL: u32 = -38i32 as u32;
const BAD_ADDRESS: u32 = -14i32 as u32;

/// Why a program cannot be loaded or did not end by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("the program has nothing to load; link it")]
    Empty,
    #[error(
        "segments span {span:#x} bytes from {first:#x}, more than the {MOST:#x} that are run here; link them closer together"
    )]
    Span { first: u32, span: u32 },
    #[error("{0}")]
    Trap(Trap),
    #[error("`wfi` with nobody to wake the core, before pc {pc:#010x}")]
    Waits { pc: u32 },
    #[error("more than {limit} cycles, at pc {pc:#010x}")]
    Limit { limit: u64, pc: u32 },
}

/// A program in memory and the core that runs it.
#[derive(Clone, Debug)]
pub struct Runner {
    pub hart: Hart,
    pub memory: FlatMemory,
    pub code: Code,
    /// What the program wrote, to whatever descriptor.
    pub written: Vec<u8>,
}

impl Runner {
    /// Loads segments and sets the stack pointer above them, at zeros: no arguments and no
    /// environment.
    ///
    /// # Errors
    /// The image has no segments or spans too much.
    pub fn new(image: &Image, decoder: &Decoder, timing: &Timing) -> Result<Runner, RunError> {
        let first =
            image.segments.iter().map(|segment| segment.address).min().ok_or(RunError::Empty)?;
        let end = |segment: &crate::object::riscv::Segment| {
            u64::from(segment.address) + u64::from(segment.size)
        };
        let last = image.segments.iter().map(end).max().ok_or(RunError::Empty)?;
        let span = last - u64::from(first);
        let top = (last + u64::from(STACK)) & !15;
        if span > u64::from(MOST) || top > u64::from(u32::MAX) {
            return Err(RunError::Span { first, span: span.min(u64::from(u32::MAX)) as u32 });
        }
        let mut memory = FlatMemory::new(first, (top - u64::from(first)) as usize);
        for segment in &image.segments {
            if let Some(bytes) = memory.bytes_mut(segment.address, segment.bytes.len()) {
                bytes.copy_from_slice(&segment.bytes);
            }
        }
        let code = match image.segments.iter().find(|segment| segment.executable) {
            Some(segment) => Code::new(segment.address & !1, &segment.bytes, decoder, timing),
            None => Code::new(first & !1, &[], decoder, timing),
        };
        let mut hart = Hart::new(0, image.entry);
        hart.set_x(2, top as u32 - NO_ARGUMENTS);
        Ok(Runner { hart, memory, code, written: Vec::new() })
    }

    /// Runs until the program exits and gives its status.
    ///
    /// # Errors
    /// It traps, waits, or is not done after `limit` cycles.
    pub fn run(&mut self, limit: u64) -> Result<u32, RunError> {
        loop {
            match self.hart.run(&self.code, &mut self.memory, limit) {
                Stop::Trap(Trap {
                    cause: Cause::CallFromMachine | Cause::CallFromUser, ..
                }) => {
                    if let Some(status) = self.call() {
                        return Ok(status);
                    }
                }
                Stop::Trap(trap) => return Err(RunError::Trap(trap)),
                Stop::Time => return Err(RunError::Limit { limit, pc: self.hart.pc }),
                Stop::Waiting => return Err(RunError::Waits { pc: self.hart.pc }),
                Stop::CodeChanged => self.decode_again(),
                // Flat memory asks for neither.
                Stop::Paused | Stop::Blocked => {}
            }
        }
    }

    fn decode_again(&mut self) {
        let (base, bytes) = (self.code.base(), self.code.len());
        if let Some(bytes) = self.memory.bytes(base, bytes) {
            self.code = Code::new(base, bytes, self.code.decoder(), self.code.timing());
        }
    }

    /// Serves a call; gives the status of an exit.
    fn call(&mut self) -> Option<u32> {
        let hart = &mut self.hart;
        let (first, second, third) = (hart.x(10), hart.x(11), hart.x(12));
        hart.pc = hart.pc.wrapping_add(4);
        hart.instret += 1;
        let result = match hart.x(17) {
            EXIT | EXIT_GROUP => return Some(first & 0xff),
            WRITE => match self.memory.bytes(second, third as usize) {
                Some(bytes) => {
                    self.written.extend_from_slice(bytes);
                    third
                }
                None => BAD_ADDRESS,
            },
            _ => NO_SUCH_CALL,
        };
        hart.set_x(10, result);
        None
    }
}
