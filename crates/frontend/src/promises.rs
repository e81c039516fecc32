//! What `NF_FIRES` promises about a function, and what was found.

use nicforge_ir::Span;

/// A promise about what a function calls, or the wish to know.
#[derive(Clone, Debug)]
pub struct Declared {
    /// `all`, `one`, `zero_or_one`, `together`, `last`, or `many`, which promises nothing.
    pub class: String,
    pub function: String,
    pub outputs: Vec<String>,
    pub span: Span,
}

/// Calls found in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fires {
    pub function: String,
    pub outputs: Vec<String>,
    /// `all`, `one`, `zero_or_one` or `many`: the first that holds.
    pub class: &'static str,
}

/// The classes there are.
const CLASSES: [&str; 6] = ["all", "one", "zero_or_one", "together", "last", "many"];

/// Reads what the macro left: `CLASS.FUNCTION.OUTPUT, OUTPUT`.
pub fn declared(text: &str, span: Span) -> Option<Declared> {
    let (class, rest) = text.split_once('.')?;
    let (function, outputs) = rest.split_once('.')?;
    let outputs: Vec<String> = outputs.split(',').map(|each| each.trim().to_string()).collect();
    (CLASSES.contains(&class) && !outputs.iter().any(String::is_empty)).then(|| Declared {
        class: class.into(),
        function: function.into(),
        outputs,
        span,
    })
}
