//! The tree without the pointers that lead to one object.

use super::find::Known;
use super::holes::take_indices;
use super::make::Fresh;
use super::shape::{
    INDEX, is_pointer, is_unary, object, same, split, unqualified, variable, variable_read,
};
use crate::ast::Node;
use crate::effects::is_pure;

/// Takes the known pointers out of a function.
pub fn function(function: &mut Node, known: &Known, fresh: &mut Fresh) {
    let mut rewriter = Rewriter { known, fresh };
    let moved = |node: &&Node| known.contains_key(&node.id) && node.kind == "ParmVarDecl";
    let params: Vec<Node> = function.inner.iter().filter(moved).cloned().collect();
    rewriter.node(function);
    for param in params {
        let declared = rewriter.index_of_param(&param);
        let body = function.inner.iter_mut().find(|child| child.kind == "CompoundStmt");
        body.expect("functions without a body are left out").inner.insert(0, declared);
    }
}

pub struct Rewriter<'r> {
    pub known: &'r Known,
    pub fresh: &'r mut Fresh,
}

impl Rewriter<'_> {
    /// Rewrites an expression or statement and all below it.
    pub fn node(&mut self, node: &mut Node) {
        if let Some(value) = self.read(node) {
            *node = value;
            return;
        }
        let is_expr = matches!(node.kind.as_str(), "BinaryOperator" | "CStyleCastExpr");
        for number in statements(node) {
            self.leave_out(&mut node.inner[number], is_expr);
        }
        let address = |node: &Node| is_unary(unqualified(node), "&");
        let is_written_so = node.inner.first().is_some_and(address);
        node.inner.iter_mut().for_each(|child| self.node(child));
        match node.kind.as_str() {
            "VarDecl" => self.declaration(node),
            "UnaryOperator" if node.opcode == "*" && is_written_so => {}
            "MemberExpr" if is_written_so => {}
            "UnaryOperator" => self.unary(node),
            "BinaryOperator" => self.binary(node),
            "CompoundAssignOperator" => self.moved(node),
            "ArraySubscriptExpr" => self.subscript(node),
            "MemberExpr" if node.flags.arrow => {
                let pointer = node.inner[0].clone();
                let (base, index) = split(&pointer);
                if index.is_some() || is_unary(base, "&") {
                    node.flags.arrow = false;
                    node.inner[0] = self.element(&pointer, base.clone(), index.cloned());
                }
            }
            _ => {}
        }
        for number in statements(node) {
            only_effects(&mut node.inner[number]);
        }
        for number in conditions(node) {
            let condition = &mut node.inner[number];
            if is_address(condition) {
                *condition = self.known_truth(condition, &[condition], true);
            }
        }
    }

    /// The value of a known pointer.
    fn read(&mut self, node: &Node) -> Option<Node> {
        let pointer = self.known.get(&variable_read(node)?)?;
        let Some(index) = pointer.index else {
            return Some(Node { span: node.span, ..pointer.value.clone() });
        };
        let name = variable(&node.strip().inner[0]).map(|of| of.name.clone()).unwrap_or_default();
        let place = self.fresh.name(node, index, &name);
        let index = self.fresh.value(place);
        Some(self.address(node, pointer.is_param.then_some(node), index))
    }

    /// The address at an index from a known pointer's base on. `param` is the value of a parameter,
    /// which is the base of itself.
    fn address(&mut self, node: &Node, param: Option<&Node>, index: Node) -> Node {
        let base = match param {
            Some(read) => read.clone(),
            None => {
                let id = variable_read(node).or_else(|| variable(&node.inner[0]).map(|of| of.id));
                id.and_then(|id| self.known.get(&id)).map(|p| p.value.clone()).unwrap_or_default()
            }
        };
        let base = self.fresh.of_bytes(base);
        self.fresh.address(node, base, Some(index), &node.ty)
    }

    fn element(&mut self, like: &Node, base: Node, index: Option<Node>) -> Node {
        let base = if index.is_some() { self.fresh.of_bytes(base) } else { base };
        self.fresh.element(like, base, index)
    }

    /// A known pointer that an expression changes: the declaration, and the name, of its index.
    fn target(&mut self, node: &Node) -> Option<(Node, Option<Node>)> {
        let place = node.inner.first()?.strip();
        let of = variable(place)?;
        let pointer = self.known.get(&of.id)?;
        let name = self.fresh.name(place, pointer.index?, &of.name);
        let param = pointer.is_param.then(|| self.fresh.value(place.clone()));
        Some((name, param))
    }

    fn declaration(&mut self, node: &mut Node) {
        let Some(pointer) = self.known.get(&node.id) else { return };
        if pointer.index.is_none() {
            node.kind = "EmptyDecl".to_string();
            node.inner.clear();
            return;
        }
        node.ty = INDEX.to_string();
        if let Some(init) = node.inner.iter_mut().find(|child| !child.kind.ends_with("Attr")) {
            *init = self.index(init);
        }
    }

    /// The index of an address from its base on.
    fn index(&mut self, address: &Node) -> Node {
        match split(address).1.cloned() {
            Some(index) => self.fresh.cast(index, INDEX),
            None => self.fresh.number(address, 0, INDEX),
        }
    }

    fn index_of_param(&mut self, param: &Node) -> Node {
        let zero = self.fresh.number(param, 0, INDEX);
        let id = self.known[&param.id].index.unwrap_or_default();
        let (kind, ty) = ("VarDecl".to_string(), INDEX.to_string());
        let declared = Node { id, kind, ty, inner: vec![zero], ..param.clone() };
        Node {
            id: self.fresh.id(),
            kind: "DeclStmt".to_string(),
            span: param.span,
            inner: vec![declared],
            ..Node::default()
        }
    }

    fn unary(&mut self, node: &mut Node) {
        match node.opcode.as_str() {
            "*" => {
                let pointer = node.inner[0].clone();
                let (base, index) = split(&pointer);
                if index.is_some() || is_unary(base, "&") {
                    *node = self.element(node, base.clone(), index.cloned());
                }
            }
            "++" | "--" => self.moved(node),
            "!" if is_address(&node.inner[0]) => {
                *node = self.known_truth(node, &[&node.inner[0]], false);
            }
            _ => {}
        }
    }

    /// `p++`, `p += n`, `p = q` of a known pointer.
    fn moved(&mut self, node: &mut Node) {
        let Some((name, param)) = self.target(node) else { return };
        let original = node.clone();
        node.ty = INDEX.to_string();
        node.inner[0] = name;
        match node.opcode.as_str() {
            "=" => node.inner[1] = self.index(&original.inner[1]),
            "+=" | "-=" => {
                node.compute_ty = INDEX.to_string();
                node.inner[1] = self.fresh.cast(original.inner[1].clone(), INDEX);
            }
            _ => {}
        }
        *node = self.address(&original, param.as_ref(), node.clone());
    }

    fn subscript(&mut self, node: &mut Node) {
        let [left, right] = &node.inner[..] else { return };
        let (pointer, more) = match is_pointer(&right.ty) {
            true => (right, left),
            false => (left, right),
        };
        let (base, index) = split(pointer);
        let Some(index) = index else { return };
        let index = self.fresh.sum(Some(index.clone()), "+", more.clone());
        *node = self.element(node, base.clone(), Some(index));
    }

    fn binary(&mut self, node: &mut Node) {
        let [left, right] = &node.inner[..] else { return };
        let (left, right) = (left.clone(), right.clone());
        let pointers = (is_pointer(&left.ty), is_pointer(&right.ty));
        match (node.opcode.as_str(), pointers) {
            ("=", (true, _)) => self.assigned(node),
            ("+", (true, false)) => self.sum(node, &left, &right),
            ("+", (false, true)) => self.sum(node, &right, &left),
            ("-", (true, false)) => self.sum(node, &left, &right),
            ("-" | "<" | "<=" | ">" | ">=" | "==" | "!=", (true, true)) => {
                self.compared(node, &left, &right);
            }
            _ => {}
        }
    }

    fn assigned(&mut self, node: &mut Node) {
        let of = variable(&node.inner[0]).and_then(|of| self.known.get(&of.id));
        match of.map(|pointer| pointer.index) {
            Some(Some(_)) => self.moved(node),
            // The only value.
            Some(None) => *node = node.inner[1].clone(),
            None => {}
        }
    }

    /// `pointer + more` and `pointer - more`.
    fn sum(&mut self, node: &mut Node, pointer: &Node, more: &Node) {
        if !is_address(pointer) {
            return;
        }
        let (base, index) = split(pointer);
        let index = self.fresh.sum(index.cloned(), &node.opcode, more.clone());
        let base = self.fresh.of_bytes(base.clone());
        *node = self.fresh.address(node, base, Some(index), &node.ty);
    }

    /// Two pointers into one object, or into two, or one and nothing.
    fn compared(&mut self, node: &mut Node, left: &Node, right: &Node) {
        if is_null(left) && is_address(right) || is_null(right) && is_address(left) {
            *node = self.known_truth(node, &[left, right], node.opcode == "!=");
            return;
        }
        if !same(split(left).0, split(right).0) {
            let apart = object(left).zip(object(right)).is_some_and(|(a, b)| a != b);
            if !matches!(node.opcode.as_str(), "==" | "!=") {
                // Of two choices, a pair that never occurs.
                if apart && Fresh::is_own(node) {
                    *node = self.fresh.number(node, 0, &node.ty);
                }
                return;
            }
            if apart {
                *node = self.known_truth(node, &[left, right], node.opcode == "!=");
            } else if let Some(compared) = self.compared_by_indices(node, left, right) {
                *node = compared;
            }
            return;
        }
        let (a, b) = (self.index(left), self.index(right));
        if node.opcode == "-" {
            // Backwards it is negative.
            let steps = self.fresh.sum(Some(a), "-", b);
            let steps = self.fresh.cast(steps, "int");
            *node = Node { span: node.span, ..self.fresh.cast(steps, &node.ty) };
            return;
        }
        *node = self.fresh.binary(node, &node.opcode, &node.ty, vec![a, b]);
    }

    /// A truth that needs no addresses, behind what those change.
    fn known_truth(&mut self, like: &Node, addresses: &[&Node], truth: bool) -> Node {
        let number = self.fresh.number(like, truth.into(), "int");
        let changing = addresses.iter().filter(|address| !is_pure(address));
        changing.rev().fold(number, |last, address| {
            let mut first = (*address).clone();
            only_effects(&mut first);
            self.fresh.comma(first, last)
        })
    }

    /// Two pointers whose addresses differ in indices only.
    fn compared_by_indices(&mut self, node: &Node, left: &Node, right: &Node) -> Option<Node> {
        let (mut a, mut b) = (left.clone(), right.clone());
        let (of_a, of_b) = (take_indices(&mut a)?, take_indices(&mut b)?);
        if !same(&a, &b) {
            return None;
        }
        let together = if node.opcode == "==" { "&&" } else { "||" };
        let mut all: Option<Node> = None;
        for (a, b) in of_a.into_iter().zip(of_b) {
            let (a, b) = (self.fresh.cast(a, INDEX), self.fresh.cast(b, INDEX));
            let one = self.fresh.binary(node, &node.opcode, "int", vec![a, b]);
            all = Some(match all {
                Some(all) => self.fresh.binary(node, together, "int", vec![all, one]),
                None => one,
            });
        }
        all
    }

    /// Makes a statement empty that gives a pointer its only value, which stands wherever the
    /// pointer is read.
    fn leave_out(&mut self, statement: &mut Node, is_expr: bool) {
        let assigns = statement.kind == "BinaryOperator" && statement.opcode == "=";
        let target = statement.inner.first().filter(|_| assigns).and_then(variable);
        let known = target.and_then(|of| self.known.get(&of.id));
        if known.is_none_or(|pointer| pointer.index.is_some()) {
            return;
        }
        if is_expr {
            *statement = self.fresh.number(statement, 0, "int");
        } else {
            statement.kind = "NullStmt".to_string();
            statement.inner.clear();
        }
    }
}

/// The children of which only what they do counts: statements.
pub fn statements(node: &Node) -> Vec<usize> {
    let last = node.inner.len().saturating_sub(1);
    let mut numbers = match node.kind.as_str() {
        "CompoundStmt" => (0..node.inner.len()).collect(),
        "IfStmt" => vec![1, 2],
        "WhileStmt" => vec![1],
        "DoStmt" => vec![0],
        "ForStmt" => vec![0, 3, 4],
        "BinaryOperator" if node.opcode == "," => vec![0],
        "CStyleCastExpr" if node.cast == "ToVoid" => vec![0],
        "CaseStmt" | "DefaultStmt" | "LabelStmt" => vec![last],
        _ => Vec::new(),
    };
    numbers.retain(|number| *number < node.inner.len());
    numbers
}

/// The children of which only the truth counts.
pub fn conditions(node: &Node) -> Vec<usize> {
    let mut numbers = match node.kind.as_str() {
        "IfStmt" | "WhileStmt" | "ConditionalOperator" => vec![0],
        "DoStmt" => vec![1],
        "ForStmt" => vec![2],
        "BinaryOperator" if matches!(node.opcode.as_str(), "&&" | "||") => vec![0, 1],
        _ => Vec::new(),
    };
    numbers.retain(|number| *number < node.inner.len());
    numbers
}

/// Makes an address whose value is not used its index.
fn only_effects(node: &mut Node) {
    if node.kind == "BinaryOperator"
        && node.opcode == ","
        && let [_, last] = &mut node.inner[..]
    {
        only_effects(last);
        node.ty = last.ty.clone();
    } else if node.kind == "ConditionalOperator" && node.ty == "void" {
        node.inner[1..].iter_mut().for_each(only_effects);
    } else if let Some(index) = split(node).1.cloned() {
        *node = index;
    }
}

/// True for the address of a place, which is never null.
pub fn is_address(node: &Node) -> bool {
    let node = unqualified(node);
    let inner = node.inner.first();
    match (node.kind.as_str(), node.cast.as_str()) {
        ("ImplicitCastExpr" | "CStyleCastExpr", "BitCast") => inner.is_some_and(is_address),
        ("ImplicitCastExpr", "ArrayToPointerDecay") => true,
        ("ImplicitCastExpr", "LValueToRValue") => {
            let of = inner.and_then(variable);
            is_pointer(&node.ty) && of.is_some_and(|of| of.kind == "ParmVarDecl")
        }
        _ => is_unary(node, "&"),
    }
}

/// True for a null pointer that is written as one.
pub fn is_null(node: &Node) -> bool {
    let mut node = node.strip();
    while node.kind.ends_with("CastExpr") {
        if node.cast == "NullToPointer" {
            return true;
        }
        node = node.inner[0].strip();
    }
    false
}
