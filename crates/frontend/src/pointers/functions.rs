//! Pointers to functions are numbers: each function that is used as a value has one, null is 0, and
//! a call through a pointer is a choice between the functions of its type. Code has no addresses on
//! a NIC.

use std::collections::HashMap;

use super::make::Fresh;
use super::rewrite::is_null;
use super::shape::is_unary;
use crate::ast::{Node, Referenced};

/// The type of the numbers; as long as a pointer is elsewhere, so that structs have their layout.
const NUMBER: &str = "unsigned long";

/// Takes pointers to functions out of a file.
pub fn resolve(root: &mut Node, fresh: &mut Fresh) {
    let mut found = Functions::default();
    root.walk(&mut |node| found.add_typedef(node));
    found.add_values(root);
    if found.values.is_empty() {
        return;
    }
    for node in &mut root.inner {
        found.node(node, fresh);
        let declared = std::mem::take(&mut found.declared);
        fresh.declare(node, declared);
    }
}

#[derive(Default)]
struct Functions {
    /// Typedefs of pointers to functions, with the types of the functions.
    pointers: HashMap<String, String>,
    /// Typedefs of functions.
    functions: HashMap<String, String>,
    /// The functions that are values, with their types; their numbers begin with 1.
    values: Vec<(Referenced, String)>,
    /// Variables for the numbers that calls take.
    declared: Vec<Node>,
}

impl Functions {
    fn add_typedef(&mut self, node: &Node) {
        if node.kind != "TypedefDecl" {
            return;
        }
        if let Some(of) = pointed(&node.ty) {
            self.pointers.insert(node.name.clone(), of);
        } else if node.ty.contains('(') {
            self.functions.insert(node.name.clone(), node.ty.clone());
        }
    }

    /// Finds the functions that are used as values.
    fn add_values(&mut self, node: &Node) {
        let first = usize::from(node.callee().is_some());
        node.inner.iter().skip(first).for_each(|child| self.add_values(child));
        if let Some(of) = node.referenced.as_ref().filter(|of| of.kind == "FunctionDecl") {
            let is_known = self.values.iter().any(|(known, _)| known.id == of.id);
            self.values.extend((!is_known).then(|| (of.clone(), node.ty.clone())));
        }
    }

    /// The type of the function that a type leads to.
    fn leads_to(&self, ty: &str) -> Option<String> {
        let bare = ty.strip_prefix("const ").unwrap_or(ty);
        let bare = bare.strip_suffix("const").unwrap_or(bare).trim_end();
        let named = || self.pointers.get(bare).cloned();
        let (of, _) = self.named_function(ty).unzip();
        pointed(ty).or_else(named).or_else(|| of.cloned())
    }

    /// The function's type and what follows the star in `name *const[2]`.
    fn named_function<'t>(&self, ty: &'t str) -> Option<(&String, &'t str)> {
        let (name, inside) = ty.split_once(" *")?;
        Some((self.functions.get(name)?, inside))
    }

    /// Rewrites a node and all below it.
    fn node(&mut self, node: &mut Node, fresh: &mut Fresh) {
        if let Some(number) = self.number(node) {
            *node = fresh.number(node, number, NUMBER);
            return;
        }
        if node.kind == "CallExpr" && node.callee().is_none() && self.call(node, fresh) {
            return;
        }
        let to_function = self.leads_to(&node.ty).is_some();
        let from = node.inner.first().map(|inner| inner.ty.clone()).unwrap_or_default();
        let from_function = self.leads_to(&from).is_some();
        if to_function && is_null(node) {
            *node = fresh.number(node, 0, NUMBER);
            return;
        }
        let first = usize::from(node.callee().is_some());
        node.inner.iter_mut().skip(first).for_each(|child| self.node(child, fresh));
        match node.cast.as_str() {
            "BitCast" | "NoOp" if to_function && from_function => {
                *node = node.inner.swap_remove(0);
                return;
            }
            "PointerToBoolean" if from_function => node.cast = "IntegralToBoolean".to_string(),
            "PointerToIntegral" if from_function => node.cast = "IntegralCast".to_string(),
            _ => {}
        }
        let inside = parts(&node.ty).map(|(_, inside, _)| inside);
        let inside = inside.or_else(|| Some(self.named_function(&node.ty)?.1));
        if let Some(ty) = inside.map(number_type) {
            node.ty = ty;
        }
    }

    /// The number of a function that is a value: `f`, `&f`.
    fn number(&self, node: &Node) -> Option<u64> {
        let is_value = node.cast == "FunctionToPointerDecay" || is_unary(node, "&");
        let of = node.inner.first().filter(|_| is_value)?.strip().referenced.as_ref()?;
        let at = self.values.iter().position(|(known, _)| known.id == of.id)?;
        (of.kind == "FunctionDecl").then_some(at as u64 + 1)
    }

    /// Makes a call through a pointer a choice; false if there is nothing to choose from.
    fn call(&mut self, node: &mut Node, fresh: &mut Fresh) -> bool {
        let Some(ty) = node.inner.first().and_then(|callee| self.leads_to(&callee.ty)) else {
            return false;
        };
        let pointer = without_steps(&node.inner[0]).clone();
        if pointer.referenced.as_ref().is_some_and(|of| of.kind == "FunctionDecl") {
            node.inner[0] = pointer;
            self.node(node, fresh);
            return true;
        }
        let mut candidates: Vec<(u64, Referenced)> = Vec::new();
        for alike in [|a: &str, b: &str| a == b, |a: &str, b: &str| params(a) == params(b)] {
            let numbered = self.values.iter().zip(1..).filter(|((_, own), _)| alike(own, &ty));
            candidates.extend(numbered.map(|((of, _), number)| (number, of.clone())));
            if !candidates.is_empty() {
                break;
            }
        }
        if candidates.is_empty() {
            return false;
        }
        let mut value = pointer;
        self.node(&mut value, fresh);
        value.ty = NUMBER.to_string();
        node.inner[1..].iter_mut().for_each(|arg| self.node(arg, fresh));
        let id = fresh.id();
        let zero = fresh.number(node, 0, NUMBER);
        self.declared.push(fresh.variable(node, id, NUMBER, Some(zero)));
        let mut choice: Option<Node> = None;
        for (number, of) in candidates.into_iter().rev() {
            let mut call = node.clone();
            call.inner[0] = fresh.function(node, of, &ty);
            choice = Some(match choice {
                None => call,
                Some(other) => {
                    let name = fresh.named(node, id, "function", NUMBER);
                    let (read, number) = (fresh.value(name), fresh.number(node, number, NUMBER));
                    let cond = fresh.binary(node, "==", "int", vec![read, number]);
                    fresh.conditional(cond, call, other)
                }
            });
        }
        let name = fresh.named(node, id, "function", NUMBER);
        let set = fresh.assign(name, value);
        *node = fresh.comma(set, choice.unwrap_or_default());
        true
    }
}

/// A pointer to a function without the steps to the function and back, `*f`.
fn without_steps(node: &Node) -> &Node {
    let mut node = node.strip();
    while node.cast == "FunctionToPointerDecay" || is_unary(node, "*") {
        node = node.inner[0].strip();
    }
    node
}

/// The parts of a pointer to a function, `int (*const[2])(char)`: `int `, `const[2]`, `(char)`.
fn parts(ty: &str) -> Option<(&str, &str, &str)> {
    let (result, rest) = ty.split_once('(')?;
    let inside = rest.strip_prefix('*')?;
    let mut depth = 1;
    let end = inside.find(|c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    let params = &inside[end + 1..];
    params.starts_with('(').then_some((result, &inside[..end], params))
}

/// The type of the function that a pointer, or an array of pointers, leads to.
fn pointed(ty: &str) -> Option<String> {
    parts(ty).map(|(result, _, params)| format!("{result}{params}"))
}

/// The type of what takes the place of a pointer, or of an array of pointers, by what follows the
/// star in it.
fn number_type(inside: &str) -> String {
    let (qualifier, rest) = match inside.strip_prefix("const") {
        Some(rest) => ("const ", rest),
        None => ("", inside),
    };
    let space = if rest.starts_with('*') { " " } else { "" };
    format!("{qualifier}{NUMBER}{space}{rest}")
}

/// The number of a function's parameters.
fn params(ty: &str) -> usize {
    let list = ty.split_once('(').map_or("", |(_, list)| list);
    if list == "void)" { 0 } else { 1 + list.matches(',').count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_to_functions_become_numbers() {
        for (ty, number) in [
            ("int (*)(char)", "unsigned long"),
            ("int (*const)(char)", "const unsigned long"),
            ("int (*[4])(char, int (*)(int))", "unsigned long[4]"),
            ("int (*const[2][3])(void)", "const unsigned long[2][3]"),
            ("int (**)(char)", "unsigned long *"),
        ] {
            assert_eq!(parts(ty).map(|of| number_type(of.1)).as_deref(), Some(number), "{ty}");
        }
        assert_eq!(pointed("int (*const[2])(char)").as_deref(), Some("int (char)"));
        assert_eq!(parts("int (int (*)(int))"), None);
        assert_eq!(parts("int (*)[4]"), None);
        assert_eq!((params("int (void)"), params("int (int, char)")), (0, 2));
    }
}
