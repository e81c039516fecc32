//! Rows of `nicforge validate flow` that need a NIC: flow programs planned and simulated on
//! `liquidio`, the published one.
//!
//! All of it is *modelled*: rates are what the simulator passes when more is offered than fits,
//! with the costs and the PCIe link of `targets/liquidio.toml`, of which none was chosen by these
//! rows. docs/validation/flow.md says what misses and why.
//!
//! **Blocking transfers.** The published system without its synchronisation layer is one whose
//! cores wait for every transfer of an entry: one reads its status in the host's memory, one moves
//! it ([`blocking`]). Batched and asynchronous is the target as it is.

use std::cell::RefCell;

use nicforge_driver::{Failure, stop, targets};
use nicforge_ir::{
    CryptoOp, Entry, Input, InputEvent, Interp, Program, TableBackend as _, TableId, Verified,
    Words as _,
};
use nicforge_plan::Objective;
use nicforge_planner::assemble;
use nicforge_planner::instance::Config;
use nicforge_planner::mapping::Goal;
use nicforge_planner::profile;
use nicforge_planner::search::{Limits, search};
use nicforge_run::sim::Compiled;
use nicforge_sim::workload::{Replay, Timed};
use nicforge_sim::{Effect, Handlers as _, Options, Report, Trace};
use nicforge_target::{Device, Link, Target, Traffic};

use super::rows::Row;
use super::validate_flow::Place;
use super::validate_flow_load::{KEYS, Load, request, tuple};

/// A message, and how much of it the host reads: ratios 1/5 to 4/5, with the published speed-ups.
const WHOLE: u32 = 1024;
const LIVE: [(u32, &str, f64); 7] = [
    (205, "1/5", 3.1),
    (256, "1/4", 2.5),
    (341, "1/3", 2.0),
    (512, "1/2", 1.5),
    (683, "2/3", 1.3),
    (768, "3/4", 1.2),
    (819, "4/5", 1.2),
];
/// Bytes of messages for which transfers are compared.
const SIZES: [u32; 4] = [32, 64, 128, 256];
const SPEED: &str = "speed-up, modelled";
const HOST: &str = "host's time saved, factor, modelled";
/// Cycles of a call and of a byte of AES-CBC without instructions for it: the runtime's own C on
/// the same computer as the host's prices in `targets/liquidio.toml`.
const BY_TABLES: [f64; 2] = [100.0, 19.0];
/// Cores of the host, where it is not to be what limits, and where a core is what is measured.
const MANY: u32 = 8;
/// Frames offered; the first fifth fills the queues.
const FRAMES: usize = 8_000;
/// Requests that the caches have seen before.
const WARM: usize = 100_000;

/// All rows.
///
/// # Errors
/// Those of the programs, and of what plans and simulates them.
pub fn rows(place: &Place, load: &Load) -> Result<Vec<Row>, Failure> {
    let mut bench = Bench {
        place,
        target: targets::find("liquidio")?,
        rows: Vec::new(),
        items: RefCell::default(),
    };
    bench.fields()?;
    bench.store(load)?;
    bench.analytics()?;
    bench.cipher()?;
    Ok(bench.rows)
}

/// Means to make rows.
struct Bench<'a> {
    place: &'a Place,
    target: Target,
    rows: Vec<Row>,
    /// What tables of items hold after every key was written.
    items: RefCell<Vec<Vec<Entry>>>,
}

impl Bench<'_> {
    /// `published` are the ends of what is published for the case, of which the nearest one is
    /// compared; not a number where nothing is.
    fn row(&mut self, case: &str, metric: &'static str, (least, most): (f64, f64), ours: f64) {
        let case =
            if least < most { format!("{case} ({least} to {most})") } else { case.to_string() };
        let published = if most - ours < ours - least { most } else { least };
        self.rows.push(Row { source: "Floem", case, metric, published, ours, calibrated: false });
    }

    fn batched(&mut self, what: &str, published: (f64, f64), [batched, blocking]: [f64; 2]) {
        self.row(
            &format!("{what}, batched against blocking transfers"),
            SPEED,
            published,
            batched / blocking,
        );
    }

    fn fields(&mut self) -> Result<(), Failure> {
        let small = frames(|n| vec![n as u8; 60], 2);
        let messages = |bench: &Bench, whole: u32, live: u32| {
            let program =
                bench.place.program("fields.py", &[&whole.to_string(), &live.to_string()])?;
            let reports = bench.simulated(&program, MANY, &small, &[])?;
            Ok::<_, Failure>(
                reports.map(|r| r.stages.last().map_or(0.0, |stage| stage.events_per_second)),
            )
        };
        let whole = messages(self, WHOLE, WHOLE)?[0];
        for (live, ratio, published) in LIVE {
            let gain = messages(self, WHOLE, live)?[0] / whole;
            self.row(
                &format!("{ratio} of {WHOLE} B used by the host, against all"),
                SPEED,
                (published, published),
                gain,
            );
        }
        for size in SIZES {
            let rates = messages(self, size, size)?;
            self.batched(&format!("messages of {size} B"), (9.0, 15.0), rates);
        }
        Ok(())
    }

    fn store(&mut self, load: &Load) -> Result<(), Failure> {
        let fill = (0..KEYS as u32).map(|key| (key, true));
        let requests = fill.chain(load.requests().take(WARM + FRAMES));
        let all: Vec<InputEvent> =
            requests.enumerate().map(|(n, (key, write))| request(n, key, write)).collect();
        let (before, asked) = all.split_at(KEYS + WARM);
        let store = |bench: &Bench, cores: u32, args: &[&str], before: &[InputEvent]| {
            let program =
                bench.place.program("examples/flow/kvs/kvs.py", &[args, &["emit"]].concat())?;
            bench.simulated(&program, cores, asked, before)
        };
        let filled = &before[..KEYS];
        let sharded = store(self, MANY, &["--variant", "sharded", "--threads", "8"], filled)?;
        self.batched("the store, sharded", (7.2, 14.1), sharded.map(|report| report.delivered.pps));
        let channels = |bench: &Bench, how: &str| {
            let program = bench.place.program("channels.py", &[how])?;
            let [report, _] = bench.simulated(&program, 1, asked, filled)?;
            let host = report.stages.iter().filter(|stage| stage.group == "host");
            Ok::<_, Failure>(
                host_time(&report) / host.map(|stage| stage.events_per_second).sum::<f64>(),
            )
        };
        let saved = channels(self, "shared")? / channels(self, "separate")?;
        self.row(
            "reads and writes in entries of their own, against a shared queue",
            HOST,
            (1.07, 1.07),
            saved,
        );
        let [alone, _] = store(self, 1, &["--variant", "cpu"], filled)?;
        for (policy, ways, published) in [
            ("write-through", "5", (1.0, 1.0)),
            ("write-back", "2", (1.28, 3.6)),
            ("write-back", "5", (1.28, 3.6)),
        ] {
            let args = [
                "--variant",
                "nic-cache",
                "--policy",
                policy,
                "--buckets",
                "32768",
                "--ways",
                ways,
                "--stage",
            ];
            let [near, _] = store(self, 1, &args, before)?;
            let case = format!(
                "the store, {policy} cache of 2^15 buckets of {ways}, against the host alone"
            );
            self.row(&case, SPEED, published, near.delivered.pps / alone.delivered.pps);
            let time = |report: &Report| host_time(report) / report.delivered.pps;
            self.row(&case, HOST, (f64::NAN, f64::NAN), time(&alone) / time(&near));
        }
        Ok(())
    }

    fn analytics(&mut self) -> Result<(), Failure> {
        let tuples = frames(tuple, 1);
        let told = |report: &Report| report.packets.messages as f64 / report.seconds;
        // Each handler of the host has a core here, so what limits is elsewhere; published is where
        // the host does.
        let time = |bench: &Bench, variant: &str| {
            let program = bench.place.program("tuples.py", &[variant])?;
            let [report, _] = bench.simulated(&program, 1, &tuples, &[])?;
            Ok::<_, Failure>(host_time(&report) / told(&report))
        };
        let saved = time(self, "queue")? / time(self, "bypass")?;
        self.row(
            "tuples for the own node, past the NIC against by way of it",
            HOST,
            (1.75, 1.96),
            saved,
        );
        let program = self.place.program("examples/flow/analytics/analytics.py", &["emit"])?;
        let rates = self.simulated(&program, 1, &tuples, &[])?.map(|report| told(&report));
        self.batched("tuples of the other node", (3.7, 3.7), rates);
        Ok(())
    }

    /// Encryption by the NIC's engines against one core of the host, with its instructions for AES
    /// and by the runtime's tables.
    fn cipher(&mut self) -> Result<(), Failure> {
        let payloads = frames(|n| vec![n as u8; 1024], 2);
        let [on_nic, on_host] =
            ["nic", "host"].map(|side| self.place.program("cipher.py", &[side]));
        let rate = |bench: &Bench, program: &Verified<Program>| {
            let [report, _] = bench.simulated(program, 1, &payloads, &[])?;
            Ok::<_, Failure>(report.delivered.pps)
        };
        let (on_nic, on_host) = (rate(self, &on_nic?)?, on_host?);
        let by_instructions = rate(self, &on_host)?;
        let encrypts = CryptoOp::ALL.iter().position(|(op, ..)| *op == CryptoOp::AesCbcEncrypt);
        let costs = self.target.costs.get_mut("host").zip(encrypts);
        costs.into_iter().for_each(|(costs, at)| costs.crypto[at] = BY_TABLES);
        let by_tables = rate(self, &on_host)?;
        for (how, published, host) in [("with", 2.5, by_instructions), ("without", 17.5, by_tables)]
        {
            let case = format!(
                "AES of 976 B by the NIC's engines, against one core of the host {how} AES \
                 instructions"
            );
            self.row(&case, SPEED, (published, published), on_nic / host);
        }
        Ok(())
    }

    /// Of a store the items that it has when every key was written, and what comes then: the
    /// interpreter writes them for the first program with such entries, and others begin with them
    /// (a write-back cache empty).
    fn filled<'b>(
        &self,
        program: &Verified<Program>,
        before: &'b [InputEvent],
    ) -> Result<Begun<'b>, Failure> {
        let Some(table) = program.table_named("items").filter(|_| before.len() >= KEYS) else {
            return Ok((vec![], before));
        };
        let (written, rest) = before.split_at(KEYS);
        let sizes =
            [program.tables[table].key, program.tables[table].value].map(|ty| program.size_of(ty));
        let of_these = |items: &&Vec<Entry>| {
            items.first().is_some_and(|one| {
                [one.key.len(), one.value.len()] == sizes.map(|size| size as usize)
            })
        };
        let known = self.items.borrow().iter().find(of_these).cloned();
        let items = match known {
            Some(items) => items,
            None => {
                let mut interp = Interp::new(program);
                for event in written {
                    interp.run(event).map_err(|e| Failure::user(e.to_string()))?;
                }
                let items = interp.dump(table).unwrap_or_default();
                self.items.borrow_mut().push(items.clone());
                items
            }
        };
        Ok((items.into_iter().map(|entry| (table, entry)).collect(), rest))
    }

    /// A program planned for the target and simulated with frames as fast as the ports carry them,
    /// after others that take no time: on the target as it is, and with blocking transfers.
    fn simulated(
        &self,
        program: &Verified<Program>,
        host_cores: u32,
        events: &[InputEvent],
        before: &[InputEvent],
    ) -> Result<[Report; 2], Failure> {
        let target = &self.target;
        let bytes = match events.first().map(|event| &event.input) {
            Some(Input::Net { frame, .. }) => frame.len() as u32,
            _ => 64,
        };
        let traffic = Traffic { frame_bytes: bytes, flows: KEYS as u32 };
        let config = Config { traffic, host_cores, ..Config::default() };
        // Branches go the ways they go for these requests, which no guess knows.
        let (entries, rest) = self.filled(program, before)?;
        let program = &profile::measured(program, &entries, rest, events).map_err(Failure::user)?;
        // The program as it is written: its queues are what is looked at.
        let limits = Limits { candidates: 1, until: None, beyond_ceiling: false };
        let found = search(program, target, &config, Goal::Rate, limits, &stop::stopped)
            .map_err(|e| Failure::user(e.to_string()))?;
        let plan = assemble::plan(program, target, &config, Objective::Rate, &found, found.best);
        let planned = assemble::program_of(&plan).map_err(Failure::user)?;
        let mut compiled = Compiled::new(&planned, false).map_err(|e| Failure::of(e.fault(), e))?;
        warm(&mut compiled, before)?;
        let wire =
            f64::from((bytes + target.ports.overhead_bytes) * 8) / target.ports.rate.value * 1e12;
        let apart = wire / f64::from(program.ports);
        let options = Options {
            warm_up_ps: (apart * FRAMES as f64 / 5.0) as u64,
            duration_ps: Some((apart * FRAMES as f64) as u64),
            drain: false,
            stop: &stop::stopped,
            ..Options::default()
        };
        let mut run = |target: &Target| {
            compiled.stepper().reset();
            let mut workload = Replay::new(&planned, events, Timed::Apart(apart), 1);
            nicforge_sim::run(target, &plan, &planned, &mut compiled, &mut workload, &options)
                .map_err(|e| Failure::user(e.to_string()))
        };
        Ok([run(target)?, run(&blocking(target))?])
    }
}

/// Entries that tables begin with, and events that come before those that count.
type Begun<'b> = (Vec<(TableId, Entry)>, &'b [InputEvent]);

/// Seconds that the host's cores work in one.
fn host_time(report: &Report) -> f64 {
    let host = report.stages.iter().filter(|stage| stage.group == "host");
    host.map(|stage| stage.busy * f64::from(stage.replicas)).sum()
}

/// The target, with cores that wait for the two transfers of every entry.
fn blocking(target: &Target) -> Target {
    let mut target = target.clone();
    let Some(wire) = target.host_link.clone() else { return target };
    let nic = |name: &str| {
        target.units.iter().find(|unit| unit.name == name).filter(|u| u.device == Device::Nic)
    };
    // Of links across, the clock of the NIC's core and whether it sends.
    let ends = |link: &Link| match (nic(&link.from), nic(&link.to)) {
        (Some(core), None) => Some((core.clock.value, true)),
        (None, Some(core)) => Some((core.clock.value, false)),
        _ => None,
    };
    let ends: Vec<_> = target.links.iter().map(ends).collect();
    for (link, end) in target.links.iter_mut().zip(ends) {
        let Some((clock, sends)) = end else { continue };
        let waited = if sends { &mut link.send_cycles } else { &mut link.receive_cycles };
        *waited += 2.0 * wire.latency.value * 1e-9 * clock;
    }
    target
}

/// As many frames as are offered, on so many ports.
fn frames(of: impl Fn(usize) -> Vec<u8>, ports: u32) -> Vec<InputEvent> {
    let one = |n: usize| InputEvent {
        input: Input::Net { port: n as u32 % ports, frame: of(n) },
        time_ns: n as u64,
        seed: n as u64,
    };
    (0..FRAMES).map(one).collect()
}

/// Runs events through all handlers, one after the other.
fn warm(compiled: &mut Compiled, events: &[InputEvent]) -> Result<(), Failure> {
    let mut trace = Trace::default();
    for event in events {
        let Input::Net { port, frame } = &event.input else { continue };
        let mut waiting = vec![compiled.arrive(*port, frame, event.time_ns, event.seed)];
        while let Some(message) = waiting.pop() {
            trace.clear();
            compiled.run(message, &mut trace).map_err(|e| Failure::user(e.to_string()))?;
            waiting.extend(trace.effects.iter().filter_map(|effect| match effect {
                Effect::Generate { message, .. } => Some(*message),
                _ => None,
            }));
        }
    }
    Ok(())
}
