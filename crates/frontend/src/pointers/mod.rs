//! Pointers, taken out of the tree: to the rest of the front end there are only places.
//!
//! A pointer leads to one object from its declaration on: all that is ever assigned to it has the
//! same *base*, an address that does not change, and an offset in elements. Where the offset does
//! not change either, the pointer's value stands in its place. Else an integer takes its place: `p`
//! becomes `&base[p]`, and `*p++` `base[p++]`. A pointer that leads to several objects, or is null,
//! becomes a choice between such pointers, and the choice moves outward to what is done with it.
//! Before that, functions that change their callers' pointers become part of these, and structs
//! with pointers single variables.
//! What leads where none of this is seen stays, and is refused where it is used.

mod arrays;
mod choose;
mod elvis;
mod find;
mod functions;
mod hoist;
mod holes;
mod inline;
mod integers;
mod make;
mod members;
mod nulls;
mod returned;
mod rewrite;
mod shape;
mod single;
mod spread;
mod without;

use std::collections::{HashMap, HashSet};

use crate::assigned::assigned_decls;
use crate::ast::Node;
use crate::storage;

use make::Fresh;
use nulls::Nulls;
use returned::Returning;
pub use shape::unqualified;
use without::Without;

/// Puts what pointers point to in the place of the pointers.
pub fn resolve(root: &mut Node) {
    let mut fresh = Fresh::default();
    single::resolve(root, &mut fresh);
    functions::resolve(root, &mut fresh);
    arrays::resolve(root, &mut fresh);
    let structs = members::with_pointers(root);
    let order = callees_first(root);
    inline::calls(root, &order, &structs, &mut fresh);
    for number in order {
        members::split(&mut root.inner[number], &structs, &mut fresh);
    }
    let changing = storage::changing(root);
    let nulls = Nulls::of(root);
    let without = Without::of(root, &nulls);
    let returning = Returning::new();
    let mut resolver = Resolver { changing, nulls, without, returning, fresh, made: Vec::new() };
    for number in callees_first(root) {
        resolver.function(&mut root.inner[number]);
    }
    root.inner.extend(resolver.made);
}

/// Numbers of the functions of a file, each behind those that it calls.
fn callees_first(root: &Node) -> Vec<usize> {
    let is_defined = |node: &Node| node.kind == "FunctionDecl" && node.has("CompoundStmt");
    let defined = root.inner.iter().enumerate().filter(|(_, node)| is_defined(node));
    let numbers: HashMap<&str, usize> =
        defined.clone().map(|(number, node)| (node.name.as_str(), number)).collect();
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    let mut open: Vec<(usize, bool)> = defined.map(|(number, _)| (number, false)).collect();
    open.reverse();
    while let Some((number, is_done)) = open.pop() {
        if is_done {
            order.push(number);
        } else if seen.insert(number) {
            open.push((number, true));
            root.inner[number].walk(&mut |node| {
                let callee = node.callee().and_then(|callee| numbers.get(callee.name.as_str()));
                open.extend(callee.map(|number| (*number, false)));
            });
        }
    }
    order
}

struct Resolver {
    /// Variables of static storage duration that something changes.
    changing: HashSet<u64>,
    nulls: Nulls,
    without: Without,
    returning: Returning,
    fresh: Fresh,
    /// Copies of functions.
    made: Vec<Node>,
}

impl Resolver {
    fn function(&mut self, function: &mut Node) {
        self.copies(function, &HashSet::new());
        let fresh = &mut self.fresh;
        integers::as_pointers(function, fresh);
        elvis::resolve(function, fresh);
        returned::calls(function, &self.returning, fresh);
        let as_written = function.clone();
        if returned::mark(function, fresh) {
            self.pointers(function);
            match returned::number(function, &mut self.fresh) {
                Some(returned) => {
                    self.returning.insert(function.name.clone(), returned);
                    return;
                }
                None => *function = as_written,
            }
        }
        self.pointers(function);
    }

    fn pointers(&mut self, function: &mut Node) {
        let fresh = &mut self.fresh;
        loop {
            spread::choices(function, &self.nulls, fresh);
            let mut changed = self.changing.clone();
            assigned_decls(function, &mut changed);
            hoist::indices(function, &changed, fresh);
            let known = find::pointers(function, &changed, fresh);
            rewrite::function(function, &known, fresh);
            if !choose::one(function, fresh) {
                break;
            }
        }
        // The places of those that give pointers back are in the tree by now.
        self.copies(function, &self.returning.keys().cloned().collect());
    }

    /// Makes the copies of functions that calls with null pointers need.
    fn copies(&mut self, function: &mut Node, settled: &HashSet<String>) {
        let is_settled = |name: &str| settled.contains(name);
        for mut copy in self.without.calls(function, &is_settled, &mut self.fresh) {
            self.function(&mut copy);
            self.made.push(copy);
        }
    }
}
