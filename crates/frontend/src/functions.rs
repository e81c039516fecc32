//! Functions as wholes: signatures, bodies, and lowering on first call.
//!
//! A function is lowered when a call of it is, so callees come before callers and a call of a
//! function that is still open is recursion.

use std::collections::HashMap;

use nicforge_ir::{Body, BodyBuilder, Diagnostic, FuncId, Span, Type};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarKind};
use crate::unit::{Failed, FuncInfo, FuncState, Lowered, ParamKind, Unit};

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
                if matches!(
                    **to,
                    CType::Int { .. } | CType::Struct(_) | CType::Array(..) | CType::Refused(_)
                ) =>
            {
                unit.value_type_of(to, span)
                    .map(|ty| ParamKind::InOut { ty, read_only: *read_only })
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
/// Returns the body and the types of all results: the C result, then the pointer parameters'
/// targets.
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
        depth: 0,
        failed: false,
        reachable: true,
        controls: Vec::new(),
        facts: Vec::new(),
        counters: HashMap::new(),
        result: signature.result,
        buffers: Default::default(),
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
            "bzero" => (codes::MEM_FUNCTION, "write memset(&variable, 0, sizeof(variable))"),
            "strcmp" | "strlen" | "memchr" => {
                (codes::MEM_FUNCTION, "write a loop with a bound over the elements")
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

    fn lower_function(&mut self, node: &'a Node) -> Lowered<FuncInfo> {
        let signature = signature(self, node)?;
        let (body, results) = lower_body(self, node, &signature)?;
        let params = signature.params;
        let func =
            nicforge_ir::Func { name: node.name.clone(), results, body, span: node.name_span };
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
