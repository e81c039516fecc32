//! Variables of static storage duration (C11, 6.2.4): outside functions, or `static` inside one.
//!
//! They are state that packets share, so each is a table of kind `array`: of one entry, or of one
//! for each element of an array, row by row if it has several dimensions. Reading one looks an
//! entry up, writing one updates it. A long array in a struct has a table of its own, so that the
//! struct's other members are not read and written with each of its elements. Tables begin with
//! zeroes on every target: a variable that begins with another number is kept as the difference
//! from that, a struct as the bits that differ.
//!
//! [`crate::entries`] reads and writes them.

use std::rc::Rc;

use nicforge_ir::{ConstArray, StructDef, StructId, Table, TableId, TableKind, Type};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::decl::MAX_ENTRIES;
use crate::diagnostics::codes;
use crate::overlay::{MOST, leaves};
use crate::storage::{Begins, Member, Static};
use crate::unit::{Failed, Global, Lowered, Unit};

/// Bytes of an array in a struct from which on it has a table of its own: a line of memory.
const LONG: u32 = 64;

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
        let element = self.value_type_of(element, span)?;
        let values = self.first_values(node, ty, element)?;
        let name = node.name.clone();
        let mut declared = Declared { node, values, dims: Vec::new() };
        let kept = self.kept(&mut declared, &name, element, &dims)?;
        let Some(table) = kept.first_table() else { return Err(Failed) };
        self.statics.insert(table, Rc::new(kept));
        Ok(Global::Static(table))
    }

    /// Declares the tables of elements of a variable, or of a part of it.
    fn kept(
        &mut self,
        of: &mut Declared,
        name: &str,
        element: Type,
        own: &[u32],
    ) -> Lowered<Static> {
        let outer = of.dims.len();
        of.dims.extend(own);
        let dims = of.dims.clone();
        let entries = dims.iter().fold(1, |entries: u32, len| entries.saturating_mul(*len));
        if !(1..=MAX_ENTRIES).contains(&entries) {
            let message = format!("`{name}` has {entries} elements");
            let help = format!("1 to {MAX_ENTRIES} of them are kept");
            return Err(self.refuse(codes::TABLE_CAPACITY, of.node.name_span, message, &help));
        }
        let mut kept = Static { dims, own: own.len(), element, table: None, members: Vec::new() };
        match element {
            Type::Struct(id) if self.has_long_arrays(id) => {
                self.keep_members(of, name, id, &mut kept)?
            }
            _ => kept.table = Some(self.keep_together(of, name, element)?),
        }
        of.dims.truncate(outer);
        Ok(kept)
    }

    /// Keeps members of a struct that are long arrays, or have some, in tables of their own.
    fn keep_members(
        &mut self,
        of: &mut Declared,
        name: &str,
        id: StructId,
        kept: &mut Static,
    ) -> Lowered<()> {
        let StructDef { packed, fields, .. } = self.prog.structs[id].clone();
        let slots = self.prog.struct_layout(id).1;
        let mut rest = StructDef { name: String::new(), packed, fields: Vec::new() };
        let mut left = Vec::new();
        for (field, slot) in fields.into_iter().zip(slots) {
            if !self.is_apart(id, kept.members.len()) {
                kept.members.push(Member::Rest(rest.fields.len() as u32));
                rest.fields.push(field);
                left.push(slot);
                continue;
            }
            let (mut element, mut own) = (field.ty, Vec::new());
            while let Type::Array(array) = element {
                let array = self.prog.arrays[array];
                own.push(array.len);
                element = array.elem;
            }
            let from = (slot.bit_offset / 8) as usize;
            let size = self.prog.size_of(element) as usize;
            let values = of.values.as_ref().map(|values| {
                let parts = values.iter().map(|bytes| &bytes[from..][..(slot.bits / 8) as usize]);
                parts.flat_map(|bytes| bytes.chunks(size).map(<[u8]>::to_vec)).collect()
            });
            let mut part = Declared { node: of.node, values, dims: of.dims.clone() };
            let name = format!("{name}_{}", field.name);
            kept.members.push(Member::Apart(self.kept(&mut part, &name, element, &own)?));
        }
        if left.is_empty() {
            return Ok(());
        }
        let rest = self.rest_of(id, rest);
        let slots = self.prog.struct_layout(rest).1;
        let size = self.prog.size_of(Type::Struct(rest)) as usize;
        of.values = of.values.as_ref().map(|values| {
            let moved = |bytes: &Vec<u8>| {
                let mut to = vec![0; size];
                for (from, slot) in left.iter().zip(&slots) {
                    for bit in 0..from.bits {
                        let at = from.bit_offset + bit;
                        let set = bytes[at as usize / 8] >> (at % 8) & 1;
                        let at = slot.bit_offset + bit;
                        to[at as usize / 8] |= set << (at % 8);
                    }
                }
                to
            };
            values.iter().map(moved).collect()
        });
        kept.table = Some(self.keep_together(of, name, Type::Struct(rest))?);
        Ok(())
    }

    /// The struct of what is left of another one.
    fn rest_of(&mut self, id: StructId, left: StructDef) -> StructId {
        if let Some(rest) = self.rests.get(&id) {
            return *rest;
        }
        let taken = |name: &str| self.prog.structs.values().any(|def| def.name == name);
        let name = free_name(&format!("{}_rest", self.prog.structs[id].name), taken);
        let rest = self.prog.add_struct(StructDef { name, ..left });
        self.rests.insert(id, rest);
        rest
    }

    fn has_long_arrays(&self, id: StructId) -> bool {
        (0..self.prog.structs[id].fields.len()).any(|number| self.is_apart(id, number))
    }

    /// True if a member of a struct gets tables of its own: an array of which elements are taken by
    /// a number that varies, so that the struct's other members need not be read and written with
    /// it, or a struct with such a member.
    fn is_apart(&self, id: StructId, number: usize) -> bool {
        let field = &self.prog.structs[id].fields[number];
        match field.ty {
            Type::Array(_) => {
                let is_long = self.prog.size_of(field.ty) >= LONG;
                is_long && self.indexed_fields.contains(&(id, number as u32))
            }
            Type::Struct(inner) => self.has_long_arrays(inner),
            _ => false,
        }
    }

    /// Declares the table of elements that are kept together.
    fn keep_together(
        &mut self,
        of: &Declared,
        name: &str,
        value: Type,
    ) -> Lowered<(TableId, Begins)> {
        let begins = self.begins(of, name, value)?;
        let taken = |name: &str| self.prog.tables.values().any(|table| table.name == name);
        let table = self.prog.tables.push(Table {
            name: free_name(name, taken),
            kind: TableKind::Array,
            key: Type::U32,
            key_big_endian: false,
            value,
            capacity: of.dims.iter().product(),
            buf: None,
            max_replicas: None,
            by_number: false,
            shared: false,
            span: of.node.name_span,
        });
        Ok((table, begins))
    }

    /// The elements' bytes that a variable begins with; none if these are zeroes.
    fn first_values(
        &mut self,
        node: &'a Node,
        ty: &CType,
        element: Type,
    ) -> Lowered<Option<Vec<Vec<u8>>>> {
        let init = node.inner.iter().find(|child| !child.kind.ends_with("Attr"));
        let Some(init) = init.filter(|init| !self.is_zero(init)) else { return Ok(None) };
        let whole = self.value_type_of(ty, node.name_span)?;
        let bytes = self.init_bytes(init, whole)?;
        let size = self.prog.size_of(element) as usize;
        Ok(Some(bytes.chunks(size).map(<[u8]>::to_vec).collect()))
    }

    fn begins(&mut self, of: &Declared, name: &str, value: Type) -> Lowered<Begins> {
        let bytes = of.values.as_ref().map(|values| values.concat());
        let Some(bytes) = bytes.filter(|bytes| bytes.iter().any(|byte| *byte != 0)) else {
            return Ok(Begins::Zero);
        };
        if leaves(&self.prog, value).len() > MOST {
            let message = format!("`{name}` changes, and does not begin with zeroes");
            let help = format!("begin with zeroes: structs of up to {MOST} integers need not");
            return Err(self.refuse(codes::GLOBAL, of.node.name_span, message, &help));
        }
        if !of.dims.is_empty() || !value.is_int() {
            let taken = |name: &str| self.prog.consts.values().any(|array| array.name == name);
            let name = free_name(&format!("{name}_begins"), taken);
            let array = ConstArray { name, elem: value, bytes, span: of.node.name_span };
            return Ok(Begins::Elements(self.prog.consts.push(array)));
        }
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(&bytes);
        Ok(Begins::With(u64::from_le_bytes(raw)))
    }

    /// True if an initialiser gives nothing but zeroes, however much there is.
    pub fn is_zero(&mut self, node: &'a Node) -> bool {
        let node = node.strip();
        match node.kind.as_str() {
            "ImplicitValueInitExpr" => true,
            "InitListExpr" => node.inner.iter().all(|child| self.is_zero(child)),
            _ => self.eval(node) == Some(0),
        }
    }

    /// The type of a variable.
    pub fn static_type(&mut self, table: TableId) -> Type {
        let kept = Rc::clone(&self.statics[&table]);
        let dims = kept.dims.iter().rev();
        dims.fold(kept.element, |element, len| self.prog.array_of(element, *len))
    }
}

/// A variable, or a part of it, of which the tables are being declared.
struct Declared<'d> {
    node: &'d Node,
    /// Bytes of the elements; none if these begin with zeroes.
    values: Option<Vec<Vec<u8>>>,
    dims: Vec<u32>,
}

/// A name, or the first of `name_2`, `name_3`, … that nothing has.
fn free_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_string()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_default()
}
