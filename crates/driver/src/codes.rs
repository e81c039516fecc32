//! Every code of a diagnostic: those of the front end, and those of what comes behind it.

use nicforge_frontend::diagnostics::codes::{self, Code};

/// A construct that the target lacks.
pub const UNSUPPORTED: Code =
    Code { id: "NF0900", title: "construct that the target does not have" };
/// The kernel's verifier takes no form of the program.
pub const VERIFIER: Code =
    Code { id: "NF0901", title: "program that the kernel's verifier refuses" };
/// What GCC or clang says about sPIN handlers.
pub const SPIN: Code = Code { id: "NF0902", title: "C compiler's word on sPIN handlers" };

/// All codes, in order.
pub fn all() -> impl Iterator<Item = &'static Code> {
    codes::ALL.iter().chain(&[UNSUPPORTED, VERIFIER, SPIN])
}

/// The first code in a rendered message, as `error[NF0023]` has it.
pub fn in_message(message: &str) -> Option<&'static Code> {
    let (_, rest) = message.split_once("[NF")?;
    all().find(|code| rest.starts_with(&format!("{}]", &code.id[2..])))
}
