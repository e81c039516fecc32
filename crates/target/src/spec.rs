//! What a spec file says: one struct per TOML table.
//!
//! Everything target-dependent that is data is here. Reading is strict: an unknown key, a missing
//! one and a wrong unit are errors at their line; [`crate::check`] then looks at what the parts say
//! about one another.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nicforge_ir::{CryptoOp, TableKind, Words};
use serde::Deserialize;

use crate::quantity::{BitRate, Frequency, Power, Rate, Size, Time};
use crate::spin::Spin;

/// A NIC, and the host behind it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// As on command lines: `agilio-cx`.
    pub name: String,
    /// As in sentences.
    pub title: String,
    /// Where figures of running here come from: `measured`, or `modelled`.
    pub speed: Speed,
    pub units: Vec<UnitGroup>,
    pub memories: Vec<Memory>,
    #[serde(default)]
    pub links: Vec<Link>,
    pub ports: Ports,
    pub host_link: Option<HostLink>,
    pub power: SystemPower,
    #[serde(default)]
    pub accelerators: Vec<Accelerator>,
    /// Events it offers, by name.
    pub events: BTreeMap<String, EventSpec>,
    /// Table kinds it has.
    pub tables: Vec<Kind>,
    /// Capabilities that not every target has.
    #[serde(default)]
    pub features: Vec<Feature>,
    pub spread: Spread,
    /// Memory beside each packet in which stages may leave values for later ones, if there is any.
    pub context: Option<Size>,
    pub locks: Option<Locks>,
    /// What tables take beside keys and values, where memory is scarce enough for it to matter.
    pub table_layout: Option<TableLayout>,
    /// The machine of a sPIN NIC, for targets that are one.
    pub spin: Option<Spin>,
    /// What designs take of programmable logic, for targets whose units are made of it.
    pub area: Option<crate::area::AreaCosts>,
    /// Costs in cycles, by the name unit groups refer to.
    pub costs: BTreeMap<String, OpCosts>,
    /// What executed eBPF takes, for targets of codegen `xdp` on which it was measured.
    pub bpf: Option<crate::bpf::Bpf>,
    /// What makes images of generated C and runs them, where that is not this machine's clang.
    pub toolchain: Option<Toolchain>,
}

/// `[toolchain]`: from generated C of units with codegen `threads` to an image, and to a run of it.
///
/// In `flags` and `run`, `{board}` is the folder of the port layer, `{picolibc}` the C library for
/// RISC-V that `scripts/picolibc.sh` unpacks, and in `run` `{image}` is the image.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The command that compiles and links.
    pub compiler: String,
    pub flags: Vec<String>,
    /// A folder with the port layer, `nf_board.h`'s functions: all its files are put beside the
    /// generated ones, and `.c` and `.S` files are linked. Relative to the spec. Absent: a process.
    pub board: Option<PathBuf>,
    /// The shell command that runs an image, which speaks the packet protocol of docs/dev/port.md.
    pub run: String,
}

/// `[table_layout]`: bytes of a table in memory beside keys and values, which are rounded up to 8
/// each.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableLayout {
    /// In front of every entry that is not an array's.
    pub entry: u32,
    /// A slot of the index of tables that hash; there are at least two for every entry, and a power
    /// of two.
    pub slot: u32,
    /// An LRU entry's place in the order of use.
    pub use_order: u32,
    /// The table itself.
    pub table: u32,
}

/// Where figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    Measured,
    Modelled,
}

/// The code generator that makes code for a unit group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    Xdp,
    Dpdk,
    Nfp,
    Riscv,
    Rtl,
    Threads,
    /// C in a process of the host behind AF_XDP.
    Host,
}

impl Generator {
    /// The word for it in spec files.
    pub fn word(self) -> &'static str {
        match self {
            Generator::Xdp => "xdp",
            Generator::Dpdk => "dpdk",
            Generator::Nfp => "nfp",
            Generator::Riscv => "riscv",
            Generator::Rtl => "rtl",
            Generator::Threads => "threads",
            Generator::Host => "host",
        }
    }

    /// Generators that units of the host may have for one build with a NIC of this one.
    pub fn beside(self) -> &'static [Generator] {
        match self {
            Generator::Xdp => &[Generator::Host],
            Generator::Dpdk => &[Generator::Dpdk],
            Generator::Nfp => &[Generator::Dpdk, Generator::Threads],
            Generator::Threads => &[Generator::Threads],
            Generator::Riscv | Generator::Rtl | Generator::Host => &[],
        }
    }
}

/// The side of the host link a thing is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    Nic,
    Host,
}

/// Interchangeable units: cores, micro-engines, pipelines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitGroup {
    pub name: String,
    pub codegen: Generator,
    pub device: Device,
    pub count: u32,
    /// Units per island; memories of scope `island` are shared by so many. Absent: all.
    pub per_island: Option<u32>,
    pub clock: Frequency,
    /// Arm cores by the name that compilers have for them, as `cortex-a72`, for code of a process
    /// (`dpdk`). Absent: this machine's.
    pub cpu: Option<String>,
    /// Hardware threads of one unit; while one waits for memory another runs.
    #[serde(default = "one")]
    pub threads: u32,
    /// Cycles a change of thread costs, each memory access once.
    #[serde(default)]
    pub switch_cycles: f64,
    /// For pipelines in hardware: cycles between events of one replica, whatever the ops are.
    pub initiation_interval: Option<f64>,
    /// Cycles between events of a replica that reads and writes an entry of one table.
    pub update_interval: Option<f64>,
    /// Name in `[costs]`.
    pub costs: String,
    /// One unit at work, and asleep.
    pub active_power: Power,
    pub idle_power: Power,
    /// What these units can beside what the whole target can.
    #[serde(default)]
    pub features: Vec<Feature>,
}

fn one() -> u32 {
    1
}

/// Who shares one instance of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    Unit,
    Island,
    Device,
}

/// A memory tables may live in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub name: String,
    pub device: Device,
    pub scope: Scope,
    /// Of one instance.
    pub size: Size,
    /// Entries one table may have at most, for associative memories.
    pub max_entries: Option<u32>,
    /// Latency by size of access; the smallest that is large enough counts, larger accesses are
    /// several.
    pub access: Vec<Access>,
    /// Accesses one instance serves, and how many bytes each moves at most.
    pub operations: Option<Rate>,
    pub operation_bytes: Option<u32>,
    /// The lookup itself is one access, without searching (associative memories): instructions of a
    /// table op are saved.
    #[serde(default)]
    pub associative: bool,
    /// Threads of a unit wait here without giving way (registers, local memory): latency counts as
    /// processing.
    #[serde(default)]
    pub blocking: bool,
    /// Buffers of tables (`NF_BUF_TABLE`) may live here.
    #[serde(default)]
    pub buffers: bool,
    /// Reads of [`SEARCHED_BYTES`] until a key is found, in front of its value: the index and the
    /// entry. Absent: instructions of a table op hold them.
    #[serde(default)]
    pub search_reads: u32,
}

/// Bytes of one read of a search.
pub const SEARCHED_BYTES: f64 = 4.0;

/// Latency of one size of access, unloaded.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    pub bytes: u32,
    pub read: Time,
    pub write: Time,
}

/// Ways to restore order where replicas of one stage feed one that must see arrival order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reorder {
    /// A unit of the hardware does it.
    Hardware,
    /// Generated code does it with sequence numbers.
    Software,
    /// Cannot be done.
    None,
}

/// The mechanism behind an edge between stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    Cpumap,
    AfXdp,
    Ringbuf,
    RteRing,
    WorkQueue,
    Shm,
    Pcie,
    Cxl,
    Axi,
    Noc,
}

impl Target {
    /// Stages stand in a row, each with a queue in front of it, as modules of hardware do.
    pub fn in_a_row(&self) -> bool {
        self.units.iter().any(|group| group.codegen == Generator::Rtl)
    }

    /// Packets leave in the order in which they came, whatever stages do: the network block of an
    /// NFP sees to it, and stages in a row cannot do otherwise.
    pub fn sorts_output(&self) -> bool {
        self.in_a_row() || self.units.iter().any(|group| group.codegen == Generator::Nfp)
    }
}

/// Messages between units of one group and another (or the same).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub from: String,
    pub to: String,
    pub kind: LinkKind,
    pub latency: Time,
    /// Cycles of the sender and of the receiver per message, and of both per byte carried.
    pub send_cycles: f64,
    pub receive_cycles: f64,
    pub byte_cycles: f64,
    /// Cycles of the receiver per message for every sender beyond the first.
    pub incast_cycles: f64,
    /// Messages a queue holds.
    pub depth: u32,
    /// Bytes a message carries at most besides the packet.
    pub max_bytes: Option<u32>,
    pub reorder: Reorder,
    /// Cycles of the receiver per message where order is restored.
    #[serde(default)]
    pub reorder_cycles: f64,
}

/// Network ports.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    pub count: u32,
    /// Of one port.
    pub rate: BitRate,
    /// Bytes on the wire besides the frame: preamble, gap and (if frames are counted without it)
    /// CRC.
    pub overhead_bytes: u32,
    pub min_frame: u32,
    pub mtu: u32,
    /// Packets all ports together take per second at most.
    pub packet_rate: Option<Rate>,
}

/// Between NIC and host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostLink {
    pub kind: LinkKind,
    pub latency: Time,
    pub rate: BitRate,
    /// Latency of a cache line read across, for tables both sides share.
    pub line: Option<Time>,
}

/// Power besides that of the units.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemPower {
    pub nic_base: Power,
    pub host_base: Power,
}

/// A unit that does one thing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    pub name: String,
    /// The ops it takes.
    pub ops: Vec<AcceleratedOp>,
    /// Unit groups that reach it.
    pub units: Vec<String>,
    /// They share a queue.
    pub count: u32,
    /// Cycles of a unit to hand an op over and to take its answer.
    pub issue_cycles: f64,
    /// Operations one takes per second, and bytes.
    pub operations: Rate,
    pub throughput: BitRate,
    pub latency: Time,
    /// Ops that wait; a unit that finds the queue full stands still.
    pub queue: u32,
    /// The software reference that computes the same.
    pub software: String,
}

/// Operations of accelerators. Programs cannot ask for the last three yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceleratedOp {
    /// `nf_csum_payload`.
    PacketChecksum,
    /// `nf_csum_add`.
    Checksum,
    /// `nf_hash`.
    Hash,
    /// `nf_aes_ctr` and the other modes.
    Aes,
    /// `nf_sha256` and `nf_hmac_sha256`.
    Sha,
    /// `nf_crc32`.
    Crc,
    Regex,
    Deflate,
    Rsa,
}

impl AcceleratedOp {
    /// The word for it in spec files.
    pub fn name(self) -> &'static str {
        match self {
            AcceleratedOp::PacketChecksum => "packet-checksum",
            AcceleratedOp::Checksum => "checksum",
            AcceleratedOp::Hash => "hash",
            AcceleratedOp::Aes => "aes",
            AcceleratedOp::Sha => "sha",
            AcceleratedOp::Crc => "crc",
            AcceleratedOp::Regex => "regex",
            AcceleratedOp::Deflate => "deflate",
            AcceleratedOp::Rsa => "rsa",
        }
    }
}

/// An event as a target offers it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    pub direction: EventDirection,
    pub fields: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventDirection {
    In,
    Out,
}

/// A table kind by its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Hash,
    Array,
    Lru,
    Lpm,
    Ternary,
}

impl From<TableKind> for Kind {
    fn from(kind: TableKind) -> Kind {
        match kind {
            TableKind::Hash => Kind::Hash,
            TableKind::Array => Kind::Array,
            TableKind::Lru => Kind::Lru,
            TableKind::Lpm => Kind::Lpm,
            TableKind::Ternary => Kind::Ternary,
        }
    }
}

/// Features that not every target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// `nf_now`.
    Time,
    /// `nf_random`.
    Random,
    /// `nf_log`.
    Log,
    /// `nf_fib_lookup`.
    FibLookup,
    /// Byte strings in tables (`NF_BUF_TABLE`).
    Buffers,
    /// Sending a table's byte string as a packet of its own.
    BufferPackets,
    /// Packets made from nothing (`nf_new`).
    NewPackets,
    /// Looking at all entries of a table (`nf_least`).
    TableScan,
    /// Division by a value that is not constant.
    Division,
    /// Loops whose trips depend on data, beyond 16.
    LongLoops,
    /// Checksums over the payload.
    PayloadChecksum,
    /// Packets that become longer at their end (`nf_extend`).
    Extend,
    /// Functions of C files and libraries (`extern`, `--with`).
    CFunctions,
    /// Ciphers and digests over the packet (`nf_aes_ctr` and the like).
    Crypto,
}

/// Ways to give packets to replicas of the first stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpreadKind {
    /// Receive-side scaling: a Toeplitz hash of addresses and ports, with a key of our choice.
    Rss,
    /// Generated logic or code computes any function of the headers.
    Any,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub kind: SpreadKind,
    /// Cycles per packet of the unit that receives it, for steering by key.
    pub cycles: f64,
}

/// Costs of a generated lock around a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locks {
    /// Taking and giving back a free lock.
    pub cycles: f64,
    /// More for every further replica that queues for one lock; for a lock of an entry once, where
    /// its memory comes from another unit.
    pub contention_cycles: f64,
}

fn by_word<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<[[f64; 2]; CryptoOp::ALL.len()], D::Error> {
    let mut given: BTreeMap<String, [f64; 2]> = BTreeMap::deserialize(from)?;
    let costs = std::array::from_fn(|at| given.remove(CryptoOp::ALL[at].1).unwrap_or_default());
    match given.into_keys().next() {
        Some(word) => Err(serde::de::Error::custom(format!("there is no function `{word}`"))),
        None => Ok(costs),
    }
}

/// Cycles of what handlers do. Bytes count besides the base. Zero where a key is absent.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpCosts {
    /// Bytes of a register: what is wider takes several instructions. Absent: 8.
    pub word_bytes: f64,
    /// Addition, logic, shift, comparison, selection.
    pub alu: f64,
    pub mul: f64,
    pub div: f64,
    /// An `if` or a turn of a loop.
    pub branch: f64,
    /// Access to a member of an aggregate.
    pub field: f64,
    pub hash: f64,
    pub hash_byte: f64,
    pub checksum: f64,
    pub checksum_byte: f64,
    /// Ciphers and digests in the order of [`CryptoOp`]: a call, with its key's preparation, and a
    /// byte. In files by their words: `crypto.aes_ctr = [1650.0, 0.3]`.
    #[serde(deserialize_with = "by_word")]
    pub crypto: [[f64; 2]; CryptoOp::ALL.len()],
    /// Reading a header.
    pub extract: f64,
    pub extract_byte: f64,
    /// Writing a header.
    pub emit: f64,
    pub emit_byte: f64,
    /// `skip`, `trim`, `extend`, `reset`, `len`.
    pub cursor: f64,
    /// Instructions of a table op, without the memory's latency.
    pub table: f64,
    pub table_byte: f64,
    /// Copying payload between packet and buffers.
    pub copy_byte: f64,
    pub random: f64,
    pub now: f64,
    pub log: f64,
    /// Taking a packet from a port, sending, dropping, passing on to the operating system or host,
    /// writing by DMA.
    pub receive: f64,
    pub send: f64,
    pub drop: f64,
    pub host: f64,
    pub dma: f64,
}

/// A price by its word in files.
pub type Price = (&'static str, fn(&mut OpCosts) -> &mut f64);

impl OpCosts {
    /// All prices but those of ciphers, in the order of the fields.
    pub const PRICES: [Price; 25] = [
        ("alu", |costs| &mut costs.alu),
        ("mul", |costs| &mut costs.mul),
        ("div", |costs| &mut costs.div),
        ("branch", |costs| &mut costs.branch),
        ("field", |costs| &mut costs.field),
        ("hash", |costs| &mut costs.hash),
        ("hash_byte", |costs| &mut costs.hash_byte),
        ("checksum", |costs| &mut costs.checksum),
        ("checksum_byte", |costs| &mut costs.checksum_byte),
        ("extract", |costs| &mut costs.extract),
        ("extract_byte", |costs| &mut costs.extract_byte),
        ("emit", |costs| &mut costs.emit),
        ("emit_byte", |costs| &mut costs.emit_byte),
        ("cursor", |costs| &mut costs.cursor),
        ("table", |costs| &mut costs.table),
        ("table_byte", |costs| &mut costs.table_byte),
        ("copy_byte", |costs| &mut costs.copy_byte),
        ("random", |costs| &mut costs.random),
        ("now", |costs| &mut costs.now),
        ("log", |costs| &mut costs.log),
        ("receive", |costs| &mut costs.receive),
        ("send", |costs| &mut costs.send),
        ("drop", |costs| &mut costs.drop),
        ("host", |costs| &mut costs.host),
        ("dma", |costs| &mut costs.dma),
    ];
}
