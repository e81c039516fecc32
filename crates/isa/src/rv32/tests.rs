//! Traps, control registers, buses and costs: what user-mode emulators do not show.

use super::csr::number as n;
use super::encode::encode;
use super::*;

const BASE: u32 = 0x1000;

fn asm(op: Op, rd: u8, rs1: u8, rs2: u8, imm: i32) -> u32 {
    let row = RV32IMA.iter().find(|row| row.op == op).expect("a base instruction");
    encode(row, &Insn { op, row: 0, rd, rs1, rs2, imm, len: 4 })
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A core at the first of some words, with a page of memory at zero.
fn machine(words: &[u32], timing: &Timing) -> (Hart, Code, FlatMemory) {
    let code = Code::new(BASE, &bytes(words), &Decoder::rv32imac(), timing);
    (Hart::new(3, BASE), code, FlatMemory::new(0, 0x1000))
}

/// Runs words until something other than the last one's `ecall` stops them, and gives the cycles
/// before it.
fn cycles(words: &[u32], prepare: impl Fn(&mut Hart)) -> u64 {
    let words: Vec<u32> = words.iter().copied().chain([asm(Op::Wfi, 0, 0, 0, 0)]).collect();
    let (mut hart, code, mut memory) = machine(&words, &Timing::RI5CY);
    prepare(&mut hart);
    assert_eq!(hart.run(&code, &mut memory, 10_000), Stop::Waiting);
    hart.cycle - u64::from(Timing::RI5CY.system)
}

fn trap(words: &[u32], prepare: impl Fn(&mut Hart)) -> (Hart, Trap) {
    let (mut hart, code, mut memory) = machine(words, &Timing::UNIT);
    prepare(&mut hart);
    match hart.run(&code, &mut memory, 10_000) {
        Stop::Trap(trap) => (hart, trap),
        other => panic!("{other:?}"),
    }
}

#[test]
fn loads_wait_for_their_use() {
    let load = asm(Op::Lw, 10, 0, 0, 0);
    let use_first = asm(Op::Add, 11, 10, 12, 0);
    let use_second = asm(Op::Sw, 0, 0, 10, 4);
    let other = asm(Op::Addi, 11, 0, 0, 1);
    assert_eq!(cycles(&[load, other], |_| {}), 2);
    assert_eq!(cycles(&[load, use_first], |_| {}), 3);
    assert_eq!(cycles(&[load, use_second], |_| {}), 3);
    assert_eq!(cycles(&[load, other, use_first], |_| {}), 3);
    // Loading into x0 makes nobody wait, even who reads x0.
    assert_eq!(cycles(&[asm(Op::Lw, 0, 0, 0, 0), other], |_| {}), 2);
}

#[test]
fn jumps_and_branches_cost_what_ri5cy_pays() {
    let nop = asm(Op::Addi, 0, 0, 0, 0);
    assert_eq!(cycles(&[asm(Op::Beq, 0, 0, 0, 8), nop], |_| {}), 3);
    assert_eq!(cycles(&[asm(Op::Bne, 0, 0, 0, 8), nop], |_| {}), 2);
    assert_eq!(cycles(&[asm(Op::Jal, 0, 0, 0, 8), nop], |_| {}), 2);
    assert_eq!(cycles(&[asm(Op::Jalr, 0, 10, 0, 0), nop], |hart| hart.set_x(10, BASE + 8)), 2);
    // A four-byte instruction behind a two-byte one crosses a word: c.nop, then what is jumped to.
    let crossing = [asm(Op::Jal, 0, 0, 0, 6), nop << 16 | 1, nop >> 16 | 1 << 16];
    assert_eq!(cycles(&crossing, |_| {}), 2 + 1 + 1 + 1);
    let branch = [asm(Op::Beq, 0, 0, 0, 6), crossing[1], crossing[2]];
    assert_eq!(cycles(&branch, |_| {}), 3 + 1 + 1 + 1);
    let register = [asm(Op::Jalr, 0, 10, 0, 0), crossing[1], crossing[2]];
    assert_eq!(cycles(&register, |hart| hart.set_x(10, BASE + 6)), 2 + 1 + 1 + 1);
}

#[test]
fn arithmetic_and_memory_cost_what_ri5cy_pays() {
    assert_eq!(cycles(&[asm(Op::Mul, 10, 11, 12, 0)], |_| {}), 1);
    assert_eq!(cycles(&[asm(Op::Mulhu, 10, 11, 12, 0)], |_| {}), 5);
    let division = |op, divisor| cycles(&[asm(op, 10, 11, 12, 0)], |hart| hart.set_x(12, divisor));
    assert_eq!(division(Op::Divu, 0), 35);
    assert_eq!(division(Op::Divu, u32::MAX), 3);
    assert_eq!(division(Op::Rem, u32::MAX), 3 + 31);
    assert_eq!(cycles(&[asm(Op::Lw, 10, 0, 0, 2)], |_| {}), 2);
    assert_eq!(cycles(&[asm(Op::Lh, 10, 0, 0, 1)], |_| {}), 1);
    assert_eq!(cycles(&[asm(Op::Sh, 0, 0, 10, 3)], |_| {}), 2);
    assert_eq!(cycles(&[asm(Op::AmoAdd, 10, 0, 11, 0)], |_| {}), 1);
}

#[test]
fn traps_say_where_and_why() {
    let (hart, found) = trap(&[asm(Op::Addi, 10, 0, 0, 1), asm(Op::Lw, 10, 0, 0, -4)], |_| {});
    assert_eq!((found.cause, found.pc, found.value), (Cause::LoadFault, BASE + 4, u32::MAX - 3));
    assert_eq!((hart.pc, hart.x(10), hart.instret), (BASE + 4, 1, 1), "the load did nothing");
    assert_eq!(found.to_string(), "pc 0x00001004: load from 0xfffffffc: no memory at this address");
    let (_, found) = trap(&[asm(Op::Sb, 0, 0, 0, -1)], |_| {});
    assert_eq!(found.cause, Cause::StoreFault);
    let (_, found) = trap(&[asm(Op::LrW, 10, 11, 0, 0)], |hart| hart.set_x(11, 6));
    assert_eq!((found.cause, found.value), (Cause::MisalignedLoad, 6));
    let (_, found) = trap(&[asm(Op::AmoOr, 10, 11, 0, 0)], |hart| hart.set_x(11, 2));
    assert_eq!(found.cause, Cause::MisalignedStore);
    let (_, found) = trap(&[0xffff_ffff], |_| {});
    assert_eq!((found.cause, found.value), (Cause::Illegal, 0xffff_ffff));
    let (_, found) = trap(&[0], |_| {});
    assert_eq!((found.cause, found.value), (Cause::Illegal, 0));
    let (_, found) = trap(&[asm(Op::Jal, 0, 0, 0, 0x4_0000)], |_| {});
    assert_eq!((found.cause, found.pc), (Cause::FetchFault, BASE + 0x4_0000));
    let (_, found) = trap(&[asm(Op::Ebreak, 0, 0, 0, 0)], |_| {});
    assert_eq!(found.cause, Cause::Breakpoint);
    let (_, found) = trap(&[asm(Op::Ecall, 0, 0, 0, 0)], |hart| hart.user = true);
    assert_eq!(found.cause, Cause::CallFromUser);
}

#[test]
fn without_compressed_instructions_jumps_go_to_words() {
    let decoder = Decoder::rv32imac().without_compressed();
    for jump in [asm(Op::Jal, 1, 0, 0, 6), asm(Op::Beq, 0, 0, 0, 6), asm(Op::Jalr, 1, 10, 0, 2)] {
        let code = Code::new(BASE, &bytes(&[jump, 0x13, 0x13]), &decoder, &Timing::UNIT);
        let mut hart = Hart::new(0, BASE);
        hart.set_x(10, BASE + 4);
        let Stop::Trap(found) = hart.run(&code, &mut FlatMemory::new(0, 0), 10) else {
            panic!("no trap")
        };
        assert_eq!((found.cause, found.value, found.pc), (Cause::MisalignedJump, BASE + 6, BASE));
        assert_eq!(hart.x(1), 0, "nothing is linked");
    }
    assert_eq!(decoder.decode(1), None, "c.nop");
}

#[test]
fn a_handler_returns_to_the_mode_it_came_from() {
    let words = [asm(Op::Ecall, 0, 0, 0, 0), asm(Op::Wfi, 0, 0, 0, 0), asm(Op::Mret, 0, 0, 0, 0)];
    let (mut hart, code, mut memory) = machine(&words, &Timing::UNIT);
    hart.user = true;
    hart.csrs.mtvec = BASE + 8;
    let Stop::Trap(found) = hart.run(&code, &mut memory, 100) else { panic!("no trap") };
    hart.take(&found);
    assert_eq!((hart.user, hart.pc, hart.csrs.mepc, hart.csrs.mcause), (false, BASE + 8, BASE, 8));
    hart.csrs.mepc += 4;
    assert_eq!(hart.run(&code, &mut memory, 100), Stop::Waiting);
    assert_eq!((hart.user, hart.pc), (true, BASE + 8), "wfi behind the call, in user mode");
    let Stop::Trap(found) = hart.run(&code, &mut memory, 100) else { panic!("no trap") };
    assert_eq!(found.reason, "mret in user mode");
}

#[test]
fn control_registers_are_guarded() {
    let read = |number: u16| asm(Op::Csrrs, 10, 0, 0, i32::from(number));
    let (hart, found) = trap(&[read(n::MHARTID), read(0x7c0)], |_| {});
    assert_eq!((hart.x(10), found.value), (3, read(0x7c0)));
    assert_eq!(found.reason, "no such register");
    let (_, found) = trap(&[asm(Op::Csrrw, 0, 10, 0, i32::from(n::MHARTID))], |_| {});
    assert_eq!(found.reason, "a register that can only be read");
    let (_, found) = trap(&[read(n::MCYCLE)], |hart| hart.user = true);
    assert_eq!(found.reason, "a machine-mode register in user mode");
    // User mode sees its counters only if allowed.
    let (_, found) = trap(&[read(n::CYCLE)], |hart| hart.user = true);
    assert_eq!(found.reason, "no such register");
}

#[test]
fn counters_count_stop_and_are_set() {
    let write = |number: u16, value: u8| asm(Op::Csrrwi, 0, value, 0, i32::from(number));
    let read = |rd, number: u16| asm(Op::Csrrs, rd, 0, 0, i32::from(number));
    let words = [
        asm(Op::Mulh, 0, 0, 0, 0),
        read(10, n::MCYCLE),
        read(11, n::MINSTRET),
        write(n::MCOUNTINHIBIT, 1),
        read(12, n::MCYCLE),
        read(13, n::MCYCLE),
        write(n::MCYCLE, 20),
        write(n::MCOUNTINHIBIT, 0),
        read(14, n::MCYCLE),
        asm(Op::Wfi, 0, 0, 0, 0),
    ];
    let (mut hart, code, mut memory) = machine(&words, &Timing::RI5CY);
    assert_eq!(hart.run(&code, &mut memory, 100), Stop::Waiting);
    assert_eq!((hart.x(10), hart.x(11)), (5, 2));
    assert_eq!((hart.x(12), hart.x(13)), (7, 7), "stopped");
    assert_eq!(hart.x(14), 21);
}

/// A memory that is far away, blocks once, and keeps one register; lines of sixteen bytes take nine
/// cycles.
struct Far {
    blocked: bool,
    custom: u32,
    lines: Vec<u32>,
}

impl Bus for Far {
    const LINE: u32 = 16;

    fn load(&mut self, access: Access) -> Result<Reply, Refusal> {
        if std::mem::take(&mut self.blocked) {
            return Err(Refusal::Later);
        }
        Ok(Reply { value: access.now as u32, wait: 21, pause: false })
    }

    fn store(&mut self, _: Access, _: u32) -> Result<Reply, Refusal> {
        Ok(Reply { value: 0, wait: 20, pause: true })
    }

    fn fetch(&mut self, _: u32) -> Result<u16, Refusal> {
        Err(Refusal::Fault("no code here"))
    }

    fn line(&mut self, at: u32, _: u64) -> u32 {
        self.lines.push(at);
        9
    }

    fn load_reserved(&mut self, access: Access) -> Result<Reply, Refusal> {
        self.load(access)
    }

    fn store_conditional(&mut self, _: Access, _: u32) -> Result<Reply, Refusal> {
        Ok(Reply::now(2))
    }

    fn csr_read(&mut self, number: u16, _: u64) -> Option<u32> {
        (number == 0x7c0).then_some(self.custom)
    }

    fn csr_write(&mut self, number: u16, value: u32, _: u64) -> bool {
        self.custom = value;
        number == 0x7c0
    }
}

#[test]
fn buses_delay_block_pause_and_add_registers() {
    let words = [
        asm(Op::Lw, 10, 0, 0, 0),
        asm(Op::Sw, 0, 0, 10, 0),
        asm(Op::ScW, 11, 0, 10, 0),
        asm(Op::Csrrwi, 0, 9, 0, 0x7c0),
        asm(Op::Csrrs, 12, 0, 0, 0x7c0),
        asm(Op::Wfi, 0, 0, 0, 0),
    ];
    let (mut hart, code, _) = machine(&words, &Timing::RI5CY);
    let mut far = Far { blocked: true, custom: 0, lines: Vec::new() };
    assert_eq!(hart.run(&code, &mut far, 1000), Stop::Blocked);
    assert_eq!((hart.cycle, hart.instret, hart.pc), (9, 0, BASE), "only the line has come");
    assert_eq!(hart.run(&code, &mut far, 10), Stop::Time);
    // Line, load with use, wait.
    assert_eq!((hart.cycle, hart.x(10)), (9 + 2 + 21, 9));
    assert_eq!(hart.run(&code, &mut far, 1000), Stop::Paused);
    assert_eq!((hart.cycle, hart.pc), (9 + 23 + 21, BASE + 8));
    assert_eq!(hart.run(&code, &mut far, 1000), Stop::Waiting);
    assert_eq!((hart.x(11), hart.x(12)), (2, 9));
    assert_eq!(far.lines, [BASE, BASE + 16]);
}

#[test]
fn code_outside_the_prepared_region_means_and_costs_the_same() {
    let words = [
        asm(Op::Lw, 10, 0, 0, 0),
        asm(Op::Add, 11, 10, 10, 0),
        asm(Op::Beq, 0, 0, 0, 6),
        0x13 << 16 | 1,
        1 << 16,
        asm(Op::Wfi, 0, 0, 0, 0),
    ];
    let contents = bytes(&words);
    let run = |prepared: &[u8]| {
        let code = Code::new(0x100, prepared, &Decoder::rv32imac(), &Timing::RI5CY);
        let mut memory = FlatMemory::new(0, 0x1000);
        memory.bytes_mut(0x100, contents.len()).unwrap().copy_from_slice(&contents);
        memory.bytes_mut(0, 4).unwrap().copy_from_slice(&[7, 0, 0, 0]);
        let mut hart = Hart::new(0, 0x100);
        assert_eq!(hart.run(&code, &mut memory, 1000), Stop::Waiting);
        (hart.cycle, hart.instret, hart.x(11), hart.pc)
    };
    assert_eq!(run(&contents), run(&[]));
    assert_eq!(run(&contents), (2 + 1 + 4 + 1 + 1 + 1, 6, 14, 0x118));
}

#[test]
fn extensions_are_rows() {
    // Two instructions such as Xpulpv2 has, in an opcode that is free for custom ones.
    let clear = Row {
        name: "p.clear",
        mask: 0xfe00_707f,
        value: 0x0000_000b,
        format: Format::Register,
        op: Op::Pure,
        class: Class::Alu,
        pure: Some(|a, b, _| a & !b),
    };
    let accumulate = Row {
        name: "p.mac",
        value: 0x0200_000b,
        class: Class::Multiply,
        pure: Some(|a, b, old| old.wrapping_add(a.wrapping_mul(b))),
        ..clear
    };
    let decoder = Decoder::with(&[&[clear, accumulate]]);
    let of = |rd, rs1, rs2| Insn { op: Op::Pure, row: 0, rd, rs1, rs2, imm: 0, len: 4 };
    let words = [
        encode(&clear, &of(10, 11, 12)),
        encode(&accumulate, &of(10, 11, 12)),
        0x4585, // c.li a1,1, so that compressed rows are found behind an extension's
        asm(Op::Wfi, 0, 0, 0, 0),
    ];
    let mut contents = bytes(&words[..2]);
    contents.extend_from_slice(&(words[2] as u16).to_le_bytes());
    contents.extend(bytes(&words[3..]));
    let code = Code::new(BASE, &contents, &decoder, &Timing::RI5CY);
    let mut hart = Hart::new(0, BASE);
    hart.set_x(11, 0xff);
    hart.set_x(12, 0x0f);
    assert_eq!(hart.run(&code, &mut FlatMemory::new(0, 0), 100), Stop::Waiting);
    assert_eq!((hart.x(10), hart.x(11), hart.cycle), (0xf0 + 0xff * 0x0f, 1, 4));
    let first = decoder.decode(words[0]).unwrap();
    assert_eq!(print(&decoder, &first, 0), "p.clear\ta0,a1,a2");
    assert_eq!(Decoder::rv32imac().decode(words[0]), None);
}

#[test]
fn summing_words_takes_six_cycles_each_as_in_rtl() {
    // What GCC 12 makes of a sum over words; PsPIN's RTL takes 1525 cycles for the handler of 256
    // words.
    let body = [
        asm(Op::Lw, 14, 15, 0, 0),
        asm(Op::Addi, 15, 15, 0, 4),
        asm(Op::Add, 10, 10, 14, 0),
        asm(Op::Bne, 0, 13, 15, -12),
    ];
    let taken = cycles(&body, |hart| hart.set_x(13, 256 * 4));
    assert_eq!(taken, 6 * 256 - 2, "the last branch is not taken");
}
