//! Places: what an lvalue denotes. Aggregates are values, so a place is a variable and a path into
//! it.

use nicforge_ir::{ConstId, Op, Program, Proj, Span, Type, ValueId};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarIndex, VarKind, root_decl};
use crate::overlay::{MOST, leaves};
use crate::unit::{Failed, Global, Lowered};

/// Where a place starts.
#[derive(Clone, Debug)]
pub enum Root {
    Var(VarIndex),
    /// An element of a constant array.
    Const(ConstId, ValueId),
    /// Part of a value that is no variable, such as a function's result.
    Value(ValueId),
    /// The bytes of a place from a bit on, with another type: a union's member.
    Over(Box<Place>, u64),
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

impl Place {
    pub fn of_value(value: ValueId, ty: Type) -> Place {
        Place { root: Root::Value(value), path: Vec::new(), ty, root_ty: ty, narrow: false }
    }

    /// A part of this place.
    pub fn part(&self, path: &[Proj], ty: Type) -> Place {
        let path = self.path.iter().chain(path).copied().collect();
        Place { path, ty, ..self.clone() }
    }

    /// The bytes from a bit on, with another type.
    fn over(self, at: u64, ty: Type) -> Place {
        let root = Root::Over(Box::new(self), at);
        Place { root, path: Vec::new(), ty, root_ty: ty, narrow: false }
    }

    /// The place that a union's member lies over, else this one.
    pub fn kept(&self) -> &Place {
        match &self.root {
            Root::Over(place, _) => place.kept(),
            _ => self,
        }
    }

    /// Makes an element of an array the array; its index, if it is one.
    pub fn leave_element(&mut self, program: &Program) -> Option<ValueId> {
        let Some(Proj::Index(index)) = self.path.last().copied() else { return None };
        let around = &self.path[..self.path.len() - 1];
        self.ty = program.project(self.root_ty, around)?;
        self.path.pop();
        Some(index)
    }
}

const ADDRESS_HELP: &str =
    "take addresses only in a call's arguments: `f(&variable)`; elsewhere use the variable itself";

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
                let pointer = node.inner[0].strip();
                match pointer.cast.as_str() {
                    "ArrayToPointerDecay" if pointer.inner[0].strip().kind != "StringLiteral" => {
                        self.element(&pointer.inner[0], None)
                    }
                    _ => self.target(pointer),
                }
            }
            "UnaryOperator" if node.opcode == "__extension__" => self.place(&node.inner[0]),
            "CompoundLiteralExpr" => {
                let ty = self.type_of(node)?;
                let value = self.initial_value(&node.inner[0], ty)?;
                Ok(Place::of_value(value, ty))
            }
            "StringLiteral" | "PredefinedExpr" => Err(self.refuse(
                codes::STRING,
                node.span,
                "a string cannot be a value",
                "strings may only be the format of nf_log and the reason of nf_drop",
            )),
            // Reading a member of a call's result, of `a = b`, of `c ? a : b`.
            _ => {
                let ty = self.type_of(node)?;
                let value = self.expr(node)?;
                Ok(Place::of_value(value, ty))
            }
        }
    }

    fn named_place(&mut self, node: &'a Node) -> Lowered<Place> {
        let Some(referenced) = node.referenced.as_ref() else { return Err(Failed) };
        if let Some(&var) = self.var_of.get(&referenced.id) {
            let ty = self.vars[var].ty;
            if matches!(self.vars[var].kind, VarKind::Target { .. }) {
                return Err(self.pointer_param_use(node));
            }
            return Ok(Place {
                root: Root::Var(var),
                path: Vec::new(),
                ty,
                root_ty: ty,
                narrow: false,
            });
        }
        match self.unit.globals.get(&referenced.id) {
            Some(Global::ConstStruct(id)) => {
                let id = *id;
                let ty = self.unit.prog.consts[id].elem;
                let index = self.b.int(0, Type::U32);
                Ok(Place {
                    root: Root::Const(id, index),
                    path: Vec::new(),
                    ty,
                    root_ty: ty,
                    narrow: false,
                })
            }
            Some(Global::ConstInt(value)) => {
                let value = *value as u64;
                let ty = self.type_of(node)?;
                let value = self.b.int(value, ty);
                Ok(Place::of_value(value, ty))
            }
            Some(Global::ConstArray(id)) => {
                let array = *id;
                // The whole array as a value: rare, but initialisers of structs may copy one.
                let ty = self.type_of(node)?;
                let Type::Array(def) = ty else { return Err(Failed) };
                let def = self.unit.prog.arrays[def];
                let mut value = self.zero(ty);
                for number in 0..def.len {
                    let index = self.b.int(number.into(), Type::U32);
                    let element = self.op(Op::ConstElem { array, index }, def.elem);
                    value = self.op(
                        Op::Set { agg: value, path: vec![Proj::Index(index)], value: element },
                        ty,
                    );
                }
                Ok(Place::of_value(value, ty))
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
        let base = base.strip();
        let index_type = self.ctype(index);
        if base.cast == "BitCast" && matches!(index_type, CType::Int { .. }) {
            return self.cast_element(base, index);
        }
        if base.cast != "ArrayToPointerDecay" || !matches!(index_type, CType::Int { .. }) {
            return Err(self.refuse(
                codes::POINTER_USE,
                node.span,
                "only arrays can be indexed",
                "put the array into a struct and pass the struct's address",
            ));
        }
        self.element(&base.inner[0], Some(index))
    }

    /// `((uint16_t *)&x)[i]`: of as many elements as there is room for.
    fn cast_element(&mut self, pointer: &'a Node, index: &'a Node) -> Lowered<Place> {
        let CType::Pointer { to, .. } = self.ctype(pointer) else { return Err(Failed) };
        let elem = self.unit.value_type_of(&to, pointer.span)?;
        let around = self.memory(pointer)?;
        let (around, at) = self.array_of_element(around);
        let room = self.unit.size_of(around.ty).saturating_sub(at) / self.unit.size_of(elem);
        let array = self.unit.prog.array_of(elem, room.max(1) as u32);
        let mut place = self.over(around, at, array, pointer.span)?;
        place.ty = elem;
        let index = self.index(index)?;
        place.path.push(Proj::Index(index));
        Ok(place)
    }

    /// An element of an array; without an index the first.
    fn element(&mut self, array: &'a Node, index: Option<&'a Node>) -> Lowered<Place> {
        let array = array.strip();
        let index = |lower: &mut Self| match index {
            Some(index) => lower.index(index),
            None => Ok(lower.b.int(0, Type::U32)),
        };
        let named = array.referenced.as_ref().and_then(|r| self.unit.globals.get(&r.id));
        if let Some(Global::ConstArray(id)) = named {
            let id = *id;
            let ty = self.unit.prog.consts[id].elem;
            let index = index(self)?;
            return Ok(Place {
                root: Root::Const(id, index),
                path: Vec::new(),
                ty,
                root_ty: ty,
                narrow: false,
            });
        }
        let mut place = self.place(array)?;
        let Type::Array(id) = place.ty else { return Err(Failed) };
        let index = index(self)?;
        place.ty = self.unit.prog.arrays[id].elem;
        place.narrow = false;
        place.path.push(Proj::Index(index));
        Ok(place)
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

    /// The place a pointer-valued argument points to: `&place`, or a pointer parameter handed on.
    pub fn target(&mut self, node: &'a Node) -> Lowered<Place> {
        let (whole, mut node) = (node, node.strip());
        // What the outermost cast says that is there.
        let mut cast = CType::Void;
        while matches!(node.kind.as_str(), "ImplicitCastExpr" | "CStyleCastExpr") {
            match node.cast.as_str() {
                "BitCast" => {
                    if let (CType::Void, CType::Pointer { to, .. }) = (&cast, self.ctype(node)) {
                        cast = *to;
                    }
                    node = node.inner[0].strip();
                }
                "NoOp" | "LValueToRValue" => node = node.inner[0].strip(),
                "ArrayToPointerDecay" if cast != CType::Void => {
                    let place = self.place(&node.inner[0])?;
                    return self.seen_as(place, &cast, whole.span);
                }
                "ArrayToPointerDecay" if node.inner[0].strip().kind == "StringLiteral" => {
                    return self.place(&node.inner[0]);
                }
                "ArrayToPointerDecay" => {
                    return Err(self.refuse(
                        codes::DECAY,
                        node.span,
                        "an array cannot be used as a pointer to its first element",
                        "pass the address of the whole array (`&array`) or of a struct that holds it",
                    ));
                }
                _ => return Err(self.pointer_use(node.span)),
            }
        }
        let place = self.pointed_to(node)?;
        self.seen_as(place, &cast, whole.span)
    }

    /// A place as a pointer to another type has it.
    fn seen_as(&mut self, place: Place, cast: &CType, span: Span) -> Lowered<Place> {
        if *cast == CType::Void {
            return Ok(place);
        }
        let ty = self.unit.value_type_of(cast, span)?;
        if ty == place.ty {
            return Ok(place);
        }
        let (place, at) = match self.unit.size_of(ty) > self.unit.size_of(place.ty) {
            true => self.array_of_element(place),
            false => (place, 0),
        };
        self.over(place, at, ty, span)
    }

    /// The array of an element at a constant index, and the bytes before the element.
    fn array_of_element(&self, mut place: Place) -> (Place, u64) {
        let size = self.unit.size_of(place.ty);
        if let Some(Proj::Index(index)) = place.path.last()
            && let Some(Op::Int(index)) = self.b.body.def_op(*index)
        {
            let at = index * size;
            place.leave_element(&self.unit.prog);
            return (place, at);
        }
        (place, 0)
    }

    /// The bytes of a place from one on, with another type.
    fn over(&mut self, place: Place, at: u64, ty: Type, span: Span) -> Lowered<Place> {
        let bytes = self.unit.size_of(ty);
        let all = self.unit.size_of(place.ty);
        let long = |ty: Type| leaves(&self.unit.prog, ty).len() > MOST;
        if at + bytes > all || place.narrow || long(ty) || long(place.ty) {
            let message = format!("{bytes} bytes are not all in the variable that this points to");
            let message = if at + bytes > all { message } else { "this cannot be seen so".into() };
            let help = "point to a variable with all the bytes, or assign its members";
            return Err(self.refuse(codes::POINTER_USE, span, message, help));
        }
        Ok(place.over(8 * at, ty))
    }

    /// The place that a pointer without a cast points to.
    fn pointed_to(&mut self, node: &'a Node) -> Lowered<Place> {
        match node.kind.as_str() {
            "UnaryOperator" if node.opcode == "&" => self.place(&node.inner[0]),
            "DeclRefExpr" => {
                let referenced = node.referenced.as_ref().ok_or(Failed)?;
                match self.var_of.get(&referenced.id) {
                    Some(&var) if matches!(self.vars[var].kind, VarKind::Target { .. }) => {
                        let ty = self.vars[var].ty;
                        Ok(Place {
                            root: Root::Var(var),
                            path: Vec::new(),
                            ty,
                            root_ty: ty,
                            narrow: false,
                        })
                    }
                    Some(&var) if self.vars[var].kind == VarKind::Packet => Err(self.refuse(
                        codes::ADDRESS_OF,
                        node.span,
                        "a packet's memory cannot be reached by a pointer",
                        "read it with nf_extract or nf_load, write it with nf_emit or nf_store",
                    )),
                    Some(_) => Err(self.pointer_use(node.span)),
                    None => self.named_place(node),
                }
            }
            _ => {
                let named = root_decl(node).and_then(|decl| self.unit.globals.get(&decl));
                match named {
                    Some(Global::Table(_)) => Err(self.table_use(node)),
                    _ => Err(self.pointer_use(node.span)),
                }
            }
        }
    }

    fn table_use(&mut self, node: &Node) -> Failed {
        self.refuse(
            codes::TABLE_USE,
            node.span,
            "a table is used outside a table operation",
            "use nf_lookup(&table, key, &value), nf_update(&table, key, value) and their like",
        )
    }

    pub fn pointer_use(&mut self, span: Span) -> Failed {
        self.refuse(
            codes::POINTER_USE,
            span,
            "there are no general pointers: a NIC has no common memory",
            ADDRESS_HELP,
        )
    }

    pub fn pointer_param_use(&mut self, node: &Node) -> Failed {
        let name = node.referenced.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
        self.refuse(
            codes::POINTER_PARAM,
            node.span,
            format!("pointer parameter `{name}` is used as a value"),
            &format!(
                "write `*{name}` or `{name}->member`, or hand it on to a function: `f({name})`"
            ),
        )
    }

    /// The value at a place.
    pub fn read(&mut self, place: &Place) -> ValueId {
        let (agg, path) = match &place.root {
            Root::Var(var) => (self.env[*var], &place.path[..]),
            Root::Const(array, index) => {
                let element = Op::ConstElem { array: *array, index: *index };
                (self.op(element, place.root_ty), &place.path[..])
            }
            Root::Value(value) => (*value, &place.path[..]),
            Root::Over(kept, first) => {
                let (at, ty, rest) = self.known_part(place);
                (self.read_over(kept, first + at, ty), rest)
            }
        };
        if path.is_empty() {
            return agg;
        }
        self.op(Op::Get { agg, path: path.to_vec() }, place.ty)
    }

    /// Bits before the smallest part of a place's root that has the place and does not depend on
    /// indices, the part's type, and the path from there.
    fn known_part<'p>(&self, place: &'p Place) -> (u64, Type, &'p [Proj]) {
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
