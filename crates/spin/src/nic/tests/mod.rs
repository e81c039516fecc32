//! The machine as a whole, with handlers in assembly: a tiny runtime and one or more handlers each.

mod checks;
mod commands;
mod engine;
mod memory;
mod pipeline;
mod random;
mod tenants;

use std::num::NonZeroU32;
use std::process::Command as Tool;

use nicforge_isa::object::riscv::{self, Image};

use super::*;
use crate::matching::{Matched, Ruleset};

/// A runtime as small as can be: stacks, arguments, the loop; a trap is reported and ends the
/// handler.
const RUNTIME: &str = "
    .section .text.start,\"ax\"
    .global _start
_start:
    csrr t0, mhartid
    andi t1, t0, 31
    srli t3, t0, 5
    addi t2, t1, 1
    slli t2, t2, 10
    li sp, 0x1b000000
    add sp, sp, t2
    la t4, trap
    csrw mtvec, t4
    csrw pmpcfg0, zero
    addi sp, sp, -16
    li s0, 0x1b205000
    addi t5, s0, 8
    sw t5, 0(sp)
    slli t6, t3, 3
    add t6, t6, t1
    sw t6, 4(sp)
    sw t3, 8(sp)
    sw t1, 12(sp)
    .balign 16
    .option norvc
loop:
    lw t0, 0(s0)
    mv a0, sp
    jalr t0
    lw zero, 0x50(s0)
    j loop
    .option rvc
    .balign 4
trap:
    csrr t0, mcause
    sw t0, 0x54(s0)
    lw zero, 0x50(s0)
    li sp, 0x1b000000
    csrr t1, mhartid
    andi t1, t1, 31
    addi t1, t1, 1
    slli t1, t1, 10
    add sp, sp, t1
    addi sp, sp, -16
    j loop
    .text
";

const LINK: &str = "
SECTIONS {
    . = 0x1d000000;
    .text : { *(.text.start) *(.text*) }
    . = 0x1c000000;
    .rodata : { *(.rodata*) }
    . = ALIGN(0x1000);
    .data : { *(.data*) *(.bss*) }
    . = 0x1b000000;
    .stack (NOLOAD) : { stack = .; . += 0x2000; }
    .data_tiny_l1 (NOLOAD) : { *(.data_tiny_l1*) . += 16; }
}
";

/// An image with handlers; nothing where the tools are missing.
pub(super) fn image(handlers: &str) -> Option<Image> {
    Some(riscv::parse(&elf(handlers)?).expect("an image"))
}

/// Assembles and links handlers.
pub(super) fn elf(handlers: &str) -> Option<Vec<u8>> {
    if Tool::new("riscv64-unknown-elf-as").arg("--version").output().is_err() {
        println!("skipped: riscv64-unknown-elf-as is missing: run scripts/bootstrap.sh");
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("image.s"), format!("{RUNTIME}{handlers}\n")).expect("a file");
    std::fs::write(path("image.ld"), LINK).expect("a file");
    let run = |name: &str, arguments: &[&str]| {
        let output = Tool::new(name).args(arguments).current_dir(dir.path()).output().expect(name);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(
        "riscv64-unknown-elf-as",
        &["-march=rv32imac_zicsr", "-mabi=ilp32", "image.s", "-o", "image.o"],
    );
    let link =
        ["-melf32lriscv", "-T", "image.ld", "--no-warn-rwx-segments", "image.o", "-o", "image"];
    run("riscv64-unknown-elf-ld", &link);
    Some(std::fs::read(path("image")).expect("the linked image"))
}

pub(super) fn machine(name: &str) -> Machine {
    Machine::from_target(&nicforge_target::find(name).expect("a target")).expect("a sPIN NIC")
}

/// A NIC with one context whose payload handler is `ph`, and `hh` and `th` if the image has them.
pub(super) fn nic(name: &str, image: &Image, options: Options) -> Nic {
    let mut nic = Nic::new(&machine(name), options, Box::new(SparseMemory::default()));
    nic.add_context(context(image)).expect("the context starts");
    nic
}

pub(super) fn context(image: &Image) -> Context<'_> {
    let named = |name: &str| image.symbol(name).map(|_| name.to_string());
    let handlers = Handlers { header: named("hh"), payload: named("ph"), completion: named("th") };
    Context { host: HOST, ..Context::new(image, handlers) }
}

pub(super) const HOST: HostRegion = HostRegion { address: 0xdead_beef_dead_beef, bytes: 1 << 20 };

/// A frame of a message of context 0.
pub(super) fn packet(time: u64, bytes: usize, message: u32, last: bool) -> Arrival {
    let frame = (0..bytes).map(|at| at as u8 ^ message as u8).collect();
    let matched = Some(Matched { context: 0, message, last });
    Arrival { time, frame, matched, copied: None, user: time }
}

pub(super) fn records(out: &[Out]) -> Vec<Record> {
    out.iter()
        .filter_map(|out| if let Out::Handler(record) = out { Some(*record) } else { None })
        .collect()
}

pub(super) fn faults(out: &[Out]) -> Vec<Fault> {
    let faults =
        out.iter().filter_map(|out| if let Out::Fault(fault) = out { Some(fault) } else { None });
    faults.cloned().collect()
}

pub(super) fn fed_back(out: &[Out]) -> usize {
    out.iter().filter(|out| matches!(out, Out::Feedback { .. })).count()
}

/// Everything was taken back: no packet, no task, no queue.
pub(super) fn assert_clean(nic: &mut Nic) {
    assert!(nic.is_idle());
    assert_eq!(nic.packet_memory().packets, 0, "packets left in memory");
    assert!(nic.packets.is_empty() && nic.tasks.is_empty());
}
