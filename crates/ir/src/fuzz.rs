//! What fuzzing calls.

use crate::text::{PrintOptions, parse, print};
use crate::verify::verify;

/// The text form: any bytes must parse or be refused with a message, and what parses must
/// round-trip.
/// Panics only if one of these is broken.
pub fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(program) = parse(text) else { return };
    let options = PrintOptions { spans: true };
    let printed = print(&program, options);
    let again = parse(&printed)
        .unwrap_or_else(|error| panic!("the printed text does not parse: {error}\n{printed}"));
    assert_eq!(print(&again, options), printed, "the text form does not round-trip");
    // Verifying may refuse the program, but must come to an end without a panic.
    let _ = verify(program);
}
