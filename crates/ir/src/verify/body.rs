//! Round two: regions, terminators and scopes. The types of single ops are in `ops`.

use cranelift_entity::{EntityRef, SecondaryMap};

use super::Checker;
use crate::ops::Op;
use crate::program::{BlockId, Body, InstId, ValueDef, ValueId};
use crate::span::Span;
use crate::text::MAX_NESTING;
use crate::types::Type;

pub fn check(c: &mut Checker) {
    let program = c.program;
    for func in program.funcs.values() {
        c.item = format!("func `{}`", func.name);
        check_body(c, &func.body, &func.results, func.span);
    }
    for handler in program.handlers.values() {
        c.item = format!("handler `{}`", handler.name);
        check_body(c, &handler.body, &[], handler.span);
        let event = &program.events[handler.event];
        let Some(entry) = handler.body.entry.and_then(|entry| handler.body.blocks.get(entry))
        else {
            continue;
        };
        let expected: Vec<Type> = event.params.iter().map(|param| param.ty).collect();
        let found: Vec<Type> =
            entry.params.iter().filter_map(|v| handler.body.values.get(*v)).map(|v| v.ty).collect();
        if found != expected {
            c.error(
                handler.span,
                format!(
                    "the parameters are ({}), those of event `{}` are ({})",
                    names(c, &found),
                    event.name,
                    names(c, &expected)
                ),
            );
        }
    }
}

pub(super) fn names(c: &Checker, types: &[Type]) -> String {
    types.iter().map(|ty| c.program.type_name(*ty)).collect::<Vec<_>>().join(", ")
}

/// What owns a region decides how it may end.
#[derive(Clone)]
enum Owner {
    /// A handler or function.
    Entry,
    /// An `if` with these result types.
    If(Vec<Type>),
    Loop,
}

pub(super) struct BodyCheck<'c, 'p, 'b> {
    pub c: &'c mut Checker<'p>,
    pub body: &'b Body,
    returns: &'b [Type],
    /// Carried types of the loops around, the innermost last.
    loops: Vec<Vec<Type>>,
    visible: SecondaryMap<ValueId, bool>,
    seen_blocks: SecondaryMap<BlockId, bool>,
    seen_insts: SecondaryMap<InstId, bool>,
    depth: usize,
}

fn check_body(c: &mut Checker, body: &Body, returns: &[Type], span: Span) {
    let Some(entry) = body.entry else {
        c.error(span, "the body has no entry region".to_string());
        return;
    };
    // Ids that do not exist would make every later look-up fail; sizes are the arenas', so check
    // them once.
    if let Some(value) = body.values.values().find(|v| !exists(c, v.ty)) {
        let name = value.name.as_deref().unwrap_or("without name");
        c.error(span, format!("value {name} has a type that does not exist"));
        return;
    }
    if returns.iter().any(|ty| *ty == Type::Packet || !exists(c, *ty)) {
        c.error(span, "results are integers, structs or arrays of these".to_string());
        return;
    }
    let mut check = BodyCheck {
        c,
        body,
        returns,
        loops: Vec::new(),
        visible: SecondaryMap::new(),
        seen_blocks: SecondaryMap::new(),
        seen_insts: SecondaryMap::new(),
        depth: 0,
    };
    check.region(entry, &Owner::Entry, None);
}

fn exists(c: &Checker, ty: Type) -> bool {
    match ty {
        Type::Int { bits, .. } => (1..=64).contains(&bits),
        Type::Struct(id) => c.program.structs.is_valid(id),
        Type::Array(id) => c.program.arrays.is_valid(id),
        Type::Packet => true,
    }
}

impl BodyCheck<'_, '_, '_> {
    pub fn error(&mut self, inst: InstId, message: String) {
        self.c.error_at(self.body, inst, message);
    }

    fn region_error(&mut self, owner: Option<InstId>, message: String) {
        match owner {
            Some(inst) => self.error(inst, message),
            None => self.c.error(Span::default(), message),
        }
    }

    fn region(&mut self, block: BlockId, owner: &Owner, owner_inst: Option<InstId>) {
        let body = self.body;
        let Some(data) = body.blocks.get(block) else {
            return self.region_error(owner_inst, format!("there is no region {}", block.index()));
        };
        if std::mem::replace(&mut self.seen_blocks[block], true) {
            return self.region_error(owner_inst, "the region has another owner too".to_string());
        }
        if self.depth > MAX_NESTING {
            return self
                .region_error(owner_inst, format!("regions nest deeper than {MAX_NESTING}"));
        }
        self.depth += 1;
        let mut defined = Vec::new();
        for (i, &param) in data.params.iter().enumerate() {
            let packet = body.values.get(param).is_some_and(|v| v.ty == Type::Packet);
            if packet && !matches!(owner, Owner::Entry) {
                self.region_error(owner_inst, "packets cannot be carried by a loop".to_string());
            }
            if self.define(param, ValueDef::Param(block, i as u32)) {
                defined.push(param);
            } else {
                self.region_error(
                    owner_inst,
                    format!("parameter {i} is not a value of this region alone"),
                );
            }
        }
        match data.insts.last().and_then(|last| body.insts.get(*last)) {
            Some(last) if last.op.is_terminator() => {}
            _ => self.region_error(
                owner_inst,
                "a region must end in yield, break, continue or return".to_string(),
            ),
        }
        for (i, &inst) in data.insts.iter().enumerate() {
            let Some(op) = body.insts.get(inst).map(|data| &data.op) else {
                self.region_error(owner_inst, format!("there is no instruction {}", inst.index()));
                continue;
            };
            if std::mem::replace(&mut self.seen_insts[inst], true) {
                self.error(inst, "the instruction stands in two places".to_string());
                continue;
            }
            if op.is_terminator() && i + 1 < data.insts.len() {
                self.error(inst, "nothing may follow a terminator in its region".to_string());
            }
            self.inst(inst, owner, &mut defined);
        }
        for value in defined {
            self.visible[value] = false;
        }
        self.depth -= 1;
    }

    /// Makes a value visible; false if it is not defined by this place.
    fn define(&mut self, value: ValueId, place: ValueDef) -> bool {
        let fits = self.body.values.get(value).is_some_and(|data| data.def == place);
        if fits {
            self.visible[value] = true;
        }
        fits
    }

    fn inst(&mut self, inst: InstId, owner: &Owner, defined: &mut Vec<ValueId>) {
        let body = self.body;
        let data = &body.insts[inst];
        let mut usable = true;
        for operand in data.op.operands() {
            if !self.visible.get(operand).copied().unwrap_or(false) {
                usable = false;
                self.error(
                    inst,
                    "an operand is not defined before this point in this or an outer region"
                        .to_string(),
                );
                break;
            }
        }
        if data.results.iter().any(|v| !body.values.is_valid(*v)) {
            return self.error(inst, "a result does not exist".to_string());
        }
        if data.results.iter().any(|v| body.ty(*v) == Type::Packet) {
            self.error(inst, "no operation makes a packet: they come in as parameters".to_string());
            usable = false;
        }
        if usable {
            match &data.op {
                op if op.is_terminator() => self.terminator(inst, owner),
                Op::If { then, other, .. } => {
                    self.plain_op(inst);
                    let results: Vec<Type> = data.results.iter().map(|v| body.ty(*v)).collect();
                    let owner = Owner::If(results);
                    for region in [*then, *other] {
                        let params = body.blocks.get(region).is_some_and(|b| !b.params.is_empty());
                        if params {
                            self.error(
                                inst,
                                "the regions of an `if` have no parameters".to_string(),
                            );
                        }
                        self.region(region, &owner, Some(inst));
                    }
                }
                Op::Loop { init, body: region, .. } => {
                    let carried: Vec<Type> = init.iter().map(|v| body.ty(*v)).collect();
                    let results: Vec<Type> = data.results.iter().map(|v| body.ty(*v)).collect();
                    let params = body.blocks.get(*region).map_or(&[][..], |b| &b.params);
                    let params: Vec<Type> =
                        params.iter().filter_map(|v| body.values.get(*v)).map(|v| v.ty).collect();
                    if carried != params || carried != results {
                        let message = format!(
                            "initial values ({}), parameters ({}) and results ({}) of a loop must have the same types",
                            names(self.c, &carried),
                            names(self.c, &params),
                            names(self.c, &results)
                        );
                        self.error(inst, message);
                    }
                    self.loops.push(carried);
                    self.region(*region, &Owner::Loop, Some(inst));
                    self.loops.pop();
                }
                _ => self.plain_op(inst),
            }
        }
        for (i, &result) in data.results.iter().enumerate() {
            if self.define(result, ValueDef::Result(inst, i as u32)) {
                defined.push(result);
            } else {
                self.error(inst, format!("result {i} is defined elsewhere"));
            }
        }
    }

    fn terminator(&mut self, inst: InstId, owner: &Owner) {
        let body = self.body;
        let op = &body.insts[inst].op;
        let given: Vec<Type> = op.operands().map(|v| body.ty(v)).collect();
        if !body.insts[inst].results.is_empty() {
            self.error(inst, "a terminator has no results".to_string());
        }
        let expected = match op {
            Op::Yield(_) => match owner {
                Owner::If(results) => results.clone(),
                Owner::Loop => {
                    return self.error(
                        inst,
                        "`yield` ends the regions of an `if`; a loop's region ends with `continue`"
                            .to_string(),
                    );
                }
                Owner::Entry => {
                    return self.error(
                        inst,
                        "`yield` ends the regions of an `if`; a body ends with `return`"
                            .to_string(),
                    );
                }
            },
            Op::Break { depth, .. } | Op::Continue { depth, .. } => {
                let index = self.loops.len().checked_sub(1 + *depth as usize);
                match index {
                    Some(index) => self.loops[index].clone(),
                    None => {
                        let around = self.loops.len();
                        return self.error(
                            inst,
                            format!("depth {depth} is out of range: {around} loops are around"),
                        );
                    }
                }
            }
            _ => self.returns.to_vec(),
        };
        if given != expected {
            let message = format!(
                "({}) is given where ({}) is due",
                names(self.c, &given),
                names(self.c, &expected)
            );
            self.error(inst, message);
        }
    }
}
