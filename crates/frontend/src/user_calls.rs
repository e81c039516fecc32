//! Calls of the program's own functions.
//!
//! A pointer is handed over as the value of what it leads to, and comes back as one. Where a
//! function uses the elements of what a pointer leads to, it gets the whole array and the index of
//! the first one. Two pointers into one variable are that variable once.

use std::collections::BTreeMap;

use nicforge_ir::{Diagnostic, FuncId, Op, Proj, Span, Type, ValueId};

use crate::ast::Node;
use crate::bounds::MAX_TRIPS;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarIndex};
use crate::place::{Memory, Place, Root};
use crate::signatures::{Callee, First, ParamKind, Passed, Step, Way};
use crate::unit::{Failed, Lowered};

/// Things that a call hands over, argument by argument.
#[derive(Default)]
struct Handed {
    values: Vec<ValueId>,
    /// Places that pointers lead to, whether they are only read, and the arguments.
    targets: Vec<(Place, bool, Span)>,
    /// The values at those places.
    before: Vec<ValueId>,
    passed: Vec<Passed>,
}

impl Handed {
    fn target(&mut self, value: ValueId, target: (Place, bool, Span)) {
        self.values.push(value);
        self.before.push(value);
        self.targets.push(target);
    }
}

/// An argument, evaluated.
enum Arg {
    Value(ValueId),
    Pointer { memory: Memory, span: Span },
}

impl<'a> FnLower<'_, 'a, '_> {
    /// A call of a function of the program.
    pub fn user_call(
        &mut self,
        name: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Lowered<Option<ValueId>> {
        if self.unit.queues.contains(name) {
            let message = format!("`{name}` is the handler of a queue");
            let help = format!("write nf_enqueue({name}, …): it runs later, by itself");
            return Err(self.refuse(codes::QUEUE, node.span, message, &help));
        }
        if self.unit.timers.contains(name) {
            let message = format!("`{name}` is the handler of a timer");
            let help = "move what both do to a `static` function, and call that";
            return Err(self.refuse(codes::TIMER, node.span, message, help));
        }
        if let Some(declared) = self.unit.index.declared.get(name).copied()
            && name != "__assert_fail"
            && !self.unit.index.functions.contains_key(name)
        {
            return self.extern_call(declared, node, args);
        }
        let callee = self.unit.callee(name, node.span)?;
        let count = callee.signature.params.len();
        // A callee is lowered before what is handed to it, where that makes no difference.
        let plain = vec![Passed::Plain; count];
        let by_call = callee.loops.contains(&true) || callee.memory.contains(&true);
        if !by_call {
            self.unit.function(name, &callee, plain)?;
        }
        let evaluated: Vec<Lowered<Arg>> = args
            .iter()
            .zip(&callee.signature.params)
            .map(|(arg, kind)| self.evaluated(arg, kind))
            .collect();
        let evaluated: Vec<Arg> = evaluated.into_iter().collect::<Lowered<_>>()?;
        if evaluated.len() != count {
            return Err(Failed);
        }
        let handed = self.handed(&callee, &evaluated)?;
        self.check_aliases(&handed.targets)?;
        let info = self.unit.function(name, &callee, handed.passed.clone())?;
        self.emit_call(info.id, handed, info.result.is_some(), node.span)
    }

    fn evaluated(&mut self, arg: &'a Node, kind: &ParamKind) -> Lowered<Arg> {
        let span = arg.span;
        match kind {
            ParamKind::Packet => self.packet(arg).map(Arg::Value),
            ParamKind::Value(ty) => self.expr(arg).map(|value| {
                let is_int = ty.is_int() && self.b.body.ty(value).is_int();
                Arg::Value(if is_int { self.b.cast(value, *ty) } else { value })
            }),
            ParamKind::InOut { .. } => self.memory(arg).map(|memory| Arg::Pointer { memory, span }),
        }
    }

    /// Groups of pointers into one variable: the arguments of each. One of them may write, or they
    /// lead into one array, and may be compared.
    fn pointer_groups(&self, callee: &Callee, args: &[Arg]) -> Vec<Vec<usize>> {
        let mut of_var: BTreeMap<VarIndex, Vec<(usize, &Place, bool)>> = BTreeMap::new();
        for (number, (arg, kind)) in args.iter().zip(&callee.signature.params).enumerate() {
            if let (Arg::Pointer { memory, .. }, ParamKind::InOut { read_only, .. }) = (arg, kind)
                && let Some(var) = memory.place.variable()
            {
                of_var.entry(var).or_default().push((number, &memory.place, *read_only));
            }
        }
        let clash = |pointers: &Vec<(usize, &Place, bool)>| {
            pointers.iter().enumerate().any(|(at, (number, place, read_only))| {
                pointers[..at].iter().any(|(other_number, other, other_read_only)| {
                    let elements = callee.memory[*number] && callee.memory[*other_number];
                    match *read_only && *other_read_only {
                        true => elements && self.is_one_place(place, other),
                        false => overlap(place, other),
                    }
                })
            })
        };
        let clashing = of_var.into_values().filter(clash);
        clashing.map(|pointers| pointers.iter().map(|(number, ..)| *number).collect()).collect()
    }

    /// Values and places that are handed over for arguments.
    fn handed(&mut self, callee: &Callee, args: &[Arg]) -> Lowered<Handed> {
        let mut handed = Handed::default();
        let groups = self.pointer_groups(callee, args);
        // The targets that groups have, once their first arguments are handed over.
        let mut targets = vec![None; groups.len()];
        for (number, arg) in args.iter().enumerate() {
            let group = groups.iter().position(|group| group.contains(&number));
            let passed = match (arg, &callee.signature.params[number]) {
                (Arg::Pointer { memory, span }, ParamKind::InOut { .. })
                    if let Some(group) = group =>
                {
                    let whole = match targets[group] {
                        Some(_) => None,
                        None => {
                            let place = self.common_place(&groups[group], args).ok_or(Failed)?;
                            let written = |number: &usize| {
                                let kind = &callee.signature.params[*number];
                                matches!(kind, ParamKind::InOut { read_only: false, .. })
                            };
                            let read_only = !groups[group].iter().any(written);
                            let ty = place.ty;
                            targets[group] = Some((handed.targets.len(), place.path.len()));
                            handed.target(self.read(&place), (place, read_only, *span));
                            Some((ty, read_only))
                        }
                    };
                    let (target, front) = targets[group].unwrap_or_default();
                    self.within(memory, front, target, whole, &mut handed)
                }
                (Arg::Pointer { memory, span }, ParamKind::InOut { ty, .. })
                    if memory.place.static_variable().is_some() =>
                {
                    let memory = match callee.memory[number] {
                        true => memory.clone(),
                        false => {
                            let place = self.seen_as(memory.clone(), *ty, *span)?;
                            Memory { place, first: None }
                        }
                    };
                    let Some(table) = memory.place.static_variable() else {
                        return Err(self.pointer_use(*span));
                    };
                    let way = self.way(&memory.place, 0, &mut handed);
                    let first = self.first_of(memory.first, &mut handed);
                    Passed::Static(table, way, first)
                }
                (Arg::Pointer { memory, span }, ParamKind::InOut { read_only, .. })
                    if callee.memory[number] =>
                {
                    self.hand_memory(memory, *read_only, *span, &mut handed)
                }
                (Arg::Pointer { memory, span }, ParamKind::InOut { ty, read_only }) => {
                    let place = self.seen_as(memory.clone(), *ty, *span)?;
                    let value = self.read(&place);
                    handed.target(value, (place, *read_only, *span));
                    match callee.loops[number] {
                        true => Passed::Parts(self.parts_of(value)),
                        false => Passed::Plain,
                    }
                }
                (Arg::Value(value), _) => {
                    let passed = self.known_of(*value, callee.loops[number]);
                    if !matches!(passed, Passed::Known(_)) {
                        handed.values.push(*value);
                    }
                    passed
                }
                (Arg::Pointer { .. }, _) => return Err(Failed),
            };
            handed.passed.push(passed);
        }
        Ok(handed)
    }

    /// Knowledge of an integer that may decide when loops end.
    fn known_of(&self, value: ValueId, ends_loops: bool) -> Passed {
        let ty = self.b.body.ty(value);
        match self.b.body.def_op(value) {
            _ if !ends_loops || !ty.is_int() => Passed::Plain,
            Some(Op::Int(known)) => Passed::Known(*known),
            _ => {
                let (low, high) = self.range_of_value(value);
                match high.saturating_sub(low) {
                    0..=MAX_TRIPS => Passed::Bounded((low, high)),
                    _ => Passed::Plain,
                }
            }
        }
    }

    /// The smallest place that has all that a group of pointers leads to.
    fn common_place(&self, group: &[usize], args: &[Arg]) -> Option<Place> {
        let mut places = group.iter().filter_map(|number| match &args[*number] {
            Arg::Pointer { memory, .. } => Some(memory.place.kept()),
            Arg::Value(_) => None,
        });
        let mut common = places.next()?.clone();
        for place in places {
            let steps = self.common(&common.path, &place.path);
            common.shorten(steps, &self.unit.prog);
        }
        Some(common)
    }

    /// A pointer into a target; `whole` is the target's type where it is the first one.
    fn within(
        &mut self,
        memory: &Memory,
        front: usize,
        target: usize,
        whole: Option<(Type, bool)>,
        to: &mut Handed,
    ) -> Passed {
        let way = self.way(&memory.place, front, to);
        let first = self.first_of(memory.first, to);
        Passed::Within { target, whole, way, first }
    }

    /// The way to a place behind `front` steps from its variable.
    fn way(&mut self, place: &Place, front: usize, to: &mut Handed) -> Way {
        let (over, path) = match &place.root {
            Root::Over(kept, at) => {
                let way = self.way(kept, front, to);
                (Some((Box::new(way), *at, place.root_type())), &place.path[..])
            }
            _ => (None, &place.path[front..]),
        };
        let mut step = |step: &Proj| match step {
            Proj::Field(field) => Step::Field(*field),
            Proj::Index(index) => Step::Index(self.first_of(Some(*index), to)),
        };
        Way { over, steps: path.iter().map(&mut step).collect(), ty: place.ty }
    }

    fn first_of(&mut self, first: Option<ValueId>, to: &mut Handed) -> First {
        match (first, self.known(first)) {
            (None, _) => First::Whole,
            (_, Some(index)) => First::Known(index),
            (Some(first), None) => {
                to.values.push(first);
                First::Passed
            }
        }
    }

    fn hand_memory(
        &mut self,
        memory: &Memory,
        read_only: bool,
        span: Span,
        to: &mut Handed,
    ) -> Passed {
        let Memory { place, first } = memory;
        let (ty, root) = (place.ty, &place.root);
        if let (Root::Const(array), []) = (root, &place.path[..]) {
            return Passed::Constant(*array, ty, self.first_of(*first, to));
        }
        to.target(self.read(place), (place.clone(), read_only, span));
        Passed::Memory(ty, self.first_of(*first, to))
    }

    fn emit_call(
        &mut self,
        func: FuncId,
        handed: Handed,
        has_result: bool,
        span: Span,
    ) -> Lowered<Option<ValueId>> {
        let types = self.unit.prog.funcs[func].results.clone();
        let inst = self.b.push(Op::Call { func, args: handed.values }, &types);
        let mut results = self.b.body.insts[inst].results.clone().into_iter();
        let returned = self.unit.returned.get(&func).cloned().unwrap_or_default();
        let mut returned = returned.iter();
        let value = if has_result { results.next() } else { None };
        if let Some((value, of)) = value.and_then(|value| Some((value, returned.next()?))) {
            self.note_result(value, of, None);
        }
        let targets = handed.targets.into_iter().zip(handed.before);
        let outputs = targets.filter(|((_, read_only, _), _)| !read_only);
        for (((place, ..), before), result) in outputs.zip(results) {
            if let Some(of) = returned.next() {
                self.note_result(result, of, Some(before));
            }
            self.write(&place, result, span)?;
        }
        Ok(value)
    }

    /// Refuses a call that gets one variable by two pointers of which one may write: with values
    /// instead of memory, writes by one would not be seen by the other.
    pub fn check_aliases(&mut self, targets: &[(Place, bool, Span)]) -> Lowered<()> {
        for (number, (place, read_only, span)) in targets.iter().enumerate() {
            for (earlier, earlier_read_only, earlier_span) in &targets[..number] {
                if !(*read_only && *earlier_read_only) && overlap(place, earlier) {
                    let message = "two arguments point to the same variable";
                    let diagnostic = Diagnostic::error(codes::ALIAS.id, *span, message)
                        .also(*earlier_span, "the other pointer")
                        .help("pass a copy for one of them");
                    return Err(self.report(diagnostic));
                }
            }
        }
        Ok(())
    }
}

/// True if two places may share bytes.
fn overlap(a: &Place, b: &Place) -> bool {
    let (a, b) = (a.kept(), b.kept());
    let same_root = matches!((&a.root, &b.root), (Root::Var(x), Root::Var(y)) if x == y);
    let distinct = a
        .path
        .iter()
        .zip(&b.path)
        .any(|(x, y)| matches!((x, y), (Proj::Field(x), Proj::Field(y)) if x != y));
    same_root && !distinct
}
