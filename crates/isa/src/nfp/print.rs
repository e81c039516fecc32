//! Printing listings in the syntax that [`parse`](super::parse) reads.

use super::insn::{ALU_OPS, AluOp, BRANCHES, Insn, MEM_OPS, MUL_STEPS, Op, Operand, Shift, Target};

/// The label listings use for what lies outside them: the end. Helpers' numbers are added to it.
pub const EXIT_LABEL: u32 = 15000;

/// A whole listing, one instruction a line.
pub fn print(insns: &[Insn]) -> String {
    let line = |(index, insn): (usize, &Insn)| {
        format!("{:4x}:\t {:>6}  {}\n", index * 8, format!(".{index}"), text(insn))
    };
    insns.iter().enumerate().map(line).collect()
}

/// One instruction without address and index.
pub fn text(insn: &Insn) -> String {
    let both = if insn.both { ", gpr_wrboth" } else { "" };
    match insn.op {
        Op::Alu { dst, a, op, b } => {
            format!("alu[{}, {}, {}, {}]{both}", operand(dst), operand(a), alu_op(op), operand(b))
        }
        Op::AluShf { dst, a, op, b, shift } => {
            let (dst, a, op, b) = (operand(dst), operand(a), alu_op(op), operand(b));
            format!("alu_shf[{dst}, {a}, {op}, {b}{}]{both}", shift_text(shift))
        }
        Op::Asr { dst, src, shift } => {
            format!("asr[{}, {}{}]{both}", operand(dst), operand(src), shift_text(shift))
        }
        Op::DblShf { dst, high, low, shift } => {
            format!(
                "dbl_shf[{}, {}, {}{}]{both}",
                operand(dst),
                operand(high),
                operand(low),
                shift_text(shift)
            )
        }
        Op::Immed { dst, value, shift } => {
            let shift = if shift == 0 { String::new() } else { format!(", <<{shift}") };
            format!("immed[{}, {value:#x}{shift}]{both}", operand(dst))
        }
        Op::ImmedW1 { dst, value } => format!("immed_w1[{}, {value:#x}]{both}", operand(dst)),
        Op::LdField { dst, mask, src, shift, clear } => {
            let name = if clear { "ld_field_w_clr" } else { "ld_field" };
            format!(
                "{name}[{}, {mask:04b}, {}{}]{both}",
                operand(dst),
                operand(src),
                shift_text(shift)
            )
        }
        Op::Mul { a, b, step } => {
            format!("mul_step[{}, {}], {}{both}", operand(a), operand(b), name(&MUL_STEPS, step))
        }
        Op::CsrWrite { index, src } => format!("local_csr_wr[ActLMAddr{index}, {}]", operand(src)),
        Op::Mem { op, xfer, base, far, offset, count, indirect, swap, defer } => format!(
            "mem[{}, $xfer_{xfer}, {},{} {}, {count}]{}{}{}",
            name(&MEM_OPS, op),
            operand(base),
            if far { " <<8," } else { "" },
            operand(offset),
            if indirect { ", indirect_ref" } else { "" },
            if swap { ", ctx_swap[sig1]" } else { "" },
            defer_text(defer),
        ),
        Op::Branch { cond, target, defer } => {
            let label = label(target);
            format!("{}[.{label}]{}", name(&BRANCHES, cond), defer_text(defer))
        }
        Op::BranchBit { src, bit, target } => {
            format!("br_bset[{}, {bit}, .{}]", operand(src), label(target))
        }
        Op::Nop => "nop".to_string(),
    }
}

fn defer_text(slots: u8) -> String {
    if slots == 0 { String::new() } else { format!(", defer[{slots}]") }
}

fn label(target: Target) -> u32 {
    match target {
        Target::Insn(index) => index,
        Target::Exit => EXIT_LABEL,
        Target::Helper(number) => EXIT_LABEL + number,
    }
}

fn operand(operand: Operand) -> String {
    match operand {
        Operand::None => "--".to_string(),
        Operand::A(n) => format!("gprA_{n}"),
        Operand::B(n) => format!("gprB_{n}"),
        Operand::Xfer(n) => format!("$xfer_{n}"),
        Operand::Local { index, word: 0 } => format!("*l$index{index}"),
        Operand::Local { index, word } => format!("*l$index{index}[{word}]"),
        Operand::LocalNext { index } => format!("*l$index{index}++"),
        Operand::Imm(value) => format!("{value:#x}"),
    }
}

fn shift_text(shift: Shift) -> String {
    match shift {
        Shift::None => String::new(),
        Shift::Left(n) => format!(", <<{n}"),
        Shift::Right(n) => format!(", >>{n}"),
        Shift::Rotate(n) => format!(", >>rot{n}"),
        Shift::LeftIndirect => ", <<indirect".to_string(),
        Shift::RightIndirect => ", >>indirect".to_string(),
    }
}

fn alu_op(op: AluOp) -> &'static str {
    name(&ALU_OPS, op)
}

/// The tables list every value.
fn name<T: PartialEq + Copy>(table: &[(T, &'static str)], wanted: T) -> &'static str {
    table.iter().find(|(value, _)| *value == wanted).map_or("?", |(_, name)| name)
}
