//! Choices between pointers, `c ? a : b`, moved outward until no pointer is chosen: `*(c ? a : b)`
//! becomes `c ? *a : *b`, and `p = c ? a : b` `if (c) p = a; else p = b;`.

use super::make::Fresh;
use super::nulls::Nulls;
use super::rewrite::{conditions, is_null, statements};
use super::shape::{follow_mut, is_address_type, is_pointer, is_unary};
use crate::ast::Node;
use crate::effects::is_pure;

/// Moves all choices of a function outward.
pub fn choices(function: &mut Node, nulls: &Nulls, fresh: &mut Fresh) {
    Spreader { nulls, fresh }.node(function);
}

struct Spreader<'s> {
    nulls: &'s Nulls,
    fresh: &'s mut Fresh,
}

/// The way from an expression down to a choice: numbers of children.
type Way = Vec<usize>;

impl Spreader<'_> {
    fn node(&mut self, node: &mut Node) {
        // Of what has its size taken only the type counts.
        if node.kind == "UnaryExprOrTypeTraitExpr" {
            return;
        }
        if let ("StmtExpr", [block]) = (node.kind.as_str(), &mut node.inner[..]) {
            // The last one is the value.
            let last = block.inner.pop();
            self.node(block);
            block.inner.extend(last.map(|mut last| {
                self.node(&mut last);
                last
            }));
            return;
        }
        apart(node, &is_choice_declared, self.fresh);
        node.inner.iter_mut().for_each(|child| self.node(child));
        for number in conditions(node) {
            let condition = &mut node.inner[number];
            if is_pointer(&condition.ty) && way_to_choice(condition).is_some() {
                let tested = std::mem::take(condition);
                *condition = self.fresh.compared_with_null(tested, "!=");
                self.lift(condition);
            }
        }
        if is_unary(node, "!") && way_from(node).is_some() {
            let tested = std::mem::take(&mut node.inner[0]);
            *node = self.fresh.compared_with_null(tested, "==");
        }
        if node.kind != "ParenExpr" && way_through(node).is_none() && !is_choice(node) {
            self.lift(node);
        }
        if node.kind == "ConditionalOperator" && node.ty == "void" {
            node.inner[1..].iter_mut().for_each(effects);
        }
        self.statements(node);
    }

    /// Makes choices that stand as statements ones, and of others whose value is not used nothing
    /// but their effects.
    fn statements(&mut self, node: &mut Node) {
        let is_expr = matches!(node.kind.as_str(), "BinaryOperator" | "CStyleCastExpr");
        for number in statements(node) {
            let is_step = node.kind == "ForStmt" && number < 4;
            let child = &mut node.inner[number];
            match is_expr || is_step {
                true => effects(child),
                false => self.statement(child),
            }
        }
    }

    /// Makes an expression that depends on a choice between pointers a choice itself.
    fn lift(&mut self, node: &mut Node) {
        let Some(way) = way_from(node) else { return };
        let place = follow_mut(node, &way);
        let choice = std::mem::take(place);
        match (choice.kind.as_str(), <[Node; 3]>::try_from(choice.inner)) {
            ("ConditionalOperator", Ok([cond, then, other])) => {
                let (then, other) = (self.with(node, &way, then), self.with(node, &way, other));
                *node = match (then, other) {
                    (Some(then), Some(other)) => self.fresh.conditional(cond, then, other),
                    (Some(only), None) | (None, Some(only)) if is_pure(&cond) => only,
                    (Some(only), None) | (None, Some(only)) => self.fresh.comma(cond, only),
                    (None, None) => self.fresh.number(&cond, 0, "int"),
                };
            }
            (_, Err(inner)) => {
                let Ok([first, last]) = <[Node; 2]>::try_from(inner) else { return };
                if let Some(last) = self.with(node, &way, last) {
                    *node = self.fresh.comma(first, last);
                }
            }
            _ => {}
        }
    }

    /// An expression with a pointer in the place of a choice; nothing if it is undefined because
    /// the pointer is null.
    fn with(&mut self, node: &Node, way: &Way, pointer: Node) -> Option<Node> {
        if is_null(&pointer) && !self.may_be_null(node, way) {
            return None;
        }
        let mut node = node.clone();
        if node.kind == "BinaryOperator" {
            node.id = self.fresh.id();
        }
        *follow_mut(&mut node, way) = pointer;
        self.lift(&mut node);
        if let [left, right] = &node.inner[..]
            && matches!(node.opcode.as_str(), "==" | "!=")
            && is_null(left)
            && is_null(right)
        {
            return Some(self.fresh.number(&node, u64::from(node.opcode == "=="), "int"));
        }
        Some(node)
    }

    /// True if an expression says something of a null pointer at the end of a way.
    fn may_be_null(&self, node: &Node, way: &Way) -> bool {
        let mut at = node;
        for number in way {
            at = &at.inner[*number];
            let reads = at.kind == "ArraySubscriptExpr" || is_unary(at, "*");
            if reads || at.kind == "MemberExpr" {
                return false;
            }
        }
        match node.kind.as_str() {
            "BinaryOperator" => matches!(node.opcode.as_str(), "==" | "!=" | "="),
            "CallExpr" => match node.callee() {
                Some(callee) => self.nulls.is_tested(&callee.name, way[0] - 1),
                None => true,
            },
            _ => true,
        }
    }

    /// Makes a choice that stands as a statement one.
    fn statement(&mut self, node: &mut Node) {
        let inside = node.strip();
        if is_pointer(&inside.ty) && is_pure(inside) {
            *node = self.fresh.statement(node, "NullStmt", Vec::new());
            return;
        }
        if !Fresh::is_own(inside) && !is_pointer(&inside.ty) {
            return;
        }
        let mut inner = match (inside.kind.as_str(), inside.opcode.as_str()) {
            ("ConditionalOperator", _) | ("BinaryOperator", ",") => inside.inner.clone(),
            _ => return,
        };
        let kind = if inner.len() == 3 { "IfStmt" } else { "CompoundStmt" };
        let first = if kind == "IfStmt" { 1 } else { 0 };
        inner[first..].iter_mut().for_each(|child| self.statement(child));
        *node = self.fresh.statement(node, kind, inner);
    }
}

/// Takes the value of a choice away, and leaves what it does.
fn effects(node: &mut Node) {
    let is_choice = node.kind == "ConditionalOperator";
    if is_choice && (Fresh::is_own(node) || is_pointer(&node.ty)) {
        node.ty = "void".to_string();
        node.inner[1..].iter_mut().for_each(effects);
    } else if node.kind == "BinaryOperator" && node.opcode == "," {
        node.inner[1..].iter_mut().for_each(effects);
        node.ty = node.inner[1].ty.clone();
        if is_pointer(&node.ty) && is_pure(&node.inner[1]) {
            *node = node.inner.swap_remove(0);
        }
    }
}

/// Lets wanted variables of a block, or of a loop's head, be assigned behind their declarations.
pub fn apart(node: &mut Node, wanted: &dyn Fn(&Node) -> bool, fresh: &mut Fresh) {
    let begins = |of: &Node| of.inner.iter().position(|init| !init.kind.ends_with("Attr"));
    let splits = |of: &Node| of.kind == "VarDecl" && begins(of).is_some() && wanted(of);
    let declares = |of: &Node| of.kind == "DeclStmt" && of.inner.iter().any(splits);
    if node.kind == "ForStmt" && node.inner.first().is_some_and(declares) {
        let declared = std::mem::take(&mut node.inner[0]);
        let inner = vec![declared, node.clone()];
        *node = fresh.statement(node, "CompoundStmt", inner);
    }
    if node.kind != "CompoundStmt" || !node.inner.iter().any(declares) {
        return;
    }
    for statement in std::mem::take(&mut node.inner) {
        if !declares(&statement) {
            node.inner.push(statement);
            continue;
        }
        for mut declared in statement.inner {
            let at = begins(&declared).filter(|_| splits(&declared));
            let value = at.map(|at| declared.inner.remove(at));
            let name = fresh.named(&declared, declared.id, &declared.name, &declared.ty);
            node.inner.push(fresh.statement(&declared, "DeclStmt", vec![declared.clone()]));
            node.inner.extend(value.map(|value| fresh.assign(name, value)));
        }
    }
}

/// True for a declaration of a pointer that is a choice.
fn is_choice_declared(declared: &Node) -> bool {
    let init = declared.inner.iter().find(|of| !of.kind.ends_with("Attr"));
    let is_local = !matches!(declared.storage.as_str(), "static" | "extern");
    let pointer = declared.kind == "VarDecl" && is_local && is_pointer(&declared.ty);
    pointer && init.is_some_and(holds_choice)
}

/// True if a choice in an expression decides what pointer it is.
fn holds_choice(node: &Node) -> bool {
    if way_to_choice(node).is_some() {
        return true;
    }
    // What it is assigned: `p = q = c ? a : b`.
    let assigned = node.strip();
    let is_assigned = assigned.kind == "BinaryOperator" && assigned.opcode == "=";
    is_assigned && is_pointer(&assigned.ty) && assigned.inner.iter().any(holds_choice)
}

/// True for `c ? a : b` and `x, a` of pointers.
fn is_choice(node: &Node) -> bool {
    let comma = node.kind == "BinaryOperator" && node.opcode == ",";
    (comma || node.kind == "ConditionalOperator") && is_pointer(&node.ty)
}

/// The way to the first choice below an expression.
fn way_from(node: &Node) -> Option<Way> {
    if node.kind.ends_with("Stmt") || node.kind.ends_with("Decl") {
        return None;
    }
    let children = match node.kind.as_str() {
        "CallExpr" => 1..node.inner.len(),
        // Its arms may be left out.
        "ConditionalOperator" => 0..1,
        _ => 0..node.inner.len(),
    };
    node.inner.iter().enumerate().filter(|(number, _)| children.contains(number)).find_map(
        |(number, child)| {
            let way = way_to_choice(child)?;
            Some([vec![number], way].concat())
        },
    )
}

/// The way to a choice that an address, or a place, begins with.
fn way_to_choice(node: &Node) -> Option<Way> {
    if is_choice(node) {
        return Some(Way::new());
    }
    let next = way_through(node)?;
    let way = way_to_choice(&node.inner[next])?;
    Some([vec![next], way].concat())
}

/// The child that an address, or a place, begins with.
fn way_through(node: &Node) -> Option<usize> {
    let cast = matches!(node.cast.as_str(), "NoOp" | "BitCast" | "ArrayToPointerDecay");
    match (node.kind.as_str(), &node.inner[..]) {
        ("ParenExpr" | "ConstantExpr" | "MemberExpr", [_]) => Some(0),
        ("ImplicitCastExpr" | "CStyleCastExpr", [_]) => cast.then_some(0),
        ("UnaryOperator", [_]) => matches!(node.opcode.as_str(), "*" | "&").then_some(0),
        ("ArraySubscriptExpr", [left, _]) => Some(usize::from(!is_address_type(&left.ty))),
        ("BinaryOperator", [left, _]) if matches!(node.opcode.as_str(), "+" | "-") => {
            is_pointer(&node.ty).then_some(usize::from(!is_pointer(&left.ty)))
        }
        _ => None,
    }
}
