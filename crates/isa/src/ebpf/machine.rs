//! The interpreter (RFC 9669, sections 4 and 5): one program run, instructions counted.
//!
//! Helpers and the addresses behind `lddw` come from a [`Host`]. Loads from the context are the
//! host's too, since the kernel gives 64-bit pointers where the context's layout has 32-bit
//! members. `bpf_loop` alone is done here, since it calls functions of the program.

use super::insn::{Insn, LDDW, SOURCE_REGISTER, class, width};
use super::memory::{Access, Memory};
use crate::object::PSEUDO_FUNCTION;

/// Stack bytes of one frame.
const STACK_BYTES: usize = 512;
/// Address the context pretends to be at; no memory region is there.
const CONTEXT: u64 = 1 << 63;
/// Addresses functions pretend to be at, by their first instruction; no memory region is there.
const FUNCTIONS: u64 = 1 << 62;
/// Number of the helper `bpf_loop(trips, function, context, flags)`.
pub const LOOP: i32 = 181;
/// Trips of `bpf_loop` at most (`BPF_MAX_LOOPS` of the kernel).
pub const MOST_TRIPS: u32 = 8 << 20;
const INVALID: u64 = -22i64 as u64;
/// As the kernel's verifier writes it: without a sign in the upper half.
const TOO_MANY: u64 = -7i32 as u32 as u64;

/// The surroundings of a program.
pub trait Host {
    /// The value that `lddw` with a pseudo source (map, map value, …) loads.
    fn address(
        &mut self,
        memory: &mut Memory,
        src: u8,
        imm: i32,
        next_imm: i32,
    ) -> Result<u64, Fault>;
    /// A load of `size` bytes at `offset` of the context.
    fn context(&mut self, memory: &mut Memory, offset: u64, size: usize) -> Result<u64, Fault>;
    /// A store of `size` bytes at `offset` of the context.
    fn context_store(&mut self, offset: u64, size: usize, _value: u64) -> Result<(), Fault> {
        Err(Fault::Memory { address: CONTEXT | offset, size, access: Access::Write })
    }
    /// A helper call with `r1` to `r5`; gives `r0`.
    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault>;
    /// Hears of every instruction before it runs.
    fn at(&mut self, _pc: usize) {}
    /// Hears of every access to memory, behind the instruction.
    fn access(&mut self, _address: u64) {}
    /// Hears of every conditional jump.
    fn branch(&mut self, _pc: usize, _taken: bool) {}
    /// The value that a load or an atomic operation gets instead of memory, the context included.
    fn load(&mut self, _pc: usize, _size: usize) -> Option<u64> {
        None
    }
}

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{access:?} of {size} bytes at {address:#x}, which is not memory")]
    Memory { address: u64, size: usize, access: Access },
    #[error("unknown opcode {code:#04x} at instruction {pc}")]
    Opcode { pc: usize, code: u8 },
    #[error("jump out of the program from instruction {pc}")]
    Jump { pc: usize },
    #[error("more than {limit} instructions")]
    Limit { limit: u64 },
    #[error("helper {helper}: {message}")]
    Helper { helper: i32, message: String },
    #[error("calls a function of the kernel (kfunc) at instruction {pc}")]
    KernelFunction { pc: usize },
    #[error("calls nest deeper than 8")]
    Depth,
}

/// A finished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// `r0` at the exit: the verdict.
    pub result: u64,
    /// Instructions executed; `lddw` counts as one.
    pub executed: u64,
}

/// A program to run.
pub struct Machine<'a> {
    pub program: &'a [Insn],
    /// Most instructions a run may execute.
    pub limit: u64,
}

struct Frame {
    back: usize,
    saved: [u64; 5],
    /// Set while `bpf_loop` calls the function.
    calls: Option<Calls>,
}

/// Calls of a function by `bpf_loop`.
struct Calls {
    function: usize,
    context: u64,
    done: u32,
    trips: u32,
}

impl Calls {
    /// Calls that `bpf_loop` is to make, or the result that it gives at once.
    fn new(pc: usize, args: [u64; 5]) -> Result<Result<Calls, u64>, Fault> {
        let trips = args[0] as u32;
        match trips {
            _ if args[3] != 0 => return Ok(Err(INVALID)),
            0 => return Ok(Err(0)),
            _ if trips > MOST_TRIPS => return Ok(Err(TOO_MANY)),
            _ => {}
        }
        let function = args[1].checked_sub(FUNCTIONS).ok_or(Fault::Jump { pc })? as usize;
        Ok(Ok(Calls { function, context: args[2], done: 0, trips }))
    }
}

impl Machine<'_> {
    /// Runs from the first instruction with `r1` pointing to the context.
    ///
    /// # Errors
    /// See [`Fault`]. A program that the kernel's verifier accepted never faults.
    pub fn run(&self, memory: &mut Memory, host: &mut dyn Host) -> Result<Run, Fault> {
        self.run_from(0, memory, host)
    }

    /// Runs from an instruction on, with a stack of its own, as a tail call does.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn run_from(
        &self,
        entry: usize,
        memory: &mut Memory,
        host: &mut dyn Host,
    ) -> Result<Run, Fault> {
        let mut r = [0u64; 11];
        let stack = memory.add(vec![0; STACK_BYTES * 8]);
        r[1] = CONTEXT;
        r[10] = stack.address() + STACK_BYTES as u64;
        let mut frames: Vec<Frame> = Vec::new();
        let (mut pc, mut executed) = (entry, 0u64);
        loop {
            let insn = *self.program.get(pc).ok_or(Fault::Jump { pc })?;
            host.at(pc);
            executed += 1;
            if executed > self.limit {
                return Err(Fault::Limit { limit: self.limit });
            }
            let (dst, src) = (insn.dst as usize, insn.src as usize);
            if dst > 10 || src > 10 {
                return Err(Fault::Opcode { pc, code: insn.code });
            }
            let mut next = pc + 1;
            match insn.code & 7 {
                class::LD if insn.code == LDDW => {
                    let high = self.program.get(pc + 1).ok_or(Fault::Jump { pc })?.imm;
                    r[dst] = match insn.src {
                        0 => insn.imm as u32 as u64 | (high as u32 as u64) << 32,
                        PSEUDO_FUNCTION => FUNCTIONS + jump(pc, insn.imm as i64)? as u64,
                        pseudo => host.address(memory, pseudo, insn.imm, high)?,
                    };
                    next = pc + 2;
                }
                class::LDX if insn.code & 0xe0 == 0x60 || insn.code & 0xe0 == 0x80 => {
                    let address = r[src].wrapping_add(insn.off as i64 as u64);
                    let size = width(insn.code);
                    host.access(address);
                    let value = if let Some(value) = host.load(pc, size) {
                        value
                    } else if address & CONTEXT != 0 {
                        host.context(memory, address ^ CONTEXT, size)?
                    } else {
                        memory.load(address, size)?
                    };
                    // Mode 0x80 extends the sign.
                    let shift = 64 - 8 * size as u32;
                    r[dst] = if insn.code & 0xe0 == 0x80 {
                        ((value << shift) as i64 >> shift) as u64
                    } else {
                        value
                    };
                }
                kind @ (class::ST | class::STX) if insn.code & 0xe0 == 0x60 => {
                    let address = r[dst].wrapping_add(insn.off as i64 as u64);
                    let value = if kind == class::ST { insn.imm as i64 as u64 } else { r[src] };
                    host.access(address);
                    let size = width(insn.code);
                    if address & CONTEXT != 0 {
                        host.context_store(address ^ CONTEXT, size, value)?;
                    } else {
                        memory.store(address, size, value)?;
                    }
                }
                class::STX if insn.code & 0xe0 == 0xc0 => {
                    let given = host.load(pc, width(insn.code));
                    host.access(r[dst].wrapping_add(insn.off as i64 as u64));
                    atomic(memory, &mut r, insn, pc, given)?;
                }
                class::ALU => {
                    let (a, b) = (r[dst] as u32, self.second(insn, &r) as u32);
                    r[dst] =
                        alu32(insn, a, b, r[dst]).ok_or(Fault::Opcode { pc, code: insn.code })?;
                }
                class::ALU64 => {
                    r[dst] = alu64(insn, r[dst], self.second(insn, &r))
                        .ok_or(Fault::Opcode { pc, code: insn.code })?;
                }
                class::JMP if insn.code == 0x85 && insn.src == 1 => {
                    if frames.len() == 7 {
                        return Err(Fault::Depth);
                    }
                    let saved = [r[6], r[7], r[8], r[9], r[10]];
                    frames.push(Frame { back: next, saved, calls: None });
                    r[10] += STACK_BYTES as u64;
                    next = jump(pc, insn.imm as i64)?;
                }
                class::JMP if insn.code == 0x85 && insn.src == 0 && insn.imm == LOOP => {
                    match Calls::new(pc, [r[1], r[2], r[3], r[4], r[5]])? {
                        Ok(_) if frames.len() == 7 => return Err(Fault::Depth),
                        Ok(calls) => {
                            (r[1], r[2], next) = (0, calls.context, calls.function);
                            let saved = [r[6], r[7], r[8], r[9], r[10]];
                            frames.push(Frame { back: pc + 1, saved, calls: Some(calls) });
                            r[10] += STACK_BYTES as u64;
                        }
                        Err(result) => r[0] = result,
                    }
                }
                class::JMP if insn.code == 0x85 && insn.src == 2 => {
                    return Err(Fault::KernelFunction { pc });
                }
                class::JMP if insn.code == 0x85 => {
                    r[0] = host.call(memory, insn.imm, [r[1], r[2], r[3], r[4], r[5]])?;
                    r[1..6].fill(0);
                }
                class::JMP if insn.code == 0x95 => match frames.pop() {
                    Some(mut frame) => {
                        if let Some(calls) = &mut frame.calls {
                            calls.done += 1;
                            if r[0] == 0 && calls.done < calls.trips {
                                (r[1], r[2]) = (calls.done.into(), calls.context);
                                pc = calls.function;
                                frames.push(frame);
                                continue;
                            }
                            r[0] = calls.done.into();
                        }
                        r[6..11].copy_from_slice(&frame.saved);
                        next = frame.back;
                    }
                    None => return Ok(Run { result: r[0], executed }),
                },
                class::JMP if insn.code == 0x05 => next = jump(pc, insn.off as i64)?,
                class::JMP32 if insn.code == 0x06 => next = jump(pc, insn.imm as i64)?,
                kind @ (class::JMP | class::JMP32) => {
                    let (mut a, mut b) = (r[dst], self.second(insn, &r));
                    if kind == class::JMP32 {
                        (a, b) = (a as u32 as u64, b as u32 as u64);
                    }
                    let taken = condition(insn.code, a, b, kind == class::JMP32)
                        .ok_or(Fault::Opcode { pc, code: insn.code })?;
                    host.branch(pc, taken);
                    if taken {
                        next = jump(pc, insn.off as i64)?;
                    }
                }
                _ => return Err(Fault::Opcode { pc, code: insn.code }),
            }
            pc = next;
        }
    }

    fn second(&self, insn: Insn, r: &[u64; 11]) -> u64 {
        if insn.code & SOURCE_REGISTER != 0 { r[insn.src as usize] } else { insn.imm as i64 as u64 }
    }
}

fn jump(pc: usize, by: i64) -> Result<usize, Fault> {
    usize::try_from(pc as i64 + 1 + by).map_err(|_| Fault::Jump { pc })
}

fn condition(code: u8, a: u64, b: u64, narrow: bool) -> Option<bool> {
    let (sa, sb) = if narrow { (a as i32 as i64, b as i32 as i64) } else { (a as i64, b as i64) };
    Some(match code & 0xf0 {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        0x50 => a != b,
        0x60 => sa > sb,
        0x70 => sa >= sb,
        0xa0 => a < b,
        0xb0 => a <= b,
        0xc0 => sa < sb,
        0xd0 => sa <= sb,
        _ => return None,
    })
}

fn alu64(insn: Insn, a: u64, b: u64) -> Option<u64> {
    Some(match insn.code & 0xf0 {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 if insn.off == 0 => a.checked_div(b).unwrap_or(0),
        0x30 => {
            if b == 0 {
                0
            } else {
                (a as i64).wrapping_div(b as i64) as u64
            }
        }
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a << (b & 63),
        0x70 => a >> (b & 63),
        0x80 => a.wrapping_neg(),
        0x90 if insn.off == 0 => a.checked_rem(b).unwrap_or(a),
        0x90 => {
            if b == 0 {
                a
            } else {
                (a as i64).wrapping_rem(b as i64) as u64
            }
        }
        0xa0 => a ^ b,
        // A displacement of 8, 16 or 32 on a move extends the sign from there.
        0xb0 => extend(b, insn.off),
        0xc0 => ((a as i64) >> (b & 63)) as u64,
        // Unconditional byte swap.
        0xd0 => swap(a, insn.imm)?,
        _ => return None,
    })
}

fn alu32(insn: Insn, a: u32, b: u32, whole: u64) -> Option<u64> {
    Some(match insn.code & 0xf0 {
        0x00 => a.wrapping_add(b) as u64,
        0x10 => a.wrapping_sub(b) as u64,
        0x20 => a.wrapping_mul(b) as u64,
        0x30 if insn.off == 0 => a.checked_div(b).unwrap_or(0) as u64,
        0x30 => {
            if b == 0 {
                0
            } else {
                (a as i32).wrapping_div(b as i32) as u32 as u64
            }
        }
        0x40 => (a | b) as u64,
        0x50 => (a & b) as u64,
        0x60 => (a << (b & 31)) as u64,
        0x70 => (a >> (b & 31)) as u64,
        0x80 => a.wrapping_neg() as u64,
        0x90 if insn.off == 0 => a.checked_rem(b).unwrap_or(a) as u64,
        0x90 => {
            if b == 0 {
                a as u64
            } else {
                (a as i32).wrapping_rem(b as i32) as u32 as u64
            }
        }
        0xa0 => (a ^ b) as u64,
        0xb0 => extend(b as u64, insn.off) as u32 as u64,
        0xc0 => ((a as i32) >> (b & 31)) as u32 as u64,
        // To little-endian truncates, to big-endian (source bit) swaps.
        0xd0 if insn.code & SOURCE_REGISTER == 0 => match insn.imm {
            16 => whole as u16 as u64,
            32 => whole as u32 as u64,
            64 => whole,
            _ => return None,
        },
        0xd0 => swap(whole, insn.imm)?,
        _ => return None,
    })
}

fn extend(value: u64, bits: i16) -> u64 {
    match bits {
        8 => value as i8 as u64,
        16 => value as i16 as u64,
        32 => value as i32 as u64,
        _ => value,
    }
}

fn swap(value: u64, bits: i32) -> Option<u64> {
    Some(match bits {
        16 => (value as u16).swap_bytes() as u64,
        32 => (value as u32).swap_bytes() as u64,
        64 => value.swap_bytes(),
        _ => return None,
    })
}

/// Atomic read-modify-write of 32 or 64 bits; bit 0 of the immediate asks for the old value, which
/// may be given instead of what is in memory.
fn atomic(
    memory: &mut Memory,
    r: &mut [u64; 11],
    insn: Insn,
    pc: usize,
    given: Option<u64>,
) -> Result<(), Fault> {
    let size = width(insn.code);
    let address = r[insn.dst as usize].wrapping_add(insn.off as i64 as u64);
    let found = memory.load(address, size)?;
    let old = given.unwrap_or(found);
    let operand = r[insn.src as usize];
    let new = match insn.imm & !1 {
        0x00 => old.wrapping_add(operand),
        0x40 => old | operand,
        0x50 => old & operand,
        0xa0 => old ^ operand,
        0xe0 => operand,
        // Compare-and-exchange: r0 is what is expected and gets what was there.
        0xf0 => {
            let expected = if size == 4 { r[0] as u32 as u64 } else { r[0] };
            r[0] = old;
            if old == expected { operand } else { old }
        }
        _ => return Err(Fault::Opcode { pc, code: insn.code }),
    };
    memory.store(address, size, new)?;
    if insn.imm & 1 != 0 && insn.imm & !1 != 0xf0 {
        r[insn.src as usize] = old;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoHost;

    impl Host for NoHost {
        fn address(&mut self, _: &mut Memory, _: u8, imm: i32, _: i32) -> Result<u64, Fault> {
            Ok(imm as u64)
        }
        fn context(&mut self, _: &mut Memory, offset: u64, _: usize) -> Result<u64, Fault> {
            Ok(100 + offset)
        }
        fn call(&mut self, _: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
            Ok(helper as u64 + args[0])
        }
    }

    fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
        Insn { code, dst, src, off, imm }
    }

    fn run(program: &[Insn]) -> Result<Run, Fault> {
        Machine { program, limit: 1000 }.run(&mut Memory::default(), &mut NoHost)
    }

    #[test]
    fn counts_a_loop() {
        let program = [
            insn(0xb7, 0, 0, 0, 0),  // r0 = 0
            insn(0xb7, 1, 0, 0, 5),  // r1 = 5
            insn(0x0f, 0, 1, 0, 0),  // r0 += r1
            insn(0x17, 1, 0, 0, 1),  // r1 -= 1
            insn(0x55, 1, 0, -3, 0), // if r1 != 0 goto -3
            insn(0x95, 0, 0, 0, 0),  // exit
        ];
        assert_eq!(run(&program), Ok(Run { result: 15, executed: 2 + 3 * 5 + 1 }));
    }

    #[test]
    fn narrow_arithmetic_clears_the_upper_half() {
        let program = [
            insn(0x18, 0, 0, 0, -1),
            insn(0, 0, 0, 0, -1),
            insn(0x04, 0, 0, 0, 1), // w0 += 1
            insn(0x95, 0, 0, 0, 0),
        ];
        assert_eq!(run(&program), Ok(Run { result: 0, executed: 3 }));
    }

    #[test]
    fn calls_save_registers_and_give_a_new_frame() {
        let program = [
            insn(0xb7, 6, 0, 0, 7),
            insn(0x85, 0, 1, 0, 3), // call +3
            insn(0x0f, 0, 6, 0, 0), // r0 += r6
            insn(0x95, 0, 0, 0, 0),
            insn(0x95, 0, 0, 0, 0), // padding, never reached
            insn(0xb7, 6, 0, 0, 1), // callee: r6 = 1
            insn(0x7a, 10, 0, -8, 5),
            insn(0x79, 0, 10, -8, 0),
            insn(0x95, 0, 0, 0, 0),
        ];
        assert_eq!(run(&program).map(|r| r.result), Ok(12));
    }

    /// `bpf_loop` over a function that adds the trip to what its context points to.
    fn sum_of_trips(trips: i32, until: i32, flags: i32) -> Vec<Insn> {
        vec![
            insn(0xb7, 6, 0, 0, 100),
            insn(0x7a, 10, 0, -8, 0),
            insn(0xb7, 1, 0, 0, trips),
            insn(0x18, 2, PSEUDO_FUNCTION, 0, 9),
            insn(0, 0, 0, 0, 0),
            insn(0xbf, 3, 10, 0, 0),
            insn(0x07, 3, 0, 0, -8),
            insn(0xb7, 4, 0, 0, flags),
            insn(0x85, 0, 0, 0, LOOP),
            insn(0x79, 1, 10, -8, 0),
            insn(0x27, 1, 0, 0, 1000), // what was added, times 1000
            insn(0x0f, 0, 1, 0, 0),    // and the result of the loop
            insn(0x95, 0, 0, 0, 0),
            insn(0x79, 6, 2, 0, 0), // the function, with a register that is the caller's
            insn(0x0f, 6, 1, 0, 0),
            insn(0x7b, 2, 6, 0, 0),
            insn(0xb7, 0, 0, 0, 0),
            insn(0x55, 1, 0, 1, until),
            insn(0xb7, 0, 0, 0, 1),
            insn(0x95, 0, 0, 0, 0),
        ]
    }

    #[test]
    fn loops_call_a_function_until_it_says_so() {
        let of = |trips, until, flags| {
            run(&sum_of_trips(trips, until, flags)).map(|run| run.result as i64)
        };
        assert_eq!(of(5, 9, 0), Ok(10_005));
        assert_eq!(of(5, 2, 0), Ok(3_003));
        assert_eq!(of(0, 9, 0), Ok(0));
        assert_eq!(of(5, 9, 1), Ok(-22));
        assert_eq!(of((8 << 20) + 1, 9, 0), Ok((-7i32 as u32).into()));
        // Without the address of a function.
        let mut wrong = sum_of_trips(5, 9, 0);
        (wrong[3].src, wrong[3].imm) = (0, 9);
        assert_eq!(run(&wrong), Err(Fault::Jump { pc: 8 }));
    }

    #[test]
    fn faults_are_reported() {
        assert_eq!(run(&[insn(0x05, 0, 0, -1, 0)]), Err(Fault::Limit { limit: 1000 }));
        assert!(matches!(run(&[insn(0x79, 0, 0, 0, 0)]), Err(Fault::Memory { .. })));
        assert_eq!(run(&[insn(0xff, 0, 0, 0, 0)]), Err(Fault::Opcode { pc: 0, code: 0xff }));
        assert_eq!(run(&[]), Err(Fault::Jump { pc: 0 }));
    }

    #[test]
    fn compare_and_exchange() {
        let program = [
            insn(0x7a, 10, 0, -8, 4), // *(r10 - 8) = 4
            insn(0xb7, 0, 0, 0, 4),   // expect 4
            insn(0xb7, 2, 0, 0, 9),
            insn(0xdb, 10, 2, -8, 0xf1), // cmpxchg
            insn(0x79, 1, 10, -8, 0),
            insn(0x0f, 0, 1, 0, 0), // 4 + 9
            insn(0x95, 0, 0, 0, 0),
        ];
        assert_eq!(run(&program).map(|r| r.result), Ok(13));
    }

    #[test]
    fn division_by_zero_is_defined() {
        let program = [
            insn(0xb7, 0, 0, 0, 7),
            insn(0xb7, 1, 0, 0, 0),
            insn(0x9f, 0, 1, 0, 0), // r0 %= r1: stays
            insn(0x3f, 1, 1, 0, 0), // r1 /= r1: 0
            insn(0x0f, 0, 1, 0, 0),
            insn(0x95, 0, 0, 0, 0),
        ];
        assert_eq!(run(&program).map(|r| r.result), Ok(7));
    }
}
