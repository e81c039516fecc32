//! The simulated sPIN NIC: packets a second of processor time on a ping-pong of 1 KiB, and what
//! bounding the skew between cores costs.
//!
//! The handler swaps addresses and ports and sends the packet: 28 instructions, as stock GCC makes
//! of PsPIN's `ping_pong`. `load` has every core busy with a loop over the packet, where the skew
//! matters. Medians over rounds; nothing is asserted. For scale, RTL simulation of the same takes
//! 0.65 to 1.1 s a packet (facts of this project's own runs, Verilator 5.006 at -O0).

use std::process::{Command, ExitCode};

use nicforge_isa::object::riscv::{self, Image};
use nicforge_run::spin::{ImageOptions, Layout, Native, NativeImage, build_native, native_of};
use nicforge_spin::machine::Machine;
use nicforge_spin::matching::Matched;
use nicforge_spin::nic::{
    Arrival, Context, Engine, Handlers, Iss, Nic, Options, SLICE, SparseMemory, Until,
};

const ROUNDS: usize = 5;
/// Packets that are on their way at a time; more than fit would only wait, in memory that the
/// caches do not hold.
const BATCH: u64 = 256;

type Failure = Box<dyn std::error::Error>;

/// Processor seconds of RTL simulation for a packet of the same: besides the start, from and to;
/// and with the start's share over 32 packets. Source: this project's own runs of PsPIN's RTL under
/// Verilator 5.006 at -O0.
const RTL_SECONDS: [f64; 3] = [0.65, 1.1, 2.1];

/// The same ping for this computer.
const NATIVE: &str = "
#include <handler.h>
#include <packets.h>
__handler__ void ping(handler_args_t *args)
{
    uint8_t *packet = args->task->pkt_mem;
    uint32_t *addresses = (uint32_t *)(packet + 12), address = addresses[0];
    uint16_t *ports = (uint16_t *)(packet + 20), port = ports[0];
    volatile spin_cmd_t command;
    spin_cmd_t sent;

    addresses[0] = addresses[1];
    addresses[1] = address;
    ports[0] = ports[1];
    ports[1] = port;
    spin_send_packet(packet, args->task->pkt_mem_size, &sent);
    command = sent;
    (void)command;
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)
{
    *hh = *th = NULL;
    *ph = ping;
    *mem = NULL;
}
";

/// Stacks, arguments, the loop; then the handlers.
const PROGRAM: &str = "
    .global _start, ping, load
_start:
    csrr t0, mhartid
    andi t1, t0, 31
    addi t2, t1, 1
    slli t2, t2, 10
    li sp, 0x1b000000
    add sp, sp, t2
    addi sp, sp, -16
    li s0, 0x1b205000
    addi t5, s0, 8
    sw t5, 0(sp)
loop:
    lw t0, 0(s0)
    mv a0, sp
    jalr t0
    lw zero, 0x50(s0)
    j loop
ping:
    lw a5, 0(a0)
    lw a4, 8(a5)
    lw a3, 12(a5)
    lw a2, 60(a5)
    lw a1, 12(a4)
    lw a0, 16(a4)
    lhu a6, 20(a4)
    lhu a7, 22(a4)
    sw a1, 16(a4)
    sw a0, 12(a4)
    sh a6, 22(a4)
    sh a7, 20(a4)
    lui t1, 0x1b205
    addi t1, t1, 0x80
    li t3, 2
    sw t3, 12(t1)
    sw zero, 16(t1)
    sw zero, 20(t1)
    sw a4, 24(t1)
    sw zero, 28(t1)
    sw a3, 32(t1)
    lw t4, 0(t1)
    addi sp, sp, -16
    sw t4, 12(sp)
    lw t4, 12(sp)
    addi sp, sp, 16
    li a0, 0
    ret
load:
    lw a5, 0(a0)
    lw a4, 8(a5)
    lw a3, 12(a5)
    add a3, a3, a4
    li a0, 0
1:  lw a2, 0(a4)
    addi a4, a4, 4
    add a0, a0, a2
    bltu a4, a3, 1b
    ret
";

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
    let image = image()?;
    engines(&image)?;
    println!("packets of 1 KiB a second of processor time on one core, medians of {ROUNDS} rounds");
    println!(
        "{:<10} {:>6} {:>14} {:>18} {:>16}",
        "machine", "skew", "ping packets/s", "load packets/s", "load M instr./s"
    );
    for name in ["pspin", "fpspin"] {
        let machine = Machine::from_target(&nicforge_target(name)?)?;
        for slice in [1, 4, SLICE, 64, 256] {
            let (mut ping, mut load, mut instructions) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let engine = || Box::new(Iss::new(&machine, slice));
                ping.push(run(&machine, &image, engine(), "ping", 20_000)?.0);
                let (rate, executed) = run(&machine, &image, engine(), "load", 10_000)?;
                load.push(rate);
                instructions.push(executed);
            }
            println!(
                "{name:<10} {slice:>6} {:>14.0} {:>18.0} {:>16.1}",
                median(&mut ping),
                median(&mut load),
                median(&mut instructions) / 1e6
            );
        }
    }
    Ok(())
}

/// A ping on either engine beside RTL simulation.
fn engines(image: &Image) -> Result<(), Failure> {
    println!("a packet of 1 KiB of a ping-pong on one core, medians of {ROUNDS} rounds");
    println!("{:<10} {:<24} {:>12} {:>14}", "machine", "handlers run", "packets/s", "us a packet");
    for name in ["pspin", "fpspin"] {
        let target = nicforge_target(name)?;
        let machine = Machine::from_target(&target)?;
        let native = native(&target)?;
        let (mut on_iss, mut on_native) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            on_iss
                .push(run(&machine, image, Box::new(Iss::new(&machine, SLICE)), "ping", 50_000)?.0);
            let engine = Box::new(Native::new(&machine, &native)?);
            on_native.push(run(&machine, &native.image, engine, "ping", 200_000)?.0);
        }
        for (what, rate) in [("ISS", median(&mut on_iss)), ("native", median(&mut on_native))] {
            println!("{name:<10} {what:<24} {rate:>12.0} {:>14.2}", 1e6 / rate);
        }
    }
    let [least, most, start] = RTL_SECONDS;
    for (what, seconds) in
        [("RTL, least", least), ("RTL, most", most), ("RTL, with its start", start)]
    {
        println!("{:<10} {what:<24} {:>12.2} {:>14.0}", "pspin", 1.0 / seconds, seconds * 1e6);
    }
    println!();
    Ok(())
}

fn native(target: &nicforge_target::Target) -> Result<NativeImage, Failure> {
    let dir = tempfile::tempdir()?;
    let source = dir.path().join("ping.c");
    std::fs::write(&source, NATIVE)?;
    let runtime = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
    let options =
        ImageOptions { sources: vec![source], layout: Layout::of(target)?, flags: Vec::new() };
    Ok(native_of(&build_native(&runtime, &options)?.0)?)
}

fn nicforge_target(name: &str) -> Result<nicforge_target::Target, Failure> {
    Ok(nicforge_target::find(name)?)
}

/// Processor seconds of this thread: what wall time is on a computer that does nothing else.
fn seconds_of_thread() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Packets and instructions a second.
fn run(
    machine: &Machine,
    image: &Image,
    engine: Box<dyn Engine>,
    handler: &str,
    packets: u64,
) -> Result<(f64, f64), Failure> {
    let options = Options { full: nicforge_spin::nic::Full::Wait, ..Options::default() };
    let mut nic = Nic::with_engine(machine, options, Box::new(SparseMemory::default()), engine);
    let handlers = Handlers { payload: Some(handler.to_string()), ..Handlers::default() };
    nic.add_context(Context::new(image, handlers))?;
    let frame = vec![0x5a; 1024];
    let (mut start, mut seconds) = (nic.now(), 0.0);
    for batch in 0..packets.div_ceil(BATCH) {
        let began = seconds_of_thread();
        for number in batch * BATCH..packets.min((batch + 1) * BATCH) {
            let matched =
                Some(Matched { context: 0, message: number as u32 / 8, last: number % 8 == 7 });
            let time = start + number % BATCH * 20;
            nic.arrive(Arrival { time, frame: frame.clone(), matched, copied: None, user: number });
        }
        nic.run_until(Until::Idle);
        nic.take_out();
        seconds += seconds_of_thread() - began;
        start = nic.now();
    }
    let stats = nic.stats();
    if stats.feedback != packets || stats.faults != [0; 4] {
        return Err(format!("{} of {packets} packets came back: {stats:?}", stats.feedback).into());
    }
    let instructions: u64 = stats.instructions.iter().sum();
    Ok((packets as f64 / seconds, instructions as f64 / seconds))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Assembled and linked with the tools that tests of the core use.
fn image() -> Result<Image, Failure> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("image.s"), PROGRAM)?;
    let tool = |name: &str, arguments: &[&str]| -> Result<(), Failure> {
        let output = Command::new(format!("riscv64-unknown-elf-{name}"))
            .args(arguments)
            .current_dir(dir.path())
            .output();
        let output = output.map_err(|error| {
            format!("riscv64-unknown-elf-{name}: {error}; run scripts/bootstrap.sh")
        })?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into())
        }
    };
    tool("as", &["-march=rv32imac_zicsr", "-mabi=ilp32", "image.s", "-o", "image.o"])?;
    tool("ld", &["-melf32lriscv", "-N", "-Ttext=0x1d000000", "image.o", "-o", "image"])?;
    Ok(riscv::parse(&std::fs::read(dir.path().join("image"))?)?)
}
