//! Reading listings: one instruction a line, `ADDRESS:<TAB> .INDEX  mnemonic[operands], modifiers`.

use super::insn::{
    ALU_OPS, AluOp, BRANCHES, Insn, MEM_OPS, MUL_STEPS, MemOp, MulStep, Op, Operand, Shift, Target,
};
use super::print::EXIT_LABEL;

/// A listing and the line each instruction stood on.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Listing {
    pub insns: Vec<Insn>,
    pub lines: Vec<u32>,
}

/// Mistakes in a listing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ListingError {
    /// From 1.
    pub line: u32,
    pub reason: String,
}

/// Most instructions of a listing: several times the core's code store.
pub const MAX_INSNS: usize = 1 << 16;

/// True if text looks like a listing: its first line that is not empty is an addressed instruction.
pub fn looks_like_listing(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| address(line).is_ok_and(|(_, _, rest)| !rest.is_empty()))
}

/// Reads a listing. Empty lines are skipped.
///
/// # Errors
/// The first line that is not an instruction, is out of order, or has a form no core executes.
pub fn parse(text: &str) -> Result<Listing, ListingError> {
    let mut listing = Listing::default();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let at = number as u32 + 1;
        let fail = |reason: String| ListingError { line: at, reason };
        let insn = parse_line(line, listing.insns.len()).map_err(fail)?;
        if listing.insns.len() == MAX_INSNS {
            return Err(fail(format!("more than {MAX_INSNS} instructions")));
        }
        listing.insns.push(insn);
        listing.lines.push(at);
    }
    if listing.insns.is_empty() {
        return Err(ListingError { line: 1, reason: "no instruction in the listing".to_string() });
    }
    // Which labels are inside is known only now.
    let count = listing.insns.len() as u32;
    for insn in &mut listing.insns {
        if let Op::Branch { target, .. } | Op::BranchBit { target, .. } = &mut insn.op
            && let Target::Insn(label) = *target
            && label >= count
        {
            let helper = label.checked_sub(EXIT_LABEL).filter(|number| (1..256).contains(number));
            *target = helper.map_or(Target::Exit, Target::Helper);
        }
    }
    Ok(listing)
}

/// Splits a line into byte address, index and instruction.
fn address(line: &str) -> Result<(u64, u64, &str), String> {
    let shape = || "expected `ADDRESS: .INDEX mnemonic[operands]`".to_string();
    let (address, rest) = line.split_once(':').ok_or_else(shape)?;
    let address =
        u64::from_str_radix(address.trim().trim_start_matches("0x"), 16).map_err(|_| shape())?;
    let rest = rest.trim_start().strip_prefix('.').ok_or_else(shape)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(shape)?;
    let index = rest[..end].parse().map_err(|_| shape())?;
    Ok((address, index, rest[end..].trim()))
}

fn parse_line(line: &str, expected: usize) -> Result<Insn, String> {
    let (address, index, text) = address(line)?;
    if index != expected as u64 || address != index * 8 {
        return Err(format!(
            "instruction .{index} at address {address:x}, expected .{expected} at {:x}: listings are complete and in order",
            expected * 8
        ));
    }
    instruction(text)
}

/// Reads one instruction.
fn instruction(text: &str) -> Result<Insn, String> {
    if text == "nop" {
        return Ok(Insn::one(Op::Nop));
    }
    let shape = || format!("cannot read `{text}`: expected mnemonic[operands]");
    let (mnemonic, rest) = text.split_once('[').ok_or_else(shape)?;
    let (inside, after) = rest.split_at(closing(rest).ok_or_else(shape)?);
    let operands: Vec<&str> = inside.split(',').map(str::trim).collect();
    let mut modifiers: Vec<&str> =
        after[1..].split(',').map(str::trim).filter(|modifier| !modifier.is_empty()).collect();
    let both = take(&mut modifiers, "gpr_wrboth");
    let op = operation(mnemonic, &operands, &mut modifiers)
        .map_err(|reason| format!("`{text}`: {reason}"))?;
    match modifiers.first() {
        Some(unknown) => Err(format!("`{text}`: unknown modifier `{unknown}`")),
        None => Ok(Insn { op, both }),
    }
}

/// Position of the bracket that closes the operand list; operands have brackets of their own.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
        None
    })
}

fn take(modifiers: &mut Vec<&str>, wanted: &str) -> bool {
    let before = modifiers.len();
    modifiers.retain(|modifier| *modifier != wanted);
    modifiers.len() < before
}

fn operation(mnemonic: &str, operands: &[&str], modifiers: &mut Vec<&str>) -> Result<Op, String> {
    let count = |wanted: &[usize]| {
        if wanted.contains(&operands.len()) {
            Ok(())
        } else {
            Err(format!("{} operands, expected {}", operands.len(), wanted[0]))
        }
    };
    if let Some((cond, _)) = BRANCHES.iter().find(|(_, name)| *name == mnemonic) {
        count(&[1])?;
        let target = label(operands[0])?;
        let defer = slots(modifiers)?;
        return Ok(Op::Branch { cond: *cond, target, defer });
    }
    match mnemonic {
        "alu" => {
            count(&[4])?;
            let (dst, a, b) = (place(operands[0])?, source(operands[1])?, source(operands[3])?);
            Ok(Op::Alu { dst, a, op: alu_op(operands[2])?, b })
        }
        "alu_shf" => {
            count(&[5, 4])?;
            let (dst, a, b) = (place(operands[0])?, source(operands[1])?, source(operands[3])?);
            let op = alu_op(operands[2])?;
            if op.is_arithmetic() {
                return Err("only logical operators shift their operand".to_string());
            }
            Ok(Op::AluShf { dst, a, op, b, shift: shift(operands.get(4).copied())? })
        }
        "asr" => {
            count(&[3])?;
            let shift = shift(Some(operands[2]))?;
            if !matches!(shift, Shift::Right(_) | Shift::RightIndirect) {
                return Err("asr shifts right".to_string());
            }
            Ok(Op::Asr { dst: place(operands[0])?, src: source(operands[1])?, shift })
        }
        "dbl_shf" => {
            count(&[4])?;
            let shift = shift(Some(operands[3]))?;
            if !matches!(shift, Shift::Right(_) | Shift::RightIndirect) {
                return Err("dbl_shf shifts right".to_string());
            }
            let (high, low) = (source(operands[1])?, source(operands[2])?);
            Ok(Op::DblShf { dst: place(operands[0])?, high, low, shift })
        }
        "immed" => {
            count(&[2, 3])?;
            let shift = match shift(operands.get(2).copied())? {
                Shift::None => 0,
                Shift::Left(bits @ (8 | 16)) => bits,
                _ => return Err("immed shifts left by 8 or 16".to_string()),
            };
            let value = number(operands[1])?;
            if value >> 16 != 0 && value >> 16 != 0xffff {
                return Err(format!("{value:#x} is not 16 bits"));
            }
            Ok(Op::Immed { dst: place(operands[0])?, value, shift })
        }
        "immed_w1" => {
            count(&[2])?;
            Ok(Op::ImmedW1 { dst: place(operands[0])?, value: number(operands[1])? & 0xffff })
        }
        "ld_field" | "ld_field_w_clr" => {
            count(&[3, 4])?;
            let mask = u8::from_str_radix(operands[1], 2).ok().filter(|_| operands[1].len() == 4);
            let mask = mask
                .ok_or_else(|| format!("expected a byte mask as `0011`, not `{}`", operands[1]))?;
            let (dst, src) = (place(operands[0])?, source(operands[2])?);
            let shift = shift(operands.get(3).copied())?;
            Ok(Op::LdField { dst, mask, src, shift, clear: mnemonic == "ld_field_w_clr" })
        }
        "mul_step" => {
            count(&[2])?;
            let found = MUL_STEPS.iter().find(|(_, name)| take(modifiers, name));
            let (step, _) = found.ok_or("mul_step without its step, as `start` or `32x32_last`")?;
            let last = matches!(step, MulStep::NarrowLast | MulStep::WideLast | MulStep::WideHigh);
            let a = if last { place(operands[0])? } else { source(operands[0])? };
            Ok(Op::Mul { a, b: source(operands[1])?, step: *step })
        }
        "local_csr_wr" => {
            count(&[2])?;
            let index = operands[0].strip_prefix("ActLMAddr").and_then(|index| index.parse().ok());
            let index = index.filter(|index| *index < 4);
            let index = index.ok_or_else(|| format!("unknown register `{}`", operands[0]))?;
            Ok(Op::CsrWrite { index, src: source(operands[1])? })
        }
        "br_bset" => {
            count(&[3])?;
            let bit = number(operands[1])?;
            if bit > 31 {
                return Err(format!("a word has no bit {bit}"));
            }
            let target = label(operands[2])?;
            Ok(Op::BranchBit { src: source(operands[0])?, bit: bit as u8, target })
        }
        "mem" => memory(operands, modifiers),
        _ => Err(format!("unknown instruction `{mnemonic}`")),
    }
}

fn memory(operands: &[&str], modifiers: &mut Vec<&str>) -> Result<Op, String> {
    let found = MEM_OPS.iter().find(|(_, name)| Some(name) == operands.first());
    let (op, _) = found.ok_or_else(|| format!("unknown memory command `{}`", operands[0]))?;
    // `base, offset` is a 32-bit address (packet), `base, <<8, offset` one of 40 bits (DRAM).
    let (far, offset, count) = match operands {
        [_, _, _, "<<8", offset, count] => (true, offset, count),
        [_, _, _, offset, count] => (false, offset, count),
        _ => return Err("expected command, $xfer, address and count".to_string()),
    };
    let Operand::Xfer(xfer) = place(operands[1])? else {
        return Err(format!("`{}` is not a transfer register", operands[1]));
    };
    let count = count.parse().ok().filter(|count| (1..=32).contains(count));
    let count = count.ok_or_else(|| {
        format!("expected a count of 1 to 32, not `{}`", operands[operands.len() - 1])
    })?;
    let (indirect, swap) = (take(modifiers, "indirect_ref"), take(modifiers, "ctx_swap[sig1]"));
    if !swap && *op != MemOp::AddImm {
        return Err("without ctx_swap nobody waits for the memory".to_string());
    }
    let (base, offset, defer) = (source(operands[2])?, source(offset)?, slots(modifiers)?);
    if defer > 0 && *op != MemOp::Add {
        return Err("only additions wait for instructions behind them".to_string());
    }
    Ok(Op::Mem { op: *op, xfer, base, far, offset, count, indirect, swap, defer })
}

/// Instructions that are executed before a branch or a wait.
fn slots(modifiers: &mut Vec<&str>) -> Result<u8, String> {
    let Some(at) = modifiers.iter().position(|modifier| modifier.starts_with("defer[")) else {
        return Ok(0);
    };
    match modifiers.remove(at) {
        "defer[1]" => Ok(1),
        "defer[2]" => Ok(2),
        "defer[3]" => Ok(3),
        other => Err(format!("unknown modifier `{other}`")),
    }
}

/// A label; which ones are outside is known later.
fn label(text: &str) -> Result<Target, String> {
    let label = text.strip_prefix('.').and_then(|label| label.parse().ok());
    label.map(Target::Insn).ok_or_else(|| format!("expected a label as `.12`, not `{text}`"))
}

fn alu_op(text: &str) -> Result<AluOp, String> {
    let found = ALU_OPS.iter().find(|(_, name)| *name == text);
    found.map(|(op, _)| *op).ok_or_else(|| format!("unknown operator `{text}`"))
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| format!("expected a number of 32 bits, not `{text}`"))
}

fn shift(text: Option<&str>) -> Result<Shift, String> {
    let Some(text) = text else { return Ok(Shift::None) };
    let amount = |digits: &str| {
        let bits = digits.parse().ok().filter(|bits| *bits < 32);
        bits.ok_or_else(|| format!("expected a shift of 0 to 31, not `{digits}`"))
    };
    match text {
        "<<indirect" => Ok(Shift::LeftIndirect),
        ">>indirect" => Ok(Shift::RightIndirect),
        _ => match (text.strip_prefix("<<"), text.strip_prefix(">>rot"), text.strip_prefix(">>")) {
            (Some(digits), ..) => Ok(Shift::Left(amount(digits)?)),
            (_, Some(digits), _) => Ok(Shift::Rotate(amount(digits)?)),
            (.., Some(digits)) => Ok(Shift::Right(amount(digits)?)),
            _ => Err(format!("unknown shift `{text}`")),
        },
    }
}

/// An operand that can be written.
fn place(text: &str) -> Result<Operand, String> {
    let register = |digits: &str, most: u8| digits.parse().ok().filter(|n: &u8| *n < most);
    let found = if text == "--" {
        Some(Operand::None)
    } else if let Some(digits) = text.strip_prefix("gprA_") {
        register(digits, 32).map(Operand::A)
    } else if let Some(digits) = text.strip_prefix("gprB_") {
        register(digits, 32).map(Operand::B)
    } else if let Some(digits) = text.strip_prefix("$xfer_") {
        register(digits, 32).map(Operand::Xfer)
    } else if let Some(index) = text.strip_prefix("*l$index").and_then(|t| t.strip_suffix("++")) {
        register(index, 4).map(|index| Operand::LocalNext { index })
    } else if let Some(rest) = text.strip_prefix("*l$index") {
        let (index, word) = match rest.split_once('[') {
            Some((index, word)) => (index, word.strip_suffix(']').unwrap_or_default()),
            None => (rest, "0"),
        };
        register(index, 4)
            .zip(register(word, 16))
            .map(|(index, word)| Operand::Local { index, word })
    } else {
        None
    };
    found.ok_or_else(|| format!("expected a register, not `{text}`"))
}

/// An operand that can be read.
fn source(text: &str) -> Result<Operand, String> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return number(text).map(Operand::Imm);
    }
    place(text)
}
