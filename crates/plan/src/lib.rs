//! Plans: which handlers a program was cut into, how often each is replicated, where its tables
//! live, and how events find their replica.
//!
//! A plan is an explicit object that people read, edit and give back (`nicforge plan --json`,
//! `--plan FILE`). It holds the planned program as αIR text, so that a plan file is complete by
//! itself; [`check()`] compares it with program and target.
//!
//! Architecture invariant: types, reading and checking only. How plans are found is the planner's
//! business.

pub mod check;
mod host_side;

use serde::{Deserialize, Serialize};

pub use check::{PlanError, check, parse};
pub use host_side::HostSide;

/// Version of the JSON form.
pub const VERSION: u32 = 1;

/// A program on a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `nicforge/plan`.
    pub schema: String,
    pub version: u32,
    pub program: String,
    pub target: String,
    pub objective: Objective,
    /// Hash of the program before planning, so that a plan is not used with another one.
    pub program_hash: String,
    /// Frame size the predictions are for, in bytes without CRC.
    pub frame_bytes: u32,
    /// In the order events take.
    pub stages: Vec<Stage>,
    pub tables: Vec<TablePlan>,
    pub edges: Vec<Edge>,
    /// Bytes of the context that stays with each packet.
    #[serde(default)]
    pub context_bytes: u32,
    /// Packets are put back into arrival order where they leave, since the replicas that send them
    /// mix them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ordered_output: bool,
    pub predicted: Predicted,
    /// The planned program: handlers of stages joined by internal events, as αIR text.
    pub air: String,
    /// How it was found.
    #[serde(default)]
    pub search: Vec<Step>,
}

/// Objectives of plans.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Most packets per second.
    Rate,
    /// Most packets per second that no traffic falls below.
    GuaranteedRate,
    /// Least time from port to port without load.
    Latency,
    /// Least energy per packet at full rate.
    Energy,
    /// Fewest units at a rate in packets per second.
    Footprint(f64),
}

/// One handler, or several that share tables, and its replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The first handler's name.
    pub name: String,
    /// Handlers of the planned program that run here.
    pub handlers: Vec<String>,
    /// Unit group of the target.
    pub group: String,
    pub replicas: u32,
    /// The units of the replicas, `GROUP.NUMBER`.
    pub units: Vec<String>,
    pub tables: Vec<String>,
    /// Cycles of a unit per event: processing, or waiting divided among threads if that is more.
    pub cycles: f64,
    /// Processing alone.
    pub busy_cycles: f64,
    /// Nanoseconds an event waits for memory.
    pub wait_ns: f64,
    /// Events per packet that enters.
    pub share: f64,
    /// Packets per second all replicas together keep up with.
    pub rate_pps: f64,
    /// Why it may have so many replicas, or only one.
    pub replication: Replication,
}

/// Why a stage may be replicated or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Replication {
    /// It has no state, or only state that may be anywhere.
    Free,
    /// Events with the same value of these go to the same replica; all keys are determined by them.
    Sharded { by: Vec<String> },
    /// Replicas share tables under generated locks.
    Locked { tables: Vec<String> },
    /// One replica.
    Single { reason: String },
}

/// Where a table lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TablePlan {
    pub name: String,
    pub memory: String,
    /// Every replica of its stage has one of its own.
    pub per_replica: bool,
    pub read_only: bool,
    /// Of one instance, capacity times entry.
    pub bytes: u64,
    /// Memories it could not or should not live in, each with the reason.
    #[serde(default)]
    pub rejected: Vec<Rejected>,
}

/// A memory that was not chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejected {
    pub memory: String,
    pub reason: String,
}

/// Events from the ports or a stage to a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    pub event: String,
    /// The sending stages; empty for events from outside.
    pub from: Vec<String>,
    pub to: String,
    pub steering: Steering,
    pub values: Vec<Carried>,
    /// Bytes that are copied per event besides the packet; what lies in the context is not.
    pub bytes: u32,
    /// Who puts events back into arrival order, if anybody has to.
    pub reorder: Option<String>,
}

/// Ways in which an event finds its replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Steering {
    /// There is one replica.
    One,
    /// Any replica will do; in turn.
    RoundRobin,
    /// By a parameter of the event: by its hash, or, where it is a number below `instances`, by
    /// that. Instance `i` is then on replica `i * replicas / instances`.
    Key {
        param: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instances: Option<u32>,
    },
    /// By fields of the packet, found by generated code or logic: byte offset and length of each,
    /// per port.
    Header { fields: Vec<PortFields> },
    /// By the NIC's receive-side scaling: these fields are its input set, and these its Toeplitz
    /// keys (hexadecimal), one per port.
    Rss { keys: Vec<String>, fields: Vec<PortFields> },
}

/// Fields of packets of one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortFields {
    pub port: u32,
    pub fields: Vec<HeaderField>,
}

/// Bytes of a frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderField {
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
}

/// A value that crosses an edge: copied with the event, or left in the packet's context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    pub name: String,
    pub bytes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Slot>,
}

/// A place in the memory that stays with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Offset in bytes.
    pub at: u32,
    /// A sender of the event makes the value; else it was there before.
    pub stored: bool,
    /// The receiver uses it; else it only hands it on.
    pub loaded: bool,
}

/// Promises of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// Packets per second in expectation, ports included.
    pub rate_pps: f64,
    pub bit_rate_bps: f64,
    /// Without the ports' ceiling.
    pub unlimited_pps: f64,
    pub line_rate: bool,
    /// Port to port without load.
    pub latency_ns: f64,
    /// Energy of a packet at full rate.
    pub nj_per_packet: f64,
    /// What limits the rate, in words.
    pub limit: String,
    /// Packets per second that no packet sequence falls below, where it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_pps: Option<f64>,
}

/// One candidate of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub iteration: u32,
    /// Number of the candidate this one was cut from.
    pub parent: Option<u32>,
    /// What was done to the parent.
    pub action: String,
    pub stages: Vec<String>,
    pub replicas: Vec<u32>,
    pub rate_pps: f64,
    /// What `--tune` measured, if it ran this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_pps: Option<f64>,
    pub limit: String,
    /// Highest rate so far.
    pub best_pps: f64,
    pub chosen: bool,
}

impl Edge {
    /// Bytes that the sender writes per event: the event's, and what it leaves in the context.
    pub fn sent_bytes(&self) -> u32 {
        self.bytes + self.in_context(|slot| slot.stored)
    }

    /// Bytes that the receiver reads per event.
    pub fn received_bytes(&self) -> u32 {
        self.bytes + self.in_context(|slot| slot.loaded)
    }

    fn in_context(&self, which: impl Fn(&Slot) -> bool) -> u32 {
        self.values
            .iter()
            .filter(|value| value.context.as_ref().is_some_and(&which))
            .map(|v| v.bytes)
            .sum()
    }
}

impl Plan {
    /// Units that run stages.
    pub fn workers(&self) -> u32 {
        self.stages.iter().map(|stage| stage.replicas).sum()
    }
}
