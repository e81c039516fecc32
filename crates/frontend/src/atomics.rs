//! Atomic operations: GCC's `__sync_` and `__atomic_` built-ins and C11's `<stdatomic.h>`.
//!
//! Handlers run one at a time, so each is a read and a write, and their orders and fences say
//! nothing.

use nicforge_ir::{BinOp, CmpOp, Op, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::place::Place;
use crate::unit::{Failed, Lowered};

/// An atomic operation by its name without prefix and size, with its operands.
struct Atomic<'a> {
    name: String,
    place: &'a Node,
    values: Vec<&'a Node>,
    /// Values come and go by their addresses, as `__atomic_exchange` has it.
    by_address: bool,
}

impl<'a> Atomic<'a> {
    /// The operation that an expression is.
    fn of(node: &'a Node) -> Option<Atomic<'a>> {
        if node.kind == "AtomicExpr" {
            let prefixes = ["__atomic_", "__c11_atomic_"];
            let name = prefixes.iter().find_map(|prefix| node.name.strip_prefix(prefix));
            let name = name.unwrap_or(&node.name);
            let generic = matches!(name, "load" | "store" | "exchange" | "compare_exchange");
            let by_address = generic && !node.name.starts_with("__c11_");
            let name = name.strip_suffix("_n").unwrap_or(name).to_string();
            // Behind the address stand the order, a value, another value; of comparisons the other
            // order is between these.
            let second = if name.starts_with("compare_") { 4 } else { 3 };
            let values = [2, second].iter().filter_map(|at| node.inner.get(*at)).collect();
            return Some(Atomic { name, place: node.inner.first()?, values, by_address });
        }
        let name = node.callee()?.name.strip_prefix("__sync_")?;
        let size = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
        let name = match name.rsplit_once('_') {
            Some((name, rest)) if size(rest) => name,
            _ => name,
        };
        let name = name.replace("fetch_and_", "fetch_").replace("_and_fetch", "_fetch");
        let args = node.inner.get(1..)?;
        let values = args[1..].iter().collect();
        Some(Atomic { name, place: args.first()?, values, by_address: false })
    }
}

/// True for what only orders accesses.
pub fn is_fence(name: &str) -> bool {
    let fences = ["__sync_synchronize", "_thread_fence", "_signal_fence"];
    name.starts_with("__") && fences.iter().any(|fence| name.ends_with(fence))
}

impl<'a> FnLower<'_, 'a, '_> {
    /// An atomic operation, whose value may not be wanted; `None` if it is something else.
    pub fn atomic(&mut self, node: &'a Node, is_used: bool) -> Option<Lowered<Option<ValueId>>> {
        let atomic = Atomic::of(node)?;
        Some(self.emit_atomic(node, &atomic, is_used))
    }

    fn emit_atomic(
        &mut self,
        node: &'a Node,
        atomic: &Atomic<'a>,
        is_used: bool,
    ) -> Lowered<Option<ValueId>> {
        let place = self.target(atomic.place)?;
        let ty = place.ty;
        match (atomic.name.as_str(), &atomic.values[..]) {
            ("load", []) => Ok(Some(self.read(&place))),
            ("load", [to]) => {
                let to = self.target(to)?;
                let value = self.read(&place);
                self.write(&to, value, node.span).map(|()| None)
            }
            ("lock_release", []) => {
                let zero = self.zero(ty);
                self.write(&place, zero, node.span).map(|()| None)
            }
            ("store" | "init", [value]) => {
                let value = self.atomic_value(atomic, value, ty)?;
                self.write(&place, value, node.span).map(|()| None)
            }
            ("exchange", [value, to]) => {
                let value = self.atomic_value(atomic, value, ty)?;
                let to = self.target(to)?;
                let old = self.read(&place);
                self.write(&place, value, node.span)?;
                self.write(&to, old, node.span).map(|()| None)
            }
            ("exchange" | "lock_test_and_set" | "swap", [value]) => {
                let value = self.expr_as(value, ty)?;
                let old = self.read(&place);
                self.write(&place, value, node.span).map(|()| Some(old))
            }
            (name, [expected, desired]) if name.contains("compare_") => {
                self.compare_exchange(node, &place, atomic, (expected, desired)).map(Some)
            }
            (name, [value]) => {
                let (op, is_new) = match (name.strip_prefix("fetch_"), name.strip_suffix("_fetch"))
                {
                    (Some(op), _) => (op, false),
                    (_, Some(op)) => (op, true),
                    _ => return Err(self.atomic_refused(node)),
                };
                let value = self.expr_as(value, ty)?;
                let opcode = match op {
                    "add" => "+",
                    "sub" => "-",
                    "or" => "|",
                    _ => "",
                };
                if !is_used && self.commute_static(&place, opcode, value) {
                    return Ok(None);
                }
                let old = self.read(&place);
                let Some(new) = self.changed(op, old, value) else {
                    return Err(self.atomic_refused(node));
                };
                self.write(&place, new, node.span)?;
                Ok(Some(if is_new { new } else { old }))
            }
            _ => Err(self.atomic_refused(node)),
        }
    }

    fn atomic_value(&mut self, atomic: &Atomic<'a>, node: &'a Node, ty: Type) -> Lowered<ValueId> {
        if !atomic.by_address {
            return self.expr_as(node, ty);
        }
        let from = self.target(node)?;
        Ok(self.read(&from))
    }

    /// The value that an operation leaves.
    fn changed(&mut self, op: &str, old: ValueId, value: ValueId) -> Option<ValueId> {
        let ty = self.b.body.ty(old);
        let bin = match op {
            "add" => BinOp::Add,
            "sub" => BinOp::Sub,
            "and" | "nand" => BinOp::And,
            "or" => BinOp::Or,
            "xor" => BinOp::Xor,
            "min" | "max" => {
                let (a, b) = if op == "min" { (old, value) } else { (value, old) };
                let less = self.b.cmp(CmpOp::Lt, a, b);
                return Some(self.op(Op::Select { cond: less, then: old, other: value }, ty));
            }
            _ => return None,
        };
        let new = self.op(Op::Bin(bin, old, value), ty);
        Some(if op == "nand" { self.op(Op::Un(UnOp::Not, new), ty) } else { new })
    }

    /// Writes what is desired where there is what is expected. Gives whether it did, or what was
    /// there; C11's puts that where the expected value is.
    fn compare_exchange(
        &mut self,
        node: &'a Node,
        place: &Place,
        atomic: &Atomic<'a>,
        (expected, desired): (&'a Node, &'a Node),
    ) -> Lowered<ValueId> {
        let ty = place.ty;
        let of_sync = atomic.name.ends_with("compare_and_swap");
        let from = if of_sync { None } else { Some(self.target(expected)?) };
        let wanted = match &from {
            Some(from) => self.read(from),
            None => self.expr_as(expected, ty)?,
        };
        let desired = self.atomic_value(atomic, desired, ty)?;
        let old = self.read(place);
        let same = self.b.cmp(CmpOp::Eq, old, wanted);
        let new = self.op(Op::Select { cond: same, then: desired, other: old }, ty);
        self.write(place, new, node.span)?;
        if let Some(from) = from {
            // Equal to what it was, or what was there.
            self.write(&from, old, node.span)?;
        }
        let truth = self.type_of(node)?;
        Ok(if atomic.name.starts_with("val_") { old } else { self.b.cast(same, truth) })
    }

    fn atomic_refused(&mut self, node: &Node) -> Failed {
        let help = "use plain operators: handlers run one at a time";
        let message = "this atomic operation is outside the subset";
        self.refuse(codes::ATOMIC, node.span, message, help)
    }
}
