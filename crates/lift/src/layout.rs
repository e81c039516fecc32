//! Bytes of keys, values and stack memory as members: every byte is in one member, and no member
//! crosses what the program takes apart.

use nicforge_ir::{Field, Program, Proj, StructDef, Type};
use nicforge_isa::object::Shape;

/// A type of αIR with every byte in a number of 1, 2, 4 or 8 bytes.
#[derive(Clone, Debug)]
pub enum Node {
    Int(u32),
    Array { element: Box<Node>, count: u32 },
    Struct { size: u32, members: Vec<(u32, Node)> },
}

/// One step to a number inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Member(u32),
    Element(u32),
    /// The element that the varying part of a place says, after so many others.
    Varying {
        base: i64,
        size: u32,
    },
}

/// A number that some bytes lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub path: Vec<Step>,
    /// Where it begins; of a varying element, of the one with index 0 bytes in.
    pub off: i64,
    pub size: u32,
}

impl Node {
    pub fn size(&self) -> u32 {
        match self {
            Node::Int(size) => *size,
            Node::Array { element, count } => element.size().saturating_mul(*count),
            Node::Struct { size, .. } => *size,
        }
    }

    /// Numbers that bytes from `off` to `off + bytes` lie in, in order. With a varying part that is
    /// a multiple of `stride` and at most `span`, one array on the way takes it.
    pub fn leaves(&self, off: i64, bytes: u32, varying: Option<(u64, u64)>) -> Option<Vec<Leaf>> {
        let mut found = Vec::new();
        let wanted = Wanted { from: off, to: off + i64::from(bytes), varying };
        self.collect(0, &wanted, &mut Vec::new(), &mut found)?;
        let covered: i64 = found.iter().map(|leaf: &Leaf| i64::from(leaf.size)).sum();
        (off >= 0 && covered >= i64::from(bytes)).then_some(found)
    }

    fn collect(
        &self,
        base: i64,
        wanted: &Wanted,
        path: &mut Vec<Step>,
        found: &mut Vec<Leaf>,
    ) -> Option<()> {
        let size = self.size();
        if wanted.to <= base || wanted.from >= base + i64::from(size) {
            return Some(());
        }
        match self {
            // The varying part belongs to an array that was not met.
            Node::Int(_) if wanted.varying.is_some() => return None,
            Node::Int(size) => found.push(Leaf { path: path.clone(), off: base, size: *size }),
            Node::Array { element, count } => {
                let each = i64::from(element.size()).max(1);
                if let Some((stride, _)) = wanted.varying
                    && stride % each as u64 == 0
                {
                    let first = (wanted.from - base).div_euclid(each);
                    let whole = base + first * each;
                    path.push(Step::Varying { base: first, size: each as u32 });
                    let inner = Wanted { varying: None, ..*wanted };
                    element.collect(whole, &inner, path, found)?;
                    path.pop();
                    return (wanted.to <= whole + each).then_some(());
                }
                let first = (wanted.from - base).div_euclid(each).max(0);
                let last = (wanted.to - 1 - base).div_euclid(each).min(i64::from(*count) - 1);
                for index in first..=last {
                    path.push(Step::Element(index as u32));
                    element.collect(base + index * each, wanted, path, found)?;
                    path.pop();
                }
            }
            Node::Struct { members, .. } => {
                for (index, (at, member)) in (0..).zip(members) {
                    path.push(Step::Member(index));
                    member.collect(base + i64::from(*at), wanted, path, found)?;
                    path.pop();
                }
            }
        }
        Some(())
    }

    /// Every number in it, in order.
    pub fn all(&self) -> Vec<Leaf> {
        self.leaves(0, self.size(), None).unwrap_or_default()
    }
}

#[derive(Clone, Copy)]
struct Wanted {
    from: i64,
    to: i64,
    varying: Option<(u64, u64)>,
}

/// Makes types for `size` bytes, divided as `shape` says where it says something.
pub fn divide(program: &mut Program, name: &str, size: u32, shape: Option<&Shape>) -> (Type, Node) {
    match shape {
        Some(shape) if shape.size() <= size => {
            let (ty, node) = of_shape(program, name, shape);
            if node.size() == size {
                return (ty, node);
            }
            let members = vec![("data".to_string(), 0, ty, node)];
            structure(program, name, size, members)
        }
        _ if matches!(size, 1 | 2 | 4 | 8) => (Type::u(8 * size as u8), Node::Int(size)),
        _ => structure(program, name, size, Vec::new()),
    }
}

fn of_shape(program: &mut Program, name: &str, shape: &Shape) -> (Type, Node) {
    match shape {
        Shape::Int { size, .. } => (Type::u(8 * *size as u8), Node::Int(*size)),
        Shape::Array { element, count } => {
            let (ty, node) = of_shape(program, name, element);
            let count = (*count).max(1);
            (program.array_of(ty, count), Node::Array { element: Box::new(node), count })
        }
        Shape::Struct { size, members } => {
            let mut made = Vec::new();
            for (member, off, shape) in members {
                let inner = format!("{name}_{member}");
                let (ty, node) = of_shape(program, &inner, shape);
                made.push((member.clone(), *off, ty, node));
            }
            structure(program, name, *size, made)
        }
    }
}

/// A packed struct; bytes without a member get one.
fn structure(
    program: &mut Program,
    name: &str,
    size: u32,
    mut given: Vec<(String, u32, Type, Node)>,
) -> (Type, Node) {
    given.sort_by_key(|(_, off, ..)| *off);
    let mut fields = Vec::new();
    let mut members = Vec::new();
    let mut at = 0;
    let gap = |program: &mut Program, fields: &mut Vec<Field>, members: &mut Vec<_>, from, to| {
        let mut from: u32 = from;
        // Words where there are many bytes; whatever is taken apart is put together again.
        while from < to {
            let left = to - from;
            let (ty, node) = if left > 256 {
                let count = left / 4;
                let ty = program.array_of(Type::U32, count);
                (ty, Node::Array { element: Box::new(Node::Int(4)), count })
            } else {
                let most = [8, 4, 2, 1].into_iter();
                let mut fits = most.filter(|size| *size <= left && from.is_multiple_of(*size));
                let size = fits.next().unwrap_or(1).min(4);
                (Type::u(8 * size as u8), Node::Int(size))
            };
            fields.push(field(format!("at_{from}"), ty, false));
            members.push((from, node.clone()));
            from += node.size();
        }
    };
    for (member, off, ty, node) in given {
        let end = off.saturating_add(node.size());
        if off < at || end > size || node.size() == 0 {
            continue;
        }
        gap(program, &mut fields, &mut members, at, off);
        let fresh = !member.is_empty() && fields.iter().all(|field: &Field| field.name != member);
        let member = if fresh { identifier(&member) } else { format!("at_{off}") };
        fields.push(field(member, ty, false));
        members.push((off, node));
        at = end;
    }
    gap(program, &mut fields, &mut members, at, size);
    let taken = |name: &str| program.structs.values().any(|def| def.name == name);
    let mut full = identifier(name);
    while taken(&full) {
        full.push('_');
    }
    let id = program.add_struct(StructDef { name: full, packed: true, fields });
    (Type::Struct(id), Node::Struct { size, members })
}

/// A name with what αIR allows in it.
pub fn identifier(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut found: String = name.chars().map(allowed).collect();
    if found.is_empty() || found.starts_with(|c: char| c.is_ascii_digit()) {
        found.insert(0, '_');
    }
    found
}

fn field(name: String, ty: Type, big_endian: bool) -> Field {
    Field { name, ty, bit_width: None, big_endian }
}

/// Steps as αIR writes them; `index` makes the value of an element's number.
pub fn project(path: &[Step], mut index: impl FnMut(Step) -> nicforge_ir::ValueId) -> Vec<Proj> {
    path.iter()
        .map(|step| match step {
            Step::Member(member) => Proj::Field(*member),
            step => Proj::Index(index(*step)),
        })
        .collect()
}
