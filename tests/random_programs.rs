//! Random programs: what the kernel does against what the interpreter does, packet by packet, then
//! table by table.
//!
//! A failure prints its seed and the smallest program that still shows it.
//! `NICFORGE_RANDOM_PROGRAMS` sets how many programs (default 300), `NICFORGE_RANDOM_SEED` the
//! first seed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::generate::{Options, decisions, events, generate_from, shrink};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{Input, InputEvent, Interp, Output, TableBackend};
use nicforge_passes::PassManager;
use nicforge_run::compile::{CompileError, Mode};
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded, SMALLEST_FRAME, XdpError};
use nicforge_tests::{kernel_is_missing, root, setting};

const PACKETS: usize = 200;

/// Bytes by which a frame may grow for certain.
const HEADROOM: usize = 192;

fn includes() -> Vec<PathBuf> {
    vec![root().join("runtime/xdp")]
}

/// What differs, or `None`. A program that XDP cannot express (a byte string sent to the network)
/// counts as equal and is counted in `skipped`.
fn difference(list: &[u32], seed: u64, skipped: &AtomicU64) -> Option<String> {
    let program = generate_from(list, Options::GROWING.for_seed(seed));
    let compiled = match PassManager::new().run_default(program.clone()) {
        Ok(compiled) => compiled,
        Err(error) => return Some(error.to_string()),
    };
    let artifact = match xdp::generate(&compiled, LineStyle::Comments) {
        Ok(artifact) => artifact,
        Err(errors) => {
            println!("seed {seed} does not fit: {}", errors[0].message);
            skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
    };
    let object = match compile_bpf("random", &artifact.source, Mode::Replay, &includes()) {
        Ok(object) => object,
        // More values at once than BPF has stack for.
        Err(CompileError::Stack { .. }) => {
            println!("seed {seed} does not fit: the stack");
            skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Err(error) => return Some(error.to_string()),
    };
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let kernel = match Loaded::load(&compiled, &artifact, &object, &options) {
        Ok(kernel) => kernel,
        // The verifier walks every path and gives up after a million instructions.
        Err(XdpError::Refused { reason, .. }) if reason.contains("too large") => {
            println!("seed {seed} does not fit: {reason}");
            skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Err(error) => return Some(error.to_string()),
    };
    let mut interp = Interp::new(&program);
    // The kernel takes no frame shorter than an Ethernet header.
    let events = events(seed, 2 * PACKETS).into_iter().filter(|event| match &event.input {
        Input::Net { frame, .. } => frame.len() >= SMALLEST_FRAME,
        Input::Host { .. } | Input::Tick { .. } => true,
    });
    for (i, event) in events.take(PACKETS).enumerate() {
        let want = interp.run(&event).map_err(|e| e.to_string());
        let got = match kernel.test_run(&event) {
            // Nor does it make one, or one that grew beyond the room in front.
            Err(XdpError::NoRoom(_))
                if !want.iter().flatten().all(|output| makes(output, &event)) =>
            {
                continue;
            }
            got => got.map_err(|e| e.to_string()),
        };
        if want != got {
            return Some(format!("packet {i}\nwant {want:?}\ngot  {got:?}"));
        }
    }
    let tables = kernel.tables();
    for (id, table) in &program.tables {
        let (want, got) = (interp.dump(id), tables.dump(id));
        if want != got {
            return Some(format!("table {}\nwant {want:?}\ngot  {got:?}", table.name));
        }
    }
    None
}

/// True if the kernel can make of an event what the interpreter made.
fn makes(output: &Output, event: &InputEvent) -> bool {
    let Input::Net { frame: came, .. } = &event.input else { return true };
    match output {
        Output::Send { frame, .. } | Output::Stack { frame } | Output::HostPacket { frame } => {
            frame.len() >= SMALLEST_FRAME && frame.len() <= came.len() + HEADROOM
        }
        _ => true,
    }
}

fn check(seed: u64, skipped: &AtomicU64) {
    let list = decisions(seed);
    let Some(what) = difference(&list, seed, skipped) else { return };
    println!("seed {seed}: {what}\nLooking for a smaller program ...");
    let small = shrink(&list, |list| difference(list, seed, skipped).is_some());
    let what = difference(&small, seed, skipped).unwrap_or_default();
    let program = generate_from(&small, Options::GROWING.for_seed(seed));
    panic!(
        "seed {seed}: {what}\n\nfor this program:\n{}",
        print(&program, PrintOptions::default())
    );
}

#[test]
fn random_programs_do_the_same_in_the_kernel() {
    if let Some(why) = kernel_is_missing() {
        println!("skipped: {why}");
        return;
    }
    let first = setting("NICFORGE_RANDOM_SEED", 0);
    let count = setting("NICFORGE_RANDOM_PROGRAMS", 100);
    let next = AtomicU64::new(first);
    let skipped = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Programs that do not fit the target do not count.
                    if seed >= first + count + skipped.load(Ordering::Relaxed) {
                        break;
                    }
                    check(seed, &skipped);
                }
            });
        }
    });
    let skipped = skipped.load(Ordering::Relaxed);
    println!("{count} programs compared, {skipped} did not fit the target");
    assert!(
        skipped * 5 < count,
        "{skipped} of {count} programs do not fit the target: the test covers too little"
    );
}
