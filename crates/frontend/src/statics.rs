//! Variables of static storage duration (C11, 6.2.4): outside functions, or `static` inside one.
//!
//! They are state that packets share, so each is a table of kind `array`: of one entry, or of one
//! for each element of an array, row by row if it has several dimensions. Reading one looks an
//! entry up, writing one updates it. Tables begin with zeroes on every target: a variable that
//! begins with another number is kept as the difference from that, a struct as the bits that
//! differ.

use nicforge_ir::{
    BinOp, CmpOp, CommuteOp, ConstArray, Op, Proj, Table, TableId, TableKind, Type, UnOp, ValueId,
};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::decl::MAX_ENTRIES;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::overlay::{MOST, leaves};
use crate::place::{Place, Root};
use crate::storage::{Begins, Static};
use crate::unit::{Global, Lowered, Unit};

impl<'a> Unit<'a> {
    /// Declares the table of a variable.
    ///
    /// # Errors
    /// Reports types that values cannot have, and first values that the table cannot stand for.
    pub fn static_variable(&mut self, node: &'a Node, ty: &CType) -> Lowered<Global> {
        let span = node.name_span;
        if node.storage == "extern" {
            let message = format!("`{}` is declared, but defined nowhere", node.name);
            let help = "define it in this file: without `extern`";
            return Err(self.refuse(codes::GLOBAL, span, message, help));
        }
        let (mut element, mut dims) = (ty, Vec::new());
        while let CType::Array(inner, len) = element {
            dims.push(*len);
            element = inner;
        }
        let value = self.value_type_of(element, span)?;
        let entries = dims.iter().fold(1, |entries: u32, len| entries.saturating_mul(*len));
        if !(1..=MAX_ENTRIES).contains(&entries) {
            let message = format!("`{}` has {entries} elements", node.name);
            let help = format!("1 to {MAX_ENTRIES} of them are kept");
            return Err(self.refuse(codes::TABLE_CAPACITY, span, message, &help));
        }
        let begins = self.begins(node, ty, value)?;
        let taken = |name: &str| self.prog.tables.values().any(|table| table.name == name);
        let name = free_name(&node.name, taken);
        let table = self.prog.tables.push(Table {
            name,
            kind: TableKind::Array,
            key: Type::U32,
            key_big_endian: false,
            value,
            capacity: entries,
            buf: None,
            max_replicas: None,
            by_number: false,
            shared: false,
            span,
        });
        self.statics.insert(table, Static { dims, begins });
        Ok(Global::Static(table))
    }

    fn begins(&mut self, node: &'a Node, ty: &CType, value: Type) -> Lowered<Begins> {
        let init = node.inner.iter().find(|child| !child.kind.ends_with("Attr"));
        let Some(init) = init.filter(|init| !self.is_zero(init)) else { return Ok(Begins::Zero) };
        let whole = self.value_type_of(ty, node.name_span)?;
        let bytes = self.init_bytes(init, whole)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Begins::Zero);
        }
        if leaves(&self.prog, value).len() > MOST {
            let message = format!("`{}` changes, and does not begin with zeroes", node.name);
            let help = format!("begin with zeroes: structs of up to {MOST} integers need not");
            return Err(self.refuse(codes::GLOBAL, node.name_span, message, &help));
        }
        if !whole.is_int() {
            let taken = |name: &str| self.prog.consts.values().any(|array| array.name == name);
            let name = free_name(&format!("{}_begins", node.name), taken);
            let array = ConstArray { name, elem: value, bytes, span: node.name_span };
            return Ok(Begins::Elements(self.prog.consts.push(array)));
        }
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(&bytes);
        Ok(Begins::With(u64::from_le_bytes(raw)))
    }

    /// True if an initialiser gives nothing but zeroes, however much there is.
    fn is_zero(&mut self, node: &'a Node) -> bool {
        let node = node.strip();
        match node.kind.as_str() {
            "ImplicitValueInitExpr" => true,
            "InitListExpr" => node.inner.iter().all(|child| self.is_zero(child)),
            _ => self.eval(node) == Some(0),
        }
    }

    /// The type of a variable.
    pub fn static_type(&mut self, table: TableId) -> Type {
        let (value, dims) = (self.prog.tables[table].value, self.statics[&table].dims.clone());
        dims.into_iter().rev().fold(value, |element, len| self.prog.array_of(element, len))
    }
}

/// A name, or the first of `name_2`, `name_3`, … that nothing has.
fn free_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_string()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_default()
}

impl FnLower<'_, '_, '_> {
    /// All of a variable.
    pub fn static_place(&mut self, table: TableId) -> Place {
        let whole = self.unit.static_type(table);
        Place::root(Root::Static(table), whole)
    }

    /// The key of the entry that a path into a variable leads to, and the rest of the path; `None`
    /// if it leads to several.
    fn entry_at<'p>(&mut self, table: TableId, path: &'p [Proj]) -> Option<(ValueId, &'p [Proj])> {
        let dims = self.unit.statics[&table].dims.clone();
        let (indices, rest) = path.split_at_checked(dims.len())?;
        let (mut sum, mut inside) = (None, None);
        for (step, len) in indices.iter().zip(&dims) {
            let Proj::Index(index) = step else { return None };
            // The table says what is beyond its end; a sum may come to another row's element.
            let known = self.known(Some(*index));
            if dims.len() > 1 && known.is_none_or(|known| known >= u64::from(*len)) {
                let end = self.b.int((*len).into(), Type::U32);
                let fits = self.b.cmp(CmpOp::Lt, *index, end);
                inside = Some(match inside {
                    None => fits,
                    Some(inside) => self.op(Op::Bin(BinOp::And, inside, fits), Type::BOOL),
                });
            }
            sum = Some(match sum {
                None => *index,
                Some(sum) => {
                    let len = self.b.int((*len).into(), Type::U32);
                    let row = self.op(Op::Bin(BinOp::Mul, sum, len), Type::U32);
                    self.op(Op::Bin(BinOp::Add, row, *index), Type::U32)
                }
            });
        }
        let mut key = sum.unwrap_or_else(|| self.b.int(0, Type::U32));
        if let Some(inside) = inside {
            let beyond = self.b.int(u32::MAX.into(), Type::U32);
            key = self.op(Op::Select { cond: inside, then: key, other: beyond }, Type::U32);
        }
        Some((key, rest))
    }

    /// The part of a variable, of type `ty`, that a path leads to.
    pub fn read_static(&mut self, table: TableId, path: &[Proj], ty: Type) -> ValueId {
        let Some((key, rest)) = self.entry_at(table, path) else {
            let mut whole = self.zero(ty);
            for (path, index, ty_of) in self.parts_of_array(table, path, ty) {
                let value = self.read_static(table, &path, ty_of);
                whole = self.op(Op::Set { agg: whole, path: vec![index], value }, ty);
            }
            return whole;
        };
        let agg = self.read_entry(table, key);
        match rest {
            [] => agg,
            rest => self.op(Op::Get { agg, path: rest.to_vec() }, ty),
        }
    }

    /// Puts `value` at the part of a variable that a path leads to.
    pub fn write_static(&mut self, table: TableId, path: &[Proj], value: ValueId) {
        let Some((key, rest)) = self.entry_at(table, path) else {
            let ty = self.b.body.ty(value);
            for (path, index, ty) in self.parts_of_array(table, path, ty) {
                let element = self.op(Op::Get { agg: value, path: vec![index] }, ty);
                self.write_static(table, &path, element);
            }
            return;
        };
        let value = match rest {
            [] => self.moved_by_begin(table, key, value, BinOp::Sub),
            rest => {
                let agg = self.read_entry(table, key);
                let ty = self.b.body.ty(agg);
                let agg = self.op(Op::Set { agg, path: rest.to_vec(), value }, ty);
                self.moved_by_begin(table, key, agg, BinOp::Sub)
            }
        };
        self.op(Op::Update { table, key, value }, Type::BOOL);
    }

    /// The elements of an array that a path leads to: their paths, indices and type. Reports arrays
    /// of too many entries.
    fn parts_of_array(
        &mut self,
        table: TableId,
        path: &[Proj],
        ty: Type,
    ) -> Vec<(Vec<Proj>, Proj, Type)> {
        let Type::Array(id) = ty else { return Vec::new() };
        let entry = self.unit.size_of(self.unit.prog.tables[table].value);
        let entries = self.unit.size_of(ty) / entry.max(1);
        if entries > MOST as u64 {
            let name = &self.unit.prog.tables[table].name;
            let message = format!("this takes {entries} elements of `{name}` at once");
            let help = format!("write a loop over them: {MOST} are the most");
            self.failed = true;
            self.refuse(codes::TOO_LARGE, self.b.span, message, &help);
            return Vec::new();
        }
        let def = self.unit.prog.arrays[id];
        let element = |number: u32| {
            let index = Proj::Index(self.b.int(number.into(), Type::U32));
            ([path, &[index]].concat(), index, def.elem)
        };
        (0..def.len).map(element).collect()
    }

    fn read_entry(&mut self, table: TableId, key: ValueId) -> ValueId {
        let value = self.unit.prog.tables[table].value;
        let (_, entry) = self.b.push2(Op::Lookup { table, key }, Type::BOOL, value);
        self.moved_by_begin(table, key, entry, BinOp::Add)
    }

    /// The value that a variable's entry stands for, by `Add`, or the entry that stands for a
    /// value, by `Sub`. Bits of structs that begin with 1 are turned, either way.
    fn moved_by_begin(&mut self, table: TableId, key: ValueId, of: ValueId, op: BinOp) -> ValueId {
        let ty = self.b.body.ty(of);
        let begin = match self.unit.statics[&table].begins {
            Begins::Zero => return of,
            Begins::With(number) => self.b.int(number, ty),
            Begins::Elements(array) => self.op(Op::ConstElem { array, index: key }, ty),
        };
        if ty.is_int() {
            let op = if ty == Type::BOOL { BinOp::Xor } else { op };
            return self.op(Op::Bin(op, of, begin), ty);
        }
        let mut moved = of;
        for leaf in leaves(&self.unit.prog, ty) {
            let path = self.projections(&leaf.path);
            let mut part = |agg| self.op(Op::Get { agg, path: path.clone() }, leaf.ty);
            let (value, begin) = (part(moved), part(begin));
            let value = self.op(Op::Bin(BinOp::Xor, value, begin), leaf.ty);
            moved = self.op(Op::Set { agg: moved, path, value }, ty);
        }
        moved
    }

    /// `place += amount` and the like as one op, if the place is an integer of a variable's entry:
    /// replicas can do it side by side. Gives whether it was done.
    pub fn commute_static(&mut self, place: &Place, opcode: &str, amount: ValueId) -> bool {
        let Root::Static(table) = place.root else { return false };
        let begins = self.unit.statics[&table].begins;
        let is_sum = matches!(begins, Begins::Zero) || self.unit.prog.tables[table].value.is_int();
        let op = match opcode {
            _ if !is_sum => return false,
            "+" | "-" => CommuteOp::Add,
            "|" if matches!(begins, Begins::Zero) => CommuteOp::Or,
            _ => return false,
        };
        let is_int = matches!(place.ty, Type::Int { bits: 8.., .. });
        if !is_int || place.narrow {
            return false;
        }
        let Some((key, rest)) = self.entry_at(table, &place.path) else { return false };
        let element = self.unit.prog.tables[table].value;
        let is_fixed = |number: usize| match rest[number] {
            Proj::Field(_) => true,
            Proj::Index(index) => match self.unit.prog.project(element, &rest[..number]) {
                Some(Type::Array(id)) => {
                    let len = u64::from(self.unit.prog.arrays[id].len);
                    self.known(Some(index)).is_some_and(|index| index < len)
                }
                _ => false,
            },
        };
        if !(0..rest.len()).all(is_fixed) {
            return false;
        }
        let mut amount = self.b.cast(amount, place.ty);
        if opcode == "-" {
            amount = self.op(Op::Un(UnOp::Neg, amount), place.ty);
        }
        self.b.push0(Op::Commute { op, table, key, path: rest.to_vec(), amount });
        true
    }
}
