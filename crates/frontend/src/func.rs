//! Lowering of one function or handler: variables and structured SSA construction.
//!
//! The *environment* maps each variable to its current value. Straight-line code just replaces
//! values. At an `if` both arms start from a copy of the environment; the variables whose values
//! then differ become results of the `if`, and each arm yields its own. A loop does not know
//! beforehand what its body changes, so every variable that the loop's source assigns is carried:
//! parameter of the region, operand of `continue` and `break`, result of the loop. An arm that ends
//! in `return`, `break` or `continue` has its terminator and takes no part in the merge; code
//! behind a point that nothing reaches is dropped.

use std::collections::{HashMap, HashSet};

use nicforge_ir::{BlockId, BodyBuilder, Diagnostic, Op, Program, Span, Type, ValueId};

use crate::assigned::assigned_decls;
use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes::{self, Code};
use crate::intervals::{Counters, Fact, Kept};
use crate::parts::Returned;
use crate::place::Memory;
use crate::unit::{Failed, Global, Lowered, Unit};

/// Deepest nesting of regions in one function; functions nest in each other up to
/// [`nicforge_ir::text::MAX_NESTING`].
const MAX_DEPTH: usize = 200;

/// A variable of the function.
pub struct Var {
    pub name: String,
    pub ty: Type,
    pub kind: VarKind,
}

/// Kinds of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    Local,
    Packet,
    /// The target of a pointer parameter.
    Target {
        read_only: bool,
    },
}

/// Index into [`FnLower::vars`].
pub type VarIndex = usize;

/// Something `break` or `continue` may leave; one αIR loop each.
pub struct Control<'a> {
    pub carried: Vec<VarIndex>,
    pub kind: ControlKind<'a>,
    /// Something leaves it.
    pub left: bool,
}

/// Ways in which `continue` acts besides going round.
#[derive(Clone, Copy)]
pub enum ControlKind<'a> {
    /// A C loop: `step` runs first; a `do` loop then tests `condition`.
    Loop { step: Option<&'a Node>, condition: Option<&'a Node> },
    /// A `switch` with fall-through: one trip, left by `break`.
    Switch,
    /// The statements in front of a labelled one: one trip, left by `goto`.
    Label(&'a Node),
}

/// A function being lowered.
pub struct FnLower<'u, 'a, 'b> {
    pub unit: &'u mut Unit<'a>,
    pub b: BodyBuilder<'b>,
    pub vars: Vec<Var>,
    pub var_of: HashMap<u64, VarIndex>,
    pub env: Vec<ValueId>,
    /// Regions around the place being lowered.
    pub depth: usize,
    /// True if a statement failed; its error is reported.
    pub failed: bool,
    /// True if control gets to the place being lowered.
    pub reachable: bool,
    pub controls: Vec<Control<'a>>,
    /// Conditions that hold here.
    pub facts: Vec<Fact>,
    /// Ranges of loops' induction variables, by the region parameter, and of what calls give.
    pub counters: Counters,
    /// Members that calls left as they were.
    pub kept: Kept,
    /// True if more is known of the function's arguments than their types say.
    pub by_call: bool,
    /// Type of the `return` value, if there is one.
    pub result: Option<Type>,
    pub buffers: crate::alkali::buffers::Buffers<'a>,
    /// The elements that pointer parameters lead to, where it is not all of the target, by
    /// declaration.
    pub firsts: HashMap<u64, ValueId>,
    /// Targets of pointer parameters that are more than these say, or have several names.
    pub views: HashSet<VarIndex>,
    /// Memory of pointer parameters that lead to constants, or into a variable of several.
    pub leads_to: HashMap<u64, Memory>,
    /// Pointer parameters whose targets are returned behind the result.
    pub outputs: Vec<VarIndex>,
    /// Values that those targets begin with.
    pub entered: Vec<ValueId>,
    /// Knowledge of all that is returned, at any of the places so far; empty before the first.
    pub returned: Vec<Returned>,
}

impl<'a> FnLower<'_, 'a, '_> {
    pub fn refuse(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        help: &str,
    ) -> Failed {
        self.unit.refuse(code, span, message, help)
    }

    pub fn report(&mut self, diagnostic: Diagnostic) -> Failed {
        self.unit.report(diagnostic)
    }

    pub fn ctype(&mut self, node: &Node) -> CType {
        self.unit.ctype(&node.ty)
    }

    /// The αIR type of an expression's value.
    pub fn type_of(&mut self, node: &Node) -> Lowered<Type> {
        self.unit.value_type(&node.ty, node.span)
    }

    /// True if an expression uses a variable whose declaration was refused: then there is nothing
    /// new to say.
    pub fn is_broken(&self, node: &Node) -> bool {
        if !self.unit.globals.values().any(|global| matches!(global, Global::Broken)) {
            return false;
        }
        let mut broken = false;
        node.walk(&mut |n| {
            let global = n.referenced.as_ref().and_then(|r| self.unit.globals.get(&r.id));
            broken |= matches!(global, Some(Global::Broken));
        });
        broken
    }

    /// Appends an op with one result at the current span.
    pub fn op(&mut self, op: Op, ty: Type) -> ValueId {
        self.b.push1(op, ty)
    }

    /// Runs `f` with new instructions placed at `span`.
    pub fn at<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.b.span, span);
        let result = f(self);
        self.b.span = before;
        result
    }

    /// The zero value of a type.
    pub fn zero(&mut self, ty: Type) -> ValueId {
        if ty.is_int() { self.b.int(0, ty) } else { self.op(Op::Zero, ty) }
    }

    /// Adds a variable with its first value.
    pub fn declare(
        &mut self,
        decl: u64,
        name: &str,
        ty: Type,
        kind: VarKind,
        value: ValueId,
    ) -> VarIndex {
        let index = self.env.len();
        self.vars.push(Var { name: name.to_string(), ty, kind });
        self.env.push(value);
        self.var_of.insert(decl, index);
        if !name.is_empty() {
            self.b.name(value, name);
        }
        index
    }

    /// Goes back to an environment: variables declared since are out of scope.
    fn restore(&mut self, env: Vec<ValueId>) {
        self.env = env;
        let count = self.env.len();
        self.vars.truncate(count);
        self.var_of.retain(|_, var| *var < count);
    }

    /// Replaces a variable's value.
    pub fn assign(&mut self, var: VarIndex, value: ValueId) {
        self.env[var] = value;
        self.b.name(value, &self.vars[var].name);
    }

    /// Ends the current region; what follows is not reached.
    pub fn terminate(&mut self, op: Op) {
        self.b.push0(op);
        self.reachable = false;
    }

    /// Returns from the function with `value` and the targets of pointer parameters.
    pub fn emit_return(&mut self, value: Option<ValueId>) {
        let values: Vec<ValueId> =
            value.into_iter().chain(self.outputs.iter().map(|var| self.env[*var])).collect();
        self.note_returned(&values);
        self.terminate(Op::Return(values));
    }

    /// Gives the current region a terminator although nothing reaches its end.
    fn seal_dead_end(&mut self) {
        let types: Vec<Type> =
            self.result.into_iter().chain(self.outputs.iter().map(|v| self.vars[*v].ty)).collect();
        let values = types.into_iter().map(|ty| self.zero(ty)).collect();
        self.terminate(Op::Return(values));
    }

    /// An `if` whose arms give `extra.len()` values besides the variables they change. Returns
    /// those values; they are meaningless if no arm reaches its end.
    pub fn branch(
        &mut self,
        cond: ValueId,
        likely: Option<f32>,
        extra: &[Type],
        then: impl FnOnce(&mut Self) -> Lowered<Vec<ValueId>>,
        other: impl FnOnce(&mut Self) -> Lowered<Vec<ValueId>>,
    ) -> Lowered<Vec<ValueId>> {
        let outer = self.b.current();
        let before = self.env.clone();
        let way = self.buffers.way.clone();
        let then_arm = self.arm(extra, (cond, true), then);
        self.restore(before.clone());
        let then_way = std::mem::replace(&mut self.buffers.way, way.clone());
        let other_arm = self.arm(extra, (cond, false), other);
        let other_way = std::mem::replace(&mut self.buffers.way, way);
        for (arm, way) in [(&then_arm, then_way), (&other_arm, other_way)] {
            if arm.end.is_some() {
                self.buffers.way = std::mem::take(&mut self.buffers.way).or(way);
            }
        }
        let count = before.len();
        let changed: Vec<VarIndex> = match (&then_arm.end, &other_arm.end) {
            (Some((a, _)), Some((b, _))) => (0..count).filter(|v| a[*v] != b[*v]).collect(),
            (Some((a, _)), None) | (None, Some((a, _))) => {
                (0..count).filter(|v| a[*v] != before[*v]).collect()
            }
            (None, None) => Vec::new(),
        };
        for arm in [&then_arm, &other_arm] {
            if let Some((env, values)) = &arm.end {
                self.b.switch_to(arm.block);
                let yielded =
                    changed.iter().map(|v| env[*v]).chain(values.iter().copied()).collect();
                self.b.push0(Op::Yield(yielded));
            }
        }
        self.b.switch_to(outer);
        self.reachable = then_arm.end.is_some() || other_arm.end.is_some();
        let types: Vec<Type> = changed.iter().map(|v| self.vars[*v].ty).collect();
        let types = if self.reachable { [&types, extra].concat() } else { Vec::new() };
        let op = Op::If { cond, then: then_arm.block, other: other_arm.block, likely };
        let inst = self.b.push(op, &types);
        self.restore(before);
        let results = self.b.body.insts[inst].results.clone();
        for (var, value) in changed.iter().zip(&results) {
            self.assign(*var, *value);
        }
        if let (Some((a, _)), Some((b, _))) = (&then_arm.end, &other_arm.end) {
            // Both arms set it to one value, which is there without them.
            for var in 0..count {
                if a[var] == b[var] {
                    self.env[var] = a[var];
                }
            }
        }
        match (&then_arm.end, &other_arm.end) {
            (None, None) => self.seal_dead_end(),
            // What follows is reached through the other arm only.
            (None, Some(_)) => self.facts.push((cond, false)),
            (Some(_), None) => self.facts.push((cond, true)),
            (Some(_), Some(_)) => {}
        }
        if then_arm.failed || other_arm.failed {
            return Err(Failed);
        }
        Ok(results[changed.len().min(results.len())..].to_vec())
    }

    fn arm(
        &mut self,
        extra: &[Type],
        fact: Fact,
        f: impl FnOnce(&mut Self) -> Lowered<Vec<ValueId>>,
    ) -> Arm {
        let known = self.facts.len();
        self.facts.push(fact);
        let block = self.b.new_block();
        self.b.switch_to(block);
        self.reachable = true;
        self.depth += 1;
        let count = self.env.len();
        let result = if self.depth > MAX_DEPTH { Err(self.too_deep()) } else { f(self) };
        self.depth -= 1;
        self.facts.truncate(known);
        let failed = result.is_err();
        let mut env = self.env.clone();
        env.truncate(count);
        self.restore(env.clone());
        let end = self.reachable.then(|| {
            let values =
                result.unwrap_or_else(|Failed| extra.iter().map(|ty| self.zero(*ty)).collect());
            (env, values)
        });
        Arm { block, end, failed }
    }

    fn too_deep(&mut self) -> Failed {
        self.failed = true;
        let message = format!("control flow is nested more than {MAX_DEPTH} levels deep here");
        let help =
            "use a `switch`, a table lookup, or early returns instead of a long chain of else-if";
        self.refuse(codes::NESTING, self.b.span, message, help)
    }

    /// A loop around `body`, which carries `carried`.
    pub fn trips(
        &mut self,
        max_trips: u32,
        carried: Vec<VarIndex>,
        kind: ControlKind<'a>,
        body: impl FnOnce(&mut Self) -> Lowered<()>,
    ) -> Lowered<()> {
        let outer = self.b.current();
        let before = self.env.clone();
        let block = self.b.new_block();
        for &var in &carried {
            let param = self.b.param(block, self.vars[var].ty, Some(&self.vars[var].name));
            self.env[var] = param;
        }
        self.b.switch_to(block);
        self.controls.push(Control { carried: carried.clone(), kind, left: false });
        let known = self.facts.len();
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { Err(self.too_deep()) } else { body(self) };
        self.depth -= 1;
        self.facts.truncate(known);
        if self.reachable {
            let values = self.carried_values(self.controls.len() - 1);
            self.b.push0(Op::Continue { depth: 0, values });
        }
        // Only what a `goto` leads to may be out of reach: others end by their trips, too.
        let left = self.controls.pop().is_some_and(|control| control.left);
        let comes_out = left || !matches!(kind, ControlKind::Label(_));
        self.b.switch_to(outer);
        let init = carried.iter().map(|v| before[*v]).collect();
        let types: Vec<Type> = carried.iter().map(|v| self.vars[*v].ty).collect();
        let inst = self.b.push(Op::Loop { init, max_trips, body: block }, &types);
        self.restore(before);
        let results = self.b.body.insts[inst].results.clone();
        for (var, value) in carried.into_iter().zip(results) {
            self.assign(var, value);
        }
        self.reachable = comes_out;
        if !comes_out {
            self.seal_dead_end();
        }
        result
    }

    /// Current values of what control number `index` carries.
    pub fn carried_values(&self, index: usize) -> Vec<ValueId> {
        self.controls[index].carried.iter().map(|v| self.env[*v]).collect()
    }

    /// Levels between the innermost loop and control number `index`.
    pub fn depth_of(&self, index: usize) -> u32 {
        (self.controls.len() - 1 - index) as u32
    }

    /// Variables in scope that the source below `nodes` may change.
    pub fn assigned_in(&self, nodes: &[&Node]) -> Vec<VarIndex> {
        let mut decls = HashSet::new();
        nodes.iter().for_each(|node| assigned_decls(node, &mut decls));
        let mut vars: Vec<VarIndex> =
            decls.iter().filter_map(|decl| self.var_of.get(decl).copied()).collect();
        vars.retain(|v| self.vars[*v].kind != VarKind::Packet);
        vars.sort_unstable();
        vars.dedup();
        vars
    }
}

/// One arm of an `if` after lowering.
struct Arm {
    block: BlockId,
    /// Environment and extra values where its end is reached.
    end: Option<(Vec<ValueId>, Vec<ValueId>)>,
    failed: bool,
}

/// True if `ty` is a struct of this name; nicforge.h's own types are known by name.
pub fn is_struct_named(prog: &Program, ty: Type, name: &str) -> bool {
    matches!(ty, Type::Struct(id) if prog.structs[id].name == name)
}
