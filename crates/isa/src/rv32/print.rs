//! Disassembly in the words of GNU objdump 2.40, short forms included: `mv`, `li`, `ret`, `beqz`,
//! and `add` with an immediate. Compressed instructions print as what they expand to, also where
//! objdump calls one a hint. Targets are absolute addresses, and as in objdump operands follow a
//! tab and have no spaces.

use super::REGISTERS;
use super::csr;
use super::decode::Decoder;
use super::insn::{Format, Insn, Op};

const ZERO: u8 = 0;
const RA: u8 = 1;

/// An instruction that stands at `pc`.
pub fn print(decoder: &Decoder, insn: &Insn, pc: u32) -> String {
    let (name, operands) = short(insn, pc).unwrap_or_else(|| full(decoder, insn, pc));
    if operands.is_empty() { name } else { format!("{name}\t{operands}") }
}

fn reg(number: u8) -> &'static str {
    REGISTERS[usize::from(number & 31)]
}

fn target(insn: &Insn, pc: u32) -> String {
    format!("{:x}", pc.wrapping_add(insn.imm as u32))
}

fn register_name(insn: &Insn) -> String {
    let number = insn.imm as u16;
    csr::name(number).map_or_else(|| format!("{number:#x}"), str::to_string)
}

/// The short form, where objdump has one.
fn short(insn: &Insn, pc: u32) -> Option<(String, String)> {
    let Insn { rd, rs1, rs2, imm, .. } = *insn;
    let (d, s, t) = (reg(rd), reg(rs1), reg(rs2));
    let to = || target(insn, pc);
    let (name, operands) = match insn.op {
        Op::Addi if (rd, rs1, imm) == (ZERO, ZERO, 0) => ("nop", String::new()),
        Op::Addi if rs1 == ZERO => ("li", format!("{d},{imm}")),
        Op::Addi if imm == 0 && insn.len == 4 => ("mv", format!("{d},{s}")),
        Op::Add if rs1 == ZERO && insn.len == 2 => ("mv", format!("{d},{t}")),
        Op::Xori if imm == -1 => ("not", format!("{d},{s}")),
        Op::Andi if imm == 255 => ("zext.b", format!("{d},{s}")),
        Op::Sub if rs1 == ZERO && insn.len == 4 => ("neg", format!("{d},{t}")),
        Op::Sltiu if imm == 1 => ("seqz", format!("{d},{s}")),
        Op::Sltu if rs1 == ZERO => ("snez", format!("{d},{t}")),
        Op::Slt if rs2 == ZERO => ("sltz", format!("{d},{s}")),
        Op::Slt if rs1 == ZERO => ("sgtz", format!("{d},{t}")),
        Op::Jal if rd == ZERO => ("j", to()),
        Op::Jal if rd == RA => ("jal", to()),
        Op::Jalr if (rd, rs1, imm) == (ZERO, RA, 0) => ("ret", String::new()),
        Op::Jalr if rd == ZERO && imm == 0 => ("jr", s.to_string()),
        Op::Jalr if rd == ZERO => ("jr", format!("{imm}({s})")),
        Op::Jalr if rd == RA && imm == 0 => ("jalr", s.to_string()),
        Op::Jalr if rd == RA => ("jalr", format!("{imm}({s})")),
        Op::Jalr if imm == 0 => ("jalr", format!("{d},{s}")),
        Op::Beq if rs2 == ZERO => ("beqz", format!("{s},{}", to())),
        Op::Bne if rs2 == ZERO => ("bnez", format!("{s},{}", to())),
        Op::Bge if rs1 == ZERO => ("blez", format!("{t},{}", to())),
        Op::Bge if rs2 == ZERO => ("bgez", format!("{s},{}", to())),
        Op::Blt if rs2 == ZERO => ("bltz", format!("{s},{}", to())),
        Op::Blt if rs1 == ZERO => ("bgtz", format!("{t},{}", to())),
        Op::Csrrs if rs1 == ZERO => match imm as u16 {
            csr::number::CYCLE => ("rdcycle", d.to_string()),
            0xc01 => ("rdtime", d.to_string()),
            csr::number::INSTRET => ("rdinstret", d.to_string()),
            csr::number::CYCLEH => ("rdcycleh", d.to_string()),
            0xc81 => ("rdtimeh", d.to_string()),
            csr::number::INSTRETH => ("rdinstreth", d.to_string()),
            _ => ("csrr", format!("{d},{}", register_name(insn))),
        },
        Op::Csrrw if rd == ZERO => ("csrw", format!("{},{s}", register_name(insn))),
        Op::Csrrs if rd == ZERO => ("csrs", format!("{},{s}", register_name(insn))),
        Op::Csrrc if rd == ZERO => ("csrc", format!("{},{s}", register_name(insn))),
        Op::Csrrwi if rd == ZERO => ("csrw", format!("{},{rs1}", register_name(insn))),
        Op::Csrrsi if rd == ZERO => ("csrs", format!("{},{rs1}", register_name(insn))),
        Op::Csrrci if rd == ZERO => ("csrc", format!("{},{rs1}", register_name(insn))),
        Op::Fence if imm == 0xff => ("fence", String::new()),
        Op::Fence if imm == 0x833 => ("fence.tso", String::new()),
        Op::Csrrwi => ("csrrw", format!("{d},{},{rs1}", register_name(insn))),
        Op::Csrrsi => ("csrrs", format!("{d},{},{rs1}", register_name(insn))),
        Op::Csrrci => ("csrrc", format!("{d},{},{rs1}", register_name(insn))),
        Op::Addi => ("add", format!("{d},{s},{imm}")),
        Op::Xori => ("xor", format!("{d},{s},{imm}")),
        Op::Ori => ("or", format!("{d},{s},{imm}")),
        Op::Andi => ("and", format!("{d},{s},{imm}")),
        Op::Slli => ("sll", format!("{d},{s},{imm:#x}")),
        Op::Srli => ("srl", format!("{d},{s},{imm:#x}")),
        Op::Srai => ("sra", format!("{d},{s},{imm:#x}")),
        _ => return None,
    };
    Some((name.to_string(), operands))
}

fn full(decoder: &Decoder, insn: &Insn, pc: u32) -> (String, String) {
    let row = decoder.row(insn);
    let Insn { rd, rs1, rs2, imm, .. } = *insn;
    let (d, s, t) = (reg(rd), reg(rs1), reg(rs2));
    let ordering = ["", ".rl", ".aq", ".aqrl"][(imm & 3) as usize];
    let operands = match row.format {
        Format::Register => format!("{d},{s},{t}"),
        Format::Unary => format!("{d},{s}"),
        Format::Immediate => format!("{d},{s},{imm}"),
        Format::Shift => format!("{d},{s},{imm:#x}"),
        Format::Load => format!("{d},{imm}({s})"),
        Format::Store => format!("{t},{imm}({s})"),
        Format::Branch => format!("{s},{t},{}", target(insn, pc)),
        Format::Upper => format!("{d},{:#x}", imm as u32 >> 12),
        Format::Jump => format!("{d},{}", target(insn, pc)),
        Format::Csr => format!("{d},{},{s}", register_name(insn)),
        Format::CsrImmediate => format!("{d},{},{rs1}", register_name(insn)),
        Format::Atomic => return (format!("{}{ordering}", row.name), format!("{d},{t},({s})")),
        Format::Reserve => return (format!("{}{ordering}", row.name), format!("{d},({s})")),
        Format::Fence => format!("{},{}", sides(imm >> 4), sides(imm)),
        Format::Bare => String::new(),
    };
    (row.name.to_string(), operands)
}

/// Accesses that one side of a fence orders.
fn sides(bits: i32) -> String {
    let named: String = [(8, 'i'), (4, 'o'), (2, 'r'), (1, 'w')]
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, c)| *c)
        .collect();
    if named.is_empty() { "unknown".to_string() } else { named }
}
