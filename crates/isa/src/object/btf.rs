//! The little of BTF that analysis needs: sizes of map keys and values, and source lines.
//!
//! Layouts as in the kernel's documentation of BTF. Everything is read with bounds checks; what
//! cannot be read is left out.

use std::collections::HashMap;

/// A map as its BTF definition says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapShape {
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub key: Option<Shape>,
    pub value: Option<Shape>,
}

/// A division of bytes into members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of so many bytes; pointers are numbers too.
    Int {
        size: u32,
        big_endian: bool,
    },
    Array {
        element: Box<Shape>,
        count: u32,
    },
    /// Members by offset. Of a union only the largest member is there; members of less than a byte
    /// are not.
    Struct {
        size: u32,
        members: Vec<(String, u32, Shape)>,
    },
}

impl Shape {
    /// Bytes of it.
    pub fn size(&self) -> u32 {
        match self {
            Shape::Int { size, .. } | Shape::Struct { size, .. } => *size,
            Shape::Array { element, count } => element.size().saturating_mul(*count),
        }
    }
}

/// Most members of a shape; a few bytes of BTF can describe any number of them.
const MAX_MEMBERS: usize = 4096;

#[derive(Clone, Debug)]
struct Member {
    name: u32,
    kind: u32,
    /// In bits; in structures with bit-fields the upper byte is the width.
    offset: u32,
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

/// Where an instruction comes from.
pub struct LineInfo<'a> {
    pub section: &'a str,
    /// Bytes into the section.
    pub offset: u64,
    pub file: &'a str,
    pub text: &'a str,
    pub line: u32,
}

/// Properties of a field that an instruction depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Offset,
    Size,
    Exists,
}

/// A field of a structure that an instruction uses, as the compiler saw it.
#[derive(Debug)]
pub struct FieldUse<'a> {
    pub section: &'a str,
    /// Bytes into the section.
    pub at: u64,
    pub what: Field,
    /// Name of the structure, and of the first member with a name on the way to the field.
    pub of: &'a str,
    pub member: &'a str,
    /// True if the field is that member as a whole.
    pub whole: bool,
    /// Bytes in front of the field: in the structure, and in the member.
    pub offset: u32,
    pub within: u32,
    pub size: u32,
}

impl FieldUse<'_> {
    /// The number that the compiler put into the instruction.
    pub fn value(&self) -> u32 {
        match self.what {
            Field::Offset => self.offset,
            Field::Size => self.size,
            Field::Exists => 1,
        }
    }
}

/// Types of an object.
#[derive(Default)]
pub struct Btf<'a> {
    types: Vec<Type>,
    strings: &'a [u8],
}

pub(super) const INT: u32 = 1;
pub(super) const PTR: u32 = 2;
pub(super) const ARRAY: u32 = 3;
pub(super) const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
pub(super) const VAR: u32 = 14;
pub(super) const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;
/// Parts of section `.BTF.ext`, by their order.
const LINES: usize = 1;
const FIELDS: usize = 2;
/// Kinds that only refer on: typedef, volatile, const, restrict, type tag.
const THROUGH: [u32; 5] = [8, 9, 10, 11, 18];

/// Bytes behind the three words of a type of `count` members.
pub(super) fn behind(kind: u32, count: usize) -> usize {
    match kind {
        INT | VAR | DECL_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
        ENUM | FUNC_PROTO => 8 * count,
        _ => 0,
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
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
            let entry = behind(kind, count);
            if kind == ARRAY {
                array = Some((word(types, at)?, word(types, at + 8)?));
            }
            if matches!(kind, STRUCT | UNION | DATASEC) {
                for index in 0..count {
                    let of = |part: usize| word(types, at + 12 * index + 4 * part);
                    let (Some(first), Some(second), Some(third)) = (of(0), of(1), of(2)) else {
                        break;
                    };
                    members.push(if kind == DATASEC {
                        // Type of the variable, offset, size.
                        Member { name: 0, kind: first, offset: second.saturating_mul(8) }
                    } else {
                        Member { name: first, kind: second, offset: third }
                    });
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

    /// Divides a type into members.
    pub fn shape_of(&self, id: u32) -> Option<Shape> {
        self.divide(id, 0, &mut MAX_MEMBERS.clone())
    }

    /// Variables of a section of global data.
    pub fn section(&self, name: &str) -> Option<Vec<(String, u32, Shape)>> {
        let of = |found: &&Type| found.kind == DATASEC && self.string(found.name) == name;
        let section = self.types.iter().find(of)?;
        let mut left = MAX_MEMBERS;
        let mut members = Vec::new();
        for member in &section.members {
            let variable = self.types.get(member.kind as usize).filter(|v| v.kind == VAR)?;
            let shape = self.divide(variable.size, 0, &mut left)?;
            members.push((self.string(variable.name).to_string(), member.offset / 8, shape));
        }
        Some(members)
    }

    fn divide(&self, id: u32, depth: u32, left: &mut usize) -> Option<Shape> {
        *left = left.checked_sub(1)?;
        let found = self.through(id).filter(|_| depth < 16)?;
        match found.kind {
            INT | ENUM | ENUM64 | PTR => {
                let size = if found.kind == PTR { 8 } else { found.size };
                let known = matches!(size, 1 | 2 | 4 | 8);
                known.then(|| Shape::Int { size, big_endian: self.big_endian(id) })
            }
            ARRAY => {
                let (element, count) = found.array?;
                let element = Box::new(self.divide(element, depth + 1, left)?);
                Some(Shape::Array { element, count })
            }
            STRUCT => {
                let mut members = Vec::new();
                for member in &found.members {
                    // A width, or an offset within a byte: the bytes stay without a name.
                    if member.offset >> 24 != 0 || member.offset % 8 != 0 {
                        continue;
                    }
                    let shape = self.divide(member.kind, depth + 1, left)?;
                    members.push((self.string(member.name).to_string(), member.offset / 8, shape));
                }
                Some(Shape::Struct { size: found.size, members })
            }
            UNION => {
                let size = |member: &&Member| self.size(member.kind, 0).unwrap_or(0);
                // The first of the largest.
                let largest = found.members.iter().rev().max_by_key(size)?;
                let shape = self.divide(largest.kind, depth + 1, left)?;
                let name = self.string(largest.name).to_string();
                Some(Shape::Struct { size: found.size, members: vec![(name, 0, shape)] })
            }
            _ => None,
        }
    }

    /// True if a type goes by one of the kernel's names for numbers in network order.
    fn big_endian(&self, mut id: u32) -> bool {
        for _ in 0..32 {
            let Some(found) = self.types.get(id as usize) else { return false };
            if self.string(found.name).starts_with("__be") {
                return true;
            }
            if !THROUGH.contains(&found.kind) {
                return false;
            }
            id = found.size;
        }
        false
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
                "key" => {
                    shape.key_size = self.size(target(member)?, 0).unwrap_or(0);
                    shape.key = self.shape_of(target(member)?);
                }
                "value" => {
                    shape.value_size = self.size(target(member)?, 0).unwrap_or(0);
                    shape.value = self.shape_of(target(member)?);
                }
                _ => {}
            }
        }
        Some(shape)
    }

    /// Bytes in front of a member of a map's definition.
    pub fn place_of(&self, map: &str, member: &str) -> Option<u32> {
        let of = |found: &&Type| found.kind == VAR && self.string(found.name) == map;
        let definition = self.through(self.types.iter().find(of)?.size)?;
        let found = definition.members.iter().find(|own| self.string(own.name) == member)?;
        Some(found.offset / 8)
    }

    /// Declaration tags of functions: the function, and the text.
    pub fn tags(&self) -> Vec<(&'a str, &'a str)> {
        let of = |found: &Type| {
            let function = self.types.get(found.size as usize).filter(|own| own.kind == FUNC)?;
            Some((self.string(function.name), self.string(found.name)))
        };
        self.types.iter().filter(|found| found.kind == DECL_TAG).filter_map(of).collect()
    }

    /// Source lines of section `.BTF.ext`.
    pub fn lines(&self, ext: &[u8]) -> Vec<LineInfo<'a>> {
        let line = |(section, [insn, file, text, position]): (&'a str, [u32; 4])| LineInfo {
            section,
            offset: insn.into(),
            file: self.string(file),
            text: self.string(text),
            line: position >> 10,
        };
        self.records(ext, LINES).into_iter().map(line).collect()
    }

    /// Uses of fields that section `.BTF.ext` wants to be relocated.
    pub fn fields(&self, ext: &[u8]) -> Vec<FieldUse<'a>> {
        let used = |(section, [insn, root, access, kind]): (&'a str, [u32; 4])| {
            let what = match kind {
                0 => Field::Offset,
                1 => Field::Size,
                2 => Field::Exists,
                _ => return None,
            };
            let used = self.field(root, self.string(access))?;
            Some(FieldUse { section, at: insn.into(), what, ..used })
        };
        self.records(ext, FIELDS).into_iter().filter_map(used).collect()
    }

    /// Records of a part of section `.BTF.ext`, each with its section's name: its first four words.
    fn records(&self, ext: &[u8], part: usize) -> Vec<(&'a str, [u32; 4])> {
        let mut found = Vec::new();
        self.read_records(ext, part, &mut found);
        found
    }

    fn read_records(
        &self,
        ext: &[u8],
        part: usize,
        found: &mut Vec<(&'a str, [u32; 4])>,
    ) -> Option<()> {
        let header = word(ext, 4)? as usize;
        // Where offset and length of the part are; older headers end before.
        let entry = 8 + 8 * part;
        if header < entry + 8 {
            return None;
        }
        let (offset, length) = (word(ext, entry)? as usize, word(ext, entry + 4)? as usize);
        let data = ext.get(header.checked_add(offset)?..)?.get(..length)?;
        let record = word(data, 0)? as usize;
        let mut at = 4;
        while let (Some(section), Some(count)) = (word(data, at), word(data, at + 4)) {
            at += 8;
            for _ in 0..count {
                let of = |nth: usize| word(data, at + 4 * nth);
                found.push((self.string(section), [of(0)?, of(1)?, of(2)?, of(3)?]));
                at += record.max(16);
            }
        }
        Some(())
    }

    /// The field at the end of a way such as `0:3:1`: numbers of members and of elements, the
    /// first one of the structure in an array of such.
    fn field(&self, root: u32, way: &str) -> Option<FieldUse<'a>> {
        let mut steps = way.split(':').map(|step| step.parse::<u32>().ok());
        if steps.next()?? != 0 {
            return None;
        }
        let of = self.string(self.through(root)?.name);
        // In bits.
        let (mut id, mut place, mut named) = (root, 0u32, None);
        let mut whole = false;
        for step in steps {
            let step = step?;
            let found = self.through(id)?;
            match found.kind {
                STRUCT | UNION => {
                    let member = found.members.get(step as usize)?;
                    place = place.checked_add(member.offset & 0xff_ffff)?;
                    let name = self.string(member.name);
                    whole = named.is_none() && !name.is_empty();
                    if whole {
                        named = Some((name, place));
                    }
                    id = member.kind;
                }
                ARRAY => {
                    let (element, _) = found.array?;
                    let before = self.size(element, 0)?.checked_mul(step)?.checked_mul(8)?;
                    (place, id, whole) = (place.checked_add(before)?, element, false);
                }
                _ => return None,
            }
        }
        let ((member, start), size) = (named?, self.size(id, 0)?);
        Some(FieldUse {
            section: "",
            at: 0,
            what: Field::Offset,
            of,
            member,
            whole,
            offset: place / 8,
            within: (place - start) / 8,
            size,
        })
    }
}
