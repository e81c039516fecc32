//! Building, loading, feeding and reading generated programs on this machine.
//!
//! What enters is an [artifact](nicforge_codegen::XdpArtifact) of the code generator, events from
//! captures and tables from files; what leaves are the program's output events, its tables,
//! counters and rates.
//!
//! Architecture invariant: nothing here parses programs, decides placement or prints. Errors are
//! typed, say what to do about them, and each knows [whose fault](fault::Fault) it is.

pub mod alkali;
pub mod attach;
pub mod balance;
mod cache;
pub mod capacity;
pub mod compile;
pub mod control;
pub mod dev;
pub mod dpdk;
pub mod exec;
pub mod fault;
pub mod host;
pub mod live;
pub mod native;
pub mod needs;
pub mod netns;
pub mod nfp;
mod outputs;
pub mod pcap;
mod pin;
mod pkgconfig;
pub mod privilege;
pub mod process;
pub mod rate;
mod ring;
pub mod rtl;
mod shards;
pub mod sim;
pub mod socket;
pub mod spin;
pub mod synth;
pub mod temp;
pub mod tools;
pub mod units;
mod unix;
pub mod xdp;

pub use fault::Fault;
