//! The RV32 core against qemu-riscv32 (user mode) on the same programs in the same run:
//! instructions a second of both.
//!
//! Programs are loops whose bodies are straight-line arithmetic, words copied and summed, and
//! branches that alternate. They take turns in rounds, and medians are shown. Qemu's time includes
//! its start, a few milliseconds. Nothing is asserted.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use nicforge_isa::object::riscv;
use nicforge_isa::rv32::encode::encode;
use nicforge_isa::rv32::runner::Runner;
use nicforge_isa::rv32::{Decoder, Insn, Op, RV32IMA, Timing};

const ROUNDS: usize = 5;
/// Instructions of one turn, about.
const INSTRUCTIONS: u32 = 200_000_000;
const BASE: u32 = 0x1_0000;
/// Where loops find words, behind the code.
const DATA: i32 = 0x2_0000;

type Failure = Box<dyn std::error::Error>;

/// `(op, rd, rs1, rs2, imm)`
type Line = (Op, u8, u8, u8, i32);

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(1)
        }
    }
}

fn measure() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    println!("million instructions a second, medians of {ROUNDS} rounds");
    println!("{:<16} {:>10} {:>10} {:>8}", "program", "nicforge", "qemu", "ratio");
    for (name, body) in
        [("straight-line", arithmetic()), ("memory", memory()), ("branches", branches())]
    {
        let file = program(&body);
        let path = dir.path().join(name);
        std::fs::write(&path, &file)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (rate, instructions) = run_here(&file)?;
            ours.push(rate);
            if let Some(seconds) = run_qemu(&path)? {
                theirs.push(instructions / seconds / 1e6);
            }
        }
        let here = median(&mut ours).unwrap_or_default();
        match median(&mut theirs) {
            Some(there) => println!("{name:<16} {here:>10.0} {there:>10.0} {:>8.3}", here / there),
            None => println!("{name:<16} {here:>10.0} {:>10} {:>8}", "no qemu", "-"),
        }
    }
    Ok(())
}

/// Million instructions a second, and how many there were.
fn run_here(file: &[u8]) -> Result<(f64, f64), Failure> {
    let image = riscv::parse(file)?;
    let mut runner = Runner::new(&image, &Decoder::rv32imac(), &Timing::RI5CY)?;
    let start = Instant::now();
    runner.run(u64::MAX)?;
    let instructions = runner.hart.instret as f64;
    Ok((instructions / start.elapsed().as_secs_f64() / 1e6, instructions))
}

/// Seconds; nothing where there is no qemu.
fn run_qemu(path: &Path) -> Result<Option<f64>, Failure> {
    let start = Instant::now();
    match Command::new("qemu-riscv32").arg(path).status() {
        Ok(status) if status.success() => Ok(Some(start.elapsed().as_secs_f64())),
        Ok(status) => Err(format!("qemu-riscv32 ends with {status}").into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// 200 instructions without a branch.
fn arithmetic() -> Vec<Line> {
    let pattern = [
        (Op::Add, 10, 11, 12, 0),
        (Op::Xori, 11, 10, 0, 0x155),
        (Op::Slli, 13, 11, 0, 3),
        (Op::Sub, 12, 13, 10, 0),
        (Op::Mul, 14, 12, 11, 0),
        (Op::Srai, 15, 14, 0, 7),
        (Op::And, 16, 15, 12, 0),
        (Op::Addi, 12, 16, 0, -77),
        (Op::Sltu, 17, 12, 14, 0),
        (Op::Or, 11, 17, 15, 0),
    ];
    pattern.repeat(20)
}

/// Words read, added up and written.
fn memory() -> Vec<Line> {
    (0..50)
        .flat_map(|at| {
            [
                (Op::Lw, 10, 8, 0, at * 4),
                (Op::Add, 11, 11, 10, 0),
                (Op::Lbu, 12, 8, 0, at * 4 + 1),
                (Op::Sw, 0, 8, 11, at * 4 + 400),
            ]
        })
        .collect()
}

/// A branch in three instructions, taken every other time around.
fn branches() -> Vec<Line> {
    (0..66)
        .flat_map(|at| {
            [
                (Op::Srli, 10, 5, 0, at % 8),
                (Op::Andi, 10, 10, 0, 1),
                (Op::Beq, 0, 10, 0, 8),
                (Op::Addi, 11, 11, 0, 1),
            ]
        })
        .collect()
}

/// The body in a loop, and an exit.
fn program(body: &[Line]) -> Vec<u8> {
    let turns = INSTRUCTIONS / body.len() as u32;
    let low = (turns << 20) as i32 >> 20;
    let mut lines = vec![
        (Op::Lui, 5, 0, 0, turns.wrapping_sub(low as u32) as i32),
        (Op::Addi, 5, 5, 0, low),
        (Op::Lui, 8, 0, 0, DATA),
    ];
    lines.extend(body);
    let back = -4 * (body.len() as i32 + 1);
    lines.extend([
        (Op::Addi, 5, 5, 0, -1),
        (Op::Bne, 0, 5, 0, back),
        (Op::Addi, 10, 0, 0, 0),
        (Op::Addi, 17, 0, 0, 93),
        (Op::Ecall, 0, 0, 0, 0),
    ]);
    let mut bytes: Vec<u8> = lines.iter().flat_map(|line| word(*line).to_le_bytes()).collect();
    bytes.resize((DATA as u32 - BASE) as usize + 0x1000, 0);
    riscv::write(BASE, &bytes)
}

fn word((op, rd, rs1, rs2, imm): Line) -> u32 {
    let row = RV32IMA.iter().find(|row| row.op == op).expect("base instructions only");
    encode(row, &Insn { op, row: 0, rd, rs1, rs2, imm, len: 4 })
}
