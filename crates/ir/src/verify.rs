//! Whether a program means something: what every later part may rely on without looking again.
//!
//! Three rounds, each only if the one before found nothing, so that a broken type does not cause a
//! page of errors:
//!
//! 1. declarations (`decls`): types have a size, tables, events and constants fit together, no
//!    function calls itself;
//! 2. bodies (`body`, `ops`): every region ends in one terminator that fits its owner, values are
//!    used where they are visible, every op's operands and results have the types it demands;
//! 3. packets (`packets`): each packet is given away exactly once on every path.

mod body;
mod decls;
mod ops;
mod packets;

use std::ops::Deref;

use crate::program::{Body, InstId, Program};
use crate::span::Span;

pub use packets::consumed_params;

/// A program that [`verify`] accepted. The only way to one is through it.
#[derive(Clone, Debug)]
pub struct Verified<P>(P);

impl<P> Verified<P> {
    /// Gives the program back for changes; what comes out of them must be verified again.
    pub fn into_inner(self) -> P {
        self.0
    }
}

impl<P> Deref for Verified<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.0
    }
}

/// One reason why a program means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct VerifyError {
    pub message: String,
    /// Where the user wrote it; without a file if the compiler made it.
    pub span: Span,
    /// Where it is in the IR: the item and the instruction as text.
    pub place: String,
}

/// More errors than this are not collected.
const MAX_ERRORS: usize = 100;

/// Structs nest at most this deep.
pub const MAX_STRUCT_NESTING: usize = 64;

/// The largest value, in bytes.
pub const MAX_TYPE_SIZE: u64 = 1 << 20;

/// The longest packet and the longest byte string of a table entry, in bytes.
pub const MAX_FRAME: u32 = 65535;

/// Checks a program; see the module's description for what that covers.
pub fn verify(program: Program) -> Result<Verified<Program>, Vec<VerifyError>> {
    let mut checker = Checker { program: &program, errors: Vec::new(), item: String::new() };
    decls::check(&mut checker);
    if checker.errors.is_empty() {
        body::check(&mut checker);
    }
    if checker.errors.is_empty() {
        packets::check(&mut checker);
    }
    let errors = checker.errors;
    if errors.is_empty() { Ok(Verified(program)) } else { Err(errors) }
}

/// The errors found so far and what is being looked at.
struct Checker<'a> {
    program: &'a Program,
    errors: Vec<VerifyError>,
    /// For places: "table `x`".
    item: String,
}

impl Checker<'_> {
    /// An error of the current item.
    fn error(&mut self, span: Span, message: String) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(VerifyError { message, span, place: self.item.clone() });
        }
    }

    /// An error of an instruction of the current item.
    fn error_at(&mut self, body: &Body, inst: InstId, message: String) {
        if self.errors.len() < MAX_ERRORS {
            let text = crate::text::inst_text(self.program, body, inst);
            let place = format!("{}, `{text}`", self.item);
            let span = body.insts.get(inst).map_or(Span::default(), |data| data.span);
            self.errors.push(VerifyError { message, span, place });
        }
    }
}

#[cfg(test)]
mod tests;
