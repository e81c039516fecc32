//! What a translation unit says about itself: whether it is Alkali's, and which functions run for
//! what.

use std::collections::HashSet;

use crate::ast::Node;

/// A translation unit's own words about itself.
#[derive(Default)]
pub struct Alkali {
    /// True if it is such a program.
    pub is: bool,
    /// What `generate` names.
    generated: HashSet<String>,
}

impl Alkali {
    pub fn new(root: &Node) -> Alkali {
        let extracts = |n: &Node| n.kind == "FunctionDecl" && n.name == "bufextract";
        let is = root.inner.iter().any(|n| extracts(n) && !n.has("CompoundStmt"));
        let mut generated = HashSet::new();
        root.walk(&mut |node| {
            if is && node.callee().is_some_and(|callee| callee.name == "generate") {
                generated.extend(node.inner.get(1).and_then(literal));
            }
        });
        Alkali { is, generated }
    }

    /// True if a function is run by what comes in.
    pub fn receives(&self, name: &str) -> bool {
        self.is && (name.starts_with("NET_RECV__") || name == "_packet_event_handler")
    }

    /// True if `generate` names a function, as a whole or by its event.
    pub fn is_generated(&self, name: &str) -> bool {
        let event = name.split_once("__").map_or(name, |(event, _)| event);
        self.is && (self.generated.contains(name) || self.generated.contains(event))
    }

    /// True if a function is a handler of its event.
    pub fn handles(&self, name: &str) -> bool {
        self.receives(name) || self.is_generated(name)
    }

    /// True if a function has a body that only other compilers want.
    pub fn ignores(&self, name: &str) -> bool {
        self.is && (name == "main" || name.starts_with("EXT__"))
    }
}

/// The text of a string literal.
pub fn literal(node: &Node) -> Option<String> {
    let inner = node.strip_casts();
    let text = inner.value.as_deref().filter(|_| inner.kind == "StringLiteral")?;
    Some(text.trim_matches('"').to_string())
}
