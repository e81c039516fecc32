//! Unions whose members are the same otherwise, such as `struct_group` of Linux's headers makes:
//! names for one value, which has one type.

use nicforge_ir::StructDef;

use crate::ast::Node;
use crate::unit::{Failed, Lowered, Unit};

/// A member of a record, with the record of no name that stands before it for its type.
pub struct Member<'a> {
    pub field: &'a Node,
    pub record: Option<&'a Node>,
}

/// Members of a record.
pub fn members(record: &Node) -> impl Iterator<Item = Member<'_>> {
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

/// True if all members of a union have one type, or members of the same types.
pub fn is_one_type(union: &Node) -> bool {
    let mut all = members(union);
    let Some(first) = all.next() else { return false };
    if union.has("AlignedAttr") {
        return false;
    }
    let flat = |record: &Node| {
        members(record).all(|of| of.record.is_none() && !of.field.flags.bit_field)
            && record.inner.iter().all(|node| node.kind != "RecordDecl")
    };
    let types =
        |record: &Node| -> Vec<String> { members(record).map(|of| of.field.ty.clone()).collect() };
    all.all(|other| match (first.record, other.record) {
        (Some(a), Some(b)) => {
            let same = types(a) == types(b) && a.has("PackedAttr") == b.has("PackedAttr");
            a.tag == "struct" && b.tag == "struct" && flat(a) && flat(b) && same
        }
        (None, None) => first.field.ty == other.field.ty && !other.field.flags.bit_field,
        _ => false,
    })
}

impl<'a> Unit<'a> {
    /// A union of one type: a struct with its first member, which the others mean too.
    pub fn union_def(&mut self, union: &'a Node, name: String) -> Lowered<StructDef> {
        let mut all = members(union);
        let first = all.next().ok_or(Failed)?;
        let field = self.field_def(&first, 0)?;
        self.name_field(first.field, 0);
        for other in all {
            self.name_field(other.field, 0);
            let (Some(a), Some(b)) = (first.record, other.record) else { continue };
            self.name_as(a, b);
            for (number, member) in (0..).zip(members(b)) {
                self.name_field(member.field, number);
            }
        }
        Ok(StructDef { name, packed: union.has("PackedAttr"), fields: vec![field] })
    }
}
