//! Generated programs against programs that an XDP developer wrote by hand.
//!
//! For each of [`PROGRAMS`] there is `bench/handwritten/NAME.bpf.c`, which follows the same
//! contract at run time as the code generated from `examples/NAME/NAME.c`, so that both can be
//! loaded and fed the same way. Three comparisons:
//!
//! * [`agree`]: packet by packet both decide the same and end with the same tables; else nothing
//!   else is worth a number.
//! * [`count`]: instructions executed over the whole capture, by an interpreter whose helpers work
//!   on the kernel's maps. The numbers are exact and the same on every machine, so the gate
//!   ([`report::Gate`]) asserts them.
//! * [`time`]: nanoseconds per packet in the kernel. Reported, never asserted.

pub mod agree;
pub mod balance;
pub mod case;
pub mod count;
pub mod dpdk;
mod host;
mod maps;
pub mod report;
pub mod time;

/// The examples that are compared.
pub const PROGRAMS: [&str; 9] = [
    "l2_forward",
    "conn_limiter",
    "nat",
    "l4lb",
    "flow_stats",
    "nf_chain",
    "kv_cache",
    "dns_cache",
    "vxlan_gw",
];

/// Why a comparison cannot be made, or failed: one message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says where a failure happened.
pub fn at<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Failure {
    move |error| Failure(format!("{what}: {error}"))
}
