//! Statements: structured SSA back to readable C.
//!
//! The emitter walks the regions in order. Every region is printed into a buffer of its own, so
//! that a dialect can still append to the end of an arm once it has seen the other one
//! ([`Dialect::join`]).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

use nicforge_ir::{BlockId, Body, Class, ConstId, InstId, Op, Program, Proj, Span, Type, ValueId};

use super::control::LoopLabels;
use super::names::Names;
use super::runs::Run;
use super::types::CTypes;
use super::vars::Vars;

/// A dialect of C: packets, tables and events of a target.
pub trait Dialect: Sized {
    /// Facts of the dialect at a point of the program, for example where the packet's cursor is.
    type State: Clone;

    /// Prints an op that is not arithmetic or control. `last` says that nothing but the handler's
    /// end follows; the dialect may then return from the C function itself and says so by giving
    /// true.
    fn statement(e: &mut Emitter<'_, Self>, inst: InstId, last: bool) -> Result<bool, Unsupported>;

    /// `cond` turned out to be `holds` on this path.
    fn assume(e: &mut Emitter<'_, Self>, cond: ValueId, holds: bool);

    /// Another place in memory that holds an aggregate's bytes at this point, from which reading a
    /// member is as good.
    fn source(e: &Emitter<'_, Self>, agg: ValueId) -> Option<String>;

    /// Two paths meet: gives the common state and what each has to do for it at its end.
    fn join(e: &mut Emitter<'_, Self>, a: &Self::State, b: &Self::State) -> Joined<Self>;

    /// Declares a parameter of the handler that is no packet, and reads it.
    fn parameter(e: &mut Emitter<'_, Self>, param: ValueId);

    /// Control enters a run of instructions that are all executed if the first one is.
    fn straight_line(_e: &mut Emitter<'_, Self>, _insts: &[InstId]) {}

    /// Called before an instruction is printed.
    fn before(_e: &mut Emitter<'_, Self>, _inst: InstId) {}

    /// Called behind an instruction, where control goes on to the next one.
    fn after(_e: &mut Emitter<'_, Self>, _inst: InstId) {}

    /// Called before a loop; must leave a state that holds at the start of every trip and wherever
    /// the loop is left. Called where the body of a loop with these parameters starts.
    fn trip_starts(_e: &mut Emitter<'_, Self>, _params: &[ValueId]) {}

    fn enter_loop(e: &mut Emitter<'_, Self>, body: BlockId);

    /// Prints what a run of bytes needs before it, and gives how it goes at once; `None` leaves it
    /// a loop.
    fn run(_e: &mut Emitter<'_, Self>, _run: &Run) -> Option<AtOnce> {
        None
    }

    /// Called behind a loop, in the state that `enter_loop` left; `before` is the state before the
    /// loop.
    fn leave_loop(e: &mut Emitter<'_, Self>, before: &Self::State);

    /// The statement that ends the C function at the handler's end.
    fn end_of_handler(e: &mut Emitter<'_, Self>);
}

/// All trips of a run together.
pub enum AtOnce {
    /// The lines, and the condition under which they do what the loop does; `None`: always.
    Whole { condition: Option<String>, lines: Vec<String> },
    /// The lines do the first trips, whose number is in this C variable. The loop then makes `left`
    /// more at most, where that is known.
    First { done: String, left: Option<u32>, lines: Vec<String> },
}

/// A common state of two paths.
pub struct Joined<D: Dialect> {
    pub state: D::State,
    /// C lines for the end of the first and of the second path.
    pub first: Vec<String>,
    pub second: Vec<String>,
}

/// An op the target cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unsupported {
    pub message: String,
    pub help: String,
    pub span: Span,
}

/// Ways in which generated C refers to the user's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    /// `#line` directives, so that the compiler and the kernel report the user's lines.
    Directives,
    /// Comments, for reading.
    Comments,
}

/// Members of a struct that expressions need, with their types.
pub type Kept = Rc<RefCell<Vec<(String, Type)>>>;

/// Prints one body.
pub struct Emitter<'a, D: Dialect> {
    pub program: &'a Program,
    pub body: &'a Body,
    pub types: &'a CTypes<'a>,
    pub const_names: &'a HashMap<ConstId, String>,
    pub vars: Vars,
    pub names: Names,
    pub dialect: D,
    pub state: D::State,
    pub lines: LineStyle,
    /// Values of more than this many bytes are copied and cleared by functions of the runtime.
    pub far: Option<u32>,
    /// Numbers in loops are hidden from who checks the code, see `Dialect::trip_starts`.
    pub forgets: bool,
    /// Loops may end at each trip.
    pub open_loops: bool,
    /// Where expressions lie whose address is taken, if not in a temporary of C: what leads to
    /// members of a struct, and those that were needed.
    pub kept: Option<(&'static str, Kept)>,
    /// Values that some op of the body uses; passes leave unused ops behind in the arenas, which do
    /// not count.
    used: HashSet<ValueId>,
    pub(super) out: String,
    pub(crate) indent: usize,
    pub(super) last_line: Option<(u32, u32)>,
    pub(super) loops: Vec<LoopLabels>,
}

impl<'a, D: Dialect> Emitter<'a, D> {
    /// An emitter for `body`, whose variables take names from `names`.
    pub fn new(
        types: &'a CTypes<'a>,
        body: &'a Body,
        const_names: &'a HashMap<ConstId, String>,
        mut names: Names,
        dialect: D,
        state: D::State,
        lines: LineStyle,
    ) -> Self {
        let vars = Vars::new(body, &mut names);
        let mut used = HashSet::new();
        body.for_each_inst(body.entry(), &mut |inst| used.extend(body.insts[inst].op.operands()));
        Emitter {
            used,
            program: types.program,
            body,
            types,
            const_names,
            vars,
            names,
            dialect,
            state,
            lines,
            far: None,
            forgets: false,
            open_loops: false,
            kept: None,
            out: String::new(),
            indent: 1,
            last_line: None,
            loops: Vec::new(),
        }
    }

    /// Prints the whole body and gives the text.
    pub fn run(mut self) -> Result<(String, D), Unsupported> {
        for &param in &self.body.blocks[self.body.entry()].params {
            if self.body.ty(param) != Type::Packet {
                D::parameter(&mut self, param);
            }
        }
        self.block(self.body.entry(), &[], true)?;
        Ok((self.out, self.dialect))
    }

    /// Appends a line at the current indentation.
    pub fn line(&mut self, text: &str) {
        let indent = if text.ends_with(':') || text.ends_with(":;") { 0 } else { self.indent };
        let _ = writeln!(self.out, "{:1$}{text}", "", indent * 4);
    }

    /// Lines with variables that nothing else needs: the compiler may use their room again.
    pub fn in_braces(&mut self, lines: &[String]) {
        self.line("{");
        self.indent += 1;
        lines.iter().for_each(|line| self.line(line));
        self.indent -= 1;
        self.line("}");
    }

    /// `T name`, without initialiser.
    pub fn declaration(&self, class: ValueId) -> String {
        format!("{} {}", self.types.name(self.body.ty(class)), self.vars.name(class))
    }

    fn source_line(&mut self, span: Span) {
        let Some(file) = span.file else { return };
        let source = &self.program.files[file];
        let (line, _) = span.line_col(&source.text);
        let at = (file.as_u32(), line);
        if self.last_line == Some(at) {
            return;
        }
        self.last_line = Some(at);
        match self.lines {
            LineStyle::Directives => {
                let _ = writeln!(
                    self.out,
                    "#line {line} \"{}\"",
                    source.path.replace('\\', "/").replace('"', "")
                );
            }
            LineStyle::Comments => {
                let code = source.text.lines().nth(line as usize - 1).unwrap_or("").trim();
                let code = code.replace("*/", "* /").replace("/*", "/ *");
                let _ = writeln!(self.out, "{:1$}/* {line}: {code} */", "", self.indent * 4);
            }
        }
    }

    /// Prints a region. Gives whether control reaches its end. `targets` are the results of the
    /// `if` it belongs to; `tail` says that behind the region the handler ends.
    pub(super) fn block(
        &mut self,
        block: BlockId,
        targets: &[ValueId],
        tail: bool,
    ) -> Result<bool, Unsupported> {
        let insts = &self.body.blocks[block].insts;
        let mut entered = true;
        for (at, &inst) in insts.iter().enumerate() {
            let controls = |inst: &InstId| self.body.insts[*inst].op.regions().next().is_some();
            if std::mem::replace(&mut entered, controls(&inst)) {
                let rest = &insts[at..];
                let stop = rest.iter().position(controls).map_or(rest.len(), |stop| stop + 1);
                D::straight_line(self, &rest[..stop]);
            }
            let next = insts.get(at + 1).map(|i| &self.body.insts[*i].op);
            let last = match next {
                Some(Op::Return(_)) => true,
                Some(Op::Yield(values)) => tail && values.is_empty(),
                _ => false,
            };
            D::before(self, inst);
            match self.inst(inst, targets, last)? {
                Flow::Next => D::after(self, inst),
                Flow::Yields => return Ok(true),
                Flow::Leaves => return Ok(false),
            }
        }
        Ok(true)
    }

    fn inst(&mut self, inst: InstId, targets: &[ValueId], last: bool) -> Result<Flow, Unsupported> {
        let data = &self.body.insts[inst];
        if data.results.first().is_some_and(|v| self.vars.is_inline(*v)) {
            return Ok(Flow::Next);
        }
        let quiet = matches!(data.op, Op::Yield(_) | Op::Zero | Op::Int(_)) || data.op.asks_port();
        if !quiet {
            self.source_line(data.span);
        }
        let declared = self.vars.declare_at.get(&inst).cloned().unwrap_or_default();
        match &data.op {
            Op::If { cond, then, other, likely } => {
                self.declare(&declared);
                return self.if_else(inst, *cond, *then, *other, *likely, last);
            }
            Op::Loop { init, max_trips, body } => {
                self.declare(&declared);
                self.loop_(inst, init, *max_trips, *body)?;
            }
            Op::Yield(values) => {
                self.copy(targets, values);
                return Ok(Flow::Yields);
            }
            Op::Break { depth, values } => {
                let at = self.loops.len() - 1 - *depth as usize;
                let results = self.loops[at].results.clone();
                self.copy(&results, values);
                if *depth == 0 && self.loops[at].plain_break {
                    self.line("break;");
                } else {
                    self.loops[at].exit_used = true;
                    let jump = format!("goto {};", self.loops[at].exit);
                    self.line(&jump);
                }
                return Ok(Flow::Leaves);
            }
            Op::Continue { depth, values } => {
                let at = self.loops.len() - 1 - *depth as usize;
                let params = self.loops[at].params.clone();
                self.copy(&params, values);
                self.loops[at].next_used = true;
                let jump = format!("goto {};", self.loops[at].next);
                self.line(&jump);
                return Ok(Flow::Leaves);
            }
            Op::Return(_) => {
                D::end_of_handler(self);
                return Ok(Flow::Leaves);
            }
            _ => {
                if self.pure(inst, &declared) {
                    return Ok(Flow::Next);
                }
                if D::statement(self, inst, last)? {
                    return Ok(Flow::Leaves);
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Attribute of a variable's declaration.
    fn attribute(&self, class: ValueId) -> &'static str {
        if self.body.ty(class).is_aggregate() { " NF_LOCAL" } else { "" }
    }

    pub(super) fn declare(&mut self, classes: &[ValueId]) {
        for class in classes {
            let local = self.attribute(*class);
            let text = format!("{}{local};", self.declaration(*class));
            self.line(&text);
        }
    }

    /// `T name = init;` where the variable is declared here, else `name = init;`. Nothing for an
    /// unused result.
    pub fn define(&mut self, inst: InstId, value: ValueId, init: &str) {
        let class = self.vars.class(value);
        let here = self.vars.declare_at.get(&inst).is_some_and(|list| list.contains(&class));
        if !here && self.is_far(value) && !init.contains('?') {
            let (name, ty) = (self.vars.name(value).to_string(), self.body.ty(value));
            self.copy_far(&name, ty, init);
            return;
        }
        let text = if here {
            let local = self.attribute(class);
            format!("{}{local} = {init};", self.declaration(class))
        } else if init == "{0}" {
            format!("{} = ({}){{0}};", self.vars.name(value), self.types.name(self.body.ty(value)))
        } else {
            format!("{} = {init};", self.vars.name(value))
        };
        self.line(&text);
    }

    fn is_far(&self, value: ValueId) -> bool {
        let ty = self.body.ty(value);
        ty.is_aggregate() && self.far.is_some_and(|most| self.program.size_of(ty) > most)
    }

    fn copy_far(&mut self, name: &str, ty: Type, from: &str) {
        let size = self.program.size_of(ty);
        let line = match from {
            "{0}" => format!("nf_clear_far(&{name}, {size});"),
            _ => format!("nf_copy_far(&{name}, &{from}, {size});"),
        };
        self.line(&line);
    }

    /// The statement that clears the variable of an aggregate.
    pub fn zeroed(&self, value: ValueId) -> String {
        let (name, ty) = (self.vars.name(value), self.body.ty(value));
        match self.is_far(value) {
            true => format!("nf_clear_far(&{name}, {});", self.program.size_of(ty)),
            false => format!("{name} = ({}){{0}};", self.types.name(ty)),
        }
    }

    /// Declares the variable of an aggregate that is filled in later.
    pub fn declare_value(&mut self, inst: InstId, value: ValueId) {
        let class = self.vars.class(value);
        if self.vars.declare_at.get(&inst).is_some_and(|list| list.contains(&class)) {
            self.declare(&[class]);
        }
    }

    /// True if any op uses the value.
    pub fn is_used(&self, value: ValueId) -> bool {
        self.used.contains(&value)
    }

    /// Assigns several values at once, as if all sources were read before the first target is
    /// written.
    pub(super) fn copy(&mut self, targets: &[ValueId], sources: &[ValueId]) {
        let moves: Vec<(ValueId, ValueId)> = targets
            .iter()
            .copied()
            .zip(sources.iter().copied())
            .filter(|(to, from)| self.body.ty(*to) != Type::Packet && !self.vars.same(*to, *from))
            .collect();
        let clobbers = |i: usize, (to, _): &(ValueId, ValueId)| {
            moves[i + 1..]
                .iter()
                .any(|(_, from)| self.reads(*from).iter().any(|v| self.vars.same(*to, *v)))
        };
        let hazard = moves.iter().enumerate().any(|(i, m)| clobbers(i, m));
        let mut texts = Vec::new();
        for (to, from) in &moves {
            let ty = self.body.ty(*to);
            if ty.is_aggregate()
                && matches!(self.body.def_op(*from), Some(Op::Zero))
                && self.vars.is_inline(*from)
            {
                let zero = if self.is_far(*to) {
                    "{0}".to_string()
                } else {
                    format!("({}){{0}}", self.types.name(ty))
                };
                texts.push((*to, zero));
            } else if hazard {
                let tmp = self.names.fresh("next");
                let line = format!("{} {tmp} = {};", self.types.name(ty), self.text(*from));
                self.line(&line);
                texts.push((*to, tmp));
            } else {
                texts.push((*to, self.text(*from)));
            }
        }
        for (to, text) in texts {
            if self.is_far(to) {
                let (name, ty) = (self.vars.name(to).to_string(), self.body.ty(to));
                self.copy_far(&name, ty, &text);
                continue;
            }
            let line = format!("{} = {text};", self.vars.name(to));
            self.line(&line);
        }
    }

    /// The variables an expression reads.
    fn reads(&self, value: ValueId) -> Vec<ValueId> {
        match self.body.def_op(value) {
            Some(op) if self.vars.is_inline(value) => {
                op.operands().flat_map(|v| self.reads(v)).collect()
            }
            _ => vec![value],
        }
    }

    /// Pure ops that stand as statements of their own. Gives false for all other ops.
    fn pure(&mut self, inst: InstId, declared: &[ValueId]) -> bool {
        let data = &self.body.insts[inst];
        let Some(&result) = data.results.first() else { return false };
        let ty = self.body.ty(result);
        match &data.op {
            Op::Hash { seed, value } => {
                let (address, size) = self.bytes_of(*value);
                // Members of structs may be in registers too: clang leaves masks out that the
                // verifier needs, if they are not hidden from it.
                let hidden = self.forgets || self.body.ty(*value).is_int();
                let hash = if hidden { "nf_hash_int" } else { "nf_hash_bytes" };
                let text = format!("{hash}({}, {address}, {size})", self.text(*seed));
                self.define(inst, result, &text);
            }
            Op::CsumAdd { sum, value } => {
                let (address, size) = self.bytes_of(*value);
                let text = format!("nf_csum_bytes({}, {address}, {size})", self.text(*sum));
                self.define(inst, result, &text);
            }
            op if op.class() != Class::Value || !op.effects().is_pure() => return false,
            _ if ty.is_int() => {
                let text = self.expression(inst).text;
                self.define(inst, result, &text);
            }
            Op::Zero if self.filled_by_index(result) => {
                self.declare_value(inst, result);
                let line = format!("NF_CLEAR({});", self.vars.name(result));
                self.line(&line);
            }
            Op::Zero => self.define(inst, result, "{0}"),
            Op::Select { cond, then, other } => {
                let text = format!(
                    "{} ? {} : {}",
                    self.operand(*cond),
                    self.text(*then),
                    self.text(*other)
                );
                self.define(inst, result, &text);
            }
            Op::Get { agg, path } => {
                let (place, checks) = self.place(*agg, path);
                self.declare_value(inst, result);
                self.assign_part(result, &place, &checks, copy_macro(path));
            }
            Op::ConstElem { array, index } => {
                let name = self.const_names[array].clone();
                let len = self.program.consts[*array].bytes.len() as u32
                    / self.program.size_of(ty).max(1);
                self.declare_value(inst, result);
                let place = format!("{name}.items[{}]", self.index(*index, len));
                let check = format!("{} < {len}", self.operand(*index));
                self.assign_part(result, &place, &[check], "__builtin_memcpy");
            }
            Op::Set { agg, path, value } => {
                if !self.vars.same(*agg, result) {
                    let from = self.text(*agg);
                    self.define(inst, result, &from);
                } else {
                    self.declare(declared);
                }
                let name = self.vars.name(result).to_string();
                let (place, checks) = self.place_from(name, ty, path);
                let part = self.body.ty(*value);
                let store = if part.is_aggregate() {
                    let copy = copy_macro(path);
                    format!("{copy}(&{place}, &{}, sizeof({place}));", self.text(*value))
                } else {
                    format!("{place} = {};", self.text(*value))
                };
                if checks.is_empty() {
                    self.line(&store);
                } else {
                    self.line(&format!("if ({})", checks.join(" && ")));
                    self.line(&format!("    {store}"));
                }
            }
            _ => return false,
        }
        true
    }

    /// True if elements of the value's variable are set at computed indices.
    pub fn filled_by_index(&self, value: ValueId) -> bool {
        self.body.insts.values().any(|inst| match &inst.op {
            Op::Set { path, .. } => {
                let computed =
                    |step: &Proj| matches!(step, Proj::Index(i) if self.constant(*i).is_none());
                self.vars.same(inst.results[0], value) && path.iter().any(computed)
            }
            _ => false,
        })
    }

    fn assign_part(&mut self, result: ValueId, place: &str, checks: &[String], copy: &str) {
        let name = self.vars.name(result).to_string();
        let copy = format!("{copy}(&{name}, &{place}, sizeof({name}));");
        if checks.is_empty() {
            self.line(&copy);
        } else {
            self.line(&format!("__builtin_memset(&{name}, 0, sizeof({name}));"));
            self.line(&format!("if ({})", checks.join(" && ")));
            self.line(&format!("    {copy}"));
        }
    }

    /// The address of a value's bytes, and their number; expressions get a place in memory.
    pub fn bytes_of(&self, value: ValueId) -> (String, u32) {
        let ty = self.body.ty(value);
        (self.address(value), self.program.size_of(ty))
    }

    /// The address of a value: of its variable, or of a temporary.
    pub fn address(&self, value: ValueId) -> String {
        if !self.vars.is_inline(value) {
            return format!("&{}", self.vars.name(value));
        }
        let ty = self.body.ty(value);
        let Some((prefix, kept)) = &self.kept else {
            return format!("NF_ADDR({}, {})", self.types.name(ty), self.text(value));
        };
        let name = format!("nf_at{}", kept.borrow().len());
        let text = format!("NF_KEEP({prefix}{name}, {})", self.text(value));
        kept.borrow_mut().push((name, ty));
        text
    }

    pub(super) fn capture<T>(
        &mut self,
        print: impl FnOnce(&mut Self) -> Result<T, Unsupported>,
    ) -> Result<(T, String), Unsupported> {
        let outer = std::mem::take(&mut self.out);
        self.indent += 1;
        let line = self.last_line;
        let result = print(self);
        self.indent -= 1;
        self.last_line = line;
        let inner = std::mem::replace(&mut self.out, outer);
        Ok((result?, inner))
    }
}

pub(super) enum Flow {
    Next,
    /// The region's end was reached.
    Yields,
    /// Control never comes here.
    Leaves,
}

/// How a part is copied: in words, unless its place is computed, where words may be misaligned.
fn copy_macro(path: &[Proj]) -> &'static str {
    let computed = path.iter().any(|step| matches!(step, Proj::Index(_)));
    if computed { "__builtin_memcpy" } else { "NF_MOVE" }
}
