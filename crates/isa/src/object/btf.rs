//! The little of BTF that analysis needs: sizes of map keys and values, and source lines.
//!
//! Layouts as in the kernel's documentation of BTF. Everything is read with bounds checks; what
//! cannot be read is left out.

use std::collections::HashMap;

/// A map as its BTF definition says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapShape {
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
}

#[derive(Clone, Debug)]
struct Member {
    name: u32,
    kind: u32,
}

#[derive(Clone, Debug)]
struct Type {
    name: u32,
    kind: u32,
    /// Size, or the type referred to.
    size: u32,
    members: Vec<Member>,
    array: Option<(u32, u32)>,
}

/// Types of an object.
#[derive(Default)]
pub struct Btf<'a> {
    types: Vec<Type>,
    strings: &'a [u8],
}

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;
/// Kinds that only refer on: typedef, volatile, const, restrict, type tag.
const THROUGH: [u32; 5] = [8, 9, 10, 11, 18];

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

impl<'a> Btf<'a> {
    /// Reads section `.BTF`; stops at the first thing it does not know.
    pub fn parse(data: &'a [u8]) -> Option<Btf<'a>> {
        let header = word(data, 4)? as usize;
        let part =
            |offset: usize, length: usize| data.get(header.checked_add(offset)?..)?.get(..length);
        let types = part(word(data, 8)? as usize, word(data, 12)? as usize)?;
        let strings = part(word(data, 16)? as usize, word(data, 20)? as usize)?;
        // Type 0 is void.
        let void = Type { name: 0, kind: 0, size: 0, members: Vec::new(), array: None };
        let mut btf = Btf { types: vec![void], strings };
        let mut at = 0;
        while let (Some(name), Some(info), Some(size)) =
            (word(types, at), word(types, at + 4), word(types, at + 8))
        {
            at += 12;
            let (kind, count) = (info >> 24 & 31, info as usize & 0xffff);
            let (mut members, mut array) = (Vec::new(), None);
            let entry = match kind {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
                ENUM | FUNC_PROTO => 8 * count,
                _ => 0,
            };
            if kind == ARRAY {
                array = Some((word(types, at)?, word(types, at + 8)?));
            }
            if kind == STRUCT {
                for index in 0..count {
                    let (Some(name), Some(kind)) =
                        (word(types, at + 12 * index), word(types, at + 12 * index + 4))
                    else {
                        break;
                    };
                    members.push(Member { name, kind });
                }
            }
            at += entry;
            btf.types.push(Type { name, kind, size, members, array });
        }
        Some(btf)
    }

    pub fn string(&self, offset: u32) -> &'a str {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }

    fn through(&self, mut id: u32) -> Option<&Type> {
        // Types refer to each other in any order; a circle of typedefs is damage.
        for _ in 0..32 {
            let found = self.types.get(id as usize)?;
            if !THROUGH.contains(&found.kind) {
                return Some(found);
            }
            id = found.size;
        }
        None
    }

    fn size(&self, id: u32, depth: u32) -> Option<u32> {
        let found = self.through(id).filter(|_| depth < 16)?;
        match found.kind {
            INT | STRUCT | UNION | ENUM | ENUM64 => Some(found.size),
            PTR => Some(8),
            ARRAY => {
                let (element, count) = found.array?;
                self.size(element, depth + 1)?.checked_mul(count)
            }
            _ => None,
        }
    }

    /// Shapes of all variables whose type is a structure of the kind map definitions use, by name.
    pub fn maps(&self) -> HashMap<String, MapShape> {
        let variables = self.types.iter().filter(|found| found.kind == VAR);
        let shape = |variable: &Type| {
            Some((self.string(variable.name).to_string(), self.shape(variable.size)?))
        };
        variables.filter_map(shape).collect()
    }

    fn shape(&self, id: u32) -> Option<MapShape> {
        let definition = self.through(id).filter(|found| found.kind == STRUCT)?;
        let mut shape = MapShape::default();
        let target = |member: &Member| {
            self.through(member.kind).filter(|found| found.kind == PTR).map(|p| p.size)
        };
        // A number is the length of an array that a member points to.
        let number = |member: &Member| self.through(target(member)?)?.array.map(|(_, count)| count);
        for member in &definition.members {
            match self.string(member.name) {
                "type" => shape.kind = number(member).unwrap_or(0),
                "key_size" => shape.key_size = number(member).unwrap_or(0),
                "value_size" => shape.value_size = number(member).unwrap_or(0),
                "max_entries" => shape.max_entries = number(member).unwrap_or(0),
                "key" => shape.key_size = self.size(target(member)?, 0).unwrap_or(0),
                "value" => shape.value_size = self.size(target(member)?, 0).unwrap_or(0),
                _ => {}
            }
        }
        Some(shape)
    }

    /// Source lines of section `.BTF.ext`: section name, byte offset in it, file, line.
    pub fn lines(&self, ext: &[u8]) -> Vec<(&'a str, u64, &'a str, u32)> {
        let mut found = Vec::new();
        self.read_lines(ext, &mut found);
        found
    }

    fn read_lines(&self, ext: &[u8], found: &mut Vec<(&'a str, u64, &'a str, u32)>) -> Option<()> {
        let header = word(ext, 4)? as usize;
        let (offset, length) = (word(ext, 16)? as usize, word(ext, 20)? as usize);
        let data = ext.get(header.checked_add(offset)?..)?.get(..length)?;
        let record = word(data, 0)? as usize;
        let mut at = 4;
        while let (Some(section), Some(count)) = (word(data, at), word(data, at + 4)) {
            at += 8;
            for _ in 0..count {
                let (insn, file, position) =
                    (word(data, at)?, word(data, at + 4)?, word(data, at + 12)?);
                found.push((self.string(section), insn.into(), self.string(file), position >> 10));
                at += record.max(16);
            }
        }
        Some(())
    }
}
