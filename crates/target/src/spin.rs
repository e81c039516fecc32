//! What a sPIN NIC has beside units, memories and ports: sizes of its machine and cycles of its
//! pipeline.

use serde::Deserialize;

use crate::quantity::{Size, Time};

/// Packet memory: how it is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketMemory {
    /// Pieces one behind the other, around and around.
    Ring,
    /// Slots of 128 and of 1536 bytes.
    Slots,
}

/// Whose headers handlers in C include. They differ in where packets start and in the order of
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Headers {
    /// Packets start at IP, in the machine's byte order.
    Pspin,
    /// Frames as on the wire.
    Fpspin,
}

/// `[spin]`. Cycles are those of the handler units. A *beat* is what the packet path moves in a
/// cycle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spin {
    pub headers: Headers,
    /// Memory of one cluster, with what the runtime and packets take of it.
    pub l1: Size,
    /// Memory of handlers: the image's data, then what handlers share with the host.
    pub handler_memory: Size,
    /// How much of it, at its end, is shared with the host.
    pub handler_data: Size,
    pub program_memory: Size,
    pub packet_memory: Size,
    pub packets_in: PacketMemory,
    /// Message queues.
    pub queues: u32,
    /// Packets that wait in them, besides one each.
    pub cells: u32,
    /// Tasks in a message's home cluster from which on others are asked.
    pub home_limit: u32,
    /// Tasks a cluster takes in beside those that run.
    pub cluster_tasks: u32,
    /// Time without a packet after which an unfinished message gives its queue to another.
    pub patience: Time,
    /// Bytes of a beat.
    pub beat_bytes: u32,
    /// Matching a packet; then as many beats as it has, if it is stored first.
    pub match_cycles: u32,
    pub match_stores: bool,
    /// Until the next packet can be matched.
    pub match_gap: u32,
    /// From the first beat written to the task's description, without the beats.
    pub ingress_cycles: u32,
    /// Between one packet's last beat and the next one's first.
    pub ingress_gap: u32,
    /// Around an empty handler. Absent: the price `receive`.
    pub handler_cycles: Option<f64>,
    /// From a description to the start of the copy into the cluster.
    pub task_cycles: u32,
    /// A copy into the cluster until a handler can start, without the beats.
    pub copy_cycles: u32,
    /// From the doorbell's read until the unit can have the next task.
    pub doorbell_cycles: u32,
    /// From a handler's end until packet memory hears of it, and from there until the message's
    /// queue does.
    pub feedback_cycles: u32,
    pub queue_cycles: u32,
    /// Commands of one unit that are under way at most.
    pub commands: u32,
    /// Until a command is done, without the beats, the link's time and waiting for others.
    pub send_cycles: u32,
    pub host_write_cycles: u32,
    /// A word from registers, without memory to be read.
    pub host_word_cycles: u32,
    pub host_read_cycles: u32,
    /// More for every access of the host's memory.
    pub host_latency: Time,
    /// Bytes of the longest frame that can be sent.
    pub max_send: u32,
    /// Bytes put before each piece of a remote write; absent if such writes are sent as they are.
    pub put_header: Option<u32>,
    /// A word of another cluster's memory, read or written.
    pub remote_l1_cycles: u32,
    /// Instruction cache of a cluster, of lines of 16 bytes, and what a miss takes.
    pub cache: Size,
    pub cache_miss_cycles: u32,
}
