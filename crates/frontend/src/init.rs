//! Initialisers of local variables and compound literals: the zero value with parts replaced; and
//! strings.

use nicforge_ir::{ConstArray, Op, Proj, Type, ValueId};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::place::Place;
use crate::strings::{initialiser, unescape};
use crate::unit::{Failed, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// The value of an initialiser for type `ty`.
    pub fn initial_value(&mut self, node: &'a Node, ty: Type) -> Lowered<ValueId> {
        let stripped = node.strip();
        if let Some(value) = initialiser(node).and_then(|text| self.characters(text, ty)) {
            return Ok(value);
        }
        if stripped.kind != "InitListExpr" && stripped.kind != "ImplicitValueInitExpr" {
            return self.expr(node);
        }
        if let (Type::Int { .. }, Some(only)) = (ty, stripped.inner.first()) {
            return self.expr(only);
        }
        if let Some(value) = self.initial_over(stripped, ty) {
            return value;
        }
        let zero = self.at(node.span, |f| f.zero(ty));
        self.fill(stripped, ty, &mut Vec::new(), zero, ty)
    }

    /// The value of a union from an initialiser of a member that it is not kept as.
    fn initial_over(&mut self, list: &'a Node, ty: Type) -> Option<Lowered<ValueId>> {
        let member = self.unit.lies_over.get(&list.member)?.ty;
        if self.unit.is_zero(list) {
            return Some(Ok(self.at(list.span, |f| f.zero(ty))));
        }
        let value = match list.inner.first() {
            Some(first) => self.initial_value(first, member),
            None => Ok(self.at(list.span, |f| f.zero(member))),
        };
        Some(value.map(|value| self.at(list.span, |f| f.laid_over(value, ty))))
    }

    /// Sets the parts an initialiser list names, `path` deep inside `agg`.
    fn fill(
        &mut self,
        list: &'a Node,
        ty: Type,
        path: &mut Vec<Proj>,
        mut agg: ValueId,
        agg_ty: Type,
    ) -> Lowered<ValueId> {
        let children = list.inner.iter().skip(list.flags.has_filler.into());
        let fields: Vec<u32> = match ty {
            Type::Struct(id) => {
                let fields = self.unit.prog.structs[id].fields.iter().enumerate();
                fields.filter(|(_, f)| !f.is_padding()).map(|(number, _)| number as u32).collect()
            }
            _ => Vec::new(),
        };
        for (number, child) in children.enumerate() {
            let child = child.strip();
            if child.kind == "ImplicitValueInitExpr" {
                continue;
            }
            let (step, part) = match ty {
                Type::Struct(id) => {
                    let field = *fields.get(number).ok_or(Failed)?;
                    (Proj::Field(field), self.unit.prog.structs[id].fields[field as usize].ty)
                }
                Type::Array(id) => {
                    let index = self.at(child.span, |f| f.b.int(number as u64, Type::U32));
                    (Proj::Index(index), self.unit.prog.arrays[id].elem)
                }
                _ => return Err(Failed),
            };
            path.push(step);
            let over = self.unit.lies_over.contains_key(&child.member);
            let text = initialiser(child).is_some();
            if child.kind == "InitListExpr" && part.is_aggregate() && !over && !text {
                agg = self.fill(child, part, path, agg, agg_ty)?;
            } else {
                let value = self.initial_value(child, part)?;
                agg = self
                    .at(child.span, |f| f.op(Op::Set { agg, path: path.clone(), value }, agg_ty));
            }
            path.pop();
        }
        Ok(agg)
    }

    /// The constant array that a literal is, of type `ty`.
    pub fn text(&mut self, literal: &Node, ty: Type) -> Lowered<Place> {
        let elem = match ty {
            Type::Array(id) => self.unit.prog.arrays[id].elem,
            ty => ty,
        };
        if self.unit.size_of(elem) != 1 {
            let help = "write its characters as numbers: { 'a', 'b' }";
            let message = "a string of wide characters cannot be a value";
            return Err(self.refuse(codes::STRING, literal.span, message, help));
        }
        let mut bytes = unescape(literal.value.as_deref().unwrap_or_default());
        bytes.resize(self.unit.size_of(ty) as usize, 0);
        let same = |array: &ConstArray| array.elem == elem && array.bytes == bytes;
        if let Some((id, _)) = self.unit.prog.consts.iter().find(|(_, array)| same(array)) {
            return Ok(self.constant(id));
        }
        let is_taken = |name: &String| self.unit.prog.consts.values().any(|c| c.name == *name);
        let mut names = (1..).map(|number| format!("text_{number}"));
        let name = names.find(|name| !is_taken(name)).unwrap_or_default();
        let id = self.unit.prog.consts.push(ConstArray { name, elem, bytes, span: literal.span });
        Ok(self.constant(id))
    }

    /// An array of characters that begins with a literal's; the rest is zero.
    pub fn characters(&mut self, literal: &Node, ty: Type) -> Option<ValueId> {
        let Type::Array(id) = ty else { return None };
        let def = self.unit.prog.arrays[id];
        let bytes = unescape(literal.value.as_deref()?);
        if self.unit.size_of(def.elem) != 1 {
            return None;
        }
        Some(self.at(literal.span, |f| {
            let mut agg = f.zero(ty);
            for (number, byte) in (0..def.len).zip(bytes) {
                let index = f.b.int(number.into(), Type::U32);
                let value = f.b.int(byte.into(), def.elem);
                agg = f.op(Op::Set { agg, path: vec![Proj::Index(index)], value }, ty);
            }
            agg
        }))
    }
}
