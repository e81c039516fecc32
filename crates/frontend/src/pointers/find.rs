//! The pointers of a function that lead to one object, with their bases and indices.

use std::collections::{HashMap, HashSet};

use super::make::Fresh;
use super::rewrite::Rewriter;
use super::shape::{is_pointer, is_unary, same, split, unqualified, variable, variable_read};
use crate::ast::Node;

/// A pointer variable that goes.
#[derive(Clone, Debug)]
pub struct Pointer {
    /// Its value, or the base of it.
    pub value: Node,
    /// The declaration of the integer that takes its place; without one its value does.
    pub index: Option<u64>,
    /// Its value never changes.
    steady: bool,
    pub is_param: bool,
}

/// Pointers that go, by declaration.
pub type Known = HashMap<u64, Pointer>;

/// A pointer variable in the source.
#[derive(Default)]
struct Variable {
    /// All that is assigned to it.
    values: Vec<Node>,
    is_param: bool,
    /// The first of the values stands at its declaration.
    initialised: bool,
    /// True if it moves by `++` or `+=`.
    moves: bool,
    /// Its own address is taken.
    lost: bool,
}

/// Finds the pointers of a function that go; `changed` are variables that it, or what it calls,
/// may change.
pub fn pointers(function: &Node, changed: &HashSet<u64>, fresh: &mut Fresh) -> Known {
    let variables = variables(function);
    let is_set = |of: &Variable| of.moves || of.lost || !of.values.is_empty();
    let set = variables.iter().filter(|(_, of)| is_set(of)).map(|(id, _)| *id).collect();
    let mut known = Known::new();
    // What a pointer is set to may be another one.
    loop {
        let before = known.len();
        for (id, variable) in &variables {
            if known.contains_key(id) || variable.lost {
                continue;
            }
            let (set, own) = (&set, HashSet::from([*id]));
            let mut finder = Finder { known: &known, own, of: variable, set, changed, fresh };
            if let Some(pointer) = finder.pointer(*id) {
                known.insert(*id, pointer);
            }
        }
        if known.len() == before {
            together(&variables, &set, changed, &mut known, fresh);
        }
        if known.len() == before {
            return known;
        }
    }
}

/// Finds pointers that are set to one another, and otherwise lead to one object.
fn together(
    variables: &[(u64, Variable)],
    set: &HashSet<u64>,
    changed: &HashSet<u64>,
    known: &mut Known,
    fresh: &mut Fresh,
) {
    let of = |id: u64| variables.iter().find(|(other, _)| *other == id).map(|(_, of)| of);
    for (first, variable) in variables {
        let mut own = HashSet::new();
        let mut open = vec![*first];
        while let Some(id) = open.pop() {
            if known.contains_key(&id) || !own.insert(id) {
                continue;
            }
            for value in of(id).into_iter().flat_map(|of| &of.values) {
                value.walk(&mut |node| {
                    let read = variable_read(node).filter(|id| of(*id).is_some());
                    open.extend(read);
                });
            }
        }
        let takes = |id: &u64| of(*id).is_some_and(|of| !of.lost && !of.is_param);
        if own.len() < 2 || !own.iter().all(takes) {
            continue;
        }
        let mut base: Option<Node> = None;
        let mut is_one = true;
        for value in own.iter().filter_map(|id| of(*id)).flat_map(|of| &of.values) {
            let own = own.clone();
            let mut finder = Finder { known, own, of: variable, set, changed, fresh };
            match (&base, finder.address(value)) {
                (Some(base), Some(Address { base: Some(other), .. })) => {
                    is_one &= same(base, &other);
                }
                (None, Some(Address { base: other, .. })) => base = other,
                (Some(_), Some(_)) => {}
                (_, None) => is_one = false,
            }
        }
        let Some(value) = base.filter(|_| is_one) else { continue };
        for id in own {
            let (value, index) = (value.clone(), Some(id));
            known.insert(id, Pointer { value, index, steady: false, is_param: false });
        }
        return;
    }
}

/// The pointer variables of a function, in their order.
fn variables(function: &Node) -> Vec<(u64, Variable)> {
    let mut found: Vec<(u64, Variable)> = Vec::new();
    function.walk(&mut |node| {
        let is_local = !matches!(node.storage.as_str(), "static" | "extern");
        match node.kind.as_str() {
            "ParmVarDecl" if is_pointer(&node.ty) => {
                found.push((node.id, Variable { is_param: true, ..Variable::default() }));
            }
            "VarDecl" if is_local && is_pointer(&node.ty) => {
                let init = node.inner.iter().find(|child| !child.kind.ends_with("Attr"));
                let values = init.into_iter().cloned().collect();
                let initialised = init.is_some();
                found.push((node.id, Variable { values, initialised, ..Variable::default() }));
            }
            _ => {}
        }
        let target = node.inner.first().and_then(variable).map(|of| of.id);
        let Some((_, of)) = found.iter_mut().find(|(id, _)| Some(*id) == target) else { return };
        match (node.kind.as_str(), node.opcode.as_str()) {
            ("BinaryOperator", "=") => of.values.extend(node.inner.get(1).cloned()),
            ("CompoundAssignOperator", "+=" | "-=") => of.moves = true,
            ("UnaryOperator", "++" | "--") => of.moves = true,
            ("UnaryOperator", "&") | ("CompoundAssignOperator", _) => of.lost = true,
            _ => {}
        }
    });
    found
}

/// An address: what it starts from, and whether it is the same each time.
struct Address {
    /// Nothing if it is what the pointer itself starts from.
    base: Option<Node>,
    steady: bool,
}

struct Finder<'f> {
    known: &'f Known,
    /// The pointer itself, and those that are found together with it.
    own: HashSet<u64>,
    of: &'f Variable,
    /// Pointers that are given a value.
    set: &'f HashSet<u64>,
    /// Variables that are assigned, or whose address is taken.
    changed: &'f HashSet<u64>,
    fresh: &'f mut Fresh,
}

impl Finder<'_> {
    fn pointer(&mut self, own: u64) -> Option<Pointer> {
        let of = self.of;
        let mut steady = !of.moves && of.values.len() == 1;
        let mut base = None;
        for value in &of.values {
            let address = self.address(value)?;
            steady &= address.steady;
            match (&base, address.base) {
                (Some(base), Some(other)) if !same(base, &other) => return None,
                (None, Some(other)) => base = Some(other),
                _ => {}
            }
        }
        if of.is_param {
            // Its value at the call is its base, and leads nowhere else.
            let set = of.moves || !of.values.is_empty();
            let moved = set && base.is_none();
            let index = Some(own ^ 1 << 63);
            let value = Node::default();
            return moved.then_some(Pointer { value, index, steady: false, is_param: true });
        }
        let base = base?;
        if steady {
            let mut value = of.values[0].clone();
            Rewriter { known: self.known, fresh: self.fresh }.node(&mut value);
            return Some(Pointer { value, index: None, steady, is_param: false });
        }
        let index = Some(own);
        Some(Pointer {
            value: base,
            index,
            steady: !of.moves && of.values.len() == 1,
            is_param: false,
        })
    }

    /// True for the pointer itself, if no others are found together with it.
    fn is_alone(&self, pointer: u64) -> bool {
        self.own.len() == 1 && self.own.contains(&pointer)
    }

    /// The address that an expression is.
    fn address(&mut self, node: &Node) -> Option<Address> {
        let node = unqualified(node);
        if let Some(id) = variable_read(node) {
            return self.of_variable(id, node);
        }
        let inner = node.inner.first()?;
        match (node.kind.as_str(), node.cast.as_str(), node.opcode.as_str()) {
            ("ImplicitCastExpr" | "CStyleCastExpr", "BitCast", _) => {
                let address = self.address(inner)?;
                // Steps of one type are not steps of another.
                (address.steady && address.base.is_some()).then(|| self.whole(node))
            }
            ("ImplicitCastExpr", "ArrayToPointerDecay", _) => {
                self.is_place(inner).then(|| self.whole(node))
            }
            ("UnaryOperator", _, "&") => self.of_place(node, inner.strip()),
            ("UnaryOperator", _, "++" | "--") => {
                let address = self.of_variable(variable(inner)?.id, inner)?;
                Some(Address { steady: false, ..address })
            }
            ("BinaryOperator", _, "+" | "-") => {
                let [left, right] = &node.inner[..] else { return None };
                let (pointer, index) = match is_pointer(&right.ty) {
                    true => (right, left),
                    false => (left, right),
                };
                let address = self.address(pointer)?;
                let steady = address.steady && self.is_fixed(index);
                Some(Address { steady, ..address })
            }
            _ => None,
        }
    }

    fn of_variable(&mut self, id: u64, node: &Node) -> Option<Address> {
        if self.own.contains(&id) {
            return Some(Address { base: None, steady: false });
        }
        let Some(pointer) = self.known.get(&id) else {
            let named = variable(node).or_else(|| variable(node.inner.first()?))?;
            let steady = named.kind == "ParmVarDecl" && !self.set.contains(&id);
            return steady.then(|| Address { base: Some(node.clone()), steady });
        };
        // Indices in the middle of it change with that pointer only.
        if self.has_index_of_another(&pointer.value) {
            return None;
        }
        // An index may be out of sight where a pointer is set later than declared.
        let steady = pointer.steady && (pointer.index.is_none() || self.of.initialised);
        let base = match (pointer.is_param, variable_read(node)) {
            (false, _) => split(&pointer.value).0.clone(),
            (true, Some(_)) => node.clone(),
            (true, None) => self.fresh.value(node.clone()),
        };
        Some(Address { base: Some(base), steady })
    }

    fn has_index_of_another(&self, value: &Node) -> bool {
        let mut found = false;
        value.walk(&mut |node| {
            let of = node.referenced.as_ref().and_then(|of| self.fresh.pointer_of(of.id));
            found |= of.is_some_and(|pointer| !self.is_alone(pointer));
        });
        found
    }

    /// The address of a place.
    fn of_place(&mut self, address: &Node, place: &Node) -> Option<Address> {
        match (place.kind.as_str(), &place.inner[..]) {
            ("ArraySubscriptExpr", [base, index]) => {
                let of = self.address(base)?;
                let steady = of.steady && self.is_fixed(index);
                Some(Address { steady, ..of })
            }
            ("UnaryOperator", [pointer]) if place.opcode == "*" => self.address(pointer),
            _ => self.is_place(place).then(|| self.whole(address)),
        }
    }

    /// An address as its own base.
    fn whole(&mut self, node: &Node) -> Address {
        let mut base = node.clone();
        Rewriter { known: self.known, fresh: self.fresh }.node(&mut base);
        Address { base: Some(base), steady: true }
    }

    /// True if an expression names the same place wherever it is written.
    fn is_place(&mut self, node: &Node) -> bool {
        let node = node.strip();
        let steady = |finder: &mut Self, pointer: &Node| {
            finder.address(pointer).is_some_and(|of| of.steady && of.base.is_some())
        };
        match (node.kind.as_str(), &node.inner[..]) {
            ("DeclRefExpr" | "StringLiteral", _) => true,
            ("MemberExpr", [base]) if node.flags.arrow => steady(self, base),
            ("MemberExpr", [base]) => self.is_place(base),
            ("ArraySubscriptExpr", [base, index]) => self.is_fixed(index) && steady(self, base),
            _ => is_unary(node, "*") && steady(self, &node.inner[0]),
        }
    }

    /// True if an index has the same value wherever it is written.
    fn is_fixed(&self, index: &Node) -> bool {
        let mut fixed = true;
        index.walk(&mut |node| {
            fixed &= match node.kind.as_str() {
                "CallExpr" | "MemberExpr" | "ArraySubscriptExpr" | "StmtExpr" => false,
                _ => !is_unary(node, "*"),
            };
            if let Some(of) = &node.referenced {
                let pointer = self.fresh.pointer_of(of.id);
                let own = pointer.is_some_and(|pointer| self.is_alone(pointer));
                let kept = own || self.of.initialised && !self.changed.contains(&of.id);
                fixed &= of.kind == "EnumConstantDecl" || kept;
            }
        });
        fixed
    }
}
