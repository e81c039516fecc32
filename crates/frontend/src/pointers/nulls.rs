//! Parameters that a function compares with a null pointer, or gives away: only to those does it
//! matter whether they are null, since reading there is undefined.

use std::collections::{HashMap, HashSet};

use super::rewrite::{conditions, is_null};
use super::shape::{is_pointer, is_unary, unqualified, variable_read};
use crate::ast::Node;

/// Functions with the numbers of such parameters.
#[derive(Default)]
pub struct Nulls {
    tested: HashMap<String, HashSet<usize>>,
}

impl Nulls {
    /// Parameters of a file's functions.
    pub fn of(root: &Node) -> Nulls {
        let is_defined = |node: &&Node| node.kind == "FunctionDecl" && node.has("CompoundStmt");
        let functions: Vec<&Node> = root.inner.iter().filter(is_defined).collect();
        let mut nulls = Nulls::default();
        for function in &functions {
            nulls.tested.insert(function.name.clone(), HashSet::new());
        }
        // What a function hands on counts as well.
        loop {
            let mut is_more = false;
            for function in &functions {
                is_more |= nulls.add(function);
            }
            if !is_more {
                return nulls;
            }
        }
    }

    /// True if a function of this file asks whether a parameter is null.
    pub fn is_tested(&self, function: &str, param: usize) -> bool {
        self.tested.get(function).is_some_and(|params| params.contains(&param))
    }

    /// True if a function asks so of any parameter.
    pub fn asks(&self, function: &str) -> bool {
        self.tested.get(function).is_some_and(|params| !params.is_empty())
    }

    fn add(&mut self, function: &Node) -> bool {
        let is_param = |node: &&Node| node.kind == "ParmVarDecl";
        let params: Vec<&Node> = function.inner.iter().filter(is_param).collect();
        let number = |node: &Node| {
            let id = variable_read(unqualified(node))?;
            params.iter().position(|param| param.id == id && is_pointer(&param.ty))
        };
        let mut found = Vec::new();
        function.walk(&mut |node| {
            found.extend(conditions(node).iter().filter_map(|at| number(&node.inner[*at])));
            match (node.kind.as_str(), &node.inner[..]) {
                ("UnaryOperator", [inner]) if is_unary(node, "!") => found.extend(number(inner)),
                ("BinaryOperator", [left, right]) => match node.opcode.as_str() {
                    "==" | "!=" if is_null(left) || is_null(right) => {
                        found.extend(number(left).or_else(|| number(right)));
                    }
                    "=" => found.extend(number(right)),
                    _ => {}
                },
                ("ConditionalOperator", [_, then, other]) => {
                    found.extend(number(then));
                    found.extend(number(other));
                }
                ("VarDecl" | "ReturnStmt", inner) => found.extend(inner.iter().filter_map(number)),
                ("ImplicitCastExpr" | "CStyleCastExpr", [inner])
                    if node.cast == "PointerToBoolean" =>
                {
                    found.extend(number(inner));
                }
                ("CallExpr", [_, args @ ..]) => {
                    let Some(callee) = node.callee() else { return };
                    let handed = args.iter().enumerate();
                    let tested = handed.filter(|(at, _)| self.is_tested(&callee.name, *at));
                    found.extend(tested.filter_map(|(_, arg)| number(arg)));
                }
                _ => {}
            }
        });
        let tested = self.tested.entry(function.name.clone()).or_default();
        let before = tested.len();
        tested.extend(found);
        tested.len() > before
    }
}
