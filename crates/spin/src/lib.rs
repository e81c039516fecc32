//! A sPIN NIC: which packets go to handlers ([`matching`], [`headers`]), where they lie meanwhile
//! ([`memory`]), which handler starts when and where ([`messages`]), and all of it as a machine
//! with cores, memories and times ([`nic`]). Another machine of such cores is [`panic`].
//!
//! Architecture invariant: nothing here knows αIR, files or the operating system.

mod fuzz;
pub mod headers;
pub mod machine;
pub mod matching;
pub mod memory;
pub mod messages;
pub mod nic;
pub mod panic;

pub use fuzz::{fuzz, image as fuzz_image};
