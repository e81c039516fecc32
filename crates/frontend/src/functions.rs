//! Functions as wholes: signatures, bodies, and lowering on first call.
//!
//! A function is lowered when a call of it is, so callees come before callers and a call of a
//! function that is still open is recursion.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use nicforge_ir::{Body, BodyBuilder, Diagnostic, FuncId, Proj, Span, Type, ValueId};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarIndex, VarKind};
use crate::parts::Returned;
use crate::place::{Memory, Place, Root};
use crate::signatures::{
    Callee, First, FuncInfo, FuncState, ParamKind, Passed, Signature, Step, Way,
};
use crate::unit::{Failed, Lowered, Unit};

/// The signature of a function.
///
/// # Errors
/// Reports types that cannot be passed.
pub fn signature(unit: &mut Unit, node: &Node) -> Lowered<Signature> {
    signature_of(unit, node, &[])
}

/// The signature of a function; `memory` says which parameters lead to memory that calls know.
fn signature_of(unit: &mut Unit, node: &Node, memory: &[bool]) -> Lowered<Signature> {
    if node.flags.variadic {
        let help = "give it a fixed list of parameters";
        return Err(unit.refuse(
            codes::VARARGS,
            node.name_span,
            "functions cannot have a variable number of arguments",
            help,
        ));
    }
    let mut params = Vec::new();
    let mut failed = false;
    for (number, param) in parameters(node).enumerate() {
        let ty = unit.ctype(&param.ty);
        let by_caller = memory.get(number) == Some(&true);
        let span = if param.name.is_empty() { param.span } else { param.name_span };
        let kind = match &ty {
            CType::Packet => Ok(ParamKind::Packet),
            CType::Pointer { to, read_only }
                if matches!(
                    **to,
                    CType::Int { .. } | CType::Struct(_) | CType::Array(..) | CType::Refused(_)
                ) =>
            {
                unit.value_type_of(to, span)
                    .map(|ty| ParamKind::InOut { ty, read_only: *read_only })
            }
            CType::Pointer { to, read_only } if **to == CType::Void && by_caller => {
                Ok(ParamKind::InOut { ty: Type::u(8), read_only: *read_only })
            }
            CType::Pointer { to, .. } if **to == CType::Void => {
                let help = "write the struct's or integer's type: `struct T *p`; tables are named where they are used";
                let message = "a pointer parameter needs the type of what it points to";
                Err(unit.refuse(codes::POINTER_TYPE, span, message, help))
            }
            ty => unit.value_type_of(ty, span).map(ParamKind::Value),
        };
        match kind {
            Ok(kind) => params.push(kind),
            Err(Failed) => failed = true,
        }
    }
    let result = match unit.ctype(&node.ty) {
        CType::Function { result, .. } if *result == CType::Void => None,
        // Such as `memcpy` has, which gives back what it got.
        CType::Function { result, .. } if !memory.is_empty() && leads_to_data(&result) => None,
        CType::Function { result, .. } => Some(unit.value_type_of(&result, node.name_span)?),
        _ => {
            return Err(unit.refuse(
                codes::INTERNAL,
                node.name_span,
                "this function has no function type",
                "",
            ));
        }
    };
    if failed { Err(Failed) } else { Ok(Signature { params, result }) }
}

/// True for `T *`, but for packets and functions.
fn leads_to_data(ty: &CType) -> bool {
    let CType::Pointer { to, .. } = ty else { return false };
    matches!(**to, CType::Void | CType::Int { .. } | CType::Struct(_) | CType::Array(..))
}

/// The declarations of a function's parameters.
pub fn parameters(node: &Node) -> impl Iterator<Item = &Node> {
    node.inner.iter().filter(|child| child.kind == "ParmVarDecl")
}

/// Lowers a function's body into a new [`Body`].
///
/// Returns the body, and types and knowledge of all results: the C result, then the pointer
/// parameters' targets.
///
/// # Errors
/// If a statement failed; all of them were looked at and reported.
pub fn lower_body<'a>(
    unit: &mut Unit<'a>,
    node: &'a Node,
    signature: &Signature,
    passed: &[Passed],
) -> Lowered<(Body, Vec<Type>, Vec<Returned>)> {
    let mut body = Body::default();
    let mut lower = FnLower {
        b: BodyBuilder::new(&mut body),
        unit,
        vars: Vec::new(),
        var_of: HashMap::new(),
        env: Vec::new(),
        depth: 0,
        failed: false,
        reachable: true,
        controls: Vec::new(),
        facts: Vec::new(),
        counters: HashMap::new(),
        kept: HashMap::new(),
        by_call: passed.iter().any(|passed| *passed != Passed::Plain),
        result: signature.result,
        buffers: Default::default(),
        firsts: HashMap::new(),
        views: HashSet::new(),
        leads_to: HashMap::new(),
        outputs: Vec::new(),
        entered: Vec::new(),
        returned: Vec::new(),
    };
    let mut targets = Vec::new();
    for (number, (param, kind)) in parameters(node).zip(&signature.params).enumerate() {
        let passed = passed.get(number).unwrap_or(&Passed::Plain);
        targets.extend(lower.parameter(param, kind, passed, &targets));
    }
    let written = |var: &VarIndex| lower.vars[*var].kind == VarKind::Target { read_only: false };
    lower.outputs = targets.into_iter().filter(written).collect();
    lower.entered = lower.outputs.iter().map(|var| lower.env[*var]).collect();
    if let Some(block) = node.inner.iter().find(|n| n.kind == "CompoundStmt") {
        lower.scan_buffers(block);
        lower.stmt(block);
        if lower.reachable {
            // The closing brace: where a path ends that does not return.
            let end = block.span.end;
            lower.b.span = Span { start: end.saturating_sub(1), ..block.span };
            let value = lower.result.map(|ty| lower.zero(ty));
            lower.emit_return(value);
        }
    }
    let results =
        lower.result.into_iter().chain(lower.outputs.iter().map(|v| lower.vars[*v].ty)).collect();
    let returned = lower.returned;
    if lower.failed { Err(Failed) } else { Ok((body, results, returned)) }
}

impl<'a> FnLower<'_, 'a, '_> {
    /// Declares a parameter; the variable that it leads to, if no other one does. `targets` are
    /// those before it.
    fn parameter(
        &mut self,
        param: &Node,
        kind: &ParamKind,
        passed: &Passed,
        targets: &[VarIndex],
    ) -> Option<VarIndex> {
        let entry = self.b.current();
        let name = (!param.name.is_empty()).then_some(param.name.as_str());
        let (ty, kind) = match kind {
            ParamKind::Value(ty) => (*ty, VarKind::Local),
            ParamKind::InOut { ty, read_only } => (*ty, VarKind::Target { read_only: *read_only }),
            ParamKind::Packet => (Type::Packet, VarKind::Packet),
        };
        let (ty, first) = match passed {
            Passed::Plain | Passed::Bounded(_) | Passed::Parts(_) => (ty, First::Whole),
            Passed::Memory(ty, first) => (*ty, *first),
            Passed::Known(value) => {
                let value = self.b.int(*value, ty);
                self.declare(param.id, &param.name, ty, kind, value);
                return None;
            }
            Passed::Constant(array, ty, first) => {
                let place = Place::root(Root::Const(*array), *ty);
                let first = self.first(*first);
                self.leads_to.insert(param.id, Memory { place, first });
                return None;
            }
            Passed::Static(table, way, first) => {
                let whole = self.static_place(*table);
                let place = self.part_at(&whole, way);
                let first = self.first(*first);
                self.leads_to.insert(param.id, Memory { place, first });
                return None;
            }
            Passed::Within { target, whole, way, first } => {
                let var = targets.get(*target).copied();
                let new = whole.map(|(ty, read_only)| {
                    let value = self.b.param(entry, ty, name);
                    let kind = VarKind::Target { read_only };
                    self.declare(param.id, &param.name, ty, kind, value)
                });
                let var = var.or(new)?;
                self.var_of.insert(param.id, var);
                self.views.insert(var);
                let whole = Place::root(Root::Var(var), self.vars[var].ty);
                let place = self.part_at(&whole, way);
                let first = self.first(*first);
                self.leads_to.insert(param.id, Memory { place, first });
                return new;
            }
        };
        let value = self.b.param(entry, ty, name);
        let var = self.declare(param.id, &param.name, ty, kind, value);
        let first = self.first(first);
        self.firsts.extend(first.map(|first| (param.id, first)));
        self.views.extend(matches!(passed, Passed::Memory(..)).then_some(var));
        match passed {
            Passed::Bounded(range) => _ = self.counters.insert((value, Vec::new()), *range),
            Passed::Parts(parts) => self.note_parts(value, parts),
            _ => {}
        }
        matches!(kind, VarKind::Target { .. }).then_some(var)
    }

    /// The part of a variable, which is `whole`, that a way leads to.
    fn part_at(&mut self, whole: &Place, way: &Way) -> Place {
        let root = match &way.over {
            Some((kept, at, ty)) => self.part_at(whole, kept).over(*at, *ty),
            None => whole.clone(),
        };
        let steps: Vec<Proj> = way
            .steps
            .iter()
            .map(|step| match step {
                Step::Field(field) => Proj::Field(*field),
                Step::Index(first) => {
                    let first = self.first(*first);
                    Proj::Index(first.unwrap_or_else(|| self.b.int(0, Type::U32)))
                }
            })
            .collect();
        root.part(&steps, way.ty)
    }

    fn first(&mut self, first: First) -> Option<ValueId> {
        match first {
            First::Whole => None,
            First::Known(index) => Some(self.b.int(index, Type::U32)),
            First::Passed => Some(self.b.param(self.b.current(), Type::U32, None)),
        }
    }
}

impl<'a> Unit<'a> {
    /// A function that is called by its name.
    ///
    /// # Errors
    /// Reports recursion (at `call`), a missing body, and a signature outside the subset.
    pub fn callee(&mut self, name: &str, call: Span) -> Lowered<Rc<Callee>> {
        let states = self.funcs.get(name).map(Vec::as_slice).unwrap_or_default();
        if states.iter().any(|(_, state)| matches!(state, FuncState::Open)) {
            let diagnostic =
                Diagnostic::error(codes::RECURSION.id, call, format!("`{name}` calls itself"))
                    .note("handlers have no stack: every call is inlined")
                    .help("write a loop with a bound instead");
            return Err(self.report(diagnostic));
        }
        if let Some(known) = self.callees.get(name) {
            return known.clone().ok_or(Failed);
        }
        let Some(node) = self.index.functions.get(name).copied() else {
            return Err(self.unknown_function(name, call));
        };
        let memory = self.memory_params(node);
        let mut loops = self.ends_loops(node);
        loops.resize(memory.len(), false);
        let signature = signature_of(self, node, &memory);
        let callee = signature.map(|signature| Rc::new(Callee { signature, memory, loops }));
        self.callees.insert(name.to_string(), callee.as_ref().ok().cloned());
        callee
    }

    /// A function for what is passed to it, lowered on first use.
    ///
    /// # Errors
    /// The function is refused; it is reported once.
    pub fn function(
        &mut self,
        name: &str,
        callee: &Callee,
        passed: Vec<Passed>,
    ) -> Lowered<FuncInfo> {
        let states = self.funcs.entry(name.to_string()).or_default();
        for (known, state) in states.iter() {
            match state {
                FuncState::Done(info) if *known == passed => return Ok(*info),
                FuncState::Broken => return Err(Failed),
                _ => {}
            }
        }
        let number = states.len();
        states.push((passed.clone(), FuncState::Open));
        let info = self.lower_function(name, callee, &passed);
        let state = info.map_or(FuncState::Broken, FuncState::Done);
        if let Some(states) = self.funcs.get_mut(name) {
            states[number].1 = state;
        }
        info
    }

    fn unknown_function(&mut self, name: &str, call: Span) -> Failed {
        let (code, help) = match name {
            "malloc" | "calloc" | "realloc" | "free" | "alloca" | "__builtin_alloca" => (
                codes::DYNAMIC_MEMORY,
                "use a local variable, or a table (NF_TABLE) for what outlives the packet",
            ),
            "bzero" => (codes::MEM_FUNCTION, "write memset(&variable, 0, sizeof(variable))"),
            "strcmp" | "strlen" | "memchr" => {
                (codes::MEM_FUNCTION, "write a loop with a bound over the elements")
            }
            "__assert_fail" => {
                (codes::UNKNOWN_FUNCTION, "nothing can stop a NIC: -DNDEBUG leaves assertions out")
            }
            "printf" | "fprintf" | "puts" => {
                (codes::UNKNOWN_FUNCTION, "use nf_log(\"... {}\", value)")
            }
            _ if name.starts_with("__builtin")
                || name.starts_with("__atomic")
                || name.starts_with("__sync") =>
            {
                (codes::BUILTIN, "write it out with integer operators")
            }
            _ => (
                codes::UNKNOWN_FUNCTION,
                "define it in this file, or declare it `extern` if a C file or library has it (--with)",
            ),
        };
        let message = match code.id {
            id if id == codes::BUILTIN.id => format!("`{name}` is not available on NICs"),
            id if id == codes::UNKNOWN_FUNCTION.id => format!("`{name}` has no body here"),
            _ => format!("`{name}` is not available: there is no memory to work on"),
        };
        self.refuse(code, call, message, help)
    }

    fn lower_function(
        &mut self,
        name: &str,
        callee: &Callee,
        passed: &[Passed],
    ) -> Lowered<FuncInfo> {
        let node = self.index.functions[name];
        let signature = &callee.signature;
        let (body, results, returned) = lower_body(self, node, signature, passed)?;
        let name = self.name_of_instance(&node.name);
        let func = nicforge_ir::Func { name, results, body, span: node.name_span };
        let id: FuncId = self.prog.funcs.push(func);
        let consumes = self.check_function_packets(id)?;
        self.consumes.insert(id, consumes);
        self.returned.insert(id, returned);
        Ok(FuncInfo { id, result: signature.result })
    }

    /// A name for a function that is lowered again for what else is passed to it.
    fn name_of_instance(&self, name: &str) -> String {
        let is_taken = |name: &str| self.prog.funcs.values().any(|func| func.name == name);
        if !is_taken(name) {
            return name.to_string();
        }
        let mut numbered = (2..).map(|number| format!("{name}_{number}"));
        let free =
            |new: &String| !is_taken(new) && !self.index.functions.contains_key(new.as_str());
        numbered.find(free).unwrap_or_default()
    }

    /// Errors reported so far.
    pub fn error_count(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == nicforge_ir::Severity::Error).count()
    }
}
