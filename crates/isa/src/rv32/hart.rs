//! A core's state, and what traps do to it.

use super::csr::{Csrs, MIE, MPIE, MPP};

/// Why an instruction trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    MisalignedJump,
    FetchFault,
    Illegal,
    Breakpoint,
    MisalignedLoad,
    LoadFault,
    MisalignedStore,
    StoreFault,
    CallFromUser,
    CallFromMachine,
}

impl Cause {
    /// Its number in `mcause`.
    pub fn number(self) -> u32 {
        match self {
            Cause::MisalignedJump => 0,
            Cause::FetchFault => 1,
            Cause::Illegal => 2,
            Cause::Breakpoint => 3,
            Cause::MisalignedLoad => 4,
            Cause::LoadFault => 5,
            Cause::MisalignedStore => 6,
            Cause::StoreFault => 7,
            Cause::CallFromUser => 8,
            Cause::CallFromMachine => 11,
        }
    }
}

/// A trap that has not been taken yet: `pc` of the core is still at the instruction, which has
/// changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    pub cause: Cause,
    pub pc: u32,
    /// What goes into `mtval`: the address refused, or the bits of the illegal instruction.
    pub value: u32,
    /// In words, for people.
    pub reason: &'static str,
}

impl std::fmt::Display for Trap {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let what = match self.cause {
            Cause::MisalignedJump => "jump to",
            Cause::FetchFault => "fetch from",
            Cause::Illegal => "illegal instruction",
            Cause::Breakpoint => "breakpoint at",
            Cause::MisalignedLoad | Cause::LoadFault => "load from",
            Cause::MisalignedStore | Cause::StoreFault => "store to",
            Cause::CallFromUser | Cause::CallFromMachine => "environment call, tval",
        };
        write!(f, "pc {:#010x}: {what} {:#x}: {}", self.pc, self.value, self.reason)
    }
}

/// General registers. The entries above 31 swallow writes of `x0`.
#[derive(Clone, Debug)]
pub(super) struct Registers([u32; 64]);

impl Registers {
    #[inline(always)]
    pub fn get(&self, number: u8) -> u32 {
        self.0[usize::from(number & 63)]
    }

    #[inline(always)]
    pub fn set(&mut self, number: u8, value: u32) {
        self.0[usize::from(number & 63)] = value;
    }
}

/// One core (hardware thread).
#[derive(Clone, Debug)]
pub struct Hart {
    pub(super) x: Registers,
    /// Address of the next instruction.
    pub pc: u32,
    /// Cycles since it was made. The owner may move it on, for a core that waited.
    pub cycle: u64,
    /// Instructions completed.
    pub instret: u64,
    /// User mode; else machine mode.
    pub user: bool,
    pub csrs: Csrs,
    /// Instruction cache line of the last instruction, for [`super::Bus::line`].
    pub(super) line: Option<u32>,
}

impl Hart {
    /// A core after reset: registers zero, machine mode.
    pub fn new(hartid: u32, pc: u32) -> Hart {
        Hart {
            x: Registers([0; 64]),
            pc,
            cycle: 0,
            instret: 0,
            user: false,
            csrs: Csrs::new(hartid),
            line: None,
        }
    }

    /// A general register; those above 31 are none and read as zero.
    pub fn x(&self, number: u8) -> u32 {
        if number < 32 { self.x.get(number) } else { 0 }
    }

    /// Sets a general register other than `x0`.
    pub fn set_x(&mut self, number: u8, value: u32) {
        if (1..32).contains(&number) {
            self.x.set(number, value);
        }
    }

    /// Enters the trap handler at `mtvec`.
    pub fn take(&mut self, trap: &Trap) {
        let csrs = &mut self.csrs;
        csrs.mepc = trap.pc;
        csrs.mcause = trap.cause.number();
        csrs.mtval = trap.value;
        let enabled = if csrs.mstatus & MIE != 0 { MPIE } else { 0 };
        csrs.mstatus = enabled | if self.user { 0 } else { MPP };
        self.user = false;
        // Vectored handlers differ for interrupts only.
        self.pc = csrs.mtvec & !3;
    }

    /// Returns from a trap, as `mret` does.
    pub(super) fn leave_trap(&mut self) {
        let status = self.csrs.mstatus;
        self.user = status & MPP == 0;
        self.csrs.mstatus = MPIE | if status & MPIE != 0 { MIE } else { 0 };
    }
}
