//! Entry for fuzzing: any bytes may come; none may panic or run on.

use crate::{Options, lift, programs};

/// Lifts programs of an object, a few if there are more: how many were lifted.
///
/// # Panics
/// A reason of more than one line, or αIR that does not keep its rules.
pub fn object(bytes: &[u8]) -> usize {
    let names = programs(bytes).unwrap_or_default().into_iter().take(4);
    names.filter(|(name, _)| program(bytes, name)).count()
}

/// Lifts a program of an object: true if it was.
///
/// # Panics
/// A reason of more than one line, or αIR that does not keep its rules.
pub fn program(bytes: &[u8], name: &str) -> bool {
    let options = Options { program: Some(name.to_string()), ..Options::default() };
    match lift(bytes, &options) {
        Ok(found) => {
            if let Err(errors) = nicforge_ir::verify(found.program) {
                panic!("{name}: {}", errors[0]);
            }
            true
        }
        Err(reason) => {
            assert_eq!(reason.to_string().lines().count(), 1, "{name}: {reason}");
            false
        }
    }
}
