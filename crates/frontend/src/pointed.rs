//! Memory that pointers lead to: variables, parts of them, and targets of parameters.

use nicforge_ir::{BinOp, Op, Proj, Span, Type, ValueId};

use crate::assigned::root_decl;
use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarKind};
use crate::place::{Memory, Place, Root};
use crate::unit::{Failed, Global, Lowered};

const ADDRESS_HELP: &str =
    "point to one variable, `T *p = &variable`, or take the address in a call: `f(&variable)`";

impl<'a> FnLower<'_, 'a, '_> {
    /// The place that a pointer leads to, as its type has it: `&place`, or a parameter.
    pub fn target(&mut self, node: &'a Node) -> Lowered<Place> {
        let (whole, mut node) = (node, node.strip());
        // What the outermost cast says that is there.
        let mut cast = CType::Void;
        loop {
            match node.cast.as_str() {
                "BitCast" => {
                    if let (CType::Void, CType::Pointer { to, .. }) = (&cast, self.ctype(node)) {
                        cast = *to;
                    }
                }
                "NoOp" | "LValueToRValue" => {}
                "ArrayToPointerDecay" if cast == CType::Void => {
                    return Err(self.refuse(
                        codes::DECAY,
                        node.span,
                        "an array cannot be used as a pointer to its first element",
                        "pass the address of the whole array (`&array`) or of a struct that \
                         holds it",
                    ));
                }
                _ => break,
            }
            node = node.inner[0].strip();
        }
        if cast == CType::Void {
            if node.kind == "UnaryOperator" && node.opcode == "&" {
                return self.place(&node.inner[0]);
            }
            let memory = self.memory(node)?;
            return match self.ctype(node) {
                CType::Pointer { to, .. } if *to != CType::Void => {
                    let ty = self.unit.value_type_of(&to, whole.span)?;
                    self.seen_as(memory, ty, whole.span)
                }
                _ => Ok(self.element_of(memory)),
            };
        }
        let memory = self.memory(node)?;
        let ty = self.unit.value_type_of(&cast, whole.span)?;
        self.seen_as(memory, ty, whole.span)
    }

    /// The memory that a pointer leads to, whatever it is cast to.
    pub fn memory(&mut self, node: &'a Node) -> Lowered<Memory> {
        let mut inner = node.strip();
        while matches!(inner.cast.as_str(), "BitCast" | "NoOp" | "LValueToRValue") {
            inner = inner.inner[0].strip();
        }
        let whole = |place| Memory { place, first: None };
        if inner.cast == "ArrayToPointerDecay" {
            return self.place(&inner.inner[0]).map(whole);
        }
        let place = inner.inner.first().map(Node::strip);
        match (inner.kind.as_str(), place) {
            ("UnaryOperator", Some(place)) if inner.opcode == "&" => match &place.inner[..] {
                [base, index] if place.kind == "ArraySubscriptExpr" => {
                    self.memory_of_element(base, index)
                }
                [pointer] if place.kind == "UnaryOperator" && place.opcode == "*" => {
                    self.memory(pointer)
                }
                _ => self.place(place).map(whole),
            },
            ("DeclRefExpr", _) => self.memory_of_param(inner),
            _ => {
                let named = root_decl(inner).and_then(|decl| self.unit.globals.get(&decl));
                match named {
                    Some(Global::Table(_)) => Err(self.table_use(inner)),
                    _ => Err(self.pointer_use(inner.span)),
                }
            }
        }
    }

    fn memory_of_param(&mut self, node: &'a Node) -> Lowered<Memory> {
        let referenced = node.referenced.as_ref().ok_or(Failed)?;
        if let Some(memory) = self.leads_to.get(&referenced.id) {
            return Ok(memory.clone());
        }
        match self.var_of.get(&referenced.id) {
            Some(&var) if matches!(self.vars[var].kind, VarKind::Target { .. }) => {
                let place = Place::root(Root::Var(var), self.vars[var].ty);
                Ok(Memory { place, first: self.firsts.get(&referenced.id).copied() })
            }
            Some(&var) if self.vars[var].kind == VarKind::Packet => Err(self.refuse(
                codes::ADDRESS_OF,
                node.span,
                "a packet's memory cannot be reached by a pointer",
                "read it with nf_extract or nf_load, write it with nf_emit or nf_store",
            )),
            Some(_) => Err(self.pointer_use(node.span)),
            None => self.named_place(node).map(|place| Memory { place, first: None }),
        }
    }

    /// The memory from `pointer[index]` on.
    pub fn memory_of_element(&mut self, pointer: &'a Node, index: &'a Node) -> Lowered<Memory> {
        let CType::Pointer { to, .. } = self.ctype(pointer) else {
            return Err(self.pointer_use(pointer.span));
        };
        let elem = self.unit.value_type_of(&to, pointer.span)?;
        let memory = self.memory(pointer)?;
        let mut index = self.index(index)?;
        let memory = match self.larger(&memory, elem) {
            // The index is counted in what is there.
            Some(ratio) => {
                let ratio = self.b.int(ratio, Type::U32);
                index = self.op(Op::Bin(BinOp::Mul, index, ratio), Type::U32);
                memory
            }
            None => self.as_array(memory, elem, pointer.span)?,
        };
        let first = match memory.first {
            Some(first) => self.op(Op::Bin(BinOp::Add, first, index), Type::U32),
            None => index,
        };
        Ok(Memory { first: Some(first), ..memory })
    }

    /// The number of integers there that make one element of a type, if the first one varies.
    fn larger(&self, memory: &Memory, elem: Type) -> Option<u64> {
        let Type::Array(id) = memory.place.ty else { return None };
        let of = self.unit.prog.arrays[id].elem;
        let (small, large) = (self.unit.size_of(of), self.unit.size_of(elem));
        let whole = of.is_int() && large > small && large.is_multiple_of(small);
        (whole && self.known(memory.first).is_none()).then(|| large / small)
    }

    /// The place of a pointer's first element.
    pub fn element_of(&mut self, memory: Memory) -> Place {
        let Memory { mut place, first } = memory;
        if let (Some(first), Type::Array(id)) = (first, place.ty) {
            place.ty = self.unit.prog.arrays[id].elem;
            place.narrow = false;
            place.path.push(Proj::Index(first));
        }
        place
    }

    /// Memory as an array of elements of a type.
    fn as_array(&mut self, memory: Memory, elem: Type, span: Span) -> Lowered<Memory> {
        let Memory { place, first } = memory;
        let of = match place.ty {
            Type::Array(id) => self.unit.prog.arrays[id].elem,
            ty => ty,
        };
        if of == elem && matches!(place.ty, Type::Array(_)) {
            return Ok(Memory { place, first });
        }
        let (size, all) = (self.unit.size_of(elem), self.unit.size_of(place.ty));
        let (at, first) = match (self.known(first), first) {
            (Some(known), _) => (known * self.unit.size_of(of), None),
            // An index of larger elements is one of smaller ones.
            (None, Some(first)) if self.unit.size_of(of).is_multiple_of(size) => {
                let ratio = self.b.int(self.unit.size_of(of) / size, Type::U32);
                (0, Some(self.op(Op::Bin(BinOp::Mul, first, ratio), Type::U32)))
            }
            _ => {
                let help = "point to an array of such elements, or take them one by one";
                let message = "an index that varies cannot be one of larger elements";
                return Err(self.refuse(codes::POINTER_USE, span, message, help));
            }
        };
        let room = all.saturating_sub(at) / size;
        let array = self.unit.prog.array_of(elem, room.max(1) as u32);
        let place = self.over(place, at, array, span)?;
        Ok(Memory { place, first })
    }

    /// The index of a pointer's first element, if it is constant; without one it is 0.
    pub fn known(&self, first: Option<ValueId>) -> Option<u64> {
        match first.map(|first| self.b.body.def_op(first)) {
            None => Some(0),
            Some(Some(Op::Int(index))) => Some(*index),
            Some(_) => None,
        }
    }

    /// The place that a pointer to another type finds there.
    pub fn seen_as(&mut self, memory: Memory, ty: Type, span: Span) -> Lowered<Place> {
        if memory.first.is_none() && memory.place.ty == ty {
            return Ok(memory.place);
        }
        let size = self.unit.size_of(ty);
        let of = match memory.place.ty {
            Type::Array(id) => self.unit.prog.arrays[id].elem,
            ty => ty,
        };
        if of == ty && matches!(memory.place.ty, Type::Array(_)) {
            let first = memory.first.unwrap_or_else(|| self.b.int(0, Type::U32));
            return Ok(self.element_of(Memory { first: Some(first), ..memory }));
        }
        match (self.known(memory.first), memory.first) {
            (Some(first), _) => {
                let at = first * self.unit.size_of(of);
                self.over(memory.place, at, ty, span)
            }
            (None, Some(first)) if size > self.unit.size_of(of) => {
                let Memory { place, .. } = memory;
                let fits = of.is_int() && size.is_multiple_of(self.unit.size_of(of));
                match fits && size <= self.unit.size_of(place.ty) {
                    true => Ok(place.from(first, ty)),
                    false => Err(self.not_there(size, span)),
                }
            }
            _ => {
                let element = self.element_of(memory);
                self.over(element, 0, ty, span)
            }
        }
    }

    /// The indices that two pointers have in one array.
    ///
    /// # Errors
    /// Reports pointers of which it cannot be seen that they lead into one array.
    pub fn indices(&mut self, node: &'a Node) -> Lowered<(ValueId, ValueId)> {
        let [left, right] = &node.inner[..] else { return Err(Failed) };
        let (a, b) = (self.memory(left)?, self.memory(right)?);
        if !self.is_one_place(&a.place, &b.place) {
            return Err(self.pointer_use(node.span));
        }
        let zero = self.b.int(0, Type::U32);
        Ok((a.first.unwrap_or(zero), b.first.unwrap_or(zero)))
    }

    /// True if two places are surely one.
    pub fn is_one_place(&self, a: &Place, b: &Place) -> bool {
        let roots = match (&a.root, &b.root) {
            (Root::Var(a), Root::Var(b)) => a == b,
            (Root::Const(a), Root::Const(b)) => a == b,
            (Root::Static(a), Root::Static(b)) => a == b,
            (Root::Over(a, from), Root::Over(b, to)) => from == to && self.is_one_place(a, b),
            _ => false,
        };
        let whole = a.path.len() == b.path.len();
        roots && a.ty == b.ty && whole && self.common(&a.path, &b.path) == a.path.len()
    }

    /// The number of steps that two ways surely have in common.
    pub fn common(&self, a: &[Proj], b: &[Proj]) -> usize {
        let known = |index: &ValueId| self.known(Some(*index));
        let same = |(a, b): &(&Proj, &Proj)| match (a, b) {
            (Proj::Field(a), Proj::Field(b)) => a == b,
            (Proj::Index(a), Proj::Index(b)) => {
                a == b || known(a).is_some() && known(a) == known(b)
            }
            _ => false,
        };
        a.iter().zip(b).take_while(same).count()
    }

    fn not_there(&mut self, bytes: u64, span: Span) -> Failed {
        let message = format!("{bytes} bytes are not all in the variable that this points to");
        let help = "point to a variable with all the bytes, or assign its members";
        self.refuse(codes::POINTER_USE, span, message, help)
    }

    /// The bytes of a place from one on, with another type.
    fn over(&mut self, place: Place, at: u64, ty: Type, span: Span) -> Lowered<Place> {
        let bytes = self.unit.size_of(ty);
        if at + bytes > self.unit.size_of(place.ty) {
            return Err(self.not_there(bytes, span));
        }
        let (place, at) = self.narrowed(&place, 8 * at, 8 * bytes);
        if at == 0 && place.ty == ty && !place.narrow {
            return Ok(place);
        }
        if place.narrow {
            let help = "point to a variable with all the bytes, or assign its members";
            let message = "this cannot be seen so";
            return Err(self.refuse(codes::POINTER_USE, span, message, help));
        }
        Ok(place.over(at, ty))
    }

    pub fn table_use(&mut self, node: &Node) -> Failed {
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
                "write `*{name}`, `{name}->member` or `{name}[i]`, or hand it on: `f({name})`"
            ),
        )
    }
}
