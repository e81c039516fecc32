//! Which parts of an aggregate still are what was read from a place, so that writing it back may
//! leave them out.
//!
//! A value is followed backward through member updates and through the arms of `if`s to the
//! instruction that read it. Values are few and the walk is memoised per leaf, so the cost is the
//! size of the update chain.

use std::collections::HashMap;

use nicforge_ir::{Body, InstId, Op, Program, Proj, Type, ValueDef, ValueId};

/// A part that is written as one: a member that is an integer or array, or a run of bit-fields that
/// share bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Members from the whole value down; several for a run of bit-fields.
    pub paths: Vec<Vec<u32>>,
    pub offset: u32,
    pub size: u32,
    /// It consists of bit-fields, which have no address in C.
    pub bits: bool,
}

impl Leaf {
    /// The path of the one member that it is, if that has an address.
    pub fn member(&self) -> Option<&[u32]> {
        match self.paths.as_slice() {
            [path] if !path.is_empty() && !self.bits => Some(path),
            _ => None,
        }
    }
}

/// The leaves of a type, by offset.
pub fn leaves(program: &Program, ty: Type) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(program, ty, 0, &mut Vec::new(), &mut found);
    found
}

fn collect(program: &Program, ty: Type, base: u32, path: &mut Vec<u32>, found: &mut Vec<Leaf>) {
    let Type::Struct(id) = ty else {
        let size = program.size_of(ty);
        found.push(Leaf { paths: vec![path.clone()], offset: base, size, bits: false });
        return;
    };
    let (_, slots) = program.struct_layout(id);
    for (i, (field, slot)) in program.structs[id].fields.iter().zip(slots).enumerate() {
        path.push(i as u32);
        if field.bit_width.is_some() {
            let first = base + slot.bit_offset / 8;
            let end = base + (slot.bit_offset + slot.bits).div_ceil(8);
            match found.last_mut() {
                Some(last) if last.offset + last.size > first => {
                    last.paths.push(path.clone());
                    last.size = end - last.offset;
                }
                _ => {
                    let size = end - first;
                    found.push(Leaf { paths: vec![path.clone()], offset: first, size, bits: true });
                }
            }
        } else {
            collect(program, field.ty, base + slot.bit_offset / 8, path, found);
        }
        path.pop();
    }
}

/// True if `value`'s leaf is for certain what instruction `origin` (for which `is_origin` holds)
/// produced there.
pub fn unchanged(
    body: &Body,
    value: ValueId,
    leaf: &Leaf,
    is_origin: &dyn Fn(InstId, u32) -> bool,
) -> bool {
    Walk { body, leaf, is_origin, known: HashMap::new() }.value(value)
}

struct Walk<'a> {
    body: &'a Body,
    leaf: &'a Leaf,
    is_origin: &'a dyn Fn(InstId, u32) -> bool,
    /// Both arms of every `if` lead to the value before it: without this a chain of them would take
    /// twice as long for each.
    known: HashMap<ValueId, bool>,
}

impl Walk<'_> {
    fn value(&mut self, value: ValueId) -> bool {
        if let Some(known) = self.known.get(&value) {
            return *known;
        }
        let found = self.follow(value);
        self.known.insert(value, found);
        found
    }

    fn follow(&mut self, value: ValueId) -> bool {
        let body = self.body;
        let ValueDef::Result(inst, index) = body.values[value].def else { return false };
        if (self.is_origin)(inst, index) {
            return true;
        }
        match &body.insts[inst].op {
            Op::Set { agg, path, .. } => {
                let touches = self.leaf.paths.iter().any(|leaf_path| overlaps(path, leaf_path));
                !touches && self.value(*agg)
            }
            Op::Select { then, other, .. } => self.value(*then) && self.value(*other),
            Op::If { then, other, .. } => [*then, *other].into_iter().all(|region| {
                match body.terminator(region).map(|t| &t.op) {
                    Some(Op::Yield(values)) => self.value(values[index as usize]),
                    // An arm that leaves never produces the value.
                    _ => true,
                }
            }),
            _ => false,
        }
    }
}

/// True if writing at `path` may touch `leaf`: one is a prefix of the other.
fn overlaps(path: &[Proj], leaf: &[u32]) -> bool {
    path.iter().zip(leaf).all(|(step, member)| match step {
        Proj::Field(field) => field == member,
        Proj::Index(_) => true,
    })
}
