//! Random programs, instruction by instruction against qemu: before every instruction both have the
//! same program counter and registers, and in the end they wrote the same data.
//! NICFORGE_RV32_PROGRAMS sets how many (default 200), NICFORGE_SEED the first.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nicforge_isa::object::riscv;
use nicforge_isa::rv32::runner::Runner;
use nicforge_isa::rv32::{Cause, Decoder, Stop, Timing, Trap};

use crate::programs;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Program counter and registers before each instruction, as qemu logs them.
fn states(log: &str) -> Vec<[u32; 33]> {
    let mut states = Vec::new();
    for line in log.lines() {
        let mut words = line.split_whitespace().peekable();
        if words.next_if_eq(&"pc").is_some() {
            let pc = words.next().and_then(|text| u32::from_str_radix(text, 16).ok());
            states.push([0; 33]);
            states.last_mut().expect("just pushed")[32] = pc.expect("a program counter");
            continue;
        }
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            let register = name
                .strip_prefix('x')
                .and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
            if let (Some(register), Some(state)) = (register, states.last_mut()) {
                state[register] = u32::from_str_radix(value, 16).expect("a register");
            }
        }
    }
    states
}

fn compare(seed: u64, dir: &Path) -> usize {
    let bytes = programs::file(seed);
    let (path, log) = (dir.join("program"), dir.join("log"));
    std::fs::write(&path, &bytes).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("qemu-riscv32")
        .args(["-singlestep", "-d", "cpu,nochain", "-D"])
        .args([&log, &path])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "seed {seed}: {output:?}");
    let expected = states(&std::fs::read_to_string(&log).unwrap());

    let image = riscv::parse(&bytes).unwrap();
    let decoder = Decoder::rv32imac();
    let mut steps = Runner::new(&image, &decoder, &Timing::UNIT).unwrap();
    for number in 0..32 {
        steps.hart.set_x(number, expected[0][usize::from(number)]);
    }
    for (number, state) in expected.iter().enumerate() {
        let pc = steps.hart.pc;
        let at = || format!("seed {seed}, instruction {number}, pc {pc:#x}");
        assert_eq!(pc, state[32], "{}", at());
        for register in 0..32u8 {
            let (ours, theirs) = (steps.hart.x(register), state[usize::from(register)]);
            assert_eq!(ours, theirs, "{}: x{register} is {ours:#x}, qemu has {theirs:#x}", at());
        }
        let until = steps.hart.cycle + 1;
        match steps.hart.run(&steps.code, &mut steps.memory, until) {
            Stop::Time | Stop::CodeChanged => {}
            Stop::Trap(Trap { cause: Cause::CallFromMachine, .. }) => {
                // The only call that returns writes everything.
                steps.hart.pc += 4;
                let length = steps.hart.x(12);
                steps.hart.set_x(10, length);
            }
            other => panic!("{}: {other:?}", at()),
        }
    }

    let mut whole = Runner::new(&image, &decoder, &Timing::RI5CY).unwrap();
    assert_eq!(whole.run(10_000_000), Ok(7), "seed {seed}");
    assert_eq!(whole.written, output.stdout, "seed {seed}: data in the end");
    assert_eq!(whole.hart.instret, expected.len() as u64, "seed {seed}: instructions");
    expected.len()
}

#[test]
fn programs_do_the_same_on_qemu() {
    if Command::new("qemu-riscv32").arg("--version").output().is_err() {
        println!("skipped: qemu-riscv32 is missing: run scripts/bootstrap.sh");
        return;
    }
    let (first, count) = (number("NICFORGE_SEED", 1), number("NICFORGE_RV32_PROGRAMS", 200));
    let dir = tempfile::tempdir().unwrap();
    let instructions: usize = (first..first + count).map(|seed| compare(seed, dir.path())).sum();
    println!("{count} programs, {instructions} instructions");
}
