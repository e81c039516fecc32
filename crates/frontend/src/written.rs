//! Members that are written before they are read (`NF_WRITE_FIRST`).
//!
//! Locals start at zero, so reading a member that nobody has set is no fault of the machine, but
//! often one of the program. For members that are annotated, the way from a local's declaration to
//! every read is looked at: through `if`s, loops, calls and queues. A value of an annotated struct
//! has a set of *leaves* (members of members, arrays as a whole) that some way left unwritten; what
//! meets has the union. `zero` misses all, `set` takes away, `get` asks. An element of an array is
//! not the array: a write of one leaves it missing. Functions are walked for each set of missing
//! leaves they are called with; handlers of queues until the sets that are enqueued grow no more,
//! which they can only do leaf by leaf.

use std::collections::{BTreeSet, HashMap, HashSet};

use nicforge_ir::{
    BlockId, Body, Diagnostic, Direction, EventId, FuncId, Inst, Op, Program, Proj, Span, StructId,
    Type, ValueId,
};

use crate::diagnostics::codes;
use crate::unit::Unit;

/// Leaves that some way left unwritten, by number.
type Missing = BTreeSet<u32>;

/// A part of a struct that is written as a whole.
struct Leaf {
    /// Numbers of members, outermost first.
    path: Vec<u32>,
    guarded: bool,
}

struct Checker<'p> {
    program: &'p Program,
    leaves: HashMap<StructId, Vec<Leaf>>,
    /// What a call with such arguments gives.
    calls: HashMap<(FuncId, Vec<Missing>), Vec<Missing>>,
    /// What the events of queues come with.
    events: HashMap<EventId, Vec<Missing>>,
    reported: HashSet<Span>,
    found: Vec<Diagnostic>,
}

/// One walk over a body.
struct Walk<'p> {
    body: &'p Body,
    name: &'p str,
    /// Values without an entry miss nothing.
    values: HashMap<ValueId, Missing>,
    /// For each loop around: what its results, and its parameters on another trip, miss.
    breaks: Vec<Vec<Missing>>,
    trips: Vec<Vec<Missing>>,
    returned: Vec<Missing>,
}

fn join(into: &mut Vec<Missing>, more: &[Missing]) {
    into.resize(into.len().max(more.len()), Missing::new());
    into.iter_mut().zip(more).for_each(|(into, more)| into.extend(more));
}

impl Walk<'_> {
    fn of(&self, value: ValueId) -> Missing {
        self.values.get(&value).cloned().unwrap_or_default()
    }

    fn all(&self, values: &[ValueId]) -> Vec<Missing> {
        values.iter().map(|value| self.of(*value)).collect()
    }

    fn set(&mut self, values: &[ValueId], missing: &[Missing]) {
        for (value, missing) in values.iter().zip(missing) {
            self.values.insert(*value, missing.clone());
        }
    }
}

impl<'p> Checker<'p> {
    fn leaves_of(&self, ty: Type) -> &[Leaf] {
        match ty {
            Type::Struct(id) => self.leaves.get(&id).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// The members before the first index of a path, and whether there is one.
    fn members(path: &[Proj]) -> (Vec<u32>, bool) {
        let fields = path.iter().map_while(|step| match step {
            Proj::Field(at) => Some(*at),
            Proj::Index(_) => None,
        });
        let fields: Vec<u32> = fields.collect();
        let whole = fields.len() == path.len();
        (fields, whole)
    }

    /// Numbers of the leaves that a part consists of, or that it is inside of.
    fn under<'a>(leaves: &'a [Leaf], part: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let inside = move |leaf: &Leaf| leaf.path.starts_with(part) || part.starts_with(&leaf.path);
        (0..).zip(leaves).filter(move |(_, leaf)| inside(leaf)).map(|(at, _)| at)
    }

    fn report(&mut self, walk: &Walk, span: Span, ty: Type, leaf: u32) {
        let Type::Struct(id) = ty else { return };
        if !self.reported.insert(span) {
            return;
        }
        let mut names = Vec::new();
        let mut inside = ty;
        for at in &self.leaves[&id][leaf as usize].path {
            let Type::Struct(id) = inside else { break };
            let field = &self.program.structs[id].fields[*at as usize];
            names.push(field.name.as_str());
            inside = field.ty;
        }
        let (member, of) = (names.join("."), &self.program.structs[id].name);
        self.found.push(
            Diagnostic::error(
                codes::NOT_WRITTEN.id,
                span,
                format!(
                    "`{member}` of `struct {of}` is read, and on some way nobody has written it"
                ),
            )
            .label("read here")
            .note(format!("in `{}`", walk.name))
            .help("write it on every way that leads here, or give it a value at first"),
        );
    }

    fn block(&mut self, walk: &mut Walk<'p>, block: BlockId) -> Option<Vec<Missing>> {
        for inst in &walk.body.blocks[block].insts {
            let Inst { op, results, span } = &walk.body.insts[*inst];
            match op {
                Op::Yield(values) => return Some(walk.all(values)),
                Op::Return(values) => {
                    let values = walk.all(values);
                    join(&mut walk.returned, &values);
                    return None;
                }
                Op::Break { depth, values } => {
                    let level = walk.breaks.len() - 1 - *depth as usize;
                    let values = walk.all(values);
                    join(&mut walk.breaks[level], &values);
                    return None;
                }
                Op::Continue { depth, values } => {
                    let level = walk.trips.len() - 1 - *depth as usize;
                    let values = walk.all(values);
                    join(&mut walk.trips[level], &values);
                    return None;
                }
                Op::If { then, other, .. } => {
                    let (then, other) = (self.block(walk, *then), self.block(walk, *other));
                    let mut met = then.clone().or(other.clone())?;
                    join(&mut met, &other.unwrap_or_default());
                    walk.set(results, &met);
                }
                Op::Loop { init, body, .. } => self.trips(walk, init, *body, results),
                Op::Call { func, args } => {
                    let given = self.call(*func, walk.all(args));
                    walk.set(results, &given);
                }
                op => self.straight(walk, op, results, *span),
            }
        }
        None
    }

    fn trips(&mut self, walk: &mut Walk<'p>, init: &[ValueId], body: BlockId, results: &[ValueId]) {
        let mut carried = walk.all(init);
        loop {
            walk.set(&walk.body.blocks[body].params, &carried);
            walk.breaks.push(Vec::new());
            walk.trips.push(carried.clone());
            self.block(walk, body);
            let after = walk.trips.pop().unwrap_or_default();
            let broken = walk.breaks.pop().unwrap_or_default();
            if after == carried {
                join(&mut carried, &broken);
                walk.set(results, &carried);
                return;
            }
            carried = after;
        }
    }

    fn straight(&mut self, walk: &mut Walk<'p>, op: &Op, results: &[ValueId], span: Span) {
        match op {
            Op::Zero => {
                let leaves = self.leaves_of(walk.body.ty(results[0]));
                let all =
                    (0..).zip(leaves).filter(|(_, leaf)| leaf.guarded).map(|(at, _)| at).collect();
                walk.set(results, &[all]);
            }
            Op::Get { agg, path } => {
                let (missing, ty) = (walk.of(*agg), walk.body.ty(*agg));
                let (part, whole) = Self::members(path);
                let under: Vec<u32> = Self::under(self.leaves_of(ty), &part).collect();
                if whole && !self.leaves_of(walk.body.ty(results[0])).is_empty() {
                    let given = (0..).zip(&under).filter(|(_, at)| missing.contains(at));
                    let given = given.map(|(inner, _)| inner).collect();
                    walk.set(results, &[given]);
                } else if let Some(leaf) = under.iter().find(|at| missing.contains(at)) {
                    self.report(walk, span, ty, *leaf);
                }
            }
            Op::Set { agg, path, value } => {
                let (mut missing, given) = (walk.of(*agg), walk.of(*value));
                let (part, whole) = Self::members(path);
                if whole {
                    let under: Vec<u32> =
                        Self::under(self.leaves_of(walk.body.ty(*agg)), &part).collect();
                    for (inner, at) in (0..).zip(under) {
                        missing.remove(&at);
                        missing.extend(given.contains(&inner).then_some(at));
                    }
                }
                walk.set(results, &[missing]);
            }
            Op::Select { then, other, .. } => {
                let both = walk.of(*then).union(&walk.of(*other)).copied().collect();
                walk.set(results, &[both]);
            }
            Op::Generate { event, args }
                if self.program.events[*event].direction == Direction::Internal =>
            {
                join(self.events.entry(*event).or_default(), &walk.all(args));
            }
            op => {
                for value in op.operands() {
                    if let Some(leaf) = walk.of(value).first() {
                        // Of several arguments, the one that it is.
                        let got = walk.body.def_inst(value).map(|inst| &walk.body.insts[inst]);
                        let got = got.filter(|inst| matches!(inst.op, Op::Get { .. }));
                        let at = got.map_or(span, |inst| inst.span);
                        self.report(walk, at, walk.body.ty(value), *leaf);
                    }
                }
            }
        }
    }

    fn call(&mut self, func: FuncId, args: Vec<Missing>) -> Vec<Missing> {
        if let Some(known) = self.calls.get(&(func, args.clone())) {
            return known.clone();
        }
        let def = &self.program.funcs[func];
        let given = self.body(&def.body, &def.name, &args);
        self.calls.insert((func, args), given.clone());
        given
    }

    fn body(&mut self, body: &'p Body, name: &'p str, args: &[Missing]) -> Vec<Missing> {
        let mut walk = Walk {
            body,
            name,
            values: HashMap::new(),
            breaks: Vec::new(),
            trips: Vec::new(),
            returned: Vec::new(),
        };
        walk.set(&body.blocks[body.entry()].params, args);
        self.block(&mut walk, body.entry());
        walk.returned
    }
}

/// The leaves of all structs, those below annotated members guarded.
fn leaves(program: &Program, first: &[(String, String)]) -> HashMap<StructId, Vec<Leaf>> {
    let mut all = HashMap::new();
    for (id, _) in &program.structs {
        let mut found = Vec::new();
        collect(program, first, id, &mut Vec::new(), false, &mut found);
        if found.iter().any(|leaf| leaf.guarded) {
            all.insert(id, found);
        }
    }
    all
}

fn collect(
    program: &Program,
    first: &[(String, String)],
    of: StructId,
    path: &mut Vec<u32>,
    guarded: bool,
    found: &mut Vec<Leaf>,
) {
    let def = &program.structs[of];
    for (at, field) in (0..).zip(&def.fields) {
        let guarded =
            guarded || first.iter().any(|(s, member)| *s == def.name && *member == field.name);
        path.push(at);
        match field.ty {
            Type::Struct(inner) => collect(program, first, inner, path, guarded, found),
            _ => found.push(Leaf { path: path.clone(), guarded }),
        }
        path.pop();
    }
}

impl Unit<'_> {
    /// Reports reads of members in `write_first` that some way has not written.
    pub fn check_written_first(&mut self) {
        let leaves = leaves(&self.prog, &self.write_first);
        if leaves.is_empty() {
            return;
        }
        let mut checker = Checker {
            program: &self.prog,
            leaves,
            calls: HashMap::new(),
            events: HashMap::new(),
            reported: HashSet::new(),
            found: Vec::new(),
        };
        loop {
            let before = checker.events.clone();
            for handler in self.prog.handlers.values() {
                let given = checker.events.get(&handler.event).cloned().unwrap_or_default();
                checker.body(&handler.body, &handler.name, &given);
            }
            if checker.events == before {
                break;
            }
        }
        let found = checker.found;
        self.diagnostics.extend(found);
    }
}
