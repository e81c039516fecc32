//! Pointers, taken out of the tree: to the rest of the front end there are only places.
//!
//! A pointer leads to one object from its declaration on: all that is ever assigned to it has the
//! same *base*, an address that does not change, and an offset in elements. Where the offset does
//! not change either, the pointer's value stands in its place. Else an integer takes its place: `p`
//! becomes `&base[p]`, and `*p++` `base[p++]`. Pointers that lead to several objects stay, and are
//! refused where they are used.

mod find;
mod hoist;
mod integers;
mod rewrite;
mod shape;

use crate::assigned::assigned_decls;
use crate::ast::Node;
use crate::storage;

pub use rewrite::is_null;
pub use shape::unqualified;

/// Puts what pointers point to in the place of the pointers.
pub fn resolve(root: &mut Node) {
    let mut fresh = Fresh { next: 1 << 62 };
    let changing = storage::changing(root);
    let functions = |node: &&mut Node| node.kind == "FunctionDecl" && node.has("CompoundStmt");
    for function in root.inner.iter_mut().filter(functions) {
        integers::as_pointers(function, &mut fresh);
        let mut changed = changing.clone();
        assigned_decls(function, &mut changed);
        hoist::indices(function, &changed, &mut fresh);
        let known = find::pointers(function, &changed, &mut fresh);
        rewrite::function(function, &known, &mut fresh);
    }
}

/// Numbers for nodes that clang did not make.
pub struct Fresh {
    next: u64,
}

impl Fresh {
    pub fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
