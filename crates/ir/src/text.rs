//! The text form of αIR: what tests, bug reports and people read.
//!
//! [`print()`] and [`parse()`] round-trip: printing what was parsed from a print gives the same
//! text. With [`PrintOptions::spans`] source places survive too (file names and byte ranges, not
//! the files' texts).
//!
//! ```text
//! program nf_chain ports 2
//! struct nf_eth packed { dst: nf_mac, src: nf_mac, type: u16 be }
//! struct ipv4_start { ihl: u8 : 4, version: u8 : 4 }
//! table conns: hash[u32 -> conn] capacity 65536 buf 4096 replicas 4
//! const weights: u16 = [1, 2, 3]
//! event net_recv(pkt: packet) in
//! reason "too short"
//!
//! func is_ip(%eth: nf_eth) -> (u1) {
//!   %type: u16 = get %eth.type
//!   %0: u16 = 8
//!   %1: u1 = eq %type, %0
//!   return %1
//! }
//!
//! handler net_recv on net_recv(%pkt: packet) unordered side nic {
//!   %ok: u1, %eth: nf_eth = extract %pkt
//!   %ip: u1 = call is_ip(%eth)
//!   if %ip likely 0.9 -> (%n: u32) {
//!     ...
//!     yield %a
//!   } else {
//!     yield %b
//!   }
//!   drop %pkt, "too short"
//!   return
//! }
//! ```
//!
//! * A value is `%name`, `%name.1` if the body has another one of that name, `%0`, `%1`, … if it
//!   has none. Names that are not C identifiers are in quotes: `%"a name"`.
//! * When two structs (tables, reasons, …) have one name, the second is referred to as `name#1`,
//!   and so on.
//! * A region of an `if` that ends with a `yield` of nothing may leave it out; so may an empty
//!   `else`.
//! * `@0:12-34` is a span: bytes 12 to 34 of the first `file`.
//! * `//` starts a comment. Line breaks mean nothing.

mod body;
mod names;
mod parse;
mod print;
mod token;

pub(crate) use names::is_identifier;

pub use parse::{ParseError, parse};
pub use print::{PrintOptions, inst_text, print};

/// Regions (and array types) nest at most this deep: the parser, the verifier and the passes
/// recurse over them.
pub const MAX_NESTING: usize = 256;

#[cfg(test)]
mod tests;
