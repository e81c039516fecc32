//! Constant arrays of functions, `static int (*const ops[])(int) = {…}`, and single ones. A call
//! through one is a choice between calls: code has no addresses on a NIC.

use nicforge_ir::{BinOp, CmpOp, Op, Type, ValueId};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::storage::Functions;
use crate::unit::{Failed, Global, Lowered, Unit};

/// True for a pointer to a function, and arrays of them.
pub fn leads_to_function(ty: &CType) -> bool {
    match ty {
        CType::Array(element, _) => leads_to_function(element),
        CType::Pointer { to, .. } => matches!(**to, CType::Function { .. }),
        _ => false,
    }
}

impl<'a> Unit<'a> {
    /// The functions that a constant is initialised with.
    ///
    /// # Errors
    /// Reports variables that change, and what is no name of a function.
    pub fn functions(&mut self, node: &'a Node, ty: &CType) -> Lowered<Global> {
        let init = node.inner.iter().find(|child| !child.kind.ends_with("Attr"));
        let (Some(init), false) = (init, self.written.contains(&node.id)) else {
            let message = format!("`{}` is a pointer to a function, and may change", node.name);
            let help = "make it a constant with functions' names: code has no addresses on a NIC";
            return Err(self.refuse(codes::FUNCTION_POINTER, node.name_span, message, help));
        };
        let mut found = Functions::new();
        match ty {
            CType::Array(element, len) if !matches!(**element, CType::Array(..)) => {
                let list = init.strip();
                let children = list.inner.iter().skip(list.flags.has_filler.into());
                for child in children {
                    found.push(self.function_named(child)?);
                }
                found.resize(*len as usize, None);
            }
            CType::Pointer { .. } => found.push(self.function_named(init)?),
            _ => {
                let help = "make it an array of one dimension";
                let message = "functions may be in arrays of one dimension only";
                return Err(self.refuse(codes::FUNCTION_POINTER, node.name_span, message, help));
            }
        }
        Ok(Global::Functions(found))
    }

    fn function_named(&mut self, node: &Node) -> Lowered<Option<String>> {
        let mut inner = node.strip();
        while inner.kind.ends_with("CastExpr") || inner.kind == "UnaryOperator" {
            if inner.cast == "NullToPointer" {
                return Ok(None);
            }
            inner = inner.inner.first().ok_or(Failed)?.strip();
        }
        let named = inner.referenced.as_ref().filter(|of| of.kind == "FunctionDecl");
        match (named, inner.kind.as_str()) {
            (Some(named), _) => Ok(Some(named.name.clone())),
            (None, "ImplicitValueInitExpr") => Ok(None),
            (None, _) => {
                let help = "write the name of a function of this file, or 0";
                let message = "this is no function's name";
                Err(self.refuse(codes::FUNCTION_POINTER, node.span, message, help))
            }
        }
    }
}

impl<'a> FnLower<'_, 'a, '_> {
    /// The functions that a constant has, and the index of the one that an expression is.
    pub fn function_at(&mut self, node: &'a Node) -> Option<(Functions, Option<&'a Node>)> {
        let mut inner = node.strip();
        while inner.kind == "ImplicitCastExpr" || inner.kind == "UnaryOperator" {
            let named = matches!(inner.cast.as_str(), "LValueToRValue" | "FunctionToPointerDecay");
            if !named && inner.opcode != "*" {
                return None;
            }
            inner = inner.inner.first()?.strip();
        }
        let (array, index) = match &inner.inner[..] {
            [array, index] if inner.kind == "ArraySubscriptExpr" => (array, Some(index)),
            _ => (inner, None),
        };
        let named = array.strip_casts().referenced.as_ref()?;
        match self.unit.globals.get(&named.id) {
            Some(Global::Functions(functions)) => Some((functions.clone(), index)),
            _ => None,
        }
    }

    /// A call of the function at an index. Where there is none it does nothing and gives zero. Of
    /// an array without such places the last one is called beyond the end.
    pub fn call_at(
        &mut self,
        node: &'a Node,
        (functions, index): (Functions, Option<&'a Node>),
    ) -> Lowered<Option<ValueId>> {
        let index = match index {
            Some(index) => self.index(index)?,
            None => self.b.int(0, Type::U32),
        };
        let ty = match self.ctype(node) {
            CType::Void => None,
            _ => Some(self.type_of(node)?),
        };
        let known = self.known(Some(index));
        let last = functions.iter().all(Option::is_some).then(|| functions.last().cloned());
        let last = last.flatten().flatten();
        if let Some(known) = known {
            return match functions.get(known as usize).cloned().unwrap_or(last) {
                Some(name) => self.user_call(&name, node, &node.inner[1..]),
                None => Ok(ty.map(|ty| self.zero(ty))),
            };
        }
        let mut choices: Vec<(String, Vec<u64>)> = Vec::new();
        for (number, name) in (0..).zip(functions) {
            let Some(name) = name.filter(|name| last.as_ref() != Some(name)) else { continue };
            match choices.iter_mut().find(|(other, _)| *other == name) {
                Some((_, numbers)) => numbers.push(number),
                None => choices.push((name, vec![number])),
            }
        }
        Ok(self.call_one_of(node, index, (&choices, last.as_deref()), ty)?.first().copied())
    }

    fn call_one_of(
        &mut self,
        node: &'a Node,
        index: ValueId,
        (choices, last): (&[(String, Vec<u64>)], Option<&str>),
        ty: Option<Type>,
    ) -> Lowered<Vec<ValueId>> {
        let Some(((name, numbers), others)) = choices.split_first() else {
            let value = match last {
                Some(last) => self.user_call(last, node, &node.inner[1..])?,
                None => ty.map(|ty| self.zero(ty)),
            };
            return Ok(value.into_iter().collect());
        };
        let cond = self.is_one_of(index, numbers);
        let types: Vec<Type> = ty.into_iter().collect();
        self.branch(
            cond,
            None,
            &types,
            |f| Ok(f.user_call(name, node, &node.inner[1..])?.into_iter().collect()),
            |f| f.call_one_of(node, index, (others, last), ty),
        )
    }

    /// True where an expression is a function.
    pub fn is_function(
        &mut self,
        (functions, index): (Functions, Option<&'a Node>),
    ) -> Lowered<ValueId> {
        let index = match index {
            Some(index) => self.index(index)?,
            None => self.b.int(0, Type::U32),
        };
        let numbers = (0..).zip(&functions).filter(|(_, name)| name.is_some());
        let numbers: Vec<u64> = numbers.map(|(number, _)| number).collect();
        Ok(self.is_one_of(index, &numbers))
    }

    fn is_one_of(&mut self, value: ValueId, numbers: &[u64]) -> ValueId {
        let mut any = None;
        for number in numbers {
            let number = self.b.int(*number, Type::U32);
            let same = self.b.cmp(CmpOp::Eq, value, number);
            any = Some(match any {
                None => same,
                Some(any) => self.op(Op::Bin(BinOp::Or, any, same), Type::BOOL),
            });
        }
        any.unwrap_or_else(|| self.b.int(0, Type::BOOL))
    }
}
