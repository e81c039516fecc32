//! What lies where around a core of a sPIN cluster, what accesses take, and what the command
//! registers do.
//!
//! The map is PsPIN's (its linker script and RTL), which FPsPIN shares but for sizes. A command's
//! register is loaded to issue it and stored or loaded to wait for it. The core waits where the
//! fifth command is issued, and commands that are not done when a handler ends keep the next one's
//! first command waiting; both are counted as the longest of the commands issued so far. A poll for
//! the end of a command may say no once, and then is counted as waiting until the end: that takes
//! no less than polling.

use nicforge_isa::rv32::Timing;
use nicforge_target::{Device, Generator, Memory, Scope, Target};

use super::text::Program;
use crate::analysis::HEADROOM;
use crate::graph::{
    Base, Contents, Device as Register, Effect, Expr, Graph, Region, Slot, Unchecked, Wait,
};
use crate::search::Machine;
use crate::term::Op;

/// Registers of a task, from its handler memory on, and how many bytes of them there are.
pub const TASK: u32 = 0x1b20_5008;
pub const TASK_BYTES: u32 = 0x48;
/// Command registers: issue, wait, test, what kind.
pub const ISSUE: u32 = 0x1b20_5080;
pub const WAIT: u32 = 0x1b20_5084;
pub const TEST: u32 = 0x1b20_5088;
pub const KIND: u32 = 0x1b20_508c;
/// Copies inside the cluster: launch, last one done.
pub const COPY: u32 = 0x1b20_4418;
pub const COPIED: u32 = 0x1b20_4420;
/// Commands a core may have in flight.
pub const MOST_COMMANDS: u64 = 4;
/// Memories: those of clusters, each so far from the next; a core's own one again; handler memory;
/// programs.
pub const L1: u32 = 0x1000_0000;
pub const L1_EACH: u32 = 0x40_0000;
/// Clusters that have a place there; specs have no more.
pub const MOST_CLUSTERS: u32 = 8;
/// Clusters whose scratchpads a task's description names.
const DESCRIBED: u32 = 4;
pub const L1_OWN: u32 = 0x1b00_0000;
pub const L2: u32 = 0x1c00_0000;
pub const PROGRAM: u32 = 0x1d00_0000;
const PROGRAM_BYTES: u32 = 0x10_0000;
/// Bytes of a cluster's memory before what handlers share: stacks, the runtime, packets.
const L1_RESERVED: u32 = 0x1_4400;
const L1_PACKETS: u32 = 0x4400;
/// Devices besides.
pub const DEVICES: [(u32, u32); 2] = [(0x1a10_0000, 0x1_0000), (0x1b20_0000, 0x1_0000)];
/// Bytes of stack a core has.
pub const STACK_BYTES: u32 = 0x400;
/// Cycles of a handler that faults or ends in a trap, besides its own: published tails that end so
/// take 85 to 112.
pub const FAULT_CYCLES: u64 = 112;
/// Offset from the code's beginning that a handler returns to.
pub const RETURN: u32 = 0x7fff_fff0;

/// The graph's own addresses of memories that have a base.
pub const PACKET_HOME: u64 = 0x8000_0000;
const PACKET_BYTES: u64 = 0x1_0000;
pub const STACK_HOME: u64 = 0x4010_0000;
pub const ARGS_HOME: u64 = 0x4020_0000;
const HANDLER_HOME: u64 = 0x5000_0000;
const SCRATCH_HOME: u64 = 0x5400_0000;
/// Values that come from nowhere in particular.
pub const OUTSIDE: u64 = 0xf000_0000;

/// Bases, by index.
pub mod base {
    pub const CODE: u32 = 0;
    pub const PACKET: u32 = 1;
    pub const PACKET_L2: u32 = 2;
    pub const STACK: u32 = 3;
    pub const ARGS: u32 = 4;
    pub const HANDLER: u32 = 5;
    /// Of each of four clusters.
    pub const SCRATCH: u32 = 6;
    pub const COUNT: usize = 10;
}

/// Surroundings of a target's cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surroundings {
    /// The own cluster's memory: packets, the stack, what has an address of its own.
    pub near: Wait,
    /// Memory at a cluster's address, which may be another cluster's.
    pub other: Wait,
    pub far: Wait,
    pub near_bytes: u32,
    pub far_bytes: u32,
    pub clusters: u32,
    pub cores_each: u32,
    /// Cycles of asking for the time by `ecall`.
    pub now_cycles: u64,
    /// Longest commands: to or from the host, sending, copying.
    pub host_cycles: u64,
    pub send_cycles: u64,
    pub copy_cycles: u64,
    pub machine: Machine,
}

impl Surroundings {
    /// From a target whose first units are RISC-V cores; packets have up to `longest` bytes.
    ///
    /// # Errors
    /// Its units are others.
    pub fn of(target: &Target, longest: u64) -> Result<Surroundings, String> {
        let group = target.units.first().filter(|group| group.codegen == Generator::Riscv);
        let Some(group) = group else { return Err(format!("{} has no RISC-V cores", target.name)) };
        let hz = group.clock.value;
        let cycles = |ns: f64| ns * 1e-9 * hz;
        let of = |near: bool| {
            let fits = |memory: &&Memory| {
                memory.device == Device::Nic && (memory.scope != Scope::Device) == near
            };
            target.memories.iter().find(fits)
        };
        let core = Timing::RI5CY;
        // Near memory's time includes that of a use right behind, which the core counts.
        let wait = |memory: Option<&Memory>, near: bool| {
            let access =
                memory.and_then(|memory| memory.access.iter().find(|access| access.bytes >= 4));
            let own = u8::from(near) * core.load_use;
            let beyond =
                |ns: f64, own: u8| (cycles(ns) - f64::from(own) - 1e-6).ceil().max(0.0) as u64;
            access.map_or_else(Wait::default, |access| Wait {
                load: beyond(access.read.value, core.load + own),
                store: beyond(access.write.value, core.store),
                fixed: false,
            })
        };
        let bytes = |memory: Option<&Memory>| memory.map_or(0, |memory| memory.size.value as u32);
        let costs = &target.costs[&group.costs];
        let far = wait(of(false), false);
        let (host_cycles, send_cycles) = commands(target, longest, hz);
        let cores_each = group.per_island.unwrap_or(group.count).max(1);
        let ports = &target.ports;
        let near = wait(of(true), true);
        let clusters = group.count.div_ceil(cores_each).clamp(1, MOST_CLUSTERS);
        let across = target
            .spin
            .as_ref()
            .map_or(0, |spin| u64::from(spin.remote_l1_cycles.saturating_sub(1)));
        let other = match clusters {
            1 => near,
            _ => Wait { load: near.load.max(across), store: near.store.max(across), ..near },
        };
        Ok(Surroundings {
            near,
            other,
            far,
            near_bytes: bytes(of(true)),
            far_bytes: bytes(of(false)),
            clusters,
            cores_each,
            now_cycles: costs.now.ceil() as u64,
            host_cycles,
            send_cycles,
            copy_cycles: far.load + (costs.copy_byte * longest as f64).ceil() as u64,
            machine: Machine {
                base_cycles: target
                    .spin
                    .as_ref()
                    .and_then(|spin| spin.handler_cycles)
                    .unwrap_or(costs.receive),
                cores: group.count.into(),
                hz,
                port_pps: ports.packet_rate.as_ref().map(|rate| rate.value),
                port_bps: Some(f64::from(ports.count) * ports.rate.value),
            },
        })
    }

    /// Cycles beyond its own of an access to an address that is no packet and no stack.
    pub fn wait(&self, at: u32) -> Wait {
        let device = DEVICES.iter().any(|(from, bytes)| (*from..from + bytes).contains(&at));
        if (L1_OWN..L1_OWN + L1_EACH).contains(&at) {
            self.near
        } else if (L1..L1 + MOST_CLUSTERS * L1_EACH).contains(&at) {
            self.other
        } else if device {
            Wait::default()
        } else {
            self.far
        }
    }
}

/// Cycles of the longest commands that move up to so many bytes, to or from the host and onto the
/// line, while their way is free; what ways carry at most is the ports' and the link's rate. Each
/// takes its own time, the link's latency and the time of its bytes.
fn commands(target: &Target, longest: u64, hz: f64) -> (u64, u64) {
    let time = |seconds: f64| (seconds * hz - 1e-6).ceil().max(0.0) as u64;
    let bits = 8.0 * longest as f64;
    let link = target.host_link.as_ref().map_or(0, |link| time(bits / link.rate.value));
    let Some(spin) = &target.spin else {
        let latency = target.host_link.as_ref().map_or(0.0, |link| link.latency.value * 1e-9);
        return (time(latency) + link, time(bits / target.ports.rate.value));
    };
    let beats = longest.div_ceil(u64::from(spin.beat_bytes).max(1));
    let own = spin.host_write_cycles.max(spin.host_word_cycles).max(spin.host_read_cycles);
    let host = u64::from(own) + time(spin.host_latency.value * 1e-9) + link.max(beats);
    (host, u64::from(spin.send_cycles) + beats)
}

/// Slots of a program besides registers.
#[derive(Clone, Debug)]
pub struct Slots {
    /// Registers 0 to 31; that of 0 is not used.
    pub regs: Vec<Slot>,
    pub temp: Slot,
    pub other: Slot,
    flight: Slot,
    waits: Slot,
}

fn word(value: u64) -> Expr {
    Expr::Const(32, value)
}

fn slot(slot: Slot) -> Expr {
    Expr::Slot(slot)
}

/// Puts memories and registers into a graph, and gives the slots.
pub fn prepare(graph: &mut Graph, program: &Program, around: &Surroundings) -> Slots {
    let regs: Vec<Slot> = (0..32).map(|_| graph.slot(32)).collect();
    let [temp, other, port, kind, flight, waits, asked, copy, copy_asked] =
        std::array::from_fn(|_| graph.slot(32));
    let mut unchecked =
        Unchecked { port, fault_cycles: FAULT_CYCLES, code: base::CODE, ..Unchecked::default() };
    unchecked.kept = vec![port, kind, flight, waits, asked, copy, copy_asked];
    let mut regions = Regions { graph, unchecked, around };
    regions.based(around);
    regions.commands([kind, flight, waits, asked]);
    regions.copies([copy, copy_asked]);
    regions.sections(program);
    regions.rest();
    let unchecked = regions.unchecked;
    let code = program.code.base();
    graph.unchecked = Some(unchecked);
    graph.start.extend(regs[1..].iter().map(|slot| (*slot, Expr::Fresh(32))));
    start(graph, &regs, program.handler, around);
    graph.start.push((regs[1], Expr::add(Expr::Base(base::CODE), word(RETURN.into()))));
    graph.start.push((regs[2], Expr::Base(base::STACK)));
    for kept in [port, kind, flight, waits, asked, copy, copy_asked] {
        graph.start.push((kept, word(0)));
    }
    if let Some(unchecked) = &mut graph.unchecked {
        let (low, high) = (u64::from(code), u64::from(code) + 2);
        unchecked.bases[base::CODE as usize] =
            Base { low, high, ..unchecked.bases[base::CODE as usize] };
    }
    Slots { regs, temp, other, flight, waits }
}

/// Arguments and task of a handler.
fn start(graph: &mut Graph, regs: &[Slot], handler: bool, around: &Surroundings) {
    let bits = |count: u32| (32 - (count - 1).leading_zeros()) as u8;
    let fresh = |bits: u8| if bits == 0 { word(0) } else { Expr::zext(Expr::Fresh(bits), 32) };
    let (cluster, core) = (graph.slot(32), graph.slot(32));
    graph.start.push((cluster, fresh(bits(around.clusters))));
    graph.start.push((core, fresh(bits(around.cores_each))));
    let global =
        Expr::add(Expr::binary(Op::Mul, slot(cluster), word(around.cores_each.into())), slot(core));
    let args = [word(TASK.into()), global, slot(cluster), slot(core)];
    for (index, value) in args.into_iter().enumerate() {
        graph.bytes.push((ARGS_HOME + 4 * index as u64, value));
    }
    let scratch = |cluster: u32| Expr::Base(base::SCRATCH + cluster % 4);
    for index in 0..TASK_BYTES / 4 {
        let value = match index {
            0 => Expr::Base(base::HANDLER),
            2 => Expr::Base(base::PACKET),
            3 => Expr::zext(Expr::Size(0), 32),
            4..=7 => scratch(index - 4),
            15 => Expr::Base(base::PACKET_L2),
            _ => {
                let unknown = graph.slot(32);
                graph.start.push((unknown, Expr::Fresh(32)));
                slot(unknown)
            }
        };
        graph.bytes.push((u64::from(TASK + 4 * index), value));
    }
    if handler {
        graph.start.push((regs[10], Expr::Base(base::ARGS)));
    }
}

struct Regions<'a> {
    graph: &'a mut Graph,
    unchecked: Unchecked,
    around: &'a Surroundings,
}

impl Regions<'_> {
    fn region(&mut self, name: &str, at: u64, size: u64, contents: Contents, wait: Wait) -> u32 {
        self.graph.regions.push(Region { name: name.to_string(), base: at, size, contents });
        self.unchecked.waits.push(wait);
        self.graph.regions.len() as u32 - 1
    }

    /// Memories whose place is not known, in the order of [`base`].
    fn based(&mut self, around: &Surroundings) {
        let (near, far) = (around.near, around.far);
        let (packet, bytes) = (PACKET_HOME - HEADROOM, PACKET_BYTES + HEADROOM);
        let l1 = self.region("packet", packet, bytes, Contents::Packet, near);
        let l2 = self.region("packet in L2", packet, bytes, Contents::Packet, far);
        let below = u64::from(STACK_BYTES);
        let stack = self.region("stack", STACK_HOME - below, below + 256, Contents::Private, near);
        let args = self.region("arguments", ARGS_HOME, 16, Contents::Private, near);
        let bytes = around.far_bytes.into();
        let handler = self.region("handler memory", HANDLER_HOME, bytes, Contents::Shared, far);
        let clusters = u64::from(L1 + (around.clusters.max(DESCRIBED) - 1) * L1_EACH);
        let within = |from: u32, to: u32| (u64::from(L1 + from), clusters + u64::from(to));
        let l2_packets = u64::from(L2 + around.far_bytes);
        let bases = [
            (l1, 0, (0, 0), 1),
            (l1, PACKET_HOME, within(L1_PACKETS, L1_RESERVED), 6),
            (l2, PACKET_HOME, (l2_packets, l2_packets + 0x40_0000), 6),
            (stack, STACK_HOME, (u64::from(L1 + STACK_BYTES), clusters + 0x4000), 4),
            (args, ARGS_HOME, (u64::from(L1 + 0x3800), clusters + 0x4000), 2),
            (handler, HANDLER_HOME, (u64::from(L2), l2_packets), 3),
        ];
        let base = |(region, home, (low, high), aligned)| Base { region, home, low, high, aligned };
        self.unchecked.bases = bases.into_iter().map(base).collect();
        for cluster in 0..u64::from(DESCRIBED) {
            let home = SCRATCH_HOME + 0x100_0000 * cluster;
            let name = format!("scratchpad of cluster {cluster}");
            let region =
                self.region(&name, home, around.near_bytes.into(), Contents::Shared, around.other);
            let low = u64::from(L1 + L1_RESERVED) + cluster * u64::from(L1_EACH);
            let high = low + u64::from(around.near_bytes);
            self.unchecked.bases.push(Base { region, home, low, high, aligned: 3 });
        }
        debug_assert_eq!(self.unchecked.bases.len(), base::COUNT);
    }

    fn device(&mut self, name: &str, at: u32, load: Vec<Effect>, store: Vec<Effect>) {
        let region = self.region(name, at.into(), 4, Contents::Shared, Wait::default());
        self.unchecked.devices.push(Register { region, load, store });
    }

    /// The port gets a value from outside.
    fn outside(&self, at: u32, bytes: u8) -> Effect {
        Effect::Load {
            slot: self.unchecked.port,
            address: word(OUTSIDE + u64::from(at & 0xfff)),
            bytes,
        }
    }

    fn commands(&mut self, [kind, flight, waits, asked]: [Slot; 4]) {
        let port = self.unchecked.port;
        let task = Wait { fixed: true, ..Wait::default() };
        self.region("task", TASK.into(), TASK_BYTES.into(), Contents::Private, task);
        let full = Expr::not(Expr::binary(Op::Ult, slot(flight), word(MOST_COMMANDS)));
        let more = Expr::ite(full.clone(), slot(flight), Expr::add(slot(flight), word(1)));
        // Bits 1 and 2: the host, sending, eight bytes to the host.
        let sends = Expr::binary(Op::Eq, Expr::extract(slot(kind), 1, 2), Expr::Const(2, 1));
        let takes = Expr::ite(sends, word(self.around.send_cycles), word(self.around.host_cycles));
        let longer = Expr::binary(Op::Ult, slot(waits), takes.clone());
        let issue = vec![
            Effect::Delay(Expr::ite(full, slot(waits), word(0))),
            Effect::Set(flight, more),
            Effect::Set(waits, Expr::ite(longer, takes, slot(waits))),
            Effect::Set(asked, word(0)),
            self.outside(ISSUE, 4),
        ];
        self.device("command issue", ISSUE, issue, Vec::new());
        let idle = Expr::binary(Op::Eq, slot(flight), word(0));
        let fewer = Expr::ite(idle.clone(), word(0), Expr::sub(slot(flight), word(1)));
        let left = Expr::ite(idle, word(0), slot(waits));
        let wait = vec![Effect::Delay(left.clone()), Effect::Set(flight, fewer.clone())];
        self.device("command wait", WAIT, vec![Effect::Set(port, word(0))], wait);
        let again = Expr::binary(Op::Eq, slot(asked), word(1));
        let bit = Expr::zext(Expr::extract(slot(port), 0, 1), 32);
        let test = vec![
            Effect::Delay(Expr::ite(again.clone(), left, word(0))),
            Effect::Set(flight, Expr::ite(again.clone(), fewer, slot(flight))),
            self.outside(TEST, 1),
            Effect::Set(port, Expr::ite(again.clone(), word(1), bit)),
            Effect::Set(asked, Expr::ite(again, word(0), word(1))),
        ];
        self.device("command test", TEST, test, Vec::new());
        self.device(
            "command kind",
            KIND,
            vec![self.outside(KIND, 4)],
            vec![Effect::Set(kind, slot(port))],
        );
    }

    fn copies(&mut self, [copy, asked]: [Slot; 2]) {
        let port = self.unchecked.port;
        let launch =
            vec![self.outside(COPY, 4), Effect::Set(copy, slot(port)), Effect::Set(asked, word(0))];
        self.device("copy launch", COPY, launch, Vec::new());
        let again = Expr::binary(Op::Eq, slot(asked), word(1));
        let done = vec![
            Effect::Delay(Expr::ite(again.clone(), word(self.around.copy_cycles), word(0))),
            self.outside(COPIED, 4),
            Effect::Set(port, Expr::ite(again.clone(), slot(copy), slot(port))),
            Effect::Set(asked, word(1)),
        ];
        self.device("copies done", COPIED, done, Vec::new());
    }

    fn sections(&mut self, program: &Program) {
        for section in program.image.sections.iter().filter(|section| section.size > 0) {
            let known = !section.writable && section.bytes.len() == section.size as usize;
            let contents = if known { Contents::Table } else { Contents::Shared };
            let (at, wait) = (u64::from(section.address), self.around.wait(section.address));
            let region = self.region(&section.name, at, section.size.into(), contents, wait);
            if known {
                let given = section.bytes.iter().zip(at..);
                self.graph.given.extend(given.map(|(byte, at)| (region, at, *byte)));
            }
        }
    }

    /// Memory at fixed addresses that is not the program's.
    fn rest(&mut self) {
        let around = self.around;
        for cluster in 0..around.clusters.max(DESCRIBED) {
            let at = L1 + cluster * L1_EACH + L1_RESERVED;
            self.region("L1", at.into(), around.near_bytes.into(), Contents::Shared, around.other);
        }
        let own = u64::from(L1_OWN + L1_RESERVED);
        self.region("own L1", own, around.near_bytes.into(), Contents::Shared, around.near);
        self.region("L2", L2.into(), around.far_bytes.into(), Contents::Shared, around.far);
        self.region("program", PROGRAM.into(), PROGRAM_BYTES.into(), Contents::Shared, around.far);
        for (at, size) in DEVICES {
            self.region("devices", at.into(), size.into(), Contents::Shared, Wait::default());
        }
        self.region("outside", OUTSIDE, 0x0fff_ffff, Contents::Shared, Wait::default());
        self.unchecked.anywhere =
            self.region("unknown address", 0, 0, Contents::Shared, Wait::default());
    }
}

impl Slots {
    /// The end of a handler: its commands must be done before the next one's.
    pub fn end(&self) -> Effect {
        let idle = Expr::binary(Op::Eq, slot(self.flight), word(0));
        Effect::Delay(Expr::ite(idle, word(0), slot(self.waits)))
    }
}
