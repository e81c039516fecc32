//! Calls of functions that are declared `extern` and have their code elsewhere: C that is outside
//! the subset.
//!
//! What such a function may do is in its declaration: integers go in as they are, addresses lead to
//! copies of variables (what is behind a pointer to `const` is only read, what is behind others
//! comes back), and one integer comes out. `__attribute__((const))` or `__attribute__((pure))` says
//! that it has no state and may run in several threads; of a function that writes by pointers,
//! `NF_PURE` does.

use nicforge_ir::{Diagnostic, Op, Passing, Type, ValueId};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::unit::{Failed, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// A call of such a function; `declared` is its declaration.
    pub fn extern_call(
        &mut self,
        declared: &'a Node,
        node: &'a Node,
        args: &'a [Node],
    ) -> Lowered<Option<ValueId>> {
        let (passing, result) = self.extern_signature(declared, node)?;
        if args.len() != passing.len() {
            let message = format!("`{}` takes {} arguments", declared.name, passing.len());
            return Err(self.refuse(codes::ARGUMENTS, node.span, message, "give it a prototype"));
        }
        let (mut values, mut targets) = (Vec::new(), Vec::new());
        let mut failed = false;
        for (arg, passing) in args.iter().zip(&passing) {
            let value = match passing {
                Passing::Value => self.expr(arg),
                _ => self.memory(arg).map(|memory| {
                    let place = self.element_of(memory);
                    let value = self.at(arg.span, |lower| lower.read(&place));
                    targets.push((place, *passing == Passing::Read, arg.span));
                    value
                }),
            };
            match value {
                Ok(value) => values.push(value),
                Err(Failed) => failed = true,
            }
        }
        if failed {
            return Err(Failed);
        }
        self.check_aliases(&targets)?;
        targets.retain(|(_, read_only, _)| !read_only);
        let types: Vec<Type> =
            result.into_iter().chain(targets.iter().map(|(place, ..)| place.ty)).collect();
        let attribute =
            targets.is_empty() && (declared.has("ConstAttr") || declared.has("PureAttr"));
        let pure = attribute || declared.has("AnnotateAttr");
        let op = Op::Extern { name: declared.name.clone(), pure, passing, args: values };
        let inst = self.b.push(op, &types);
        let mut results = self.b.body.insts[inst].results.clone().into_iter();
        let value = if result.is_some() { results.next() } else { None };
        for ((place, ..), left) in targets.into_iter().zip(results) {
            self.write(&place, left, node.span)?;
        }
        Ok(value)
    }

    /// How a function's arguments are passed, and the type of its result.
    fn extern_signature(
        &mut self,
        declared: &'a Node,
        call: &Node,
    ) -> Lowered<(Vec<Passing>, Option<Type>)> {
        let refuse = |lower: &mut Self, what: String| {
            let diagnostic = Diagnostic::error(codes::EXTERN.id, declared.name_span, what)
                .also(call.span, "called here")
                .help("declare a function around it with integers and pointers to variables, and one integer as result");
            Err(lower.report(diagnostic))
        };
        let name = &declared.name;
        if declared.flags.variadic {
            return refuse(self, format!("`{name}` takes a variable number of arguments"));
        }
        let mut list = Vec::new();
        for param in declared.inner.iter().filter(|n| n.kind == "ParmVarDecl") {
            let data = |to: &CType| {
                matches!(to, CType::Void | CType::Int { .. } | CType::Struct(_) | CType::Array(..))
            };
            list.push(match self.unit.ctype(&param.ty) {
                CType::Int { .. } => Passing::Value,
                CType::Pointer { to, read_only } if data(&to) => {
                    if read_only {
                        Passing::Read
                    } else {
                        Passing::Write
                    }
                }
                _ => {
                    return refuse(
                        self,
                        format!("`{name}` has a parameter of type `{}`", param.ty),
                    );
                }
            });
        }
        let result = match self.unit.ctype(&declared.ty) {
            CType::Function { result, .. } => *result,
            other => other,
        };
        match result {
            CType::Void => Ok((list, None)),
            result @ CType::Int { .. } => {
                let ty = self.unit.value_type_of(&result, declared.name_span)?;
                Ok((list, Some(ty)))
            }
            _ => refuse(self, format!("the result of `{name}` is no integer")),
        }
    }
}
