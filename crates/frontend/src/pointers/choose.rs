//! Pointers that lead to one of several places, or nowhere. Each place, but for indices in it, gets
//! a pointer of its own, which leads to nothing else, and a number says which of them counts:
//! `*p` becomes `which == 1 ? *p1 : *p2`. Null is number 0.

use super::holes::{fill_indices, take_indices};
use super::make::Fresh;
use super::rewrite::{conditions, is_null};
use super::shape::{
    INDEX, follow, follow_mut, is_pointer, same, split, unqualified, variable, variable_read,
};
use super::spread::apart;
use crate::ast::Node;

/// Takes one such pointer out of a function in which all that is known is in its place; false if
/// there is none.
pub fn one(function: &mut Node, fresh: &mut Fresh) -> bool {
    for variable in variables(function) {
        if fresh.is_part(variable.id) {
            continue;
        }
        if variable.is_param {
            copy_param(function, &variable, fresh);
            return true;
        }
        let Some(choice) = Choice::of(&variable, fresh) else { continue };
        choice.apply(function, fresh);
        return true;
    }
    false
}

/// A pointer variable that is assigned.
struct Variable {
    id: u64,
    name: String,
    ty: String,
    is_param: bool,
    values: Vec<Node>,
    /// Its own address is taken.
    lost: bool,
}

/// The pointer variables of a function that are assigned.
fn variables(function: &Node) -> Vec<Variable> {
    let mut found: Vec<Variable> = Vec::new();
    function.walk(&mut |node| {
        let is_local = !matches!(node.storage.as_str(), "static" | "extern");
        let is_param = node.kind == "ParmVarDecl";
        if is_pointer(&node.ty) && (is_param || node.kind == "VarDecl" && is_local) {
            let init = node.inner.iter().filter(|of| !is_param && !of.kind.ends_with("Attr"));
            let (name, ty) = (node.name.clone(), node.ty.clone());
            let values = init.cloned().collect();
            found.push(Variable { id: node.id, name, ty, is_param, values, lost: false });
        }
        let target = node.inner.first().and_then(variable).map(|of| of.id);
        let Some(of) = found.iter_mut().find(|of| Some(of.id) == target) else { return };
        match (node.kind.as_str(), node.opcode.as_str()) {
            ("BinaryOperator", "=") => of.values.extend(node.inner.get(1).cloned()),
            ("UnaryOperator", "&") => of.lost = true,
            _ => {}
        }
    });
    found.retain(|of| !of.values.is_empty() && !of.lost);
    found
}

/// Gives a parameter that is assigned a variable that takes its place.
fn copy_param(function: &mut Node, param: &Variable, fresh: &mut Fresh) {
    let id = fresh.id();
    rename(function, param.id, id);
    let Some(declared) = function.inner.iter().find(|node| node.id == param.id).cloned() else {
        return;
    };
    let mut read = fresh.named(&declared, param.id, &param.name, &param.ty);
    if let Some(of) = &mut read.referenced {
        of.kind = "ParmVarDecl".to_string();
    }
    let value = fresh.value(read);
    let copy = fresh.variable(&declared, id, &param.ty, Some(value));
    fresh.declare(function, vec![copy]);
}

fn rename(node: &mut Node, from: u64, to: u64) {
    if let Some(of) = node.referenced.as_mut().filter(|of| of.id == from) {
        of.id = to;
        of.kind = "VarDecl".to_string();
    }
    node.inner.iter_mut().for_each(|child| rename(child, from, to));
}

/// A place that a pointer may lead to.
struct Group {
    /// Its address, with holes for indices.
    template: Node,
    /// Variables with the indices.
    indices: Vec<u64>,
    /// The pointer that leads there.
    pointer: u64,
}

/// Values that are assigned to a pointer, by kind.
enum Value {
    Null,
    /// From the pointer's own value.
    Own,
    Group(usize),
    /// Another place: its address with holes, and the indices in them.
    Other(Box<Node>, Vec<Node>),
}

struct Choice<'c> {
    of: &'c Variable,
    groups: Vec<Group>,
    null: bool,
    /// The variable with the number of the group.
    which: u64,
    /// Variables for indices until all of them are known.
    spares: Vec<u64>,
}

impl<'c> Choice<'c> {
    fn of(variable: &'c Variable, fresh: &mut Fresh) -> Option<Choice<'c>> {
        let mut choice = Choice {
            of: variable,
            groups: Vec::new(),
            null: false,
            which: fresh.id(),
            spares: Vec::new(),
        };
        for value in &variable.values {
            match choice.kind(value)? {
                Value::Null => choice.null = true,
                Value::Own | Value::Group(_) => {}
                Value::Other(template, indices) => {
                    let pointer = fresh.part();
                    let indices = indices.iter().map(|_| fresh.index_of(pointer)).collect();
                    choice.groups.push(Group { template: *template, indices, pointer });
                }
            }
        }
        let most = choice.groups.iter().map(|group| group.indices.len()).max();
        if most.is_none() && !choice.null {
            return None;
        }
        let most = most.unwrap_or_default();
        // With one more for the index of the pointer itself.
        choice.spares = (0..if most > 0 { most + 1 } else { 0 }).map(|_| fresh.id()).collect();
        Some(choice)
    }

    /// The kind of a value; nothing if it is not seen where it leads.
    fn kind(&self, value: &Node) -> Option<Value> {
        if is_null(value) {
            return Some(Value::Null);
        }
        if way_to_root(value).is_some_and(|way| self.is_read(follow(value, &way))) {
            return Some(Value::Own);
        }
        let mut value = value.clone();
        let way = way_to_base(&value);
        let template = follow_mut(&mut value, &way);
        let indices = take_indices(template)?;
        let known = self.groups.iter().position(|group| same(&group.template, template));
        Some(known.map_or_else(|| Value::Other(Box::new(template.clone()), indices), Value::Group))
    }

    /// True if a number says where the pointer leads.
    fn is_open(&self) -> bool {
        self.groups.len() != 1 || self.null
    }

    fn is_read(&self, node: &Node) -> bool {
        variable_read(node) == Some(self.of.id)
    }

    fn is_target(&self, node: &Node) -> bool {
        node.inner.first().and_then(variable).is_some_and(|of| of.id == self.of.id)
    }

    /// Rewrites all that names the pointer.
    fn apply(&self, node: &mut Node, fresh: &mut Fresh) {
        apart(node, &|declared| declared.id == self.of.id, fresh);
        if node.kind == "DeclStmt" && node.inner.iter().any(|of| of.id == self.of.id) {
            node.inner = self.declarations(&node.inner, fresh);
            return;
        }
        if self.null {
            for number in conditions(node) {
                let condition = &mut node.inner[number];
                if self.is_read(unqualified(condition)) {
                    *condition = self.compared(condition, "!=", fresh);
                }
            }
            if let Some(opcode) = self.asks(node) {
                *node = self.compared(node, opcode, fresh);
                return;
            }
        }
        if self.is_read(node) {
            let null = self.null.then(|| fresh.null(node, &node.ty));
            *node = self.chain(null, &mut |group, fresh| self.read(node, group, fresh), fresh);
            return;
        }
        match (node.kind.as_str(), node.opcode.as_str()) {
            ("BinaryOperator", "=") if self.is_target(node) => self.assigned(node, fresh),
            ("UnaryOperator", "++" | "--") | ("CompoundAssignOperator", "+=" | "-=")
                if self.is_target(node) =>
            {
                node.inner[1..].iter_mut().for_each(|more| self.apply(more, fresh));
                *node = self.chain(
                    None,
                    &mut |group, fresh| {
                        let mut moved = node.clone();
                        moved.inner[0] = self.name(node, group, fresh);
                        moved
                    },
                    fresh,
                );
            }
            _ => node.inner.iter_mut().for_each(|child| self.apply(child, fresh)),
        }
    }

    /// The variables that take the pointer's place.
    fn declarations(&self, declared: &[Node], fresh: &mut Fresh) -> Vec<Node> {
        let mut found = Vec::new();
        for node in declared {
            if node.id != self.of.id {
                found.push(node.clone());
                continue;
            }
            let groups = self.groups.iter();
            let indices = groups.flat_map(|group| group.indices.iter().copied());
            let numbers = indices.chain(self.spares.iter().copied());
            let which = self.is_open().then_some(self.which);
            for id in which.into_iter().chain(numbers) {
                let zero = fresh.number(node, 0, INDEX);
                found.push(fresh.variable(node, id, INDEX, Some(zero)));
            }
            for group in &self.groups {
                found.push(fresh.variable(node, group.pointer, &self.of.ty, None));
            }
        }
        found
    }

    /// Comparison with null that an expression makes of the pointer.
    fn asks(&self, node: &Node) -> Option<&'static str> {
        let read = |node: &Node| self.is_read(unqualified(node));
        match (node.kind.as_str(), node.opcode.as_str(), &node.inner[..]) {
            ("UnaryOperator", "!", [pointer]) => read(pointer).then_some("=="),
            ("BinaryOperator", opcode @ ("==" | "!="), [left, right]) => {
                let opcode = if opcode == "==" { "==" } else { "!=" };
                let asked = read(left) && is_null(right) || is_null(left) && read(right);
                asked.then_some(opcode)
            }
            (_, _, [pointer]) if node.cast == "PointerToBoolean" => read(pointer).then_some("!="),
            _ => None,
        }
    }

    /// `which == 0` or `which != 0`.
    fn compared(&self, like: &Node, opcode: &str, fresh: &mut Fresh) -> Node {
        self.is_group(like, opcode, 0, fresh)
    }

    fn is_group(&self, like: &Node, opcode: &str, number: u64, fresh: &mut Fresh) -> Node {
        let which = fresh.name(like, self.which, &self.of.name);
        let (which, number) = (fresh.value(which), fresh.number(like, number, INDEX));
        fresh.binary(like, opcode, "int", vec![which, number])
    }

    fn name(&self, like: &Node, group: &Group, fresh: &mut Fresh) -> Node {
        fresh.named(like, group.pointer, &self.of.name, &self.of.ty)
    }

    fn read(&self, like: &Node, group: &Group, fresh: &mut Fresh) -> Node {
        let name = self.name(like, group, fresh);
        Node { ty: like.ty.clone(), ..fresh.value(name) }
    }

    /// A choice between an expression for each group, and `last` for null, where that is defined.
    fn chain(
        &self,
        mut last: Option<Node>,
        make: &mut dyn FnMut(&Group, &mut Fresh) -> Node,
        fresh: &mut Fresh,
    ) -> Node {
        for (number, group) in self.groups.iter().enumerate().rev() {
            let made = make(group, fresh);
            last = Some(match last {
                Some(last) => {
                    let cond = self.is_group(&made, "==", number as u64 + 1, fresh);
                    fresh.conditional(cond, made, last)
                }
                None => made,
            });
        }
        // One that is null always.
        last.unwrap_or_else(|| fresh.null(&Node::default(), &self.of.ty))
    }

    /// `p = value`.
    fn assigned(&self, node: &mut Node, fresh: &mut Fresh) {
        let mut value = std::mem::take(&mut node.inner[1]);
        match self.kind(&value) {
            Some(Value::Null) => {
                let null = fresh.null(node, &node.ty);
                let set = self.set(node, self.which, 0, fresh);
                *node = fresh.comma(set, null);
            }
            Some(Value::Own) => {
                let way = way_to_root(&value).unwrap_or_default();
                let root = std::mem::take(follow_mut(&mut value, &way));
                self.apply(&mut value, fresh);
                *node = self.chain(
                    None,
                    &mut |group, fresh| {
                        let mut value = value.clone();
                        *follow_mut(&mut value, &way) = self.read(&root, group, fresh);
                        let name = self.name(node, group, fresh);
                        fresh.assign(name, value)
                    },
                    fresh,
                );
            }
            Some(Value::Group(number)) => self.led(node, value, number, fresh),
            // All values were seen when the groups were made.
            Some(Value::Other(..)) | None => node.inner[1] = value,
        }
    }

    /// `p = value`, which leads to a group. The value may read the pointer, so the number is set
    /// last, and where it does indices change once all of them are known.
    fn led(&self, node: &mut Node, mut value: Node, number: usize, fresh: &mut Fresh) {
        let group = &self.groups[number];
        let mut reads = false;
        value.walk(&mut |node| reads |= self.is_read(node));
        let base = way_to_base(&value);
        let mut indices = take_indices(follow_mut(&mut value, &base)).unwrap_or_default();
        let mut ids = group.indices.iter();
        fill_indices(follow_mut(&mut value, &base), fresh, &mut |fresh| {
            let id = ids.next().copied().unwrap_or_default();
            let name = fresh.name(node, id, &self.of.name);
            fresh.value(name)
        });
        let is_late = reads && !group.indices.is_empty();
        if let Some(own) = own_index(&mut value, &base).filter(|_| is_late) {
            let spare = fresh.name(own, self.spares[group.indices.len()], &self.of.name);
            indices.push(std::mem::replace(own, fresh.value(spare)));
        }
        let mut steps = Vec::new();
        let to = if is_late { &self.spares } else { &group.indices };
        for (id, mut index) in to.iter().zip(indices) {
            self.apply(&mut index, fresh);
            let name = fresh.name(&index, *id, &self.of.name);
            let index = fresh.cast(index, INDEX);
            steps.push(fresh.assign(name, index));
        }
        for (id, spare) in group.indices.iter().zip(&self.spares).filter(|_| is_late) {
            let (name, read) =
                (fresh.name(node, *id, &self.of.name), fresh.name(node, *spare, &self.of.name));
            let read = fresh.value(read);
            steps.push(fresh.assign(name, read));
        }
        self.apply(&mut value, fresh);
        let name = self.name(node, group, fresh);
        steps.push(fresh.assign(name, value));
        if self.is_open() {
            steps.push(self.set(node, self.which, number as u64 + 1, fresh));
            let like = Node { ty: node.ty.clone(), span: node.span, ..Node::default() };
            steps.push(self.read(&like, group, fresh));
        }
        let last = steps.pop().unwrap_or_default();
        *node = steps.into_iter().rfold(last, |last, step| fresh.comma(step, last));
    }

    fn set(&self, like: &Node, id: u64, number: u64, fresh: &mut Fresh) -> Node {
        let name = fresh.name(like, id, &self.of.name);
        let number = fresh.number(like, number, INDEX);
        fresh.assign(name, number)
    }
}

/// The way to the pointer that an address counts from.
fn way_to_root(node: &Node) -> Option<Vec<usize>> {
    if variable_read(node).is_some() && node.cast == "LValueToRValue" {
        return is_pointer(&node.ty).then(Vec::new);
    }
    let next = match (node.kind.as_str(), &node.inner[..]) {
        ("UnaryOperator", [_]) => matches!(node.opcode.as_str(), "&" | "*").then_some(0)?,
        ("BinaryOperator", [left, _]) if matches!(node.opcode.as_str(), "+" | "-") => {
            usize::from(!is_pointer(&left.ty))
        }
        ("ArraySubscriptExpr", [left, _]) => usize::from(!is_pointer(&left.ty)),
        ("ParenExpr" | "ConstantExpr" | "ImplicitCastExpr" | "CStyleCastExpr", [_]) => 0,
        _ => return None,
    };
    let way = way_to_root(&node.inner[next])?;
    Some([vec![next], way].concat())
}

/// The way to what an address counts from, as `split` sees it; none if that is all of it.
fn way_to_base(node: &Node) -> Vec<usize> {
    if split(node).1.is_none() {
        return Vec::new();
    }
    let mut way = Vec::new();
    let mut at = node;
    while at.kind != "ArraySubscriptExpr" {
        way.push(0);
        at = &at.inner[0];
    }
    way.push(0);
    way
}

/// The index behind the way to a base.
fn own_index<'n>(value: &'n mut Node, base: &[usize]) -> Option<&'n mut Node> {
    let (_, place) = base.split_last()?;
    follow_mut(value, place).inner.get_mut(1)
}
