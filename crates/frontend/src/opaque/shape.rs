//! What a walk has to know of a tree's shape before it begins.

use crate::ast::Node;

/// The labels of a `switch`'s body that are statements of it, each with those it labels.
pub fn labels(body: &Node) -> Vec<&Node> {
    let mut found = Vec::new();
    for each in &body.inner {
        let mut at = Some(each);
        while let Some(label) = at.filter(|n| matches!(n.kind.as_str(), "CaseStmt" | "DefaultStmt"))
        {
            found.push(label);
            at = label.inner.last();
        }
    }
    found
}

/// True if a `switch` has labels elsewhere: inside loops, say.
pub fn hides_labels(node: &Node) -> bool {
    fn count(node: &Node) -> usize {
        let own = usize::from(matches!(node.kind.as_str(), "CaseStmt" | "DefaultStmt"));
        let inner = node.inner.iter().filter(|n| n.kind != "SwitchStmt");
        own + inner.map(count).sum::<usize>()
    }
    let Some(body) = node.inner.last().filter(|_| node.kind == "SwitchStmt") else { return false };
    body.kind != "CompoundStmt" || count(body) != labels(body).len()
}

/// True if a type's size is computed: an array whose length is no number.
pub fn computed(ty: &str) -> bool {
    ty.match_indices('[')
        .any(|(at, _)| ty[at + 1..].starts_with(|c: char| !c.is_ascii_digit() && c != ']'))
}
