//! Conditions that loops go on under: in their heads, and behind `if (…) break;` in their bodies.

use crate::ast::Node;
use crate::labels::leads_on;
use crate::steps::has_continue;

/// A condition without what does not change its truth: `__builtin_expect`, `!!`, `!= 0`.
pub fn plain(node: &Node) -> &Node {
    let node = node.strip();
    let inner = node.strip_casts();
    if inner.callee().is_some_and(|callee| callee.name.starts_with("__builtin_expect")) {
        return plain(&inner.inner[1]);
    }
    let not = |node: &Node| node.kind == "UnaryOperator" && node.opcode == "!";
    if not(inner) && not(inner.inner[0].strip_casts()) {
        return plain(&inner.inner[0].strip_casts().inner[0]);
    }
    node
}

/// The comparisons of which each must hold for a condition to hold.
pub fn conjuncts(condition: &Node) -> Vec<Node> {
    let node = plain(condition);
    match node.opcode.as_str() {
        "&&" => node.inner.iter().flat_map(conjuncts).collect(),
        "," => {
            let [first, last] = &node.inner[..] else { return Vec::new() };
            // Only what it does counts.
            let kind = "Discarded".to_string();
            let first = Node { kind, inner: vec![first.clone()], ..Node::default() };
            [vec![first], conjuncts(last)].concat()
        }
        _ => vec![node.clone()],
    }
}

/// The comparisons of which each must fail for a condition to fail, the other way round.
fn failing(condition: &Node) -> Vec<Node> {
    let node = plain(condition);
    let opposite = match node.opcode.as_str() {
        "||" => return node.inner.iter().flat_map(failing).collect(),
        "!" => return conjuncts(&node.inner[0]),
        "<" => ">=",
        "<=" => ">",
        ">" => "<=",
        ">=" => "<",
        "==" => "!=",
        _ => return Vec::new(),
    };
    vec![Node { opcode: opposite.to_string(), ..node.clone() }]
}

/// Conditions on which trips go on behind `if (…) break;`, each with the number of statements in
/// front of it.
pub fn exits(body: &Node) -> Vec<(Node, usize)> {
    let mut found = Vec::new();
    if body.kind != "CompoundStmt" {
        return found;
    }
    for (number, stmt) in body.inner.iter().enumerate() {
        // Such a trip may not come to what follows.
        if has_continue(stmt) || leads_on(stmt, body) {
            break;
        }
        if let ("IfStmt", [condition, then]) = (stmt.kind.as_str(), &stmt.inner[..]) {
            let last = if then.kind == "CompoundStmt" { then.inner.last() } else { Some(then) };
            if last
                .is_some_and(|l| matches!(l.kind.as_str(), "BreakStmt" | "ReturnStmt" | "GotoStmt"))
            {
                found.extend(failing(condition).into_iter().map(|holds| (holds, number)));
            }
        }
    }
    found
}

/// A condition that changes what it compares: `n--`, `i-- > 0`, `++i < 8`.
pub struct Changing {
    /// Without the change.
    pub pure: Node,
    pub change: Node,
    /// The change is made before the test.
    pub first: bool,
}

/// The change that a condition makes, if one side of it does that.
pub fn changing(condition: &Node) -> Option<Changing> {
    let inner = condition.inner.first();
    match (condition.kind.as_str(), condition.opcode.as_str(), inner) {
        ("ParenExpr" | "ImplicitCastExpr", _, Some(inner)) => {
            let found = changing(inner)?;
            Some(Changing { pure: Node { inner: vec![found.pure], ..condition.clone() }, ..found })
        }
        ("UnaryOperator", "++" | "--", Some(place)) => Some(Changing {
            pure: place.clone(),
            change: condition.clone(),
            first: !condition.flags.postfix,
        }),
        ("BinaryOperator", "<" | "<=" | ">" | ">=" | "!=", _) => {
            let side = |at: usize| changing(condition.inner.get(at)?).map(|found| (at, found));
            let (at, found) = side(0).or_else(|| side(1))?;
            let mut pure = condition.clone();
            pure.inner[at] = found.pure;
            Some(Changing { pure, ..found })
        }
        _ => None,
    }
}
