//! Structs and unions. A value has one type, so a union is kept as one of its members.

use nicforge_ir::{Field, StructDef, Type};

use crate::ast::Node;
use crate::ctypes::{CType, Refusal};
use crate::diagnostics::codes;
use crate::overlay::{MOST, is_dense, leaves};
use crate::unit::{Failed, Lowered, MAX_VALUE_BYTES, Over, Unit};

/// A member of a record, with the record of no name that stands before it for its type.
struct Member<'a> {
    field: &'a Node,
    record: Option<&'a Node>,
}

/// Members of a record.
fn members(record: &Node) -> impl Iterator<Item = Member<'_>> {
    let mut last = None;
    record.inner.iter().filter_map(move |node| {
        if node.kind == "RecordDecl" {
            last = Some(node);
        }
        (node.kind == "FieldDecl").then(|| Member { field: node, record: type_of(node, last) })
    })
}

/// The record before a member if it is its type. What a macro makes has one place, so a type of no
/// name may be any of several.
fn type_of<'a>(field: &Node, before: Option<&'a Node>) -> Option<&'a Node> {
    let record = before.filter(|record| record.name.is_empty())?;
    let whole = field.ty.trim_end().ends_with(')');
    (whole && field.ty.contains(&format!("{})", record.place))).then_some(record)
}

impl<'a> Unit<'a> {
    /// Member number of a `FieldDecl`, once its struct was used as a type.
    pub fn field(&self, decl: u64) -> Option<u32> {
        self.fields.get(&decl).copied()
    }

    /// Declares the struct of a record.
    pub fn struct_of(&mut self, id: u64) -> CType {
        let refused = CType::Refused(Refusal::Reported);
        if let Some(known) = self.structs.get(&id) {
            return known.map_or(refused, CType::Struct);
        }
        let Some(record) = self.index.records.get(&id).copied() else { return refused };
        self.structs.insert(id, None);
        let mut name = record.name.clone();
        if name.is_empty() {
            let fallback = || format!("unnamed{}", self.prog.structs.len());
            name = self.index.record_names.get(&id).cloned().unwrap_or_else(fallback);
        }
        let def = match record.tag == "union" {
            true => self.union_def(record, name),
            false => self.struct_def(record, name),
        };
        let Ok(def) = def else { return refused };
        let ty = self.prog.add_struct(def);
        if self.check_size(Type::Struct(ty), record.name_span).is_err()
            || self.check_alignment(record, ty).is_err()
        {
            return refused;
        }
        for (member, number) in members(record).zip(0..) {
            // What a union is kept as is one of its members.
            if record.tag != "union" && self.is_indexed(member.field.id) {
                self.indexed_fields.insert((ty, number));
            }
        }
        self.structs.insert(id, Some(ty));
        CType::Struct(ty)
    }

    fn struct_def(&mut self, record: &'a Node, name: String) -> Lowered<StructDef> {
        let pragma = self.pragma_pack(record);
        let mut failed = pragma.is_err();
        let mut fields = Vec::new();
        let mut bytes = 0u64;
        for member in members(record) {
            match self.field_def(&member, fields.len()) {
                Ok(field) => {
                    bytes = bytes.saturating_add(self.size_of(field.ty));
                    self.name_field(member.field, fields.len() as u32);
                    fields.push(field);
                }
                Err(Failed) => failed = true,
            }
        }
        if bytes > MAX_VALUE_BYTES {
            let message = format!("this takes {bytes} bytes; values may take {MAX_VALUE_BYTES}");
            self.refuse(
                codes::TOO_LARGE,
                record.name_span,
                message,
                "keep large data in a table (NF_TABLE)",
            );
            failed = true;
        }
        if failed {
            return Err(Failed);
        }
        let members = || record.inner.iter().filter(|n| n.kind == "FieldDecl");
        let loose = members().find(|n| !n.has("PackedAttr")).map(|n| n.name_span);
        let tight = members().any(|n| n.has("PackedAttr"));
        if let (Some(span), true, false) = (loose, tight, record.has("PackedAttr")) {
            let message = "bit-fields are packed here and this member is not";
            let help = "put __attribute__((packed)) on the whole struct; with alkali.h write \
                        BITS_FIELD for all members";
            return Err(self.refuse(codes::LAYOUT, span, message, help));
        }
        let packed = record.has("PackedAttr") || tight || pragma.unwrap_or(false);
        if packed {
            self.widen_whole_fields(&mut fields);
        }
        Ok(StructDef { name, packed, fields })
    }

    /// Makes members of packed bit-fields that are as wide as their type and begin with a byte:
    /// the layout is the same.
    fn widen_whole_fields(&self, fields: &mut [Field]) {
        let mut at = 0u64;
        for field in fields {
            let whole = 8 * self.size_of(field.ty);
            let bits = field.bit_width.map_or(whole, u64::from);
            if field.bit_width.is_none() {
                at = at.next_multiple_of(8);
            } else if bits == whole && at.is_multiple_of(8) && !field.name.is_empty() {
                field.bit_width = None;
            }
            at += bits;
        }
    }

    /// Has expressions that name a member mean the one of this number.
    fn name_field(&mut self, field: &Node, number: u32) {
        self.fields.insert(field.id, number);
    }

    fn field_def(&mut self, member: &Member<'a>, number: usize) -> Lowered<Field> {
        let node = member.field;
        let span = if node.name.is_empty() { node.span } else { node.name_span };
        // Of a bit-field: see `struct_def`.
        if node.has("PackedAttr") && !node.flags.bit_field {
            let help = "put __attribute__((packed)) on the whole struct";
            return Err(self.refuse(
                codes::LAYOUT,
                span,
                "a member cannot have a layout attribute",
                help,
            ));
        }
        let declared = match member.record {
            Some(record) => self.struct_of(record.id),
            None => self.ctype(&node.ty),
        };
        let ty = self.value_type_of(&declared, span)?;
        let mut bit_width = None;
        if node.flags.bit_field {
            let width = node.inner.first().and_then(|n| self.eval(n)).unwrap_or(0);
            if width == 0 {
                let help = "write the padding as a member with a width";
                return Err(self.refuse(
                    codes::LAYOUT,
                    span,
                    "a bit-field needs at least one bit",
                    help,
                ));
            }
            bit_width = Some(width as u8);
        }
        let big_endian = matches!(declared, CType::Int { network: true, .. });
        let name = match (node.name.as_str(), bit_width) {
            // Padding, see `Field::is_padding`.
            ("", Some(_)) => String::new(),
            ("", None) => format!("unnamed{number}"),
            (name, _) => name.to_string(),
        };
        Ok(Field { name, ty, bit_width, big_endian })
    }

    /// A union: a struct with its first member that has all its bytes, or with words of its own.
    /// Other members lie over that.
    fn union_def(&mut self, union: &'a Node, name: String) -> Lowered<StructDef> {
        let pragma = self.pragma_pack(union)?;
        let mut all = Vec::new();
        for member in members(union) {
            let field = self.field_def(&member, all.len())?;
            if field.bit_width.is_some() {
                let help = "put bit-fields into a struct, which may be the union's member";
                let message = "a union's member is a bit-field";
                return Err(self.refuse(codes::UNION, member.field.name_span, message, help));
            }
            all.push((member.field, field));
        }
        let packed = union.has("PackedAttr") || pragma;
        let layouts = || all.iter().map(|(_, field)| self.prog.layout(field.ty));
        let align = match packed {
            true => 1,
            false => layouts().map(|layout| layout.align).max().unwrap_or(1),
        };
        let size = layouts().map(|layout| layout.size).max().unwrap_or(0).next_multiple_of(align);
        let full = |(_, field): &(_, Field)| {
            self.prog.size_of(field.ty) == size && is_dense(&self.prog, field.ty)
        };
        let has_full = all.iter().any(full);
        let aligned = |field: &Field| packed || self.prog.layout(field.ty).align == align;
        let kept = all.iter().position(|member| full(member) && aligned(&member.1));
        let fields = match kept {
            Some(number) => vec![all[number].1.clone()],
            None if has_full => {
                let ty = self.prog.array_of(Type::u(8 * align as u8), size / align);
                vec![Field { name: "words".to_string(), ty, bit_width: None, big_endian: false }]
            }
            None => {
                let is_long = |field: &Field| leaves(&self.prog, field.ty).len() > MOST;
                if let Some((decl, _)) = all.iter().find(|(_, field)| is_long(field)) {
                    let message = format!("a union's member has more than {MOST} integers");
                    let help = "add a member without padding that has all the union's bytes";
                    return Err(self.refuse(codes::UNION, decl.name_span, message, help));
                }
                let types: Vec<Type> = all.iter().map(|(_, field)| field.ty).collect();
                self.words_of(&types, size, align)
            }
        };
        for (number, (decl, field)) in all.into_iter().enumerate() {
            if kept == Some(number) {
                self.name_field(decl, 0);
            } else {
                self.lies_over.insert(decl.id, Over { ty: field.ty, big_endian: field.big_endian });
            }
        }
        Ok(StructDef { name, packed, fields })
    }

    /// Members with the bits that any of these types has, as words of `align` bytes; others are
    /// padding.
    fn words_of(&self, types: &[Type], size: u32, align: u32) -> Vec<Field> {
        let mut used = vec![false; 8 * size as usize];
        for leaf in types.iter().flat_map(|ty| leaves(&self.prog, *ty)) {
            let first = leaf.at as usize;
            used[first..first + leaf.bits as usize].fill(true);
        }
        let word = 8 * align as usize;
        let mut fields = Vec::new();
        for (number, used) in used.chunks(word).enumerate() {
            let mut at = 0;
            for part in used.chunk_by(|a, b| a == b) {
                let name = match (part[0], part.len() == word) {
                    (false, _) => String::new(),
                    (true, true) => format!("word{number}"),
                    (true, false) => format!("word{number}_{at}"),
                };
                let bit_width = (part.len() < word || !part[0]).then_some(part.len() as u8);
                let ty = Type::u(word as u8);
                fields.push(Field { name, ty, bit_width, big_endian: false });
                at += part.len();
            }
        }
        fields
    }
}
