//! Values of expressions, as terms.

use crate::graph::{Expr, Graph};
use crate::term::{Term, Terms};

/// An expression's value; slots that are unknown get one.
pub(crate) fn evaluate(
    terms: &mut Terms,
    graph: &Graph,
    slots: &mut [Option<Term>],
    expr: &Expr,
) -> Term {
    match expr {
        Expr::Const(bits, value) => terms.constant(*bits, *value),
        Expr::Slot(slot) => {
            let bits = graph.slots[slot.0 as usize];
            match slots[slot.0 as usize] {
                Some(value) => value,
                None => {
                    let value = terms.fresh(bits);
                    slots[slot.0 as usize] = Some(value);
                    value
                }
            }
        }
        Expr::Size(packet) => terms.packet_size(*packet),
        Expr::Fresh(bits) => terms.fresh(*bits),
        Expr::Base(index) => {
            let unchecked = graph.unchecked.as_ref();
            match unchecked.and_then(|unchecked| unchecked.bases.get(*index as usize)) {
                Some(base) => terms.base(*index, (base.low, base.high), base.aligned),
                None => terms.fresh(32),
            }
        }
        Expr::Binary(op, a, b) => {
            let (a, b) = (evaluate(terms, graph, slots, a), evaluate(terms, graph, slots, b));
            terms.binary(*op, a, b)
        }
        Expr::Sub(a, b) => {
            let (a, b) = (evaluate(terms, graph, slots, a), evaluate(terms, graph, slots, b));
            terms.sub(a, b)
        }
        Expr::Not(a) => {
            let a = evaluate(terms, graph, slots, a);
            terms.not(a)
        }
        Expr::Zext(a, bits) => {
            let a = evaluate(terms, graph, slots, a);
            terms.zext(a, *bits)
        }
        Expr::Sext(a, bits) => {
            let a = evaluate(terms, graph, slots, a);
            terms.sext(a, *bits)
        }
        Expr::Extract(a, low, bits) => {
            let a = evaluate(terms, graph, slots, a);
            terms.extract(a, *low, *bits)
        }
        Expr::Concat(a, b) => {
            let (a, b) = (evaluate(terms, graph, slots, a), evaluate(terms, graph, slots, b));
            terms.concat(a, b)
        }
        Expr::Ite(c, a, b) => {
            let c = evaluate(terms, graph, slots, c);
            let (a, b) = (evaluate(terms, graph, slots, a), evaluate(terms, graph, slots, b));
            terms.ite(c, a, b)
        }
    }
}
