//! What becomes of packets in the stages of a planned program, from the stages' own counters.
//!
//! The interface counts the first stage's verdicts only. A packet is done when some stage ended it, that is when the
//! verdicts of all stages less the packets handed on are as many as came in. A packet that a full queue turned away
//! is never done; the kernel's tracepoint says how many those are.

use std::os::fd::AsRawFd;

use libbpf_rs::{Link, MapCore as _, MapFlags, Object};

use super::report::StageReport;
use crate::netns::XdpStats;
use crate::xdp::bench::harness_contract;
use crate::xdp::{Loaded, RunCount, RunStats, StageCount, XdpError};

/// Verdicts, as the kernel numbers them.
const ABORTED: usize = 0;
const DROP: usize = 1;
const PASS: usize = 2;
const TX: usize = 3;
const REDIRECT: usize = 4;

/// Watches the stages of a session.
pub(super) struct Stages {
    /// Of each stage's queue, its map's id.
    queues: Vec<Option<u32>>,
    turned_away: libbpf_rs::MapHandle,
    _tracepoint: Link,
    _counting: RunStats,
    /// Counters when the run began.
    before: Vec<StageCount>,
    runs_before: Vec<RunCount>,
    drops_before: Vec<Vec<u64>>,
    turned_before: Vec<u64>,
}

impl Stages {
    pub(super) fn watch(loaded: &Loaded, harness: &Object) -> Result<Stages, XdpError> {
        let map = harness.maps().find(|map| map.name() == "nf_turned_away").ok_or_else(harness_contract)?;
        let kernel = |what: &str, error: libbpf_rs::Error| {
            XdpError::kernel(what.to_string(), std::io::Error::other(error.to_string()))
        };
        let turned_away = libbpf_rs::MapHandle::try_from(&map)
            .map_err(|error| kernel("keep the counter of full queues", error))?;
        let mut queues = Vec::new();
        let stages = loaded.artifact().pipeline.iter().flat_map(|pipeline| &pipeline.stages);
        for stage in stages {
            let Some(fd) = stage.queue.as_ref().and_then(|queue| loaded.map_fd(queue)) else {
                queues.push(None);
                continue;
            };
            let id = map_id(fd.as_raw_fd())?;
            turned_away
                .update(&id.to_ne_bytes(), &0u64.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| kernel("count what full queues turn away", error))?;
            queues.push(Some(id));
        }
        let program = harness.progs_mut().find(|prog| prog.name() == "nf_enqueued");
        let tracepoint = program.ok_or_else(harness_contract)?.attach_raw_tracepoint("xdp_cpumap_enqueue");
        let tracepoint = tracepoint.map_err(|error| XdpError::Feature {
            what: format!("the tracepoint xdp:xdp_cpumap_enqueue ({error})"),
            how: "use a kernel with CONFIG_TRACEPOINTS=y, 5.9 or newer".to_string(),
        })?;
        Ok(Stages {
            queues,
            turned_away,
            _tracepoint: tracepoint,
            _counting: RunStats::enable()?,
            before: Vec::new(),
            runs_before: Vec::new(),
            drops_before: Vec::new(),
            turned_before: Vec::new(),
        })
    }

    /// A run begins.
    pub(super) fn start(&mut self, loaded: &Loaded) -> Result<(), XdpError> {
        self.before = loaded.stage_counts()?;
        self.runs_before = loaded.stage_runs()?;
        self.drops_before = loaded.stage_drops();
        self.turned_before = self.turned_away();
        Ok(())
    }

    /// By stage.
    fn turned_away(&self) -> Vec<u64> {
        let count = |id: &u32| {
            let value = self.turned_away.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
            Some(u64::from_ne_bytes(value.get(..8)?.try_into().ok()?))
        };
        self.queues.iter().map(|id| id.as_ref().and_then(count).unwrap_or(0)).collect()
    }

    /// What the stages did since the run began.
    pub(super) fn report(&self, loaded: &Loaded) -> Result<Vec<StageReport>, XdpError> {
        let Some(pipeline) = &loaded.artifact().pipeline else { return Ok(Vec::new()) };
        let counts = loaded.stage_counts()?;
        let runs = loaded.stage_runs()?;
        let drops = loaded.stage_drops();
        let turned = self.turned_away();
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
        let Ok(list) = self.report(loaded) else { return "the stages' counters cannot be read".to_string() };
        let one = |stage: &StageReport| {
            format!(
                "stage `{}` took {}, handed on {}, and {} found its queue full",
                stage.name, stage.packets_in, stage.handed, stage.turned_away
            )
        };
        list.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

fn map_id(fd: i32) -> Result<u32, XdpError> {
    use libbpf_rs::libbpf_sys;
    // SAFETY: all-zero is the defined initial state of the structure.
    let mut info: libbpf_sys::bpf_map_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes.
    let status = unsafe { libbpf_sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &mut size) };
    if status != 0 {
        return Err(XdpError::kernel("ask about a BPF map", std::io::Error::from_raw_os_error(-status)));
    }
    Ok(info.id)
}

/// Verdicts on packets that are done, all stages together, in place of those the interfaces counted.
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
