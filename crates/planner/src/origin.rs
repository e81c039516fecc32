//! Origins: what a value of a handler is, as a function of the event that started it.
//!
//! Steering needs to know that two keys are the same part of a packet although different handlers
//! computed them along different ways. So every value gets an *origin*: an expression over bytes of
//! the frame, the port and constants if it is a pure function of the event, and otherwise an opaque
//! name (a value read from a table stays equal to itself wherever it is carried). Equal origins
//! mean equal values for one event; the reverse need not hold.
//!
//! Aggregates are taken apart into their integer members, so that a key struct and the header it
//! was filled from compare.

mod parts;
mod walk;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use nicforge_ir::{Program, Type};

pub use parts::Parts;
pub use walk::{Site, sites};

/// Origin of a value. Operations share their parts: a program that mixes a number with itself has
/// more ways to one of them than anybody can walk, so walks pass each part once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    Const(u64),
    /// Bytes of the frame, first byte lowest; the extract or load that read them.
    Frame {
        offset: u32,
        bits: u32,
        bit_offset: u32,
        by: Read,
    },
    Port,
    /// Parameter of the handler, and the member of it.
    Param {
        index: u32,
        path: Vec<u32>,
    },
    /// Anything else: the same value wherever it goes.
    Value {
        handler: u32,
        value: u32,
        path: Vec<u32>,
    },
    Op {
        name: &'static str,
        bits: u8,
        of: Parts,
    },
}

/// A read of the packet; two reads of the same bytes are the same value.
#[derive(Clone, Copy, Debug)]
pub struct Read(pub u32);

impl PartialEq for Read {
    fn eq(&self, _: &Read) -> bool {
        true
    }
}
impl Eq for Read {}
impl Hash for Read {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
impl PartialOrd for Read {
    fn partial_cmp(&self, other: &Read) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Read {
    fn cmp(&self, _: &Read) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Origin {
    /// True if it can be computed from the event alone.
    pub fn is_pure(&self) -> bool {
        fn pure(origin: &Origin, seen: &mut HashSet<*const Origin>) -> bool {
            match origin {
                Origin::Value { .. } => false,
                Origin::Op { of, .. } => {
                    of.iter().all(|part| !seen.insert(Rc::as_ptr(part)) || pure(part, seen))
                }
                _ => true,
            }
        }
        pure(self, &mut HashSet::new())
    }

    /// Without operations that lose nothing: what is equal dressed is equal undressed.
    pub fn undressed(&self) -> &Origin {
        match self {
            Origin::Op { name: "bswap" | "zext" | "sext" | "not" | "neg", of, .. } => {
                of[0].undressed()
            }
            other => other,
        }
    }

    /// Alternatives of a choice, each once, through choices among them; itself if it is none.
    pub fn choices(&self) -> Vec<&Origin> {
        let (mut found, mut left, mut seen) = (Vec::new(), vec![self], HashSet::new());
        while let Some(origin) = left.pop() {
            match origin {
                Origin::Op { name: "select", of, .. } => {
                    let new = of[1..].iter().filter(|part| seen.insert(Rc::as_ptr(part)));
                    left.extend(new.map(Rc::as_ref));
                }
                other => found.push(other),
            }
        }
        found
    }

    /// Bits of the number, where they are known.
    pub fn width(&self) -> Option<u8> {
        match self {
            Origin::Frame { bits, .. } => u8::try_from(*bits).ok(),
            Origin::Op { bits, .. } => Some(*bits),
            _ => None,
        }
    }

    /// The number itself, where it was only made wider.
    pub fn widened(&self) -> &Origin {
        match self {
            Origin::Op { name: "zext", of, .. } => of[0].widened(),
            other => other,
        }
    }

    /// The reads of the packet it rests on.
    pub fn reads(&self) -> BTreeSet<u32> {
        fn walk(origin: &Origin, found: &mut BTreeSet<u32>, seen: &mut HashSet<*const Origin>) {
            match origin {
                Origin::Frame { by, .. } => {
                    found.insert(by.0);
                }
                Origin::Op { of, .. } => {
                    for part in of.iter().filter(|part| !matches!(***part, Origin::Const(_))) {
                        if seen.insert(Rc::as_ptr(part)) {
                            walk(part, found, seen);
                        }
                    }
                }
                _ => {}
            }
        }
        let mut found = BTreeSet::new();
        walk(self, &mut found, &mut HashSet::new());
        found
    }

    /// With the parameters of its handler replaced by what the sender gave.
    pub fn with_params(&self, params: &[Shape]) -> Origin {
        self.with(&|leaf| match leaf {
            Origin::Param { index, path } => params.get(*index as usize)?.at(path).cloned(),
            _ => None,
        })
    }

    /// For packets of one port.
    pub fn at_port(&self, port: u32) -> Origin {
        self.with(&|leaf| match leaf {
            Origin::Port => Some(Origin::Const(u64::from(port))),
            _ => None,
        })
    }

    /// With other origins in the place of some that are no operations.
    fn with(&self, other: &dyn Fn(&Origin) -> Option<Origin>) -> Origin {
        type Known = HashMap<*const Origin, Rc<Origin>>;
        fn walk(
            origin: &Origin,
            other: &dyn Fn(&Origin) -> Option<Origin>,
            known: &mut Known,
        ) -> Origin {
            let Origin::Op { name, bits, of } = origin else {
                return other(origin).unwrap_or_else(|| origin.clone());
            };
            let mut parts = Vec::new();
            for part in of.iter() {
                let at = Rc::as_ptr(part);
                if !known.contains_key(&at) {
                    let new = Rc::new(walk(part, other, known));
                    known.insert(at, new);
                }
                parts.push(known[&at].clone());
            }
            make(name, *bits, parts)
        }
        walk(self, other, &mut HashMap::new())
    }
}

/// An operation, folded where its operands decide it.
fn make(name: &'static str, bits: u8, of: Vec<Rc<Origin>>) -> Origin {
    let constant = |n: usize| match of.get(n).map(Rc::as_ref) {
        Some(Origin::Const(value)) => Some(*value),
        _ => None,
    };
    match (name, constant(0), constant(1)) {
        ("select", Some(0), _) => return of[2].as_ref().clone(),
        ("select", Some(_), _) => return of[1].as_ref().clone(),
        ("select", None, _) if of[1] == of[2] => return of[1].as_ref().clone(),
        ("eq", Some(a), Some(b)) => return Origin::Const(u64::from(a == b)),
        ("ne", Some(a), Some(b)) => return Origin::Const(u64::from(a != b)),
        ("not", Some(a), _) if bits == 1 => return Origin::Const(1 - (a & 1)),
        // A wider form and back: the same value.
        ("zext" | "sext" | "trunc", _, _) => {
            if let Origin::Op { name: "zext" | "sext", of: inner, .. } = of[0].as_ref()
                && inner[0].width() == Some(bits)
            {
                return inner[0].as_ref().clone();
            }
            if of[0].width() == Some(bits) {
                return of[0].as_ref().clone();
            }
        }
        _ => {}
    }
    some_bytes(name, bits, &of).unwrap_or_else(|| Origin::Op { name, bits, of: Parts::new(of) })
}

/// Bytes of the frame that an operation leaves, if it takes whole ones: a mask, a shift or a
/// narrower form of a number from the frame, in either order of bytes.
fn some_bytes(name: &str, bits: u8, of: &[Rc<Origin>]) -> Option<Origin> {
    let (number, by) = match of {
        [by, number] if name == "and" && matches!(**by, Origin::Const(_)) => (number, Some(by)),
        [number, rest @ ..] => (number, rest.first()),
        [] => return None,
    };
    let all = u32::from(number.width()?) / 8;
    let (first, count) = match (name, by.map(Rc::as_ref)) {
        ("trunc", _) if bits.is_multiple_of(8) => (0, u32::from(bits) / 8),
        ("and", Some(Origin::Const(mask))) if mask.trailing_ones().is_multiple_of(8) => {
            let count = mask.trailing_ones() / 8;
            (0, if mask.count_ones() == 8 * count { count } else { 0 })
        }
        ("lshr", Some(Origin::Const(by))) if by.is_multiple_of(8) => {
            let first = u32::try_from(by / 8).ok()?;
            (first, all.checked_sub(first)?)
        }
        _ => return None,
    };
    if count == 0 || first == 0 && count >= all {
        return None;
    }
    let part = bytes_of(number, first, count)?;
    let narrow = part.width()?;
    Some(if narrow == bits { part } else { make("zext", bits, vec![Rc::new(part)]) })
}

/// `count` bytes of a number of the frame, from the lowest but `first` on.
fn bytes_of(number: &Origin, first: u32, count: u32) -> Option<Origin> {
    let narrow = u8::try_from(8 * count).ok()?;
    match number {
        Origin::Frame { offset, bit_offset: 0, bits, by } if 8 * (first + count) <= *bits => {
            Some(Origin::Frame { offset: offset + first, bits: 8 * count, bit_offset: 0, by: *by })
        }
        Origin::Op { name: "bswap", bits, of } => {
            let all = u32::from(*bits) / 8;
            let part = bytes_of(&of[0], all.checked_sub(first + count)?, count)?;
            Some(if count == 1 { part } else { make("bswap", narrow, vec![Rc::new(part)]) })
        }
        Origin::Op { name: "zext", of, .. } if 8 * (first + count) <= u32::from(of[0].width()?) => {
            bytes_of(&of[0], first, count)
        }
        _ => None,
    }
}

/// Origins of a value: one of an integer, one for every member of an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Int(Origin),
    Members(Vec<Shape>),
    /// One of an array that is too long to follow element by element, as a whole.
    Whole(Origin),
    /// A packet, or something too large to follow.
    Other,
}

impl Shape {
    fn at(&self, path: &[u32]) -> Option<&Origin> {
        match (self, path) {
            (Shape::Int(origin) | Shape::Whole(origin), []) => Some(origin),
            (Shape::Members(members), [first, rest @ ..]) => members.get(*first as usize)?.at(rest),
            _ => None,
        }
    }

    /// All integers and long arrays in it.
    pub fn leaves(&self) -> Vec<&Origin> {
        match self {
            Shape::Int(origin) | Shape::Whole(origin) => vec![origin],
            Shape::Members(members) => members.iter().flat_map(Shape::leaves).collect(),
            Shape::Other => vec![],
        }
    }
}

/// Arrays up to this long are followed element by element.
const MAX_ELEMENTS: u32 = 16;

/// A shape of `ty` whose leaves are given by path.
fn shape_of(
    program: &Program,
    ty: Type,
    path: &mut Vec<u32>,
    leaf: &mut dyn FnMut(&[u32]) -> Origin,
) -> Shape {
    match ty {
        Type::Int { .. } => Shape::Int(leaf(path)),
        Type::Packet => Shape::Other,
        Type::Struct(id) => {
            let fields = &program.structs[id].fields;
            Shape::Members(members(fields.len(), path, |n, path| {
                shape_of(program, fields[n].ty, path, leaf)
            }))
        }
        Type::Array(id) => {
            let def = program.arrays[id];
            if def.len > MAX_ELEMENTS {
                return Shape::Whole(leaf(path));
            }
            Shape::Members(members(def.len as usize, path, |_, path| {
                shape_of(program, def.elem, path, leaf)
            }))
        }
    }
}

fn members(
    count: usize,
    path: &mut Vec<u32>,
    mut each: impl FnMut(usize, &mut Vec<u32>) -> Shape,
) -> Vec<Shape> {
    (0..count)
        .map(|n| {
            path.push(n as u32);
            let shape = each(n, path);
            path.pop();
            shape
        })
        .collect()
}
