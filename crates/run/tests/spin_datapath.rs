//! The datapath in hardware (rtl/spin) against `nicforge-spin`, packet by packet, with random
//! traffic, rules, stalls and handler times.
//!
//! The reference is asked in the order in which the hardware acts: a frame that goes to the host or
//! is dropped, a slot that is given out, a packet that the scheduler takes or refuses, a task that
//! starts, one that ends, a slot that comes back. Each time the reference must do the same: frames
//! and their bytes, contexts, messages and ends, slots' addresses, handler, queue and cluster of
//! every task, what is freed, why something is dropped; at the end all counters. What is not
//! compared: cycles. A hardware that starts nothing would be noticed by what is left at the end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::num::NonZeroU32;

use nicforge_run::rtl::RtlError;
use nicforge_run::spin::datapath::*;
use nicforge_spin::headers::{self, Field};
use nicforge_spin::matching::{Engine, Faults, Matched, Mode, Place, Rule, Ruleset, Test};
use nicforge_spin::memory::{Refused as NoSlot, Slots};
use nicforge_spin::messages::{Config, Context, Handler, Packet, Refused, Scheduler, Task};

/// Tasks that wait in a cluster, and its units.
const ROOM: u32 = 12;
const UNITS: usize = 8;
const CLUSTERS: usize = 2;

struct Noise(nicforge_util::Random);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A frame: mostly IP with UDP or TCP, tags, options and extension headers, sometimes cut off or
/// bent.
fn frame(noise: &mut Noise, messages: u64) -> Vec<u8> {
    let mut segment = vec![0x12, 0x34, 0x24, 0x72, 0, 0, 0, 0];
    let tcp = noise.once_in(6);
    if noise.once_in(3) {
        segment[2..4].copy_from_slice(&(9325 + noise.below(10) as u16).to_be_bytes());
    }
    if tcp {
        segment.extend([0, 0, 0, 0, 0x50 + (noise.below(4) as u8) * 16, 0, 0, 0, 0, 0, 0, 0]);
        segment.extend(vec![1; noise.below(13) as usize]);
    }
    let flags: u16 = if noise.once_in(4) { 0x8000 } else { 0 };
    segment.extend(flags.to_be_bytes());
    segment.extend((noise.below(messages) as u32).to_le_bytes());
    let longest = [10, 60, 110, 1400, 1460, 1600][noise.below(6) as usize];
    let payload = noise.below(longest) as usize;
    segment.extend((0..payload).map(|_| noise.next() as u8));
    let length = segment.len() as u16;
    if !tcp {
        segment[4..6].copy_from_slice(
            &(if noise.once_in(20) { noise.below(40) as u16 } else { length }).to_be_bytes(),
        );
    }
    let protocol = if tcp {
        6
    } else if noise.once_in(10) {
        132
    } else {
        17
    };
    let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for _ in 0..[0, 0, 0, 1, 2, 3][noise.below(6) as usize] {
        out.extend([[0x81, 0x00], [0x88, 0xa8]][noise.below(2) as usize]);
        out.extend([noise.below(2) as u8, noise.below(4) as u8]);
    }
    if noise.once_in(4) {
        out.extend([0x86, 0xdd]);
        let mut chain = Vec::new();
        let kinds = [0u8, 60, 43, 44, 51];
        let links: Vec<u8> = (0..noise.below(3)).map(|_| kinds[noise.below(5) as usize]).collect();
        for (at, kind) in links.iter().enumerate() {
            let next = links.get(at + 1).copied().unwrap_or(protocol);
            let long = noise.below(3) as u8;
            match kind {
                44 => chain.extend([next, 0, 0, if noise.once_in(4) { 8 } else { 1 }, 0, 0, 0, 1]),
                51 => chain
                    .extend([vec![next, long + 1], vec![7; usize::from(long) * 4 + 10]].concat()),
                _ => chain.extend([vec![next, long], vec![1; usize::from(long) * 8 + 6]].concat()),
            }
        }
        let total = chain.len() as u16 + length;
        out.extend([0x60, 0, 0, 0]);
        out.extend(total.to_be_bytes());
        out.extend([links.first().copied().unwrap_or(protocol), 64]);
        out.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, noise.below(3) as u8]);
        out.extend([[0u8; 12].as_slice(), &[10, 0, 0, noise.below(3) as u8]].concat());
        out.extend(chain);
    } else {
        out.extend([8, 0]);
        let options = [0, 0, 0, 4, 8, 40][noise.below(6) as usize];
        let total = (20 + options + segment.len()) as u16;
        out.push(0x45 + options as u8 / 4);
        out.push(0);
        out.extend(total.to_be_bytes());
        out.extend([0, 0, 0, u8::from(noise.once_in(12)), 64, protocol, 0, 0]);
        out.extend([10, 0, 0, noise.below(3) as u8, 10, 0, 0, noise.below(3) as u8]);
        out.extend(vec![1; options]);
    }
    out.extend(segment);
    if noise.once_in(8) {
        let at = noise.below(out.len().min(80) as u64) as usize;
        out[at] = noise.next() as u8;
    }
    if noise.once_in(8) {
        out.truncate(1 + noise.below(out.len().min(150) as u64) as usize);
    }
    if noise.once_in(5) {
        out.extend(vec![0; 1 + noise.below(20) as usize]);
    }
    out
}

/// Rules over what [`frame`] makes.
fn test(noise: &mut Noise) -> Test {
    let field = |field, mask, start, end| Test::Field(headers::Rule { field, mask, start, end });
    match noise.below(14) {
        0 => Test::NEVER,
        1 => Test::Word(Rule::equal(noise.below(40) as u8, 1 << noise.below(32), 0)),
        2 => Test::Word(Rule { word: 9, mask: 0xffff_0000, start: 0x246e_0000, end: 0x2473_0000 }),
        3 => field(Field::Vlan, u128::MAX, 1, 1 + u128::from(noise.below(300))),
        4 => Test::field(Field::EtherType, [0x0800, 0x86dd][noise.below(2) as usize]),
        5 => Test::field(Field::Source, 0x0a00_0001),
        6 => field(Field::Source, 0xffff << 112, 0x2001 << 112, 0x2001 << 112),
        7 => field(Field::Destination, u128::from(u32::MAX), 0x0a00_0000, 0x0a00_0001),
        8 => Test::field(Field::Protocol, [6, 17, 132][noise.below(3) as usize]),
        9 => field(Field::DestinationPort, 0xffff, 9328, 9331),
        10 => field(Field::SourcePort, 0xff00, 0x1200, 0x1200),
        11 => field(Field::Payload(2 * noise.below(6) as u16), 0xff00, 0, 0x0100),
        _ => Test::ALWAYS,
    }
}

fn ruleset(noise: &mut Noise) -> Ruleset {
    match noise.below(6) {
        0 => Ruleset::SLMP,
        1 | 2 => Ruleset::SLMP_BY_HEADERS,
        _ => Ruleset {
            mode: if noise.once_in(4) { Mode::Or } else { Mode::And },
            select: [test(noise), test(noise), Test::ALWAYS],
            last: if noise.once_in(2) { Ruleset::SLMP_BY_HEADERS.last } else { test(noise) },
            message: [Place::HARDWARE, Place::Payload(2), Place::Frame(2 * noise.below(60) as u16)]
                [noise.below(3) as usize],
        },
    }
}

/// Frames whose headers reach beyond what hardware sees (128 bytes, two extension headers) may go
/// another way there.
fn is_seen(frame: &[u8]) -> bool {
    let mut at = 12;
    while matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8])) && at < 20 {
        at += 4;
    }
    // The longest chain that is made, of what may be a bent frame, ends before byte 128 with room
    // for a payload's first words.
    let headers = headers::Headers::read(frame);
    let end =
        headers.payload.map_or(0, |payload| payload.as_ptr() as usize - frame.as_ptr() as usize);
    let mut links = 0;
    if frame.get(at..at + 2) == Some(&[0x86, 0xdd]) {
        let mut next = frame.get(at + 8).copied();
        let mut place = at + 42;
        while let (Some(kind @ (0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)), Some(&bytes)) =
            (next, frame.get(place + 1))
        {
            links += 1;
            next = frame.get(place).copied();
            place += match kind {
                44 => 8,
                51 => (usize::from(bytes) + 2) * 4,
                _ => (usize::from(bytes) + 1) * 8,
            };
            if links > 2 || place > 100 {
                return false;
            }
        }
    }
    end + 20 <= 128
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Ended([u32; 16]),
}

#[derive(Default)]
struct Cluster {
    waiting: VecDeque<[u32; 16]>,
    busy: usize,
}

struct Bench {
    model: Model,
    engine: Engine,
    slots: Slots,
    scheduler: Scheduler,
    contexts: usize,
    room: [u32; CLUSTERS],
    frames: BTreeMap<u64, Vec<u8>>,
    matched: BTreeMap<u64, (Matched, u32)>,
    users: BTreeMap<u32, Vec<u8>>,
    running: BTreeMap<(u32, u32), u64>,
    to_free: VecDeque<u32>,
    clusters: [Cluster; CLUSTERS],
    actions: BinaryHeap<Reverse<(u64, Action)>>,
    dropped: [u32; 5],
    unmatched: u32,
    freed: u32,
    tasks: u64,
    noise: Noise,
    slowest: u64,
}

impl Bench {
    /// Four rulesets, of which three have contexts.
    fn new(seed: u64, stalls: bool, lossy: bool) -> Result<Bench, RtlError> {
        let mut noise = Noise(nicforge_util::Random::new(seed));
        let mut model = Model::new(if stalls { noise.next() | 1 } else { 0 })?;
        let reversed = noise.once_in(3);
        let all_classes = noise.once_in(2);
        let (contexts, patience) = (3, 400);
        let mut engine = Engine {
            faults: Faults { reversed_ranges: reversed, always_and: false },
            ..Engine::default()
        };
        let mut config = Config { patience, ..Config::fpspin(Vec::new()) };
        config.faults.no_shares = true;
        config.cells = 128;
        let mut flags = 0;
        for at in 0..4 {
            let rules = (at != 3 || noise.once_in(2)).then(|| ruleset(&mut noise));
            engine.rulesets[at] = rules;
            let (set, rule) = words(rules.as_ref()).expect("rules that hardware can do");
            model.write("sets", at, &[set]);
            model.write("rules", 16 * at, &rule);
            let context = Context {
                weight: NonZeroU32::MIN,
                header: noise.once_in(2),
                completion: noise.once_in(2),
                serial: noise.once_in(4),
            };
            let address = |has: bool, at: u32| if has { 0x1d00_0000 + at } else { 0 };
            let number = at as u32 * 0x100;
            model.write(
                "context_table",
                10 * at,
                &[
                    address(context.header, number),
                    address(true, number + 0x10),
                    address(context.completion, number + 0x20),
                    0x1c00_0000 + number,
                    0x1000 + number,
                    number,
                    1,
                    0x2000 + number,
                    0x3000 + number,
                    0x400 + number,
                ],
            );
            if at < contexts {
                flags |= 1 << at | u32::from(context.serial) << (8 + at);
                config.contexts.push(context);
            }
        }
        model.write(
            "options",
            0,
            &[u32::from(reversed) | u32::from(lossy) << 1 | u32::from(all_classes) << 2],
        );
        model.write("contexts", 0, &[flags]);
        model.write("home_limit", 0, &[config.home_limit]);
        model.write("patience", 0, &[patience as u32]);
        model.write("apply", 0, &[1]);
        Ok(Bench {
            model,
            engine,
            slots: Slots::fpspin(PACKETS, all_classes),
            scheduler: Scheduler::new(config),
            contexts,
            room: [ROOM; CLUSTERS],
            frames: BTreeMap::new(),
            matched: BTreeMap::new(),
            users: BTreeMap::new(),
            running: BTreeMap::new(),
            to_free: VecDeque::new(),
            clusters: Default::default(),
            actions: BinaryHeap::new(),
            dropped: [0; 5],
            unmatched: 0,
            freed: 0,
            tasks: 0,
            slowest: [30, 300, 3000][noise.below(3) as usize],
            noise,
        })
    }

    fn act(&mut self, time: u64, action: Action) {
        let Action::Ended(words) = action;
        self.model.end(&words);
        let cluster = words[6] as usize;
        self.clusters[cluster].busy -= 1;
        self.dispatch(time, cluster);
    }

    fn dispatch(&mut self, time: u64, at: usize) {
        while self.clusters[at].busy < UNITS
            && let Some(words) = self.clusters[at].waiting.pop_front()
        {
            self.clusters[at].busy += 1;
            self.model.credit(at);
            let ends = time + 1 + self.noise.below(self.slowest);
            self.actions.push(Reverse((ends, Action::Ended(words))));
        }
    }

    fn see(&mut self, event: Event) {
        let Event { time, user, kind, words: w, data } = event;
        match kind {
            TO_HOST => {
                let frame = self.frames.remove(&user).expect("a frame that came");
                assert_eq!(
                    self.engine.find(&frame),
                    None,
                    "frame {user} goes to the host: {frame:02x?}"
                );
                assert_eq!(data, frame, "frame {user} is untouched");
                self.unmatched += 1;
            }
            DROPPED => {
                let frame = self.frames.remove(&user).expect("a frame that came");
                let matched = self.engine.find(&frame).expect("a frame for handlers");
                self.dropped[w[0] as usize] += 1;
                if w[0] == 2 {
                    assert!(matched.context >= self.contexts, "{matched:?}");
                    return;
                }
                let refused = self.slots.take(frame.len() as u32).expect_err("no slot");
                assert_eq!(w[0] == 0, refused == NoSlot::Full, "{refused}");
            }
            GRANTED => {
                let matched = self.engine.find(&self.frames[&user]);
                let matched = matched.unwrap_or_else(|| {
                    panic!("frame {user} is nobody's: {:02x?}", self.frames[&user])
                });
                assert!(matched.context < self.contexts);
                let address = self.slots.take(self.frames[&user].len() as u32).expect("a slot");
                self.matched.insert(user, (matched, address));
            }
            ARRIVED => {
                let frame = self.frames.remove(&user).expect("a frame that came");
                let (matched, address) = self.matched.remove(&user).expect("a frame with a slot");
                assert_eq!((w[0], w[1]), (address, frame.len() as u32));
                let seen = Matched { context: w[3] as usize, message: w[2], last: w[4] != 0 };
                assert_eq!(seen, matched, "frame {user}: {frame:02x?}");
                let taken = self.scheduler.arrive(time, Packet { address, matched });
                match w[5] {
                    0 => {
                        assert_eq!(taken, Ok(()), "frame {user}");
                        self.users.insert(address, frame);
                    }
                    why => {
                        let refused = if why == 3 { Refused::NoCell } else { Refused::NoQueue };
                        assert_eq!(taken, Err(refused), "frame {user}");
                        self.dropped[why as usize] += 1;
                        self.to_free.push_back(address);
                    }
                }
            }
            PICKED => {
                let task = self.scheduler.next(time - 1, &self.room).expect("something to start");
                let Task { number, cluster, address, handler, .. } = task;
                assert_eq!(Task { number: 0, ..task }, handed(&w).task, "cycle {time}");
                self.room[cluster] -= 1;
                self.running.insert((address, handler as u32), number);
                self.tasks += 1;
            }
            TASK => {
                let handed = handed(&w);
                assert_eq!(data, self.users[&handed.task.address], "what packet memory has");
                let number = handed.task.context as u32 * 0x100;
                assert_eq!(
                    handed.function,
                    0x1d00_0000 + number + 0x10 * handed.task.handler as u32
                );
                assert_eq!(
                    (handed.handler_memory.start, handed.handler_memory.bytes),
                    (0x1c00_0000 + number, 0x1000 + number)
                );
                assert_eq!(
                    (handed.host.address, handed.host.bytes),
                    (1 << 32 | u64::from(number), 0x2000 + number)
                );
                assert_eq!(
                    (handed.scratchpad.start, handed.scratchpad.bytes),
                    (0x3000 + number, 0x400 + number)
                );
                self.clusters[handed.task.cluster].waiting.push_back(w);
                self.dispatch(time, handed.task.cluster);
            }
            CREDITED => self.room[w[0] as usize] += 1,
            ENDED => {
                let number = self.running.remove(&(w[4], w[1])).expect("a running task");
                let freed = self.scheduler.done(time, number).expect("a running task");
                assert_eq!(freed, (w[7] != 0).then_some(w[4]));
                assert!(w[1] != Handler::Completion as u32 || freed.is_some());
                if let Some(address) = freed {
                    self.users.remove(&address);
                    self.to_free.push_front(address);
                }
            }
            FREED => {
                // What an ended task freed goes before what was dropped.
                assert_eq!(self.to_free.pop_front(), Some(w[0]));
                self.slots.free(w[0]).expect("a packet");
                self.freed += 1;
            }
            _ => {}
        }
    }

    /// Runs until everything has come out.
    fn run(&mut self, packets: u64) {
        let messages = [3, 20, 60][self.noise.below(3) as usize];
        let gap = [0, 2, 12][self.noise.below(3) as usize];
        let (mut now, mut sent, mut arrives) = (0, 0, 0);
        loop {
            while sent < packets && self.frames.len() < 40 {
                let bytes = frame(&mut self.noise, messages);
                if is_seen(&bytes) {
                    self.model.arrive(sent, arrives, &bytes);
                    self.frames.insert(sent, bytes);
                    arrives = arrives.max(now) + if gap > 0 { self.noise.below(gap) } else { 0 };
                    sent += 1;
                }
            }
            let action = self.actions.peek().map(|Reverse((time, _))| *time);
            match (self.model.next(), action) {
                (None, None) => break,
                (model, Some(time)) if model.is_none_or(|model| time <= model.max(now)) => {
                    now = now.max(time);
                    if let Some(Reverse((_, action))) = self.actions.pop() {
                        self.act(now, action);
                    }
                }
                (_, action) => {
                    let from = self.model.next().unwrap_or(now).max(now);
                    for event in self.model.run(from, action.unwrap_or(from + 1000)) {
                        now = now.max(event.time);
                        self.see(event);
                    }
                    now = now.max(from);
                }
            }
        }
        assert_eq!(sent, packets);
        assert!(
            self.frames.is_empty() && self.running.is_empty() && self.to_free.is_empty(),
            "{} left",
            self.frames.len()
        );
        assert_eq!(self.slots.usage().packets, 0);
        let counts = self.scheduler.counts();
        let registers = ["packets", "messages", "ended", "abandoned", "late"]
            .map(|name| u64::from(self.model.read(name)));
        assert_eq!(
            registers,
            [counts.packets, counts.messages, counts.ended, counts.abandoned, counts.late]
        );
        let dropped =
            ["dropped_full", "dropped_long", "dropped_context", "dropped_cell", "dropped_queue"];
        assert_eq!(dropped.map(|name| self.model.read(name)), self.dropped);
        let rest = ["unmatched", "freed", "small_used", "large_used", "most_lines"]
            .map(|name| self.model.read(name));
        assert_eq!(rest, [self.unmatched, self.freed, 0, 0, self.slots.usage().most_bytes / 64]);
        assert_eq!(self.model.read("matched") + self.unmatched, packets as u32);
    }
}

fn lockstep(seeds: std::ops::Range<u64>, packets: u64) {
    let mut seen = BTreeSet::new();
    let (mut tasks, mut all) = (0, 0);
    for seed in seeds {
        let mut bench = match Bench::new(seed, seed % 2 == 0, seed % 3 != 0) {
            Ok(bench) => bench,
            Err(RtlError::NoVerilator) => {
                println!("skipped: Verilator is missing: run scripts/bootstrap.sh");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        println!("seed {seed}");
        bench.run(packets);
        let counts = bench.scheduler.counts();
        all += packets;
        tasks += bench.tasks;
        let kinds = [
            ("unmatched", bench.unmatched > 0),
            ("slots", bench.dropped[0] > 0),
            ("length", bench.dropped[1] > 0),
            ("context", bench.dropped[2] > 0),
            ("cells", bench.dropped[3] > 0),
            ("queues", bench.dropped[4] > 0),
            ("abandoned", counts.abandoned > 0),
            ("late", counts.late > 0),
            ("ended", counts.ended > 0),
        ];
        seen.extend(kinds.iter().filter(|(_, is)| *is).map(|(name, _)| *name));
        println!(
            "{} packets, {} tasks, {counts:?}, dropped {:?}",
            packets, bench.tasks, bench.dropped
        );
    }
    println!("{all} packets, {tasks} tasks: no difference; seen: {seen:?}");
}

#[test]
fn random_packets_go_the_same_way() {
    lockstep(1..9, 4000);
}

/// The long run of `make soak`.
#[test]
#[ignore = "a million packets take minutes; make soak runs it"]
fn a_million_random_packets_go_the_same_way() {
    lockstep(100..140, 25_000);
}
