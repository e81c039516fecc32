//! Stages of planned programs: which CPU each replica runs on, the queues in front of them, and
//! what every stage counted.
//!
//! Replicas get the CPUs that are online in turn, beginning behind the first, which is where runs
//! on captures feed the interfaces. More replicas than CPUs fold onto the CPUs there are: equal
//! keys still meet on one CPU, and programs on one CPU do not interrupt each other.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{Link, MapCore as _, MapFlags, Object, OpenObject, libbpf_sys};
use nicforge_codegen::XdpPipeline;

use super::count::StageCount;
use super::error::XdpError;
use super::globals::Place;
use super::loaded::Loaded;

/// Packets that wait in front of a CPU at most.
const QUEUE: u32 = 2048;

/// The CPUs that are online, as the kernel lists them: `0-3,6`.
fn cpus_online() -> Result<Vec<u32>, XdpError> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|error| {
        XdpError::kernel(format!("read {path} to choose CPUs for stages"), error)
    })?;
    let list = cpu_list(text.trim());
    if list.is_empty() {
        return Err(XdpError::Feature {
            what: format!("a list of CPUs in {path}"),
            how: "mount sysfs on /sys".to_string(),
        });
    }
    Ok(list)
}

fn cpu_list(text: &str) -> Vec<u32> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            list.extend(first..=last);
        }
    }
    list
}

/// The CPU of every replica, in the order of `nf_cpus`.
pub(super) fn place(pipeline: &XdpPipeline) -> Result<Vec<u32>, XdpError> {
    let online = cpus_online()?;
    let mut next = 0;
    let mut cpus = Vec::new();
    for stage in &pipeline.stages {
        for _ in 0..stage.replicas {
            // What also runs where packets come in runs behind its queue on the same CPU.
            next += usize::from(stage.queue.is_some() && !stage.entry);
            cpus.push(if stage.entry { online[0] } else { online[next % online.len()] });
        }
    }
    Ok(cpus)
}

/// The CPU that feeds the first stage in runs on captures.
pub(crate) fn feeding_cpu() -> Option<u32> {
    cpus_online().ok()?.first().copied()
}

/// Sets sizes and constants of an object that is not loaded yet.
pub(super) fn configure(
    open: &mut OpenObject,
    pipeline: &XdpPipeline,
    cpus: &[u32],
    constants: Option<Place>,
) -> Result<(), XdpError> {
    let contract =
        |what: &str| XdpError::Contract(format!("the object of several stages has no {what}"));
    let most = cpus.iter().max().map_or(1, |cpu| cpu + 1);
    for stage in &pipeline.stages {
        let Some(queue) = &stage.queue else { continue };
        let map = open.maps_mut().find(|map| map.name() == queue.as_str());
        let mut map = map.ok_or_else(|| contract("queue of a stage"))?;
        map.set_max_entries(most).map_err(|_| contract("queue of a stage that takes CPUs"))?;
    }
    let place = constants.ok_or_else(|| contract("`nf_cpus`"))?;
    let bytes: Vec<u8> = cpus.iter().flat_map(|cpu| cpu.to_le_bytes()).collect();
    let map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let mut map = map.ok_or_else(|| contract("constants"))?;
    let value = map
        .initial_value_mut()
        .and_then(|value| value.get_mut(place.offset..place.offset + bytes.len()));
    value.ok_or_else(|| contract("`nf_cpus` for all replicas"))?.copy_from_slice(&bytes);
    Ok(())
}

/// Gives every queue the CPUs and programs of its stage's replicas.
pub(super) fn connect(
    object: &Object,
    pipeline: &XdpPipeline,
    cpus: &[u32],
) -> Result<(), XdpError> {
    for stage in &pipeline.stages {
        let Some(queue) = &stage.queue else { continue };
        let missing =
            || XdpError::Contract(format!("there is no `{queue}` or `{}`", stage.program));
        let map = object.maps().find(|map| map.name() == queue.as_str()).ok_or_else(missing)?;
        let program = object
            .progs()
            .find(|prog| prog.name() == stage.program.as_str())
            .ok_or_else(missing)?;
        let first = stage.first as usize;
        for cpu in &cpus[first..first + stage.replicas as usize] {
            // struct bpf_cpumap_val { u32 qsize; int bpf_prog.fd; }
            let value = [QUEUE.to_ne_bytes(), program.as_fd().as_raw_fd().to_ne_bytes()].concat();
            map.update(&cpu.to_ne_bytes(), &value, MapFlags::ANY).map_err(|error| {
                match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => {
                    XdpError::Privilege { what: "run a program on another CPU".to_string() }
                }
                _ => XdpError::Feature {
                    what: format!("programs on the entries of CPU maps ({error})"),
                    how: "use Linux 5.9 or newer with CONFIG_BPF_SYSCALL=y, or run without --plan"
                        .to_string(),
                },
            }
            })?;
        }
    }
    Ok(())
}

/// Has the kernel count what full queues turn away, by the id of the queue's map; gives the ids, by
/// stage.
pub(super) fn watch_queues(
    object: &Object,
    pipeline: &XdpPipeline,
) -> Result<(Vec<Option<u32>>, Link), XdpError> {
    let contract =
        || XdpError::Contract("there is no `nf_turned_away` or `nf_enqueued`".to_string());
    let counters = object.maps().find(|map| map.name() == "nf_turned_away").ok_or_else(contract)?;
    let mut ids = Vec::new();
    for stage in &pipeline.stages {
        let queue = object
            .maps()
            .find(|map| stage.queue.as_ref().is_some_and(|queue| map.name() == queue.as_str()));
        let Some(queue) = queue else {
            ids.push(None);
            continue;
        };
        let id = map_id(queue.as_fd())?;
        counters.update(&id.to_ne_bytes(), &0u64.to_ne_bytes(), MapFlags::ANY).map_err(
            |error| {
                XdpError::kernel(
                    "count what full queues turn away",
                    io::Error::other(error.to_string()),
                )
            },
        )?;
        ids.push(Some(id));
    }
    let program =
        object.progs_mut().find(|prog| prog.name() == "nf_enqueued").ok_or_else(contract)?;
    let link =
        program.attach_raw_tracepoint("xdp_cpumap_enqueue").map_err(|error| XdpError::Feature {
            what: format!("the tracepoint xdp:xdp_cpumap_enqueue ({error})"),
            how: "use a kernel with CONFIG_TRACEPOINTS=y, 5.9 or newer, or run without --plan"
                .to_string(),
        })?;
    Ok((ids, link))
}

fn map_id(fd: BorrowedFd) -> Result<u32, XdpError> {
    // SAFETY: all-zero is the defined initial state of the structure.
    let mut info: libbpf_sys::bpf_map_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes.
    let status = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(fd.as_raw_fd(), (&raw mut info).cast(), &mut size)
    };
    if status != 0 {
        return Err(XdpError::kernel("ask about a BPF map", io::Error::from_raw_os_error(-status)));
    }
    Ok(info.id)
}

impl Loaded {
    /// By stage, packets that the full queue in front of it turned away so far.
    pub fn turned_away(&self) -> Vec<u64> {
        let Some(map) = self.map_named("nf_turned_away") else { return Vec::new() };
        let count = |id: &u32| {
            let value = map.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
            Some(u64::from_ne_bytes(value.get(..8)?.try_into().ok()?))
        };
        let mut list: Vec<u64> =
            self.queues.iter().map(|id| id.as_ref().and_then(count).unwrap_or(0)).collect();
        let stages = self.artifact.pipeline.iter().flat_map(|pipeline| &pipeline.stages);
        // Stages of the process have one queue.
        let first = list.iter_mut().zip(stages).find(|(_, stage)| stage.process);
        if let (Some((count, _)), Some(process)) = (first, &self.process) {
            let unsent = self.counters(self.places.unsent, process.shared.parts.len());
            *count += process.shared.lost() + unsent.iter().sum::<u64>();
        }
        list
    }

    /// What every stage counted so far; last the program that spreads packets over the first
    /// stage's replicas. Empty for programs of one stage.
    pub fn stage_counts(&self) -> Result<Vec<StageCount>, XdpError> {
        let Some(pipeline) = &self.artifact.pipeline else { return Ok(Vec::new()) };
        let contract =
            || XdpError::Contract("`nf_stage_counts` is not u64[6] for each stage".to_string());
        let map = self.map_named("nf_stage_counts").ok_or_else(contract)?;
        let inside =
            self.process.as_ref().map(|process| process.shared.counts().stages).unwrap_or_default();
        (0..=pipeline.stages.len() as u32)
            .map(|at| {
                let values = map.lookup_percpu(&at.to_ne_bytes(), MapFlags::ANY);
                let values = values.ok().flatten().ok_or_else(contract)?;
                let mut sum = StageCount::default();
                for value in values {
                    let word = |at: usize| {
                        let bytes = value.get(8 * at..8 * at + 8)?;
                        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
                    };
                    for (at, count) in sum.verdicts.iter_mut().chain([&mut sum.handed]).enumerate()
                    {
                        *count += word(at).ok_or_else(contract)?;
                    }
                }
                if let Some(inside) = inside.get(at as usize) {
                    sum.verdicts
                        .iter_mut()
                        .zip(inside.verdicts)
                        .for_each(|(sum, more)| *sum += more);
                    sum.handed += inside.handed;
                }
                Ok(sum)
            })
            .collect()
    }

    /// Descriptors of every stage's programs, in order, then of the one that spreads packets.
    /// Stages of the process have none.
    pub(super) fn stage_programs(&self) -> Vec<Vec<BorrowedFd<'_>>> {
        let Some(pipeline) = &self.artifact.pipeline else { return Vec::new() };
        let stages = pipeline.stages.iter().enumerate().map(|(at, stage)| {
            let names = [stage.program.clone(), format!("nf_enter_{at}")];
            names.iter().filter_map(|name| self.program_fd(name)).collect()
        });
        let spread = pipeline.spread.iter().map(|name| self.program_fd(name).into_iter().collect());
        stages.chain(spread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_have_ranges() {
        assert_eq!(cpu_list("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(cpu_list("0"), [0]);
        assert!(cpu_list("").is_empty());
    }
}
