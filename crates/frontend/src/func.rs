//! Lowering of one function or handler: variables and structured SSA construction.
//!
//! The *environment* maps each variable to its current value. Straight-line code just replaces values. At an `if` both
//! arms start from a copy of the environment; the variables whose values then differ become results of the `if`, and
//! each arm yields its own. A loop does not know beforehand what its body changes, so every variable that the loop's
//! source assigns is carried: parameter of the region, operand of `continue` and `break`, result of the loop. An arm
//! that ends in `return`, `break` or `continue` has its terminator and takes no part in the merge; code behind a point
//! that nothing reaches is dropped.

use std::collections::{HashMap, HashSet};

use nicforge_ir::{BlockId, Body, BodyBuilder, Diagnostic, FuncId, Op, Program, Span, Type, ValueId};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes::{self, Code};
use crate::ranges::Fact;
use crate::unit::{Failed, FuncInfo, FuncState, Global, Lowered, ParamKind, Unit};

/// A variable of the function.
pub struct Var {
    pub name: String,
    pub ty: Type,
    pub kind: VarKind,
}

/// What a variable is.
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
}

/// What `continue` does besides going round.
#[derive(Clone, Copy)]
pub enum ControlKind<'a> {
    /// A C loop: `step` runs first; a `do` loop then tests `condition`.
    Loop { step: Option<&'a Node>, condition: Option<&'a Node> },
    /// A `switch` with fall-through: one trip, left by `break`.
    Switch,
}

/// A function being lowered.
pub struct FnLower<'u, 'a, 'b> {
    pub unit: &'u mut Unit<'a>,
    pub b: BodyBuilder<'b>,
    pub vars: Vec<Var>,
    pub var_of: HashMap<u64, VarIndex>,
    pub env: Vec<ValueId>,
    /// Whether a statement failed; its error is reported.
    pub failed: bool,
    /// Whether control gets to the place being lowered.
    pub reachable: bool,
    pub controls: Vec<Control<'a>>,
    /// Conditions that hold here.
    pub facts: Vec<Fact>,
    /// Type of the `return` value, if there is one.
    pub result: Option<Type>,
    /// Pointer parameters whose targets are returned behind the result.
    pub outputs: Vec<VarIndex>,
}

impl<'a> FnLower<'_, 'a, '_> {
    pub fn refuse(&mut self, code: Code, span: Span, message: impl Into<String>, help: &str) -> Failed {
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

    /// Whether an expression uses a variable whose declaration was refused: then there is nothing new to say.
    pub fn is_broken(&self, node: &Node) -> bool {
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
    pub fn declare(&mut self, decl: u64, name: &str, ty: Type, kind: VarKind, value: ValueId) -> VarIndex {
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
        let values = value.into_iter().chain(self.outputs.iter().map(|var| self.env[*var])).collect();
        self.terminate(Op::Return(values));
    }

    /// Gives the current region a terminator although nothing reaches its end.
    fn seal_dead_end(&mut self) {
        let types: Vec<Type> =
            self.result.into_iter().chain(self.outputs.iter().map(|v| self.vars[*v].ty)).collect();
        let values = types.into_iter().map(|ty| self.zero(ty)).collect();
        self.terminate(Op::Return(values));
    }

    /// An `if` whose arms give `extra.len()` values besides the variables they change. Returns those values; they are
    /// meaningless if no arm reaches its end.
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
        let then_arm = self.arm(extra, (cond, true), then);
        self.restore(before.clone());
        let other_arm = self.arm(extra, (cond, false), other);
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
                let yielded = changed.iter().map(|v| env[*v]).chain(values.iter().copied()).collect();
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

    fn arm(&mut self, extra: &[Type], fact: Fact, f: impl FnOnce(&mut Self) -> Lowered<Vec<ValueId>>) -> Arm {
        let known = self.facts.len();
        self.facts.push(fact);
        let block = self.b.new_block();
        self.b.switch_to(block);
        self.reachable = true;
        let count = self.env.len();
        let result = f(self);
        self.facts.truncate(known);
        let failed = result.is_err();
        let mut env = self.env.clone();
        env.truncate(count);
        self.restore(env.clone());
        let end = self.reachable.then(|| {
            let values = result.unwrap_or_else(|Failed| extra.iter().map(|ty| self.zero(*ty)).collect());
            (env, values)
        });
        Arm { block, end, failed }
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
        self.controls.push(Control { carried: carried.clone(), kind });
        let known = self.facts.len();
        let result = body(self);
        self.facts.truncate(known);
        if self.reachable {
            let values = self.carried_values(self.controls.len() - 1);
            self.b.push0(Op::Continue { depth: 0, values });
        }
        self.controls.pop();
        self.b.switch_to(outer);
        let init = carried.iter().map(|v| before[*v]).collect();
        let types: Vec<Type> = carried.iter().map(|v| self.vars[*v].ty).collect();
        let inst = self.b.push(Op::Loop { init, max_trips, body: block }, &types);
        self.restore(before);
        let results = self.b.body.insts[inst].results.clone();
        for (var, value) in carried.into_iter().zip(results) {
            self.assign(var, value);
        }
        self.reachable = true;
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

/// Collects the declarations that the source below `node` may change: assignments, increments, and whatever is handed
/// over by pointer.
pub fn assigned_decls(node: &Node, found: &mut HashSet<u64>) {
    node.walk(&mut |n| {
        let target = match n.kind.as_str() {
            "BinaryOperator" if n.opcode == "=" => n.inner.first(),
            "CompoundAssignOperator" => n.inner.first(),
            "UnaryOperator" if matches!(n.opcode.as_str(), "++" | "--" | "&") => n.inner.first(),
            // A pointer parameter handed on.
            "CallExpr" => {
                n.inner.iter().skip(1).filter(|arg| arg.ty.ends_with('*')).for_each(|arg| {
                    found.extend(root_decl(arg));
                });
                None
            }
            _ => None,
        };
        if let Some(target) = target {
            found.extend(root_decl(target));
        }
    });
}

/// The variable a place expression is a part of.
pub fn root_decl(node: &Node) -> Option<u64> {
    let node = node.strip_casts();
    match node.kind.as_str() {
        "DeclRefExpr" => node.referenced.as_ref().map(|r| r.id),
        "MemberExpr" | "ArraySubscriptExpr" => root_decl(node.inner.first()?),
        "UnaryOperator" if matches!(node.opcode.as_str(), "*" | "&") => root_decl(node.inner.first()?),
        "CStyleCastExpr" => root_decl(node.inner.first()?),
        _ => None,
    }
}

/// What [`lower_body`] needs to know beside the function's node.
pub struct Signature {
    pub params: Vec<ParamKind>,
    pub result: Option<Type>,
}

/// Parameters and result of a function.
///
/// # Errors
/// Reports types that cannot be passed.
pub fn signature(unit: &mut Unit, node: &Node) -> Lowered<Signature> {
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
    for param in node.inner.iter().filter(|n| n.kind == "ParmVarDecl") {
        let ty = unit.ctype(&param.ty);
        let span = if param.name.is_empty() { param.span } else { param.name_span };
        let kind = match &ty {
            CType::Packet => Ok(ParamKind::Packet),
            CType::Pointer { to, read_only }
                if matches!(**to, CType::Int { .. } | CType::Struct(_) | CType::Array(..)) =>
            {
                unit.value_type_of(to, span).map(|ty| ParamKind::InOut { ty, read_only: *read_only })
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

/// Lowers a function's body into a new [`Body`].
///
/// Returns the body and the types of all results: the C result, then the pointer parameters' targets.
///
/// # Errors
/// If a statement failed; all of them were looked at and reported.
pub fn lower_body<'a>(
    unit: &mut Unit<'a>,
    node: &'a Node,
    signature: &Signature,
) -> Lowered<(Body, Vec<Type>)> {
    let mut body = Body::default();
    let mut lower = FnLower {
        b: BodyBuilder::new(&mut body),
        unit,
        vars: Vec::new(),
        var_of: HashMap::new(),
        env: Vec::new(),
        failed: false,
        reachable: true,
        controls: Vec::new(),
        facts: Vec::new(),
        result: signature.result,
        outputs: Vec::new(),
    };
    let entry = lower.b.current();
    let decls = node.inner.iter().filter(|n| n.kind == "ParmVarDecl");
    for (param, kind) in decls.zip(&signature.params) {
        let (ty, kind) = match kind {
            ParamKind::Value(ty) => (*ty, VarKind::Local),
            ParamKind::InOut { ty, read_only } => (*ty, VarKind::Target { read_only: *read_only }),
            ParamKind::Packet => (Type::Packet, VarKind::Packet),
        };
        let name = (!param.name.is_empty()).then_some(param.name.as_str());
        let value = lower.b.param(entry, ty, name);
        let var = lower.declare(param.id, &param.name, ty, kind, value);
        if kind == (VarKind::Target { read_only: false }) {
            lower.outputs.push(var);
        }
    }
    if let Some(block) = node.inner.iter().find(|n| n.kind == "CompoundStmt") {
        lower.stmt(block);
        if lower.reachable {
            // The closing brace: where a path ends that does not return.
            let end = block.span.end;
            lower.b.span = Span { start: end.saturating_sub(1), ..block.span };
            let value = lower.result.map(|ty| lower.zero(ty));
            lower.emit_return(value);
        }
    }
    let results = lower.result.into_iter().chain(lower.outputs.iter().map(|v| lower.vars[*v].ty)).collect();
    if lower.failed { Err(Failed) } else { Ok((body, results)) }
}

impl<'a> Unit<'a> {
    /// Information about a function, lowering it on first use.
    ///
    /// # Errors
    /// Reports recursion (at `call`), a missing body, and a signature outside the subset.
    pub fn function(&mut self, name: &str, call: Span) -> Lowered<FuncInfo> {
        match self.funcs.get(name) {
            Some(FuncState::Done(info)) => return Ok(info.clone()),
            Some(FuncState::Broken) => return Err(Failed),
            Some(FuncState::Open) => {
                let diagnostic =
                    Diagnostic::error(codes::RECURSION.id, call, format!("`{name}` calls itself"))
                        .note("handlers have no stack: every call is inlined")
                        .help("write a loop with a bound instead");
                return Err(self.report(diagnostic));
            }
            None => {}
        }
        let Some(node) = self.index.functions.get(name).copied() else {
            return Err(self.unknown_function(name, call));
        };
        self.funcs.insert(name.to_string(), FuncState::Open);
        let info = self.lower_function(node);
        let state = info.clone().map_or(FuncState::Broken, FuncState::Done);
        self.funcs.insert(name.to_string(), state);
        info
    }

    fn unknown_function(&mut self, name: &str, call: Span) -> Failed {
        let (code, help) = match name {
            "malloc" | "calloc" | "realloc" | "free" | "alloca" | "__builtin_alloca" => (
                codes::DYNAMIC_MEMORY,
                "use a local variable, or a table (NF_TABLE) for what outlives the packet",
            ),
            "memcpy" | "__builtin_memcpy" | "memmove" | "__builtin_memmove" => {
                (codes::MEM_FUNCTION, "assign the struct: `a = b`")
            }
            "memset" | "__builtin_memset" | "bzero" => (
                codes::MEM_FUNCTION,
                "assign an empty struct: `a = (struct T){}`; locals start at zero anyway",
            ),
            "memcmp" | "__builtin_memcmp" | "strcmp" => {
                (codes::MEM_FUNCTION, "compare the members one by one")
            }
            "printf" | "fprintf" | "puts" => (codes::UNKNOWN_FUNCTION, "use nf_log(\"... {}\", value)"),
            _ if name.starts_with("__builtin")
                || name.starts_with("__atomic")
                || name.starts_with("__sync") =>
            {
                (codes::BUILTIN, "write it out with integer operators")
            }
            _ => (codes::UNKNOWN_FUNCTION, "define it in this file, or use a function of nicforge.h"),
        };
        let message = match code.id {
            id if id == codes::BUILTIN.id => format!("`{name}` is not available on NICs"),
            id if id == codes::UNKNOWN_FUNCTION.id => format!("`{name}` has no body here"),
            _ => format!("`{name}` is not available: there is no memory to work on"),
        };
        self.refuse(code, call, message, help)
    }

    fn lower_function(&mut self, node: &'a Node) -> Lowered<FuncInfo> {
        let signature = signature(self, node)?;
        let (body, results) = lower_body(self, node, &signature)?;
        let params = signature.params;
        let func = nicforge_ir::Func { name: node.name.clone(), results, body, span: node.name_span };
        let id: FuncId = self.prog.funcs.push(func);
        let consumes = self.check_function_packets(id)?;
        self.consumes.insert(id, consumes);
        Ok(FuncInfo { id, params, result: signature.result })
    }

    /// Errors reported so far.
    pub fn error_count(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == nicforge_ir::Severity::Error).count()
    }
}

/// Whether `ty` is a struct of this name; nicforge.h's own types are known by name.
pub fn is_struct_named(prog: &Program, ty: Type, name: &str) -> bool {
    matches!(ty, Type::Struct(id) if prog.structs[id].name == name)
}
