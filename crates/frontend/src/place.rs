//! Places: what an lvalue denotes. Aggregates are values, so a place is a variable and a path into
//! it.

use nicforge_ir::{ConstId, Op, Program, Proj, Span, TableId, Type, ValueId};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarIndex, VarKind};
use crate::pointers::unqualified;
use crate::unit::{Failed, Global, Lowered};

/// Where a place starts.
#[derive(Clone, Debug)]
pub enum Root {
    Var(VarIndex),
    /// A constant array; a struct is the only element of one.
    Const(ConstId),
    /// A variable of static storage duration, which is a table.
    Static(TableId),
    /// Part of a value that is no variable, such as a function's result.
    Value(ValueId),
    /// The bytes of a place from a bit on, with another type: a union's member.
    Over(Box<Place>, u64),
    /// The bytes of an array of integers from an element on, with another type.
    From(Box<Place>, ValueId),
}

/// A variable or a part of one.
#[derive(Clone, Debug)]
pub struct Place {
    pub root: Root,
    pub path: Vec<Proj>,
    /// Type of the part.
    pub ty: Type,
    /// Type of the root.
    root_ty: Type,
    /// The part is a bit-field, which does not keep all bits of its type.
    pub narrow: bool,
}

/// Memory that a pointer leads to: a variable or part of one, or an array from an element on.
#[derive(Clone, Debug)]
pub struct Memory {
    pub place: Place,
    pub first: Option<ValueId>,
}

/// An element of memory that is seen as another array, in what is there.
pub enum There {
    Place(Place),
    Inside(Inside),
}

/// A part of an integer.
pub struct Inside {
    pub whole: Place,
    /// Bits below the part, of the integer's type.
    pub shift: ValueId,
    pub ty: Type,
}

impl Place {
    /// All of a root of type `ty`.
    pub fn root(root: Root, ty: Type) -> Place {
        Place { root, path: Vec::new(), ty, root_ty: ty, narrow: false }
    }

    pub fn of_value(value: ValueId, ty: Type) -> Place {
        Place::root(Root::Value(value), ty)
    }

    /// A part of this place.
    pub fn part(&self, path: &[Proj], ty: Type) -> Place {
        let path = self.path.iter().chain(path).copied().collect();
        Place { path, ty, ..self.clone() }
    }

    /// The variable that it is a part of, whatever types lie between.
    pub fn variable(&self) -> Option<VarIndex> {
        match &self.root {
            Root::Var(var) => Some(*var),
            Root::Over(place, _) => place.variable(),
            _ => None,
        }
    }

    /// The table of the static variable that it is a part of.
    pub fn static_variable(&self) -> Option<TableId> {
        match &self.root {
            Root::Static(table) => Some(*table),
            Root::Over(place, _) => place.static_variable(),
            _ => None,
        }
    }

    pub fn root_type(&self) -> Type {
        self.root_ty
    }

    /// Makes this the part around it that `steps` steps lead to.
    pub fn shorten(&mut self, steps: usize, program: &Program) {
        if steps < self.path.len() {
            self.path.truncate(steps);
            self.ty = program.project(self.root_ty, &self.path).unwrap_or(self.ty);
        }
    }

    /// The bytes from a bit on, with another type.
    pub fn over(self, at: u64, ty: Type) -> Place {
        Place::root(Root::Over(Box::new(self), at), ty)
    }

    /// The bytes from an element of this array on, with another type.
    pub fn from(self, first: ValueId, ty: Type) -> Place {
        Place::root(Root::From(Box::new(self), first), ty)
    }

    /// The place that a union's member lies over, else this one.
    pub fn kept(&self) -> &Place {
        match &self.root {
            Root::Over(place, _) | Root::From(place, _) => place.kept(),
            _ => self,
        }
    }
}

impl<'a> FnLower<'_, 'a, '_> {
    /// The place an lvalue denotes.
    pub fn place(&mut self, node: &'a Node) -> Lowered<Place> {
        let node = node.strip();
        match node.kind.as_str() {
            "DeclRefExpr" => self.named_place(node),
            "MemberExpr" => {
                let mut place = if node.flags.arrow {
                    self.target(&node.inner[0])?
                } else {
                    self.place(&node.inner[0])?
                };
                // Reading the type declares its members.
                self.unit.ctype(&node.inner[0].ty);
                if let Some(over) = self.unit.lies_over.get(&node.member) {
                    return Ok(place.over(0, over.ty));
                }
                let (Type::Struct(id), Some(field)) = (place.ty, self.unit.field(node.member))
                else {
                    return Err(Failed);
                };
                let def = &self.unit.prog.structs[id].fields[field as usize];
                place.ty = def.ty;
                place.narrow = def.bit_width.is_some();
                place.path.push(Proj::Field(field));
                Ok(place)
            }
            "ArraySubscriptExpr" => self.element_place(node),
            "UnaryOperator" if node.opcode == "*" => {
                let pointer = unqualified(&node.inner[0]);
                match pointer.cast.as_str() {
                    "ArrayToPointerDecay" => self.element(&pointer.inner[0], None),
                    _ => self.target(pointer),
                }
            }
            "UnaryOperator" if node.opcode == "__extension__" => self.place(&node.inner[0]),
            "CompoundLiteralExpr" => {
                let ty = self.type_of(node)?;
                let value = self.initial_value(&node.inner[0], ty)?;
                Ok(Place::of_value(value, ty))
            }
            "StringLiteral" => {
                let ty = self.type_of(node)?;
                self.text(node, ty)
            }
            "PredefinedExpr" => self.place(node.inner.first().ok_or(Failed)?),
            // Reading a member of a call's result, of `a = b`, of `c ? a : b`.
            _ => {
                let ty = self.type_of(node)?;
                let value = self.expr(node)?;
                Ok(Place::of_value(value, ty))
            }
        }
    }

    pub fn named_place(&mut self, node: &'a Node) -> Lowered<Place> {
        let Some(referenced) = node.referenced.as_ref() else { return Err(Failed) };
        if let Some(&var) = self.var_of.get(&referenced.id) {
            let ty = self.vars[var].ty;
            if matches!(self.vars[var].kind, VarKind::Target { .. }) {
                return Err(self.pointer_param_use(node));
            }
            return Ok(Place::root(Root::Var(var), ty));
        }
        match self.unit.globals.get(&referenced.id) {
            Some(Global::ConstStruct(id)) => {
                let place = self.constant(*id);
                let first = self.b.int(0, Type::U32);
                Ok(self.element_of(Memory { place, first: Some(first) }))
            }
            Some(Global::ConstInt(value)) => {
                let value = *value as u64;
                let ty = self.type_of(node)?;
                let value = self.b.int(value, ty);
                Ok(Place::of_value(value, ty))
            }
            Some(Global::ConstArray(id)) => Ok(self.constant(*id)),
            Some(Global::Static(table)) => {
                let table = *table;
                Ok(self.static_place(table))
            }
            Some(Global::Table(_)) => Err(self.table_use(node)),
            Some(Global::Broken) => Err(Failed),
            None if referenced.kind == "FunctionDecl" => Err(self.refuse(
                codes::FUNCTION_POINTER,
                node.span,
                format!("function `{}` is used as a value", referenced.name),
                "call the function by its name; choose between functions with `if` or `switch`",
            )),
            // Its declaration was refused and reported.
            None => Err(Failed),
        }
    }

    fn element_place(&mut self, node: &'a Node) -> Lowered<Place> {
        let [base, index] = &node.inner[..] else { return Err(Failed) };
        let decay = base.strip();
        if !matches!(self.ctype(index), CType::Int { .. }) {
            return Err(self.refuse(
                codes::POINTER_USE,
                node.span,
                "only arrays can be indexed",
                "write array[index]",
            ));
        }
        if decay.cast == "ArrayToPointerDecay" {
            return self.element(&decay.inner[0], Some(index));
        }
        let elem = self.type_of(node)?;
        let memory = self.memory_of_element(base, index)?;
        self.seen_as(memory, elem, node.span)
    }

    /// An element of an array; without an index the first.
    fn element(&mut self, array: &'a Node, index: Option<&'a Node>) -> Lowered<Place> {
        let place = self.place(array)?;
        let first = match index {
            Some(index) => self.index(index)?,
            None => self.b.int(0, Type::U32),
        };
        Ok(self.element_of(Memory { place, first: Some(first) }))
    }

    pub fn constant(&mut self, id: ConstId) -> Place {
        let def = &self.unit.prog.consts[id];
        let (elem, bytes) = (def.elem, def.bytes.len());
        let len = bytes as u32 / self.unit.prog.size_of(elem);
        let array = self.unit.prog.array_of(elem, len);
        Place::root(Root::Const(id), array)
    }

    /// An array index as `u32`; indices that `u32` cannot hold become the largest `u32`, which is
    /// beyond any end.
    pub fn index(&mut self, node: &'a Node) -> Lowered<ValueId> {
        if let Some(value) = self.unit.eval(node) {
            let value = u32::try_from(value).unwrap_or(u32::MAX);
            return Ok(self.b.int(value.into(), Type::U32));
        }
        // The conversion to a wider type says nothing more about the value.
        let value = self.expr(node)?;
        let ty = self.b.body.ty(value);
        if ty.bits().is_some_and(|bits| bits <= 32) {
            return Ok(self.b.cast(value, Type::U32));
        }
        let wide = self.b.cast(value, Type::U64);
        let limit = self.b.int(u32::MAX.into(), Type::U64);
        let fits = self.b.cmp(nicforge_ir::CmpOp::Lt, wide, limit);
        let low = self.b.cast(wide, Type::U32);
        let beyond = self.b.int(u32::MAX.into(), Type::U32);
        Ok(self.op(Op::Select { cond: fits, then: low, other: beyond }, Type::U32))
    }

    /// The value at a place.
    pub fn read(&mut self, place: &Place) -> ValueId {
        match self.element_there(place) {
            Some(There::Place(place)) => return self.read(&place),
            Some(There::Inside(part)) => return self.read_inside(&part),
            None => {}
        }
        let (agg, path) = match &place.root {
            Root::Var(var) => (self.env[*var], &place.path[..]),
            Root::Const(array) => match place.path.split_first() {
                Some((Proj::Index(index), rest)) => (self.const_element(*array, *index), rest),
                _ => return self.whole_constant(*array, place.ty),
            },
            Root::Static(table) => return self.read_static(*table, &place.path, place.ty),
            Root::Value(value) => (*value, &place.path[..]),
            Root::Over(kept, first) => {
                let (at, ty, rest) = self.known_part(place);
                (self.read_over(kept, first + at, ty), rest)
            }
            Root::From(array, first) => {
                (self.read_from(array, *first, place.root_ty), &place.path[..])
            }
        };
        if path.is_empty() {
            return agg;
        }
        self.op(Op::Get { agg, path: path.to_vec() }, place.ty)
    }

    fn const_element(&mut self, array: ConstId, index: ValueId) -> ValueId {
        let elem = self.unit.prog.consts[array].elem;
        self.op(Op::ConstElem { array, index }, elem)
    }

    /// All of a constant array as a value: rare, but initialisers of structs may copy one.
    fn whole_constant(&mut self, array: ConstId, ty: Type) -> ValueId {
        let mut value = self.zero(ty);
        let Type::Array(def) = ty else { return value };
        for number in 0..self.unit.prog.arrays[def].len {
            let index = self.b.int(number.into(), Type::U32);
            let element = self.const_element(array, index);
            value =
                self.op(Op::Set { agg: value, path: vec![Proj::Index(index)], value: element }, ty);
        }
        value
    }

    /// Bits before the smallest part of a place's root that has the place and does not depend on
    /// indices, the part's type, and the path from there.
    pub fn known_part<'p>(&self, place: &'p Place) -> (u64, Type, &'p [Proj]) {
        let program = &self.unit.prog;
        let (mut at, mut ty) = (0, place.root_ty);
        for (number, step) in place.path.iter().enumerate() {
            let next = match (ty, step) {
                (Type::Struct(id), Proj::Field(field)) => {
                    let slot = program.struct_layout(id).1[*field as usize];
                    let def = &program.structs[id].fields[*field as usize];
                    def.bit_width.is_none().then_some((u64::from(slot.bit_offset), def.ty))
                }
                (Type::Array(id), Proj::Index(index)) => {
                    let def = program.arrays[id];
                    let size = 8 * u64::from(program.size_of(def.elem));
                    match self.b.body.def_op(*index) {
                        Some(Op::Int(index)) if *index < def.len.into() => {
                            Some((index * size, def.elem))
                        }
                        _ => None,
                    }
                }
                _ => None,
            };
            let Some((more, part)) = next else { return (at, ty, &place.path[number..]) };
            (at, ty) = (at + more, part);
        }
        (at, ty, &[])
    }

    /// Puts `value` at a place.
    ///
    /// # Errors
    /// Reports places that cannot change.
    pub fn write(&mut self, place: &Place, value: ValueId, span: Span) -> Lowered<()> {
        match self.element_there(place) {
            Some(There::Place(place)) => return self.write(&place, value, span),
            Some(There::Inside(part)) => return self.write_inside(&part, value, span),
            None => {}
        }
        if let Root::Over(kept, first) = &place.root {
            let (at, ty, rest) = self.known_part(place);
            let at = first + at;
            let value = match rest {
                [] => value,
                rest => {
                    let agg = self.read_over(kept, at, ty);
                    self.op(Op::Set { agg, path: rest.to_vec(), value }, ty)
                }
            };
            return self.write_over(kept, at, value, span);
        }
        if let Root::From(array, first) = &place.root {
            let value = match &place.path[..] {
                [] => value,
                path => {
                    let agg = self.read_from(array, *first, place.root_ty);
                    self.op(Op::Set { agg, path: path.to_vec(), value }, place.root_ty)
                }
            };
            return self.write_from(array, *first, value, span);
        }
        if let Root::Static(table) = place.root {
            self.write_static(table, &place.path, value);
            return Ok(());
        }
        let Root::Var(var) = place.root else {
            let help = "copy it into a local variable first";
            return Err(self.refuse(
                codes::EXPRESSION,
                span,
                "this is not a variable and cannot be assigned",
                help,
            ));
        };
        match self.vars[var].kind {
            VarKind::Packet => return Err(self.packet_copied(span)),
            VarKind::Target { read_only: true } => {
                let name = self.vars[var].name.clone();
                let message = format!("`{name}` points to a constant");
                return Err(self.refuse(
                    codes::POINTER_PARAM,
                    span,
                    message,
                    "remove `const` from the parameter",
                ));
            }
            VarKind::Local | VarKind::Target { .. } => {}
        }
        let new = if place.path.is_empty() {
            value
        } else {
            let (agg, ty) = (self.env[var], self.vars[var].ty);
            self.op(Op::Set { agg, path: place.path.clone(), value }, ty)
        };
        self.assign(var, new);
        Ok(())
    }

    pub fn packet_copied(&mut self, span: Span) -> Failed {
        self.refuse(
            codes::PACKET_COPIED,
            span,
            "a packet handle cannot be stored, copied or compared",
            "use the parameter itself; a function may take an nf_pkt parameter",
        )
    }
}
