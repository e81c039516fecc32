//! Attributes and pragmas that say how structs lie in memory. The layout of values is natural or
//! packed; others are taken where they come to the same.

use nicforge_ir::{StructId, Type};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::unit::{Failed, Lowered, Unit};

/// The alignment of `__attribute__((aligned))` without a number.
const MOST: u64 = 16;

impl<'a> Unit<'a> {
    /// True if `#pragma pack(1)` holds for a record.
    ///
    /// # Errors
    /// Reports other packing.
    pub fn pragma_pack(&mut self, record: &Node) -> Lowered<bool> {
        let has = |kind| record.inner.iter().any(|node| node.kind == kind);
        if !has("MaxFieldAlignmentAttr") && !has("MSStructAttr") {
            return Ok(false);
        }
        // clang says that there is one, and not which.
        let text = record.span.file.map_or("", |file| self.prog.files[file].text.as_str());
        let before = text.get(..record.span.start as usize).unwrap_or_default();
        let pragma = before.rsplit("#pragma").find(|rest| rest.trim_start().starts_with("pack"));
        let inside = pragma.and_then(|rest| rest.split_once('(')?.1.split_once(')'));
        let number = inside.and_then(|(inside, _)| inside.rsplit(',').next()?.trim().parse().ok());
        match number {
            Some(1) if !has("MSStructAttr") => Ok(true),
            _ => {
                let help = "use __attribute__((packed)), #pragma pack(1), or neither";
                let message = "this layout is not supported";
                Err(self.refuse(codes::LAYOUT, record.name_span, message, help))
            }
        }
    }

    /// Checks that what a record's attributes say of alignment is so in its layout.
    ///
    /// # Errors
    /// Reports members and sizes that clang would move.
    pub fn check_alignment(&mut self, record: &'a Node, id: StructId) -> Lowered<()> {
        let (layout, slots) = self.prog.struct_layout(id);
        let packed = self.prog.structs[id].packed;
        let mut own = stated(record).unwrap_or(1);
        if record.tag != "union" {
            let members = record.inner.iter().filter(|node| node.kind == "FieldDecl");
            let members = members.filter_map(|node| Some((node, self.field(node.id)?)));
            for (node, number) in members.collect::<Vec<_>>() {
                let ty = self.prog.structs[id].fields[number as usize].ty;
                let natural = u64::from(self.prog.layout(ty).align);
                let of_type = self.alignment_of_type(&node.ty, ty);
                let wanted = match packed {
                    true => stated(node).unwrap_or(1),
                    false => of_type.unwrap_or(natural).max(stated(node).unwrap_or(1)),
                };
                let lies = u64::from(slots[number as usize].bit_offset);
                // Less alignment than the type's lets a member lie before its natural place.
                let moved = !packed && wanted < natural || !lies.is_multiple_of(8 * wanted);
                if moved && !node.flags.bit_field {
                    let message = "this alignment moves the member";
                    return Err(self.refuse_alignment(message, node));
                }
                own = own.max(wanted);
            }
        }
        if !u64::from(layout.size).is_multiple_of(own) {
            return Err(self.refuse_alignment("this alignment makes the struct longer", record));
        }
        if own > u64::from(layout.align) {
            self.aligned.insert(id, own);
        }
        Ok(())
    }

    fn refuse_alignment(&mut self, message: &str, node: &Node) -> Failed {
        let help = "write the bytes in between as members, and no alignment";
        self.refuse(codes::LAYOUT, node.name_span, message, help)
    }

    /// The alignment of a type, if it is not the natural one: `text` is how the member has it.
    fn alignment_of_type(&self, text: &str, ty: Type) -> Option<u64> {
        let of_struct = match ty {
            Type::Struct(id) => self.aligned.get(&id).copied(),
            Type::Array(id) => match self.prog.arrays[id].elem {
                Type::Struct(id) => self.aligned.get(&id).copied(),
                _ => None,
            },
            _ => None,
        };
        let mut text = text.trim_start_matches("const ").split('[').next()?.trim();
        for _ in 0..16 {
            let Some(declared) = self.index.typedef(text) else { break };
            if let Some(stated) = stated(declared) {
                return Some(stated);
            }
            text = declared.ty.as_str();
        }
        of_struct
    }
}

/// The number in `__attribute__((aligned(n)))` of a declaration.
fn stated(node: &Node) -> Option<u64> {
    let aligned = node.inner.iter().filter(|child| child.kind == "AlignedAttr");
    let number = |attribute: &Node| match attribute.inner.first() {
        Some(number) => number.value.as_ref().and_then(|value| value.parse().ok()),
        None => Some(MOST),
    };
    aligned.map(|attribute| number(attribute).unwrap_or(MOST)).max()
}
