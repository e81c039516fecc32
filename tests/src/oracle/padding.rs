//! Variables, and which bits of their types mean something, from the debug information.
//!
//! The shim (`tests/oracle/nf_oracle.h`) has a static variable for each type that an operation
//! takes. Its description in DWARF says where the members are, bit-fields too; what no member
//! covers is padding. clang wrote that, not our front end.

use gimli::{
    AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian, Operation, Unit,
    UnitOffset,
};
use object::{Object, ObjectSection};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'e, 'u, 'a> = DebuggingInformationEntry<'e, 'u, Slice<'a>>;

/// A variable with static storage.
pub struct Variable {
    pub name: String,
    /// In the object.
    pub at: u64,
    /// A byte for each byte of the type, with ones where bits mean something.
    pub mask: Vec<u8>,
    /// True of variables in writable memory; constants are elsewhere.
    pub changes: bool,
    pub shape: Shape,
}

/// What a type is made of.
pub enum Shape {
    Other,
    /// Elements, row by row if it has several dimensions.
    Array {
        len: usize,
        bytes: usize,
        element: Box<Shape>,
    },
    Struct(Vec<Member>),
}

/// A member of a struct, at a bit.
pub struct Member {
    pub name: String,
    pub at: usize,
    pub bits: usize,
    pub shape: Shape,
}

/// All variables with static storage.
pub fn variables(object: &[u8]) -> Vec<Variable> {
    let file = object::File::parse(object).expect("a shared object");
    let section = |id: gimli::SectionId| -> Result<Slice, gimli::Error> {
        let data = file
            .section_by_name(id.name())
            .map_or(&[][..], |s| s.data().expect("a section's bytes"));
        Ok(EndianSlice::new(data, LittleEndian))
    };
    let writable: Vec<(u64, u64)> = [".data", ".bss"]
        .iter()
        .filter_map(|name| file.section_by_name(name))
        .map(|section| (section.address(), section.address() + section.size()))
        .collect();
    let dwarf = gimli::Dwarf::load(section).expect("debug information");
    let mut found = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next().expect("a unit") {
        let unit = dwarf.unit(header).expect("a unit");
        let mut entries = unit.entries();
        while let Some((_, entry)) = entries.next_dfs().expect("an entry") {
            if entry.tag() != gimli::DW_TAG_variable {
                continue;
            }
            if let (Some(at), Some(ty)) = (address(&unit, entry), type_of(entry)) {
                let name = name_of(&dwarf, &unit, entry);
                let changes = writable.iter().any(|(from, to)| (*from..*to).contains(&at));
                let (mask, shape) = (mask(&unit, ty), shape(&dwarf, &unit, ty));
                found.push(Variable { name, at, mask, changes, shape });
            }
        }
    }
    found
}

fn address(unit: &Unit<Slice>, entry: &Entry) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = entry.attr_value(gimli::DW_AT_location).ok()?? else {
        return None;
    };
    match expression.operations(unit.encoding()).next().ok()?? {
        Operation::Address { address } => Some(address),
        _ => None,
    }
}

fn type_of(entry: &Entry) -> Option<UnitOffset> {
    match entry.attr_value(gimli::DW_AT_type).ok()?? {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}

fn name_of(dwarf: &gimli::Dwarf<Slice>, unit: &Unit<Slice>, entry: &Entry) -> String {
    let name = entry.attr_value(gimli::DW_AT_name).ok().flatten();
    let name = name.and_then(|name| dwarf.attr_string(unit, name).ok());
    name.map_or_else(String::new, |name| name.to_string_lossy().into())
}

fn number(entry: &Entry, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name).ok()??.udata_value()
}

fn mask(unit: &Unit<Slice>, ty: UnitOffset) -> Vec<u8> {
    let entry = unit.entry(ty).expect("a type");
    let size = number(&entry, gimli::DW_AT_byte_size).unwrap_or(0) as usize;
    match entry.tag() {
        gimli::DW_TAG_base_type => {
            let boolean = AttributeValue::Encoding(gimli::DW_ATE_boolean);
            let is_bool = entry.attr_value(gimli::DW_AT_encoding).ok().flatten() == Some(boolean);
            if is_bool { vec![1] } else { vec![0xff; size] }
        }
        gimli::DW_TAG_enumeration_type => vec![0xff; size],
        gimli::DW_TAG_array_type => {
            mask(unit, type_of(&entry).expect("an element")).repeat(len(unit, ty))
        }
        gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
            let mut bytes = vec![0; size];
            for child in children(unit, ty) {
                let member = unit.entry(child).expect("a member");
                if member.tag() == gimli::DW_TAG_member {
                    put_member(unit, &member, &mut bytes);
                }
            }
            bytes
        }
        gimli::DW_TAG_pointer_type => vec![0xff; 8],
        // typedef, const, volatile
        _ => type_of(&entry).map_or_else(Vec::new, |ty| mask(unit, ty)),
    }
}

/// The elements of all dimensions of an array.
fn len(unit: &Unit<Slice>, array: UnitOffset) -> usize {
    let ranges = children(unit, array);
    let ranges = ranges.iter().filter_map(|range| unit.entry(*range).ok());
    let ranges = ranges.filter(|range| range.tag() == gimli::DW_TAG_subrange_type);
    ranges.map(|range| number(&range, gimli::DW_AT_count).unwrap_or(0) as usize).product()
}

fn shape(dwarf: &gimli::Dwarf<Slice>, unit: &Unit<Slice>, ty: UnitOffset) -> Shape {
    let entry = unit.entry(ty).expect("a type");
    match entry.tag() {
        gimli::DW_TAG_array_type => {
            let of = type_of(&entry).expect("an element");
            let (len, bytes) = (len(unit, ty), mask(unit, of).len());
            Shape::Array { len, bytes, element: Box::new(shape(dwarf, unit, of)) }
        }
        gimli::DW_TAG_structure_type => {
            let members = children(unit, ty).into_iter().filter_map(|child| {
                let member = unit.entry(child).ok()?;
                let of = (member.tag() == gimli::DW_TAG_member).then(|| type_of(&member))??;
                let number = |name| number(&member, name).map(|number| number as usize);
                let at = number(gimli::DW_AT_data_bit_offset);
                let whole = || 8 * number(gimli::DW_AT_data_member_location).unwrap_or(0);
                Some(Member {
                    name: name_of(dwarf, unit, &member),
                    at: at.unwrap_or_else(whole),
                    bits: number(gimli::DW_AT_bit_size).unwrap_or(8 * mask(unit, of).len()),
                    shape: shape(dwarf, unit, of),
                })
            });
            Shape::Struct(members.collect())
        }
        gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type => {
            type_of(&entry).map_or(Shape::Other, |ty| shape(dwarf, unit, ty))
        }
        _ => Shape::Other,
    }
}

fn put_member(unit: &Unit<Slice>, member: &Entry, bytes: &mut [u8]) {
    if let Some(bits) = number(member, gimli::DW_AT_bit_size) {
        let first = number(member, gimli::DW_AT_data_bit_offset).expect("a bit-field's place");
        for bit in first..first + bits {
            bytes[bit as usize / 8] |= 1 << (bit % 8);
        }
        return;
    }
    let at = number(member, gimli::DW_AT_data_member_location).unwrap_or(0) as usize;
    let part = mask(unit, type_of(member).expect("a member's type"));
    bytes[at..at + part.len()].copy_from_slice(&part);
}

fn children(unit: &Unit<Slice>, of: UnitOffset) -> Vec<UnitOffset> {
    let mut tree = unit.entries_tree(Some(of)).expect("a type's tree");
    let mut found = Vec::new();
    let mut below = tree.root().expect("a type").children();
    while let Some(child) = below.next().expect("a child") {
        found.push(child.entry().offset());
    }
    found
}
