use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::*;

struct Noise(nicforge_util::Random);

impl Noise {
    fn new(seed: u64) -> Noise {
        Noise(nicforge_util::Random::new(seed))
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0.below(bound.into()) as u32
    }
}

fn context(weight: u32, header: bool, completion: bool) -> Context {
    Context { weight: NonZeroU32::new(weight).unwrap(), header, completion, serial: false }
}

fn packet(address: u32, context: usize, message: u32, last: bool) -> Packet {
    Packet { address, matched: Matched { context, message, last } }
}

/// A message as a plain list of what happened to its packets.
struct Message {
    context: usize,
    number: u32,
    packets: Vec<(Packet, Progress)>,
    header: Progress,
    completion: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    Open,
    Running,
    Done,
}

impl Message {
    fn new(first: Packet, context: Context) -> Message {
        let unless = |has: bool| if has { Progress::Open } else { Progress::Done };
        Message {
            context: first.matched.context,
            number: first.matched.message,
            packets: Vec::new(),
            header: unless(context.header),
            completion: unless(context.completion),
        }
    }

    fn last(&self) -> Option<Packet> {
        self.packets.iter().map(|(packet, _)| *packet).find(|packet| packet.matched.last)
    }

    fn closed(&self) -> bool {
        self.last().is_some()
            && self.header == Progress::Done
            && self.packets.iter().all(|(_, progress)| *progress == Progress::Done)
    }

    fn over(&self) -> bool {
        self.closed() && self.completion == Progress::Done
    }

    /// Tasks that may start: looked up from scratch, with no state kept.
    fn startable(&self) -> Option<(Handler, u32)> {
        if self.header != Progress::Done {
            return (self.header == Progress::Open)
                .then(|| (Handler::Header, self.packets[0].0.address));
        }
        if let Some((packet, _)) =
            self.packets.iter().find(|(_, progress)| *progress == Progress::Open)
        {
            return Some((Handler::Payload, packet.address));
        }
        let completes = self.closed() && self.completion == Progress::Open;
        completes.then(|| self.last().map(|last| (Handler::Completion, last.address)))?
    }

    fn set(&mut self, handler: Handler, address: u32, to: Progress) {
        match handler {
            Handler::Header => self.header = to,
            Handler::Completion => self.completion = to,
            Handler::Payload => {
                let (_, progress) =
                    self.packets.iter_mut().find(|(packet, _)| packet.address == address).unwrap();
                *progress = to;
            }
        }
    }
}

/// Messages by key, each key's in order.
#[derive(Default)]
struct Model(BTreeMap<(usize, u32), Vec<Message>>);

impl Model {
    fn arrive(&mut self, key: (usize, u32), packet: Packet, contexts: &[Context]) {
        let messages = self.0.entry(key).or_default();
        if messages.last().is_none_or(Message::closed) {
            messages.push(Message::new(packet, contexts[packet.matched.context]));
        }
        messages.last_mut().unwrap().packets.push((packet, Progress::Open));
    }

    /// The message of every key that is not over.
    fn current(&mut self) -> impl Iterator<Item = &mut Message> {
        self.0
            .values_mut()
            .filter_map(|messages| messages.iter_mut().find(|message| !message.over()))
    }
}

const CONTEXTS: [(u32, bool, bool); 4] =
    [(1, true, true), (2, false, true), (3, true, false), (1, false, false)];

/// A few hundred packets of messages with and without handlers, beside the naive model: every task
/// is one that may start, nothing that may start is held back while there is room, and everything
/// ends.
fn compare(seed: u32, shared_queues: bool) {
    let mut noise = Noise::new(seed.into());
    let contexts = CONTEXTS.map(|(weight, header, completion)| context(weight, header, completion));
    let mut config = Config { cells: 8, home_limit: 3, ..Config::fpspin(contexts.to_vec()) };
    config.faults.shared_queues = shared_queues;
    let mut scheduler = Scheduler::new(config);
    let key = |packet: Packet| match shared_queues {
        true => (0, packet.matched.message % 16),
        false => (packet.matched.context, packet.matched.message),
    };
    let mut model = Model::default();
    let mut arrivals: VecDeque<Packet> = (0..300)
        .map(|address| {
            let context = noise.below(4) as usize;
            // Numbers with the same low bits, so that keys meet where they may.
            packet(address, context, noise.below(2) * 16 + noise.below(2), noise.below(8) == 0)
        })
        .collect();
    let (mut freed, mut running, mut occupied) =
        (vec![0; 600], Vec::<(u64, Task)>::new(), [0u32; 2]);
    let mut sent = 300;
    for now in 0.. {
        while let Some(&packet) = arrivals.front() {
            if noise.below(3) == 0 {
                break;
            }
            match scheduler.arrive(now, packet) {
                Ok(()) => model.arrive(key(packet), packet, &contexts),
                Err(refused) => {
                    assert_eq!(refused, Refused::NoCell);
                    let waiting = |message: &Message| {
                        message
                            .packets
                            .iter()
                            .filter(|(_, progress)| *progress == Progress::Open)
                            .count()
                    };
                    assert!(model.0.values().flatten().map(waiting).sum::<usize>() >= 8);
                    break;
                }
            }
            arrivals.pop_front();
        }
        let (ended, still) = running.into_iter().partition(|(end, _)| *end <= now);
        running = still;
        for (_, task) in ended {
            occupied[task.cluster] -= 1;
            let gone = scheduler.done(now, task.number).unwrap();
            assert!(scheduler.done(now, task.number).is_err());
            let message = model
                .current()
                .find(|message| message.context == task.context && message.number == task.message)
                .unwrap();
            message.set(task.handler, task.address, Progress::Done);
            let is_kept = contexts[message.context].completion
                && message.last().is_some_and(|last| last.address == task.address);
            let frees =
                task.handler == Handler::Completion || task.handler == Handler::Payload && !is_kept;
            assert_eq!(gone, frees.then_some(task.address), "{task:?}");
            if let Some(address) = gone {
                freed[address as usize] += 1;
            }
        }
        let room = [noise.below(3), noise.below(3)];
        let mut left = room;
        loop {
            let task = scheduler.next(now, &left);
            let may = model.current().any(|message| message.startable().is_some());
            assert_eq!(task.is_some(), may && left != [0, 0]);
            let Some(task) = task else { break };
            let message = model
                .current()
                .find(|message| message.startable() == Some((task.handler, task.address)))
                .unwrap_or_else(|| panic!("{task:?} may not start"));
            assert_eq!((message.context, message.number), (task.context, task.message));
            message.set(task.handler, task.address, Progress::Running);
            let home = (task.message % 2) as usize;
            let other = 1 - home;
            let want = match (left[home] > 0, left[other] > 0) {
                (true, false) => home,
                (false, _) => other,
                (true, true) if occupied[home] < 3 || occupied[home] < occupied[other] => home,
                (true, true) if occupied[home] == occupied[other] => 0,
                (true, true) => other,
            };
            assert_eq!(task.cluster, want);
            left[task.cluster] -= 1;
            occupied[task.cluster] += 1;
            running.push((now + 1 + u64::from(noise.below(50)), task));
        }
        if arrivals.is_empty() && scheduler.is_idle() {
            // Ends for what is open, then nothing may be left.
            let open = |message: &&mut Message| message.last().is_none();
            let open: Vec<_> = model
                .current()
                .filter(open)
                .map(|message| (message.context, message.number))
                .collect();
            if open.is_empty() {
                break;
            }
            for (context, number) in open {
                arrivals.push_back(packet(sent, context, number, true));
                sent += 1;
            }
        }
    }
    assert!(model.current().next().is_none());
    assert!(freed.iter().enumerate().all(|(at, &times)| times == i32::from(at < sent as usize)));
    let counts = scheduler.counts();
    assert_eq!((counts.packets, counts.abandoned), (u64::from(sent), 0));
}

#[test]
fn random_messages_go_as_in_the_naive_model() {
    for seed in 0..200 {
        compare(seed, false);
        compare(seed, true);
    }
}

/// With every set of faults, and numbers that make no sense: packets are freed once, and header
/// handlers run alone.
#[test]
fn faults_lose_no_packet_twice() {
    for seed in 0..160 {
        let mut noise = Noise::new(seed);
        let contexts =
            CONTEXTS.map(|(weight, header, completion)| context(weight, header, completion));
        let mut config =
            Config { queues: 3, cells: 4, patience: 9, ..Config::pspin(contexts.to_vec()) };
        let [shared_queues, drains_early, no_shares] = [0, 1, 2].map(|bit| seed >> bit & 1 == 1);
        config.faults = Faults { shared_queues, drains_early, no_shares };
        let mut scheduler = Scheduler::new(config);
        let (mut freed, mut running) = ([false; 500], Vec::<Task>::new());
        for address in 0..500 {
            let now = u64::from(address);
            let next =
                packet(address, noise.below(5) as usize, noise.below(5), noise.below(4) == 0);
            let taken = scheduler.arrive(now, next);
            assert_eq!(taken == Err(Refused::NoContext(4)), next.matched.context == 4);
            if let Some(task) = scheduler.next(now, &[noise.below(2); 5]) {
                let meets = |other: &Task| {
                    other.queue == task.queue
                        && (other.handler != Payload || task.handler != Payload)
                };
                assert!(!running.iter().any(meets), "{task:?}");
                running.push(task);
            }
            if !running.is_empty() && noise.below(3) > 0 {
                let task = running.swap_remove(noise.below(running.len() as u32) as usize);
                if let Some(address) = scheduler.done(now, task.number).unwrap() {
                    assert!(!std::mem::replace(&mut freed[address as usize], true));
                }
            }
            assert!(scheduler.done(now, u64::MAX).is_err());
        }
        for task in running {
            scheduler.done(500, task.number).unwrap();
        }
        drain(&mut scheduler);
        assert!(scheduler.is_idle());
    }
}

/// Cycles by context of two that always have packets, and the largest difference by weight at any
/// time.
fn contend(faults: Faults, weights: [u32; 2], longest: [u32; 2], units: u32) -> ([u64; 2], f64) {
    let contexts = weights.map(|weight| context(weight, false, false)).to_vec();
    let mut scheduler = Scheduler::new(Config { faults, clusters: 1, ..Config::fpspin(contexts) });
    let mut noise = Noise::new(7);
    let (mut waiting, mut served) = ([0; 2], [0u64; 2]);
    let (mut running, mut worst) = (Vec::<(u64, Task)>::new(), 0f64);
    for now in 0..20_000 {
        let (ended, still) = running.into_iter().partition(|(end, _)| *end <= now);
        running = still;
        for (_, task) in ended {
            scheduler.done(now, task.number).unwrap();
        }
        while running.len() < units as usize {
            for (context, waiting) in waiting.iter_mut().enumerate() {
                while *waiting < 8 {
                    scheduler
                        .arrive(now, packet(0, context, *waiting % 2 + 2 * context as u32, false))
                        .unwrap();
                    *waiting += 1;
                }
            }
            let task = scheduler.next(now, &[1]).unwrap();
            waiting[task.context] -= 1;
            running.push((now + 1 + u64::from(noise.below(longest[task.context])), task));
        }
        for (_, task) in &running {
            served[task.context] += 1;
        }
        let [a, b] = [0, 1].map(|at| served[at] as f64 / f64::from(weights[at]));
        worst = worst.max((a - b).abs());
    }
    (served, worst)
}

#[test]
fn contexts_share_units_by_weight_whatever_their_handlers_take() {
    for (weights, longest, units) in
        [([1, 1], [40, 4], 8), ([1, 3], [4, 40], 8), ([5, 2], [40, 40], 1), ([1, 10], [40, 7], 16)]
    {
        let bound = f64::from(2 * units + 1)
            * 40.0
            * (1.0 / f64::from(weights[0]) + 1.0 / f64::from(weights[1]));
        let (served, worst) = contend(Faults::default(), weights, longest, units);
        assert!(worst <= bound, "{weights:?}: {served:?} differ by {worst}, more than {bound}");
        assert_eq!(served[0] + served[1], 20_000 * u64::from(units), "no unit is idle");
    }
    let in_turn = Faults { no_shares: true, ..Faults::default() };
    let (served, _) = contend(in_turn, [1, 1], [40, 4], 8);
    assert!(served[0] > 5 * served[1], "hardware gives long handlers more: {served:?}");
}

#[test]
fn nobody_saves_up_time() {
    for late in [0, 1] {
        let contexts = vec![context(1, false, false); 2];
        let mut scheduler = Scheduler::new(Config { cells: 1000, ..Config::pspin(contexts) });
        let mut tasks = [0; 2];
        for now in 0..1000u32 {
            for context in 0..2 {
                if now >= 500 || context != late {
                    scheduler
                        .arrive(now.into(), packet(now, context, context as u32, false))
                        .unwrap();
                }
            }
            let task = scheduler.next(now.into(), &[1; 4]).unwrap();
            scheduler.done(u64::from(now) + 1, task.number).unwrap();
            tasks[task.context] += u32::from(now >= 500);
        }
        assert!(tasks[0].abs_diff(tasks[1]) <= 2, "{tasks:?}");
    }
}

fn one(faults: Faults) -> Scheduler {
    Scheduler::new(Config { faults, ..Config::fpspin(vec![context(1, true, true); 2]) })
}

/// Starts and ends all that can, one by one.
fn drain(scheduler: &mut Scheduler) -> Vec<(Handler, u32)> {
    let mut order = Vec::new();
    while let Some(task) = scheduler.next(0, &[1, 1]) {
        scheduler.done(0, task.number).unwrap();
        order.push((task.handler, task.address));
    }
    order
}

use Handler::{Completion, Header, Payload};

#[test]
fn completion_runs_on_the_marked_packet_even_if_others_overtook() {
    for drains_early in [false, true] {
        let mut scheduler = one(Faults { drains_early, ..Faults::default() });
        for (address, last) in [(10, false), (11, true), (12, false)] {
            scheduler.arrive(0, packet(address, 0, 5, last)).unwrap();
        }
        let last = if drains_early { 12 } else { 11 };
        let want = [(Header, 10), (Payload, 10), (Payload, 11), (Payload, 12), (Completion, last)];
        assert_eq!(drain(&mut scheduler), want);
        assert_eq!(scheduler.counts().ended, 1);
    }
}

#[test]
fn late_packets_start_a_message_and_in_hardware_wait_for_the_next() {
    for drains_early in [false, true] {
        let mut scheduler = one(Faults { drains_early, ..Faults::default() });
        scheduler.arrive(0, packet(10, 0, 5, true)).unwrap();
        for _ in 0..2 {
            let task = scheduler.next(0, &[1]).unwrap();
            scheduler.done(0, task.number).unwrap();
        }
        scheduler.arrive(0, packet(11, 0, 5, false)).unwrap();
        let later: &[_] = if drains_early { &[] } else { &[(Header, 11), (Payload, 11)] };
        assert_eq!(drain(&mut scheduler), [&[(Completion, 10)], later].concat());
        assert_eq!(scheduler.counts().late, 1);
        scheduler.arrive(0, packet(12, 0, 5, true)).unwrap();
        let rest: &[_] = if drains_early { &[(Header, 11), (Payload, 11)] } else { &[] };
        assert_eq!(drain(&mut scheduler), [rest, &[(Payload, 12), (Completion, 12)]].concat());
    }
}

#[test]
fn contexts_meet_in_a_queue_only_in_hardware() {
    for shared_queues in [false, true] {
        let mut scheduler = one(Faults { shared_queues, ..Faults::default() });
        scheduler.arrive(0, packet(10, 0, 5, false)).unwrap();
        scheduler.arrive(0, packet(11, 1, 21, false)).unwrap();
        let contexts: Vec<usize> = std::iter::from_fn(|| {
            let task = scheduler.next(0, &[1])?;
            scheduler.done(0, task.number).unwrap();
            Some(task.context)
        })
        .collect();
        assert_eq!(contexts, if shared_queues { vec![0, 0, 0] } else { vec![0, 1, 0, 1] });
    }
}

#[test]
fn queues_start_in_turn() {
    let mut scheduler = Scheduler::new(Config::fpspin(vec![context(1, false, false)]));
    for address in [2, 7, 4, 12, 17, 14] {
        scheduler.arrive(0, packet(address, 0, address % 10, false)).unwrap();
    }
    let order: Vec<u32> = (0..6).map(|_| scheduler.next(0, &[9, 9]).unwrap().address).collect();
    assert_eq!(order, [2, 4, 7, 12, 14, 17]);
}

#[test]
fn a_queue_is_kept_again_for_who_has_given_back_all() {
    let mut scheduler = one(Faults::default());
    scheduler.arrive(0, packet(0, 1, 3, true)).unwrap();
    drain(&mut scheduler);
    let taken =
        (0..16).take_while(|&message| scheduler.arrive(0, packet(1, 0, message, false)).is_ok());
    assert_eq!(taken.count(), 15);
}

#[test]
fn a_lost_end_gives_way_and_no_context_is_shut_out() {
    let mut scheduler = one(Faults::default());
    for message in 0..15 {
        scheduler.arrive(0, packet(message, 0, message, false)).unwrap();
    }
    assert_eq!(
        scheduler.arrive(0, packet(15, 0, 15, false)),
        Err(Refused::NoQueue),
        "one is the other's"
    );
    scheduler.arrive(0, packet(15, 1, 3, false)).unwrap();
    drain(&mut scheduler);
    let patience = 40_000;
    assert_eq!(scheduler.arrive(patience - 1, packet(16, 0, 15, false)), Err(Refused::NoQueue));
    scheduler.arrive(patience - 1, packet(17, 0, 0, false)).unwrap();
    drain(&mut scheduler);
    scheduler.arrive(patience, packet(18, 0, 15, false)).unwrap();
    assert_eq!(drain(&mut scheduler), [(Header, 18), (Payload, 18)]);
    scheduler.arrive(patience, packet(19, 1, 3, true)).unwrap();
    assert_eq!(
        drain(&mut scheduler),
        [(Payload, 19), (Completion, 19)],
        "the other keeps its message"
    );
    let want = Counts { packets: 19, refused: 2, messages: 17, ended: 1, abandoned: 1, late: 0 };
    assert_eq!(scheduler.counts(), want);
}

#[test]
fn pings_are_messages_of_their_own_and_hold_no_queue() {
    let mut scheduler = Scheduler::new(Config::fpspin(vec![context(1, false, false)]));
    for ping in 0..1000 {
        scheduler.arrive(0, packet(ping, 0, ping * 77, false)).unwrap();
        assert_eq!(drain(&mut scheduler), [(Payload, ping)]);
    }
    assert_eq!(scheduler.counts().abandoned, 0);
}

#[test]
fn the_home_cluster_takes_twenty_tasks_and_then_the_emptiest() {
    let mut scheduler = Scheduler::new(Config::pspin(vec![context(1, false, false)]));
    for address in 0..24 {
        scheduler.arrive(0, packet(address, 0, 2, false)).unwrap();
    }
    let clusters: Vec<usize> =
        (0..24).map(|_| scheduler.next(0, &[32, 0, 32, 32]).unwrap().cluster).collect();
    assert_eq!(clusters[..20], [2; 20]);
    assert_eq!(clusters[20..], [0, 3, 0, 3]);
    assert_eq!(scheduler.next(0, &[1; 4]), None);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut scheduler =
        Scheduler::new(Config { queues: 0, clusters: 0, ..Config::pspin(Vec::new()) });
    assert_eq!(scheduler.arrive(0, packet(0, 3, 0, false)), Err(Refused::NoContext(3)));
    assert_eq!(scheduler.next(0, &[]), None);
    assert_eq!(scheduler.done(0, 0), Err(NotRunning { number: 0 }));
}
