//! What a code generator hands to `run`: the text, and the names the text uses.

use nicforge_ir::{CommuteOp, EventId, HandlerId, Program, ReasonId, TableId};
use serde::{Deserialize, Serialize};

/// C for the Linux kernel's XDP hook, with everything needed to load, feed and read it.
///
/// The object's global data is the interface at run time; `runtime/xdp/nf_rt.h` declares it:
///
/// * The macro `NF_MODE` picks the build: 0 live; 1 record (time and seed of every event also go to
///   the array map `nf_record`, entries `{ u64 now; u64 seed; }`, their count in `nf_recorded`); 2
///   replay (time, seed and port come from `nf_event`, the verdict goes there, and the packet is
///   left where it is).
/// * `.rodata`: `struct nf_config nf_config` = `{ u32 ports; u32 ifindex[16]; }`, set before
///   loading.
/// * `.bss`: `struct nf_event nf_event` = `{ u64 now; u64 seed; u32 in_port; u32 out_port; u32 out;
///   u32 reason; }` (replay only: input `now`, `seed`, `in_port`; output `out` = 0 none, 1 send, 2
///   stack, 3 drop, 4 host, 5 failed, then `out_port` or `reason`), `u64 nf_drops[]` by reason,
///   `u64 nf_refused[]` by table, `u64 nf_recorded`.
/// * map `nf_ports`: devmap from port to interface; map `nf_host`: ring buffer of records `{ u32
///   kind; u32 length; u64 addr; u8 data[length]; }`, kind 1 host_recv, 2 host_msg, 3 dma_write, 4
///   log (data: `u32 log_id`, `u32` zero, then `u64` arguments), 5 net_copy (`addr` is the port by
///   which the process is to send it).
#[derive(Clone, Debug)]
pub struct XdpArtifact {
    pub source: XdpSource,
    pub programs: Vec<XdpProgram>,
    pub tables: Vec<XdpTable>,
    /// Text of each drop reason, by counter index in `nf_drops`. The last one is the runtime's own:
    /// no room for headers.
    pub reasons: Vec<(Option<ReasonId>, String)>,
    /// Format of each `nf_log`, by its number in log records.
    pub logs: Vec<LogFormat>,
    /// True if any handler reads the time or the random stream.
    pub uses_time_or_random: bool,
    /// True if anything is written to `nf_host`.
    pub uses_host_ring: bool,
    /// What runs in a process beside the kernel, if anything does.
    pub process: Option<XdpProcess>,
    /// The stages of a planned program. `nf_drops` then has the counters of each stage one after
    /// the other.
    pub pipeline: Option<XdpPipeline>,
}

/// Stages joined by CPU maps. The loader gives every queue its CPUs and programs and sets
/// `nf_cpus`, the CPU of each replica.
///
/// Map `nf_stage_counts` has a value per CPU for each stage, and one more for the program that
/// spreads packets: `{ u64 verdicts[5]; u64 handed; }`, by XDP verdict, and of those the packets
/// handed on to another stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpPipeline {
    pub stages: Vec<XdpStage>,
    /// The program on the interfaces that spreads packets over replicas of the first stage, if that
    /// has several.
    pub spread: Option<String>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpStage {
    /// The first handler's name.
    pub name: String,
    pub program: String,
    /// The CPU map in front of it; none: it runs where packets come in.
    pub queue: Option<String>,
    pub replicas: u32,
    /// Place of its first replica in `nf_cpus`.
    pub first: u32,
    /// It also takes packets where they come in, beside the events of its queue.
    pub entry: bool,
    /// It runs in the process, not in the kernel.
    pub process: bool,
}

impl XdpArtifact {
    /// True if events go round: from the process to a stage that hands events to it. Such a program
    /// does what the interpreter does only while one event is under way.
    pub fn goes_round(&self) -> bool {
        let Some((process, pipeline)) = self.process.as_ref().zip(self.pipeline.as_ref()) else {
            return false;
        };
        let first = pipeline.stages.iter().position(|stage| stage.process);
        process.edges.iter().any(|edge| first.is_some_and(|first| edge.stage < first))
    }
}

/// The part of a program that runs in a process: C of the host dialect, joined to the kernel's part
/// by AF_XDP.
///
/// To the process: a packet is redirected by map `nf_process` (entry `64 * port + queue of the
/// interface`) with `{ event's values; u32 order; u32 event; }` in front of its first byte; an
/// event without a packet is a record `{ u32 event; u32 order; event's values; }` of ring buffer
/// `nf_up`. `order` counts events to the process in the order in which they were made, `nf_order`
/// how many there were. `nf_unsent` counts those that never left the kernel's part.
///
/// From the process: a frame `{ u32 stage; u32 cpu; u32 size; event's values; packet }` on the
/// interface of program `nf_return`, which redirects it to the queue of the stage; an event without
/// a packet has 14 bytes of zeroes in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpProcess {
    /// Handlers that run there, and their stages.
    pub handlers: Vec<(HandlerId, usize)>,
    /// How many threads it has. Replica `r` of a stage is thread `r`.
    pub threads: u32,
    /// Tables that live there and not in the kernel.
    pub tables: Vec<TableId>,
    /// Those of them of which every thread has a part, with the one commutative op that writes
    /// them, if that is all. Others that are written belong to the first thread.
    pub shards: Vec<(TableId, Option<CommuteOp>)>,
    /// Tables that both sides read and only the control plane writes: there are two of each.
    pub copied: Vec<TableId>,
    /// Events that cross, or stay in the process.
    pub edges: Vec<XdpEdge>,
}

/// How the values of an event between kernel and process lie, packed. Recorded runs add `{ u32
/// number; u32 route; }` behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpEdge {
    pub event: EventId,
    /// The stage that takes it.
    pub stage: usize,
    /// What tells it from other events of its stage: the first `u32` of its values.
    pub kind: Option<u32>,
    /// Parameter number, offset and size of each value that is carried.
    pub members: Vec<(usize, u32, u32)>,
    /// Offsets of time and seed (`u64`) and of the others (`u32`), where they are carried.
    pub now: Option<u32>,
    pub seed: Option<u32>,
    pub draws: Option<u32>,
    pub in_port: Option<u32>,
    /// Bytes of emitted headers that wait in front of the frame.
    pub staged: Option<u32>,
    pub cursor: XdpCursor,
    /// The parameter that chooses the replica of its stage, and how; none: in turn.
    pub steer: Option<(usize, XdpSteer)>,
    /// Bytes of the values, but for byte strings behind them.
    pub size: u32,
    /// Offset of how many words of 8 bytes of each byte string crossed, a byte each; what did not
    /// is zero.
    pub words: Option<u32>,
    /// Parameter number and bytes of each byte string that crosses no further than it goes.
    pub strings: Vec<(usize, u32)>,
    /// True if a packet goes with it.
    pub packet: bool,
}

/// Ways in which a parameter chooses a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpSteer {
    /// By the hash of an integer.
    Integer,
    /// By the hash of other values.
    Bytes,
    /// By a number, of so many, which replicas have in ranges.
    Number(u32),
}

/// Progress in reading a packet when its event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpCursor {
    /// Everywhere as far.
    At(u32),
    /// As the `u32` at this offset says.
    Carried(u32),
}

/// An `nf_log`: each `{}` of its text takes the next argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFormat {
    pub text: String,
    /// For each argument whether it is signed; such are sign-extended to 64 bits in the record.
    pub signed: Vec<bool>,
}

impl LogFormat {
    /// The text with each `{}` replaced by the next argument, as the interpreter does.
    pub fn line(&self, args: &[u64]) -> String {
        let mut parts = self.text.split("{}");
        let mut text = parts.next().unwrap_or("").to_string();
        for (part, (arg, signed)) in parts.zip(args.iter().zip(&self.signed)) {
            text.push_str(&if *signed { (*arg as i64).to_string() } else { arg.to_string() });
            text.push_str(part);
        }
        text
    }
}

/// One program in the object.
#[derive(Clone, Debug)]
pub struct XdpProgram {
    /// C function and program name, for example `nf_net_recv`.
    pub name: String,
    pub handler: HandlerId,
    pub event: EventId,
}

/// A table's form in BPF maps.
#[derive(Clone, Debug)]
pub struct XdpTable {
    pub table: TableId,
    /// Name of the map in the object.
    pub map: String,
    pub shape: XdpMapShape,
    /// Bytes in front of αIR's value in the map's.
    pub front: u32,
    /// Where the entry's byte string is in the map's value, in tables that have one.
    pub buf: Option<XdpBuf>,
}

/// Place of a byte string in a map value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpBuf {
    /// Most bytes it may hold.
    pub capacity: u32,
    /// Offset of the `u32` that counts the bytes.
    pub len_offset: u32,
    /// Offset of the first byte.
    pub bytes_offset: u32,
    /// Size of the whole map value; behind the bytes there is slack.
    pub value_size: u32,
}

/// Layout of map keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XdpMapShape {
    /// BPF hash or LRU hash: key and value as in αIR.
    Exact,
    /// BPF array: the key is the u32 index.
    Array,
    /// BPF array with a value per CPU, merged by adding: tables that are only ever added to.
    PerCpuSum,
    /// BPF LPM trie: key is `{ u32 prefix_bits; key }`.
    Lpm,
    /// BPF array of `{ u32 used; u32 priority; key; mask; value }`, sorted by descending priority,
    /// `used` 1 for live entries, the first unused one ends it. Members have the alignment of their
    /// αIR types; bytes in front of the value begin at a multiple of 8.
    TernaryList,
}

/// Offsets in an entry of a [`XdpMapShape::TernaryList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpRule {
    pub key: u32,
    pub mask: u32,
    pub value: u32,
}

impl XdpRule {
    /// Offsets in the rules of `table`, whose values have `front` bytes in front of them.
    pub fn of(program: &Program, table: TableId, front: u32) -> XdpRule {
        let def = &program.tables[table];
        let (of_key, of_value) = (program.layout(def.key), program.layout(def.value));
        let key = 8u32.next_multiple_of(of_key.align);
        let mask = (key + of_key.size).next_multiple_of(of_key.align);
        let end = mask + of_key.size;
        let value = match front {
            0 => end.next_multiple_of(of_value.align),
            front => end.next_multiple_of(8) + front,
        };
        XdpRule { key, mask, value }
    }
}

/// C for the kernel in several forms that mean the same: as one would write it, and for programs
/// that the kernel does not take like that.
#[derive(Clone, Debug)]
pub struct XdpSource {
    pub plain: String,
    /// What to try where the plain form has no room on the stack or is too much for the verifier,
    /// in this order.
    pub others: Vec<String>,
}

impl std::ops::Deref for XdpSource {
    type Target = str;

    fn deref(&self) -> &str {
        &self.plain
    }
}

impl From<&str> for XdpSource {
    /// One form only.
    fn from(plain: &str) -> XdpSource {
        XdpSource { plain: plain.to_string(), others: Vec::new() }
    }
}
