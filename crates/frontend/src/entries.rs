//! Variables of static storage duration, read and written: entries of their tables.

use std::rc::Rc;

use nicforge_ir::{BinOp, CmpOp, CommuteOp, Op, Proj, TableId, Type, UnOp, ValueId};

use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::overlay::leaves;
use crate::place::{Place, Root};
use crate::storage::{Begins, Member, Static};

/// Most elements that are read or written at once.
const MOST: u32 = 4096;
/// Most of them without a loop.
const UNROLLED: u32 = 16;

/// An entry of a table, and a path into it.
struct Entry {
    table: TableId,
    begins: Begins,
    key: ValueId,
    path: Vec<Proj>,
}

/// The part of a variable that a path leads to.
struct Part<'s> {
    kept: &'s Static,
    indices: Vec<ValueId>,
}

impl FnLower<'_, '_, '_> {
    /// All of a variable.
    pub fn static_place(&mut self, table: TableId) -> Place {
        let whole = self.unit.static_type(table);
        Place::root(Root::Static(table), whole)
    }

    /// The entry that a path into a variable leads to, else the part, of which several tables, or
    /// several entries of one, have something.
    fn entry_at<'s>(&mut self, kept: &'s Static, path: &[Proj]) -> Result<Entry, Part<'s>> {
        let mut part = Part { kept, indices: Vec::new() };
        let mut path = path;
        loop {
            let kept = part.kept;
            let Some((own, rest)) = path.split_at_checked(kept.own) else { return Err(part) };
            part.indices.extend(own.iter().filter_map(|step| match step {
                Proj::Index(index) => Some(*index),
                Proj::Field(_) => None,
            }));
            path = rest;
            let first = match path.split_first() {
                Some((Proj::Field(first), rest)) if !kept.members.is_empty() => {
                    path = rest;
                    Some(&kept.members[*first as usize])
                }
                _ if kept.members.is_empty() => None,
                _ => return Err(part),
            };
            let path = match first {
                Some(Member::Apart(inner)) => {
                    part.kept = inner;
                    continue;
                }
                Some(Member::Rest(number)) => [&[Proj::Field(*number)], path].concat(),
                None => path.to_vec(),
            };
            let Some((table, begins)) = kept.table else { return Err(part) };
            let key = self.entry_key(&part.indices, &kept.dims);
            return Ok(Entry { table, begins, key, path });
        }
    }

    /// The key of an element of an array of these dimensions.
    fn entry_key(&mut self, indices: &[ValueId], dims: &[u32]) -> ValueId {
        let (mut sum, mut inside) = (None, None);
        for (index, len) in indices.iter().zip(dims) {
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
        key
    }

    /// The part of a variable, of type `ty`, that a path leads to.
    pub fn read_static(&mut self, table: TableId, path: &[Proj], ty: Type) -> ValueId {
        let kept = Rc::clone(&self.unit.statics[&table]);
        let entry = match self.entry_at(&kept, path) {
            Ok(entry) => entry,
            Err(part) => return self.read_parts(table, path, ty, &part),
        };
        let agg = self.read_entry(&entry);
        match entry.path {
            path if path.is_empty() => agg,
            path => self.op(Op::Get { agg, path }, ty),
        }
    }

    /// Puts `value` at the part of a variable that a path leads to.
    pub fn write_static(&mut self, table: TableId, path: &[Proj], value: ValueId) {
        let kept = Rc::clone(&self.unit.statics[&table]);
        let entry = match self.entry_at(&kept, path) {
            Ok(entry) => entry,
            Err(part) => return self.write_parts(table, path, value, &part),
        };
        let value = match &entry.path[..] {
            [] => value,
            path => {
                let agg = self.read_entry(&entry);
                let ty = self.b.body.ty(agg);
                self.op(Op::Set { agg, path: path.to_vec(), value }, ty)
            }
        };
        self.update(&entry, value);
    }

    fn read_parts(&mut self, table: TableId, path: &[Proj], ty: Type, part: &Part) -> ValueId {
        let whole = self.zero(ty);
        let Type::Struct(id) = ty else {
            let read = |f: &mut Self, whole: Option<ValueId>, index, of| {
                let value = f.read_static(table, &[path, &[index]].concat(), of);
                whole.map(|agg| f.op(Op::Set { agg, path: vec![index], value }, ty))
            };
            return self.each_element(table, ty, Some(whole), read).unwrap_or(whole);
        };
        let rest = part.kept.table.map(|(table, begins)| {
            let key = self.entry_key(&part.indices, &part.kept.dims);
            self.read_entry(&Entry { table, begins, key, path: Vec::new() })
        });
        let mut whole = whole;
        for (number, member) in (0..).zip(&part.kept.members) {
            let field = &self.unit.prog.structs[id].fields[number as usize];
            if field.is_padding() {
                continue;
            }
            let (of, step) = (field.ty, Proj::Field(number));
            let value = match (member, rest) {
                (Member::Rest(number), Some(agg)) => {
                    self.op(Op::Get { agg, path: vec![Proj::Field(*number)] }, of)
                }
                _ => self.read_static(table, &[path, &[step]].concat(), of),
            };
            whole = self.op(Op::Set { agg: whole, path: vec![step], value }, ty);
        }
        whole
    }

    fn write_parts(&mut self, table: TableId, path: &[Proj], value: ValueId, part: &Part) {
        let ty = self.b.body.ty(value);
        let Type::Struct(id) = ty else {
            self.each_element(table, ty, None, |f, _, index, of| {
                let element = f.member_of(value, index, of);
                f.write_static(table, &[path, &[index]].concat(), element);
                None
            });
            return;
        };
        let entry = part.kept.table.map(|(table, begins)| {
            let key = self.entry_key(&part.indices, &part.kept.dims);
            Entry { table, begins, key, path: Vec::new() }
        });
        let of_rest = entry.as_ref().map(|entry| self.unit.prog.tables[entry.table].value);
        let mut rest = of_rest.map(|of| self.zero(of));
        for (number, member) in (0..).zip(&part.kept.members) {
            let field = &self.unit.prog.structs[id].fields[number as usize];
            if field.is_padding() {
                continue;
            }
            let (of, step) = (field.ty, Proj::Field(number));
            let member_value = self.member_of(value, step, of);
            match (member, rest, of_rest) {
                (Member::Rest(number), Some(agg), Some(of)) => {
                    let path = vec![Proj::Field(*number)];
                    rest = Some(self.op(Op::Set { agg, path, value: member_value }, of));
                }
                _ => self.write_static(table, &[path, &[step]].concat(), member_value),
            }
        }
        if let (Some(entry), Some(rest)) = (entry, rest) {
            self.update(&entry, rest);
        }
    }

    /// A member or an element of a value.
    fn member_of(&mut self, agg: ValueId, step: Proj, ty: Type) -> ValueId {
        match self.b.body.def_op(agg) {
            Some(Op::Zero) => self.zero(ty),
            _ => self.op(Op::Get { agg, path: vec![step] }, ty),
        }
    }

    /// Goes through the elements of an array, with what each of them makes of a value. Reports
    /// arrays of too many.
    fn each_element(
        &mut self,
        table: TableId,
        ty: Type,
        whole: Option<ValueId>,
        mut each: impl FnMut(&mut Self, Option<ValueId>, Proj, Type) -> Option<ValueId>,
    ) -> Option<ValueId> {
        let Type::Array(id) = ty else { return whole };
        let def = self.unit.prog.arrays[id];
        if def.len > MOST {
            let name = &self.unit.prog.tables[table].name;
            let message = format!("this takes {} elements of `{name}` at once", def.len);
            let help = format!("write a loop over them: {MOST} are the most");
            self.failed = true;
            self.refuse(codes::TOO_LARGE, self.b.span, message, &help);
            return whole;
        }
        if def.len <= UNROLLED {
            return (0..def.len).fold(whole, |whole, number| {
                let index = Proj::Index(self.b.int(number.into(), Type::U32));
                each(self, whole, index, def.elem)
            });
        }
        let first = self.b.int(0, Type::U32);
        let init: Vec<ValueId> = [first].into_iter().chain(whole).collect();
        let types: Vec<Type> = init.iter().map(|value| self.b.body.ty(*value)).collect();
        let (outer, block) = (self.b.current(), self.b.new_block());
        let carried: Vec<ValueId> = types.iter().map(|ty| self.b.param(block, *ty, None)).collect();
        self.b.switch_to(block);
        let next = each(self, carried.get(1).copied(), Proj::Index(carried[0]), def.elem);
        let one = self.b.int(1, Type::U32);
        let number = self.op(Op::Bin(BinOp::Add, carried[0], one), Type::U32);
        let values = [number].into_iter().chain(next).collect();
        self.b.push0(Op::Continue { depth: 0, values });
        self.b.switch_to(outer);
        let inst = self.b.push(Op::Loop { init, max_trips: def.len, body: block }, &types);
        self.b.body.insts[inst].results.get(1).copied()
    }

    fn read_entry(&mut self, entry: &Entry) -> ValueId {
        let Entry { table, key, .. } = *entry;
        let value = self.unit.prog.tables[table].value;
        let (_, found) = self.b.push2(Op::Lookup { table, key }, Type::BOOL, value);
        self.moved_by_begin(entry, found, BinOp::Add)
    }

    fn update(&mut self, entry: &Entry, value: ValueId) {
        let Entry { table, key, .. } = *entry;
        let value = self.moved_by_begin(entry, value, BinOp::Sub);
        self.op(Op::Update { table, key, value }, Type::BOOL);
    }

    /// The value that a variable's entry stands for, by `Add`, or the entry that stands for a
    /// value, by `Sub`. Bits of structs that begin with 1 are turned, either way.
    fn moved_by_begin(&mut self, entry: &Entry, of: ValueId, op: BinOp) -> ValueId {
        let ty = self.b.body.ty(of);
        let begin = match entry.begins {
            Begins::Zero => return of,
            Begins::With(number) => self.b.int(number, ty),
            Begins::Elements(array) => self.op(Op::ConstElem { array, index: entry.key }, ty),
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
        let is_int = matches!(place.ty, Type::Int { bits: 8.., .. });
        if !is_int || place.narrow || !matches!(opcode, "+" | "-" | "|") {
            return false;
        }
        let kept = Rc::clone(&self.unit.statics[&table]);
        let Ok(Entry { table, begins, key, path: rest }) = self.entry_at(&kept, &place.path) else {
            return false;
        };
        let element = self.unit.prog.tables[table].value;
        let op = match (opcode, begins) {
            ("|", Begins::Zero) => CommuteOp::Or,
            ("+" | "-", Begins::Zero) => CommuteOp::Add,
            ("+" | "-", _) if element.is_int() => CommuteOp::Add,
            _ => return false,
        };
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
        self.b.push0(Op::Commute { op, table, key, path: rest, amount });
        true
    }
}
