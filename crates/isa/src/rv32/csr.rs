//! Control and status registers of a core with machine and user mode.
//!
//! Source: The RISC-V Instruction Set Manual, volume II (20211203), sections 2.2 and 3.1.
//! Protection registers (PMP) hold what is written and protect nothing: that is the bus's business,
//! which sees who asks.

/// Numbers.
pub mod number {
    pub const MSTATUS: u16 = 0x300;
    pub const MISA: u16 = 0x301;
    pub const MIE: u16 = 0x304;
    pub const MTVEC: u16 = 0x305;
    pub const MCOUNTEREN: u16 = 0x306;
    pub const MCOUNTINHIBIT: u16 = 0x320;
    pub const MSCRATCH: u16 = 0x340;
    pub const MEPC: u16 = 0x341;
    pub const MCAUSE: u16 = 0x342;
    pub const MTVAL: u16 = 0x343;
    pub const MIP: u16 = 0x344;
    pub const PMPCFG0: u16 = 0x3a0;
    pub const PMPADDR0: u16 = 0x3b0;
    pub const PMPADDR15: u16 = 0x3bf;
    pub const MCYCLE: u16 = 0xb00;
    pub const MINSTRET: u16 = 0xb02;
    pub const MCYCLEH: u16 = 0xb80;
    pub const MINSTRETH: u16 = 0xb82;
    pub const CYCLE: u16 = 0xc00;
    pub const INSTRET: u16 = 0xc02;
    pub const CYCLEH: u16 = 0xc80;
    pub const INSTRETH: u16 = 0xc82;
    pub const MVENDORID: u16 = 0xf11;
    pub const MARCHID: u16 = 0xf12;
    pub const MIMPID: u16 = 0xf13;
    pub const MHARTID: u16 = 0xf14;
}

use number as n;

/// Bits of `mstatus`.
pub const MIE: u32 = 1 << 3;
pub const MPIE: u32 = 1 << 7;
pub const MPP: u32 = 3 << 11;
/// RV32 with A, C, I, M and user mode.
const MISA: u32 = 1 << 30 | 1 << 20 | 1 << 12 | 1 << 8 | 1 << 2 | 1;

/// A counter that programs set and stop: what they see is the core's own count and a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counter {
    difference: u64,
    /// What it shows while stopped.
    stopped: Option<u64>,
}

impl Counter {
    fn read(&self, count: u64) -> u64 {
        self.stopped.unwrap_or(count.wrapping_add(self.difference))
    }

    fn write(&mut self, count: u64, value: u64) {
        self.difference = value.wrapping_sub(count);
        self.stopped = self.stopped.map(|_| value);
    }

    fn stop(&mut self, count: u64, stop: bool) {
        match (stop, self.stopped) {
            (true, None) => self.stopped = Some(self.read(count)),
            (false, Some(value)) => {
                self.stopped = None;
                self.write(count, value);
            }
            _ => {}
        }
    }
}

/// The registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Csrs {
    pub mstatus: u32,
    pub mtvec: u32,
    pub mepc: u32,
    pub mcause: u32,
    pub mtval: u32,
    pub mscratch: u32,
    pub mhartid: u32,
    mie: u32,
    mcounteren: u32,
    pmpcfg: [u32; 4],
    pmpaddr: [u32; 16],
    cycle: Counter,
    instret: Counter,
}

fn half(value: u64, high: bool) -> u32 {
    if high { (value >> 32) as u32 } else { value as u32 }
}

fn with_half(old: u64, value: u32, high: bool) -> u64 {
    if high {
        old & 0xffff_ffff | u64::from(value) << 32
    } else {
        old & !0xffff_ffff | u64::from(value)
    }
}

impl Csrs {
    /// All zero but the core's number.
    pub fn new(mhartid: u32) -> Csrs {
        Csrs { mhartid, ..Csrs::default() }
    }

    /// Contents of a register, given what the core has counted; `None` if the core has no such
    /// register.
    pub fn read(&self, number: u16, cycle: u64, instret: u64, user: bool) -> Option<u32> {
        let enabled = |bit: u32| !user || self.mcounteren & bit != 0;
        Some(match number {
            n::MSTATUS => self.mstatus,
            n::MISA => MISA,
            n::MIE => self.mie,
            n::MTVEC => self.mtvec,
            n::MCOUNTEREN => self.mcounteren,
            n::MCOUNTINHIBIT => {
                u32::from(self.cycle.stopped.is_some())
                    | u32::from(self.instret.stopped.is_some()) << 2
            }
            n::MSCRATCH => self.mscratch,
            n::MEPC => self.mepc,
            n::MCAUSE => self.mcause,
            n::MTVAL => self.mtval,
            n::PMPCFG0..=0x3a3 => self.pmpcfg[usize::from(number - n::PMPCFG0)],
            n::PMPADDR0..=n::PMPADDR15 => self.pmpaddr[usize::from(number - n::PMPADDR0)],
            n::MCYCLE | n::MCYCLEH => half(self.cycle.read(cycle), number & 0x80 != 0),
            n::MINSTRET | n::MINSTRETH => half(self.instret.read(instret), number & 0x80 != 0),
            n::CYCLE | n::CYCLEH if enabled(1) => half(self.cycle.read(cycle), number & 0x80 != 0),
            n::INSTRET | n::INSTRETH if enabled(4) => {
                half(self.instret.read(instret), number & 0x80 != 0)
            }
            n::MIP | n::MVENDORID | n::MARCHID | n::MIMPID => 0,
            n::MHARTID => self.mhartid,
            _ => return None,
        })
    }

    /// Writes what can be written of a register. Gives whether the core has it.
    pub fn write(&mut self, number: u16, value: u32, cycle: u64, instret: u64) -> bool {
        let high = number & 0x80 != 0;
        match number {
            // Machine and user mode only, so the previous mode is all ones or all zeros.
            n::MSTATUS => {
                let mpp = if value & MPP == 0 { 0 } else { MPP };
                self.mstatus = value & (MIE | MPIE) | mpp;
            }
            n::MIE => self.mie = value,
            n::MTVEC => self.mtvec = value & !2,
            n::MCOUNTEREN => self.mcounteren = value & 7,
            n::MCOUNTINHIBIT => {
                self.cycle.stop(cycle, value & 1 != 0);
                self.instret.stop(instret, value & 4 != 0);
            }
            n::MSCRATCH => self.mscratch = value,
            n::MEPC => self.mepc = value & !1,
            n::MCAUSE => self.mcause = value,
            n::MTVAL => self.mtval = value,
            n::PMPCFG0..=0x3a3 => self.pmpcfg[usize::from(number - n::PMPCFG0)] = value,
            n::PMPADDR0..=n::PMPADDR15 => self.pmpaddr[usize::from(number - n::PMPADDR0)] = value,
            n::MCYCLE | n::MCYCLEH => {
                let old = self.cycle.read(cycle);
                self.cycle.write(cycle, with_half(old, value, high));
            }
            n::MINSTRET | n::MINSTRETH => {
                let old = self.instret.read(instret);
                self.instret.write(instret, with_half(old, value, high));
            }
            n::MISA | n::MIP => {}
            _ => return false,
        }
        true
    }
}

/// The name of a register, as objdump writes it.
pub fn name(number: u16) -> Option<&'static str> {
    NAMES.iter().find(|(at, _)| *at == number).map(|(_, name)| *name)
}

const NAMES: &[(u16, &str)] = &[
    (n::MSTATUS, "mstatus"),
    (n::MISA, "misa"),
    (n::MIE, "mie"),
    (n::MTVEC, "mtvec"),
    (n::MCOUNTEREN, "mcounteren"),
    (n::MCOUNTINHIBIT, "mcountinhibit"),
    (n::MSCRATCH, "mscratch"),
    (n::MEPC, "mepc"),
    (n::MCAUSE, "mcause"),
    (n::MTVAL, "mtval"),
    (n::MIP, "mip"),
    (n::PMPCFG0, "pmpcfg0"),
    (0x3a1, "pmpcfg1"),
    (0x3a2, "pmpcfg2"),
    (0x3a3, "pmpcfg3"),
    (0x3b0, "pmpaddr0"),
    (0x3b1, "pmpaddr1"),
    (0x3b2, "pmpaddr2"),
    (0x3b3, "pmpaddr3"),
    (0x3b4, "pmpaddr4"),
    (0x3b5, "pmpaddr5"),
    (0x3b6, "pmpaddr6"),
    (0x3b7, "pmpaddr7"),
    (0x3b8, "pmpaddr8"),
    (0x3b9, "pmpaddr9"),
    (0x3ba, "pmpaddr10"),
    (0x3bb, "pmpaddr11"),
    (0x3bc, "pmpaddr12"),
    (0x3bd, "pmpaddr13"),
    (0x3be, "pmpaddr14"),
    (0x3bf, "pmpaddr15"),
    (n::MCYCLE, "mcycle"),
    (n::MINSTRET, "minstret"),
    (n::MCYCLEH, "mcycleh"),
    (n::MINSTRETH, "minstreth"),
    (n::CYCLE, "cycle"),
    (0xc01, "time"),
    (n::INSTRET, "instret"),
    (n::CYCLEH, "cycleh"),
    (0xc81, "timeh"),
    (n::INSTRETH, "instreth"),
    (n::MVENDORID, "mvendorid"),
    (n::MARCHID, "marchid"),
    (n::MIMPID, "mimpid"),
    (n::MHARTID, "mhartid"),
];
