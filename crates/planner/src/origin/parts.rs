//! Parts of an operation.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use super::Origin;

/// Origins that an operation is of. Equal ones have equal digests, and with 128 bits different ones
/// have not: comparing is no walk over all ways to them.
#[derive(Clone, Debug)]
pub struct Parts {
    all: Vec<Rc<Origin>>,
    digest: [u64; 2],
}

impl Parts {
    pub fn new(all: Vec<Rc<Origin>>) -> Parts {
        let digest = [1u8, 2].map(|first| {
            let mut hasher = DefaultHasher::new();
            first.hash(&mut hasher);
            all.hash(&mut hasher);
            hasher.finish()
        });
        Parts { all, digest }
    }
}

impl Deref for Parts {
    type Target = [Rc<Origin>];

    fn deref(&self) -> &[Rc<Origin>] {
        &self.all
    }
}

impl PartialEq for Parts {
    fn eq(&self, other: &Parts) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Parts {}

impl PartialOrd for Parts {
    fn partial_cmp(&self, other: &Parts) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Parts {
    fn cmp(&self, other: &Parts) -> Ordering {
        match self == other {
            true => Ordering::Equal,
            false => self.all.cmp(&other.all),
        }
    }
}

impl Hash for Parts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}
