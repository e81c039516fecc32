//! Functions of C that programs call and that are not αIR: what [`Op::Extern`](crate::Op::Extern)
//! names.
//!
//! Their code belongs to the process, as whatever loads shared objects does; so there is one list
//! of them for the process. Whoever loads such code [`provide`]s it here, and the interpreter calls
//! it by name.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Ways in which an argument reaches such a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passing {
    /// An integer.
    Value,
    /// The address of a copy that the function reads.
    Read,
    /// The address of a copy that the function may change: what it leaves there is a result.
    Write,
}

/// An argument at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// An integer; bits above its width are zero.
    Word(u64),
    /// What an address leads to, as C has it in memory.
    Bytes(Vec<u8>),
}

/// A function: gets its arguments, may change bytes, gives its result (anything if it has none).
pub type Native = Arc<dyn Fn(&mut [Arg]) -> u64 + Send + Sync>;

fn list() -> &'static RwLock<HashMap<String, Native>> {
    static LIST: OnceLock<RwLock<HashMap<String, Native>>> = OnceLock::new();
    LIST.get_or_init(RwLock::default)
}

/// From now on `name` is this function, for all programs of the process.
pub fn provide(name: &str, native: Native) {
    list().write().unwrap_or_else(PoisonError::into_inner).insert(name.to_string(), native);
}

/// The function of that name, if somebody provided it.
pub fn find(name: &str) -> Option<Native> {
    list().read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}
