//! What becomes of packets in the stages of a planned program, from the stages' own counters.
//!
//! The interface counts the first stage's verdicts only. A packet is done when some stage ended it,
//! that is when the verdicts of all stages less the packets handed on are as many as came in. A
//! packet that a full queue turned away is never done; the kernel's tracepoint says how many those
//! are.

use super::report::StageReport;
use crate::netns::XdpStats;
use crate::process::Crossed;
use crate::xdp::{Loaded, RunCount, RunStats, StageCount, XdpError};

/// Verdicts, as the kernel numbers them.
const ABORTED: usize = 0;
const DROP: usize = 1;
const PASS: usize = 2;
const TX: usize = 3;
const REDIRECT: usize = 4;

/// Watches the stages of a session.
pub(super) struct Stages {
    _counting: RunStats,
    /// Counters when the run began.
    before: Vec<StageCount>,
    runs_before: Vec<RunCount>,
    drops_before: Vec<Vec<u64>>,
    turned_before: Vec<u64>,
    crossed_before: Crossed,
}

impl Stages {
    pub(super) fn watch() -> Result<Stages, XdpError> {
        Ok(Stages {
            _counting: RunStats::enable()?,
            before: Vec::new(),
            runs_before: Vec::new(),
            drops_before: Vec::new(),
            turned_before: Vec::new(),
            crossed_before: Crossed::default(),
        })
    }

    /// A run begins.
    pub(super) fn start(&mut self, loaded: &Loaded) -> Result<(), XdpError> {
        self.before = loaded.stage_counts()?;
        self.runs_before = loaded.stage_runs()?;
        self.drops_before = loaded.stage_drops();
        self.turned_before = loaded.turned_away();
        self.crossed_before = crossed(loaded).unwrap_or_default();
        Ok(())
    }

    /// Counts of what went to the program's process and back since then.
    pub(super) fn crossed(&self, loaded: &Loaded) -> Option<Crossed> {
        Some(crossed(loaded)?.since(self.crossed_before))
    }

    /// The stages' report since the run began.
    pub(super) fn report(&self, loaded: &Loaded) -> Result<Vec<StageReport>, XdpError> {
        let Some(pipeline) = &loaded.artifact().pipeline else { return Ok(Vec::new()) };
        let counts = loaded.stage_counts()?;
        let runs = loaded.stage_runs()?;
        let drops = loaded.stage_drops();
        let turned = loaded.turned_away();
        let mut list = Vec::new();
        for (at, now) in counts.iter().enumerate() {
            let stage = pipeline.stages.get(at);
            if stage.is_none() && pipeline.spread.is_none() {
                continue;
            }
            let count = now.since(&self.before[at]);
            let (ns, times) = match (runs.get(at), self.runs_before.get(at)) {
                (Some(now), Some(before)) => (now.ns - before.ns, now.runs - before.runs),
                _ => (0, 0),
            };
            let reasons = loaded.artifact().reasons.iter().enumerate();
            let dropped = reasons.filter_map(|(reason, (_, text))| {
                let n = drops.get(at)?[reason] - self.drops_before.get(at)?[reason];
                (n > 0).then(|| (text.clone(), n))
            });
            list.push(StageReport {
                name: stage.map_or("spread".to_string(), |stage| stage.name.clone()),
                replicas: stage.map_or(1, |stage| stage.replicas),
                packets_in: count.packets(),
                handed: count.handed,
                sent: (count.verdicts[TX] + count.verdicts[REDIRECT]).saturating_sub(count.handed),
                stack: count.verdicts[PASS],
                ended: count.verdicts[ABORTED] + count.verdicts[DROP],
                drops: dropped.collect(),
                turned_away: turned.get(at).map_or(0, |now| now - self.turned_before[at]),
                ns_per_packet: if times > 0 { ns as f64 / times as f64 } else { 0.0 },
            });
        }
        Ok(list)
    }

    /// Where packets are, for a run in which some went missing.
    pub(super) fn describe(&self, loaded: &Loaded) -> String {
        let Ok(list) = self.report(loaded) else {
            return "the stages' counters cannot be read".to_string();
        };
        let one = |stage: &StageReport| {
            format!(
                "stage `{}` took {}, handed on {}, and {} found its queue full",
                stage.name, stage.packets_in, stage.handed, stage.turned_away
            )
        };
        list.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

fn crossed(loaded: &Loaded) -> Option<Crossed> {
    loaded.process().map(|process| process.shared.counts().crossed)
}

/// Verdicts on packets that are done, all stages together, in place of those the interfaces
/// counted.
pub(super) fn total(loaded: &Loaded, interfaces: &XdpStats) -> Result<XdpStats, XdpError> {
    let counts = loaded.stage_counts()?;
    let of = |verdict: usize| counts.iter().map(|count| count.verdicts[verdict]).sum::<u64>();
    let handed: u64 = counts.iter().map(|count| count.handed).sum();
    let taken: u64 = counts.iter().map(StageCount::packets).sum();
    Ok(XdpStats {
        packets: taken.saturating_sub(handed) + interfaces.lost,
        lost: interfaces.lost,
        redirected: of(REDIRECT).saturating_sub(handed),
        dropped: of(ABORTED) + of(DROP),
        bounced: of(TX).saturating_sub(interfaces.bounce_errors),
        bounce_errors: interfaces.bounce_errors,
        send_errors: interfaces.send_errors,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
    use nicforge_codegen::dpdk::{PipeStage, Pipeline};
    use nicforge_codegen::{LineStyle, xdp};
    use nicforge_ir::{Input, InputEvent, text};

    use crate::compile::Mode;
    use crate::live::{LiveError, LiveOptions, Session};
    use crate::netns::Sandbox;
    use crate::xdp::compile_bpf;
    use crate::xdp::{LoadOptions, Loaded};

    const PROGRAM: &str = "program two ports 1
event net_recv(pkt: packet) in
event second(pkt: packet) internal
reason \"done\"

handler net_recv on net_recv(%pkt: packet) {
  generate second(%pkt)
  return
}

handler second on second(%pkt: packet) {
  drop %pkt, \"done\"
  return
}
";

    /// With room for one packet in the queue most of a burst is turned away. The run says so, and
    /// nothing is uncounted: what was handed on was taken or turned away.
    #[test]
    fn a_full_queue_is_counted() {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!(
                "SKIPPED: this test loads BPF programs and makes network namespaces: run it as root"
            );
            return;
        }
        let program = text::parse(PROGRAM).unwrap();
        let stages = program.handlers.keys().map(|h| PipeStage {
            handlers: vec![h],
            replicas: 1,
            ordered: false,
            locked: false,
        });
        let pipeline = Pipeline {
            stages: stages.collect(),
            steering: Vec::new(),
            ordered_output: false,
            context: Default::default(),
        };
        let artifact = xdp::generate_pipeline(&program, &pipeline, LineStyle::Comments).unwrap();
        let includes = [concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtime/xdp").into()];
        let object = compile_bpf("two", &artifact.source, Mode::Live, &includes).unwrap();
        let sandbox = Sandbox::new(1).unwrap();
        let options = LoadOptions { mode: Mode::Live, ifindex: sandbox.ifindex() };
        let loaded = Loaded::load(&program, &artifact, &object, &options).unwrap();
        let queue = MapHandle::from_map_id(loaded.queues[1].unwrap()).unwrap();
        let second = loaded.program_fd("nf_stage_1").unwrap().as_raw_fd();
        let value = [1u32.to_ne_bytes(), second.to_ne_bytes()].concat();
        for cpu in queue.keys().filter(|cpu| queue.lookup(cpu, MapFlags::ANY).unwrap().is_some()) {
            queue.update(&cpu, &value, MapFlags::ANY).unwrap();
        }
        let mut session = Session::new(sandbox, loaded, &includes).unwrap();
        let event =
            InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame: vec![0; 60] } };
        let keep_going = &mut |_| true;
        let patience = Duration::from_millis(500);
        let mut options = LiveOptions { window: 128, per_event: false, patience, keep_going };
        let ended = session.run(&vec![event; 128], &mut options);
        let Err(LiveError::Missing { detail, .. }) = ended else {
            panic!("nothing was turned away: {ended:?}")
        };
        let stages = session.stages.as_ref().unwrap().report(session.loaded()).unwrap();
        assert_eq!((stages[0].packets_in, stages[0].handed), (128, 128), "{stages:?}");
        assert!(stages[1].turned_away > 0, "{stages:?}");
        assert_eq!(stages[1].packets_in + stages[1].turned_away, 128, "{stages:?}");
        assert!(
            detail.contains(&format!("{} found its queue full", stages[1].turned_away)),
            "{detail}"
        );
        let drops = session.loaded().drops();
        let full = drops.iter().find(|drop| drop.1 == "the queue of `second` was full").unwrap();
        assert_eq!(full.2, stages[1].turned_away);
    }
}
