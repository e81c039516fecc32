//! Who uses an entry of a mutable table.
//!
//! Events that use one entry form a chain in the order in which they were executed: each waits, at
//! its first access, for the one before to finish its last. The map holds the chain's end. An event
//! only ever waits for earlier ones, so there is no deadlock.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use nicforge_util::random::mix;

/// Context and number of its hold.
pub type Owner = (u32, u32);

/// Ends of all chains.
#[derive(Debug, Default)]
pub struct Keys {
    ends: HashMap<u64, Owner, BuildHasherDefault<OneWord>>,
}

impl Keys {
    /// Appends to the chain of an entry; whoever was its end.
    pub fn take(&mut self, key: u64, owner: Owner) -> Option<Owner> {
        self.ends.insert(key, owner)
    }

    /// The last of a chain is done.
    pub fn give_back(&mut self, key: u64, owner: Owner) {
        if self.ends.get(&key) == Some(&owner) {
            self.ends.remove(&key);
        }
    }
}

/// Keys are hashes of table and key already; one mixing spreads them.
#[derive(Debug, Default)]
pub struct OneWord(u64);

impl Hasher for OneWord {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(word);
    }
}
