//! `targets measure`: what this machine's kernel takes for executed eBPF.
//!
//! Small programs do one thing several times each (`runtime/xdp/measure.bpf.c`). The kernel's test
//! run takes their time, and the machine of [`World`] says what they execute. Those that call no
//! helper tell the processor: its numbers are varied one by one as long as that brings model and
//! times closer, each in the limits of processors there are. What is left of the others' times are
//! helpers: their prices follow by least squares, none below zero. All errors are relative.

use std::collections::BTreeMap;

use nicforge_isa::ebpf::world::World;
use nicforge_isa::ebpf::{Item, Processor, Tally};
use nicforge_isa::object::{self, Object};
use nicforge_run::compile::Mode;
use nicforge_run::xdp::bench::bench_programs;
use nicforge_run::xdp::{MEASURE_SOURCE, compile_bpf};
use nicforge_target::Bpf;

use crate::{Failure, Runtime, stop};

/// Runs of a program per turn, which the kernel does in one call.
const REPEAT: u32 = 5000;
/// Runs in the model: so many to begin with, and those that count.
const WARM: u32 = 4;
const COUNTED: u32 = 6;
/// Time that whole nanoseconds and other programs hide, in nanoseconds.
const HIDDEN: f64 = 3.0;
/// Weight of the usual processor: a number that is off by a tenth is as bad as one program that is
/// off by three percent.
const KEEP: f64 = 0.3;
/// Rounds over all numbers of the processor, and over the prices of helpers.
const ROUNDS: usize = 12;
const DESCENTS: usize = 500;

/// A number of the processor: its name, where it is, its least and its greatest.
type Number = (&'static str, fn(&mut Processor) -> &mut f64, f64, f64);

const NUMBERS: [Number; 14] = [
    ("width", |p| &mut p.width, 1.0, 10.0),
    ("window", |p| &mut p.window, 32.0, 600.0),
    ("load", |p| &mut p.load, 2.0, 6.0),
    ("mul", |p| &mut p.mul, 2.0, 8.0),
    ("div", |p| &mut p.div, 4.0, 90.0),
    ("atomic", |p| &mut p.atomic, 2.0, 60.0),
    ("store", |p| &mut p.store, 0.25, 2.0),
    ("branch", |p| &mut p.branch, 0.25, 2.0),
    ("taken", |p| &mut p.taken, 0.0, 2.0),
    ("call", |p| &mut p.call, 1.0, 20.0),
    ("mispredict", |p| &mut p.mispredict, 5.0, 40.0),
    ("l2", |p| &mut p.l2, 8.0, 40.0),
    ("l1_kib", |p| &mut p.l1_kib, 8.0, 128.0),
    ("between", |p| &mut p.between, 10.0, 400.0),
];

/// Start of the search: usual cores of servers.
const USUAL: Processor = Processor {
    width: 4.0,
    window: 256.0,
    load: 5.0,
    mul: 3.0,
    div: 18.0,
    atomic: 18.0,
    store: 0.5,
    branch: 0.5,
    taken: 0.5,
    call: 4.0,
    mispredict: 16.0,
    l2: 14.0,
    l1_kib: 48.0,
    between: 100.0,
};

/// A small program.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: String,
    /// Nanoseconds of one run by the kernel, and by the model.
    pub measured: f64,
    pub modelled: f64,
}

/// A machine's figures.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Cycles per second.
    pub clock: f64,
    pub bpf: Bpf,
    pub samples: Vec<Sample>,
    /// Programs that the model does not run, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Takes the figures of this machine.
///
/// # Errors
/// No privilege to load programs, the kernel refuses them, or the user ended it.
pub fn kernel(runtime: &Runtime) -> Result<Figures, Failure> {
    let headers = runtime.target_headers("xdp");
    let object = compile_bpf("measure", MEASURE_SOURCE, Mode::Live, &headers)
        .map_err(|e| Failure::of(e.fault(), e))?;
    let times = bench_programs(&object, &frame(), REPEAT, &headers, &stop::stopped)
        .map_err(|e| Failure::of(e.fault(), e))?;
    if stop::stopped() {
        return Err(Failure::interrupted());
    }
    let parsed = object::parse(&object).map_err(|e| Failure::user(e.to_string()))?;
    let times = times.into_iter().map(|(name, cost)| (name, cost.ns, cost.verdict.into()));
    Ok(figures(&parsed, &times.collect::<Vec<_>>()))
}

/// A UDP packet of 64 bytes.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 50, 0, 1, 0, 0, 64];
    frame.extend([17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 53, 0, 30, 0, 0]);
    // Bytes that a packet grows by are zero.
    frame.resize(64, 0);
    frame
}

/// Tally of one run of a program on a warm processor, and its verdict.
fn tally(object: &Object, name: &str, processor: Processor) -> Result<(Tally, u64), String> {
    let program = object.programs.iter().find(|program| program.name == name);
    let program = program.ok_or("it is not in the object")?;
    let mut world = World::new(program, &object.maps, processor)?;
    let (frame, mut verdict) = (frame(), 0);
    for _ in 0..WARM {
        world.run(&frame, 1).map_err(|fault| fault.to_string())?;
    }
    world.take();
    for _ in 0..COUNTED {
        verdict = world.run(&frame, 1).map_err(|fault| fault.to_string())?;
    }
    let mut tally = world.take();
    tally.cycles /= f64::from(COUNTED);
    tally.items.values_mut().for_each(|times| *times /= f64::from(COUNTED));
    Ok((tally, verdict))
}

fn calls(tally: &Tally) -> bool {
    let inlined = |name: &str| name.ends_with("array");
    tally.items.keys().any(|item| matches!(item, Item::Call(name) if !inlined(name)))
}

/// The processor and the helpers that make a model fit times: by name, with verdicts.
fn figures(object: &Object, times: &[(String, f64, u64)]) -> Figures {
    let (mut plain, mut calling, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for (name, ns, verdict) in times {
        match tally(object, name, USUAL) {
            Err(why) => left_out.push((name.clone(), why)),
            Ok((_, other)) if other != *verdict => {
                left_out
                    .push((name.clone(), format!("verdict {other}, the kernel's is {verdict}")));
            }
            Ok((tally, _)) if calls(&tally) => calling.push((name, *ns)),
            Ok(_) => plain.push((name, *ns)),
        }
    }
    let cycles = |processor: Processor| -> Vec<f64> {
        let of =
            |(name, _): &(&String, f64)| tally(object, name, processor).map_or(0.0, |t| t.0.cycles);
        plain.iter().map(of).collect()
    };
    let ns: Vec<f64> = plain.iter().map(|(_, ns)| *ns).collect();
    let (processor, each) = search(&ns, &cycles);
    let mut samples = Vec::new();
    let mut rows = Vec::new();
    for (name, measured) in plain.iter().chain(&calling) {
        let Ok((tally, _)) = tally(object, name, processor) else { continue };
        samples.push(Sample {
            name: (*name).clone(),
            measured: *measured,
            modelled: tally.cycles * each,
        });
        rows.push(tally);
    }
    let prices = helpers(&rows, &mut samples);
    let mut helpers: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (item, ns) in prices {
        let (name, which) = match item {
            Item::Call(name) => (name, 0),
            Item::Unit(name) => (name, 1),
        };
        helpers.entry(name).or_default()[which] = ns / each;
    }
    Figures { clock: 1e9 / each, bpf: spec(processor, complete(helpers)), samples, left_out }
}

/// Helpers that do the same as others.
fn complete(mut helpers: BTreeMap<String, [f64; 2]>) -> BTreeMap<String, [f64; 2]> {
    let of = |name: &str| helpers.get(name).copied().unwrap_or_default();
    let (reserve, discard) = (of("ringbuf_reserve"), of("ringbuf_discard"));
    let (copy, redirect) = (of("xdp_load_bytes"), of("redirect_map devmap"));
    let tail_call = of("tail_call");
    let more = [
        // A record that is submitted and one that is not leave the ring alike.
        ("ringbuf_submit", discard),
        ("ringbuf_output", [reserve[0] + discard[0], copy[1]]),
        ("perf_event_output", [reserve[0] + discard[0], copy[1]]),
        ("redirect_map devmap_hash", redirect),
        ("redirect_map cpumap", redirect),
        ("redirect_map xskmap", redirect),
        ("map_lookup_elem lru_percpu_hash", of("map_lookup_elem percpu_hash")),
        ("map_update_elem lru_percpu_hash", of("map_update_elem lru_hash")),
        ("get_numa_node_id", of("get_smp_processor_id")),
        ("tail_call", tail_call),
    ];
    for (name, price) in more {
        helpers.entry(name.to_string()).or_insert(price);
    }
    helpers
}

fn spec(processor: Processor, helpers: BTreeMap<String, [f64; 2]>) -> Bpf {
    Bpf {
        width: processor.width,
        window: processor.window,
        load: processor.load,
        mul: processor.mul,
        div: processor.div,
        atomic: processor.atomic,
        store: processor.store,
        branch: processor.branch,
        taken: processor.taken,
        call: processor.call,
        mispredict: processor.mispredict,
        l2: processor.l2,
        l1_kib: processor.l1_kib,
        between: processor.between,
        helpers,
    }
}

/// Numbers of the processor by their words in specifications.
pub fn numbers(bpf: &Bpf) -> Vec<(&'static str, f64)> {
    let mut processor = crate::executed::processor(bpf);
    NUMBERS.iter().map(|(name, number, ..)| (*name, *number(&mut processor))).collect()
}

/// A specification's text with the figures in it: `[bpf]`, and clock and number of the first units.
pub fn write(text: &str, figures: &Figures, cpus: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (mut section, mut units) = (String::new(), 0);
    for line in text.lines() {
        if line.trim_start().starts_with('[') {
            section = line.trim().to_string();
            units += usize::from(section == "[[units]]");
            // The old prices go, with what is said of them.
            let said = |line: &String| line.is_empty() || line.starts_with('#');
            while section.starts_with("[bpf") && lines.last().is_some_and(said) {
                lines.pop();
            }
        }
        let word = line.split('=').next().unwrap_or_default().trim();
        match word {
            _ if section.starts_with("[bpf") => {}
            "count" if section == "[[units]]" && units == 1 => {
                lines.push(format!("count = {cpus}               # [measured]"));
            }
            "clock" if section == "[[units]]" && units == 1 => {
                let clock = figures.clock / 1e9;
                lines.push(format!("clock = \"{clock:.2} GHz\"  # [measured]"));
            }
            _ => lines.push(line.to_string()),
        }
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    lines.push(String::new());
    lines.push("# Cycles of executed eBPF: `nicforge targets measure`. [measured]".to_string());
    lines.push("[bpf]".to_string());
    lines.extend(numbers(&figures.bpf).iter().map(|(name, value)| format!("{name} = {value:.2}")));
    lines.push(String::new());
    lines.push("# Of a call, and of a byte that it goes over. [measured]".to_string());
    lines.push("[bpf.helpers]".to_string());
    for (name, [call, unit]) in &figures.bpf.helpers {
        lines.push(format!("\"{name}\" = [{call:.1}, {unit:.2}]"));
    }
    lines.join("\n") + "\n"
}

/// Nanoseconds of a cycle that fit best, and how far off they are.
fn scale(ns: &[f64], cycles: &[f64]) -> (f64, f64) {
    let weighted = |(ns, cycles): (&f64, &f64)| (ns / (ns + HIDDEN), cycles / (ns + HIDDEN));
    let pairs: Vec<(f64, f64)> = ns.iter().zip(cycles).map(weighted).collect();
    let above: f64 = pairs.iter().map(|(ns, cycles)| ns * cycles).sum();
    let below: f64 = pairs.iter().map(|(_, cycles)| cycles * cycles).sum();
    let each = above / below.max(1e-9);
    // By size and not by square: a program that the model does not understand says nothing.
    let off = pairs.iter().map(|(ns, cycles)| (ns - each * cycles).abs()).sum();
    (each, off)
}

/// How far a processor is from the usual one: what times do not tell stays as it is.
fn unusual(mut processor: Processor) -> f64 {
    let mut usual = USUAL;
    let of = |(_, number, ..): &Number| {
        (number(&mut processor).max(0.1) / number(&mut usual).max(0.1)).ln().abs()
    };
    KEEP * NUMBERS.iter().map(of).sum::<f64>()
}

/// The processor under which cycles fit times best, and nanoseconds of its cycle.
fn search(ns: &[f64], cycles: &dyn Fn(Processor) -> Vec<f64>) -> (Processor, f64) {
    let mut best = USUAL;
    let (mut each, off) = scale(ns, &cycles(best));
    let mut least = off + unusual(best);
    let mut step = 1.5;
    for _ in 0..ROUNDS {
        let before = least;
        for (_, number, low, high) in NUMBERS {
            for by in [1.0 / step, step] {
                let mut tried = best;
                let value = number(&mut tried);
                *value = (value.max(0.1) * by).clamp(low, high);
                let (tried_each, off) = scale(ns, &cycles(tried));
                let off = off + unusual(tried);
                if off < least {
                    (best, each, least) = (tried, tried_each, off);
                }
            }
        }
        if least > 0.995 * before {
            step = 1.0 + (step - 1.0) / 2.0;
        }
    }
    (best, each)
}

/// Nanoseconds of helpers' items, which are added to the samples.
fn helpers(rows: &[Tally], samples: &mut [Sample]) -> BTreeMap<Item, f64> {
    let mut prices: BTreeMap<Item, f64> = BTreeMap::new();
    for item in rows.iter().flat_map(|tally| tally.items.keys()) {
        prices.entry(item.clone()).or_default();
    }
    let weights: Vec<f64> = samples.iter().map(|one| (one.measured + HIDDEN).powi(-2)).collect();
    for _ in 0..DESCENTS {
        for (item, price) in &mut prices {
            let (mut pull, mut square) = (0.0, 1e-12);
            for ((tally, sample), weight) in rows.iter().zip(&*samples).zip(&weights) {
                let times = tally.items.get(item).copied().unwrap_or(0.0);
                pull += weight * times * (sample.modelled - sample.measured);
                square += weight * times * times;
            }
            let next = (*price - pull / square).max(0.0);
            for (tally, sample) in rows.iter().zip(&mut *samples) {
                let times = tally.items.get(item).copied().unwrap_or(0.0);
                sample.modelled += times * (next - *price);
            }
            *price = next;
        }
    }
    prices
}
