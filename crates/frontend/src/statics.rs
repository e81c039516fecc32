//! Variables of static storage duration (C11, 6.2.4): outside functions, or `static` inside one.
//!
//! They are state that packets share, so each is a table of kind `array`: of one entry, or of one
//! for each element of an array. Reading one looks an entry up, writing one updates it. Tables
//! begin with zeroes on every target: a variable that begins with another number is kept as the
//! difference from that.

use std::collections::{HashMap, HashSet};

use nicforge_ir::{
    BinOp, CommuteOp, ConstArray, ConstId, Op, Proj, Table, TableId, TableKind, Type, UnOp, ValueId,
};

use crate::assigned::assigned_decls;
use crate::ast::Node;
use crate::ctypes::CType;
use crate::decl::MAX_ENTRIES;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::place::{Place, Root};
use crate::unit::{Global, Lowered, Unit};

/// Numbers that a variable begins with, where they are not all zero.
#[derive(Clone, Copy, Debug)]
pub enum Begins {
    With(u64),
    Elements(ConstId),
}

/// Makes all declarations of a variable outside functions its definition.
pub fn unite(root: &mut Node) {
    let mut declared: HashMap<&str, Vec<&Node>> = HashMap::new();
    for node in root.inner.iter().filter(|node| node.kind == "VarDecl") {
        declared.entry(&node.name).or_default().push(node);
    }
    let begins = |node: &Node| node.inner.iter().any(|child| !child.kind.ends_with("Attr"));
    let mut definitions = HashMap::new();
    for (name, nodes) in declared {
        let defined = nodes.iter().filter(|node| node.storage != "extern");
        if let Some(definition) = defined.max_by_key(|node| begins(node)) {
            definitions.insert(name.to_string(), definition.id);
        }
    }
    let mut of = HashMap::new();
    root.walk(&mut |node| {
        let is_other = |id: &&u64| **id != node.id;
        let outside = || root.inner.iter().any(|other| other.id == node.id);
        if node.kind == "VarDecl"
            && let Some(id) = definitions.get(&node.name).filter(is_other)
            && (node.storage == "extern" || outside())
        {
            of.insert(node.id, *id);
        }
    });
    if !of.is_empty() {
        redirect(root, &of);
    }
}

/// Takes declarations away, and lets what names them name others.
fn redirect(node: &mut Node, to: &HashMap<u64, u64>) {
    node.inner.retain(|child| !to.contains_key(&child.id));
    if let Some(named) = &mut node.referenced {
        named.id = to.get(&named.id).copied().unwrap_or(named.id);
    }
    node.inner.iter_mut().for_each(|child| redirect(child, to));
}

/// Variables of static storage duration that something changes: any function that is called may.
pub fn changing(root: &Node) -> HashSet<u64> {
    let mut found: HashSet<u64> =
        root.inner.iter().filter(|node| node.kind == "VarDecl").map(|node| node.id).collect();
    let mut changed = HashSet::new();
    root.walk(&mut |node| {
        found.extend((node.kind == "VarDecl" && node.storage == "static").then_some(node.id));
    });
    assigned_decls(root, &mut changed);
    found.retain(|id| changed.contains(id));
    found
}

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
        let (element, entries, is_array) = match ty {
            CType::Array(element, entries) => (&**element, *entries, true),
            ty => (ty, 1, false),
        };
        let value = self.value_type_of(element, span)?;
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
        self.begins.extend(begins.map(|begins| (table, begins)));
        Ok(Global::Static { table, is_array })
    }

    fn begins(&mut self, node: &'a Node, ty: &CType, value: Type) -> Lowered<Option<Begins>> {
        let init = node.inner.iter().find(|child| !child.kind.ends_with("Attr"));
        let Some(init) = init.filter(|init| !self.is_zero(init)) else { return Ok(None) };
        let whole = self.value_type_of(ty, node.name_span)?;
        let bytes = self.init_bytes(init, whole)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if !value.is_int() {
            let message =
                format!("`{}` changes, and begins with members that are not 0", node.name);
            let help = "begin with zeroes; integers, and arrays of them, may begin with any number";
            return Err(self.refuse(codes::GLOBAL, node.name_span, message, help));
        }
        if !whole.is_int() {
            let taken = |name: &str| self.prog.consts.values().any(|array| array.name == name);
            let name = free_name(&format!("{}_begins", node.name), taken);
            let array = ConstArray { name, elem: value, bytes, span: node.name_span };
            return Ok(Some(Begins::Elements(self.prog.consts.push(array))));
        }
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(Begins::With(u64::from_le_bytes(raw))))
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

    /// The array that all entries of a variable's table are.
    pub fn static_type(&mut self, table: TableId) -> Type {
        let (value, entries) = (self.prog.tables[table].value, self.prog.tables[table].capacity);
        self.prog.array_of(value, entries)
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
    pub fn static_place(&mut self, table: TableId, is_array: bool) -> Place {
        let whole = self.unit.static_type(table);
        let place = Place::root(Root::Static(table), whole);
        if is_array {
            return place;
        }
        let first = Proj::Index(self.b.int(0, Type::U32));
        place.part(&[first], self.unit.prog.tables[table].value)
    }

    /// An element of a variable.
    pub fn read_static(&mut self, table: TableId, key: ValueId) -> ValueId {
        let value = self.unit.prog.tables[table].value;
        let (_, entry) = self.b.push2(Op::Lookup { table, key }, Type::BOOL, value);
        self.moved_by_begin(table, key, entry, BinOp::Add)
    }

    /// All elements of a variable, as an array of type `ty`.
    pub fn read_all_of_static(&mut self, table: TableId, ty: Type) -> ValueId {
        let mut whole = self.zero(ty);
        for number in 0..self.unit.prog.tables[table].capacity {
            let key = self.b.int(number.into(), Type::U32);
            let value = self.read_static(table, key);
            whole = self.op(Op::Set { agg: whole, path: vec![Proj::Index(key)], value }, ty);
        }
        whole
    }

    /// Puts `value` at the part of a variable that a path leads to.
    pub fn write_static(&mut self, table: TableId, path: &[Proj], value: ValueId) {
        let Some((Proj::Index(key), rest)) = path.split_first() else {
            for number in 0..self.unit.prog.tables[table].capacity {
                let key = Proj::Index(self.b.int(number.into(), Type::U32));
                let element = self.unit.prog.tables[table].value;
                let element = self.op(Op::Get { agg: value, path: vec![key] }, element);
                self.write_static(table, &[key], element);
            }
            return;
        };
        let value = match rest {
            [] => self.moved_by_begin(table, *key, value, BinOp::Sub),
            rest => {
                let agg = self.read_static(table, *key);
                let ty = self.b.body.ty(agg);
                self.op(Op::Set { agg, path: rest.to_vec(), value }, ty)
            }
        };
        self.op(Op::Update { table, key: *key, value }, Type::BOOL);
    }

    /// The number that a variable's entry stands for, by `Add`, or the entry that stands for a
    /// number, by `Sub`.
    fn moved_by_begin(&mut self, table: TableId, key: ValueId, of: ValueId, op: BinOp) -> ValueId {
        let ty = self.b.body.ty(of);
        let begin = match self.unit.begins.get(&table) {
            None => return of,
            Some(Begins::With(number)) => {
                let number = *number;
                self.b.int(number, ty)
            }
            Some(Begins::Elements(array)) => {
                let array = *array;
                self.op(Op::ConstElem { array, index: key }, ty)
            }
        };
        let op = if ty == Type::BOOL { BinOp::Xor } else { op };
        self.op(Op::Bin(op, of, begin), ty)
    }

    /// `place += amount` and the like as one op, if the place is an integer of a variable's entry:
    /// replicas can do it side by side. Gives whether it was done.
    pub fn commute_static(&mut self, place: &Place, opcode: &str, amount: ValueId) -> bool {
        let (Root::Static(table), [Proj::Index(key), rest @ ..]) = (&place.root, &place.path[..])
        else {
            return false;
        };
        let (table, key) = (*table, *key);
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
        let is_int = matches!(place.ty, Type::Int { bits: 8.., .. });
        if !is_int || place.narrow || !(0..rest.len()).all(is_fixed) {
            return false;
        }
        let op = match opcode {
            "+" | "-" => CommuteOp::Add,
            "|" if !self.unit.begins.contains_key(&table) => CommuteOp::Or,
            _ => return false,
        };
        let mut amount = self.b.cast(amount, place.ty);
        if opcode == "-" {
            amount = self.op(Op::Un(UnOp::Neg, amount), place.ty);
        }
        self.b.push0(Op::Commute { op, table, key, path: rest.to_vec(), amount });
        true
    }
}
