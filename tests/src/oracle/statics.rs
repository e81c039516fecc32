//! Variables of static storage duration of a program that runs as plain C. Their memory is compared
//! with the entries of the tables that the front end makes of them.

use std::collections::HashMap;

use nicforge_ir::{Entry, Match, Program, Table, Type};

use super::padding::Shape;

/// The variables of an object, by name; memory is that of this process.
#[derive(Default)]
pub struct Statics {
    of: HashMap<String, Vec<Variable>>,
}

struct Variable {
    at: usize,
    /// Bits that mean something.
    mask: Vec<u8>,
    begins: Vec<u8>,
    shape: Shape,
}

/// Bits of a variable that are bits of a table's value.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    to: usize,
    bits: usize,
}

/// A table's elements in a variable.
struct View<'v> {
    variable: &'v Variable,
    elements: Vec<Vec<Piece>>,
}

impl Statics {
    /// Adds a variable as the object was loaded.
    ///
    /// # Safety
    /// There is one at the address, as long as `mask` and aligned for bytes.
    pub unsafe fn add(&mut self, name: String, at: usize, mask: Vec<u8>, shape: Shape) {
        // SAFETY: as above.
        let begins = unsafe { memory(at, mask.len()) }.to_vec();
        self.of.entry(name).or_default().push(Variable { at, mask, begins, shape });
    }

    /// Gives a program's variables the values that they had at first; all of the object's get them.
    pub fn reset(&self) {
        for variable in self.of.values().flatten() {
            variable.put(&variable.begins);
        }
    }

    /// The elements of a table: those of a variable of its name, or of the member `b` of `a` if its
    /// name is `a_b`.
    fn view(&self, program: usize, table: &str, of: &Values) -> Option<View<'_>> {
        let ends = std::iter::once(table.len()).chain(table.match_indices('_').map(|(at, _)| at));
        ends.into_iter().find_map(|end| {
            let (name, member) = (&table[..end], table[end..].trim_start_matches('_'));
            let found = self.of.get(&format!("{name}_{program}")).or_else(|| self.of.get(name))?;
            // One of several is not told apart from the others.
            let [variable] = &found[..] else { return None };
            let (shape, starts) = part(&variable.shape, vec![0], member)?;
            let elements = starts.into_iter().map(|start| of.pieces(shape, start));
            Some(View { variable, elements: elements.collect::<Option<_>>()? })
        })
    }

    /// True if variables have this name, or one with this member; compilers leave out what nothing
    /// uses.
    pub fn has(&self, program: usize, table: &str, of: &Values) -> bool {
        let has = |name: &str| self.of.contains_key(name);
        has(&format!("{table}_{program}")) || has(table) || self.view(program, table, of).is_some()
    }

    /// The entries of a variable's table, sorted by key; `None` without one.
    pub fn entries(&self, program: usize, table: &str, of: &Values) -> Option<Vec<Entry>> {
        let View { variable, elements } = self.view(program, table, of)?;
        // SAFETY: the variable is as long as its mask.
        let now = unsafe { memory(variable.at, variable.mask.len()) };
        let taken = |bytes, pieces: &[Piece]| taken(bytes, pieces, of.size);
        let entries = elements.iter().zip(0u32..).map(|(pieces, number)| Entry {
            key: number.to_le_bytes().to_vec(),
            matching: Match::Exact,
            value: of.combined(
                &taken(now, pieces),
                &taken(&variable.begins, pieces),
                &taken(&variable.mask, pieces),
                u64::wrapping_sub,
            ),
            buf: None,
        });
        let shown = entries.filter(|entry| entry.value.iter().any(|byte| *byte != 0));
        let mut found: Vec<Entry> = shown.collect();
        found.sort_by(|a, b| a.key.cmp(&b.key));
        Some(found)
    }

    /// Sets a variable as an entry of its table says; whether there is one.
    pub fn set(&self, program: usize, table: &str, of: &Values, entry: &Entry) -> bool {
        let Some(View { variable, elements }) = self.view(program, table, of) else {
            return false;
        };
        let number = entry.key.iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
        if let Some(pieces) = elements.get(number) {
            let [mask, begins] =
                [&variable.mask, &variable.begins].map(|bytes| taken(bytes, pieces, of.size));
            let value = of.combined(&entry.value, &begins, &mask, u64::wrapping_add);
            // SAFETY: the variable is as long as its mask.
            let mut bytes = unsafe { memory(variable.at, variable.mask.len()) }.to_vec();
            for piece in pieces {
                put_bits(&mut bytes, piece.from, &value, piece.to, piece.bits);
            }
            variable.put(&bytes);
        }
        true
    }
}

/// The type of the elements of a part of a variable, and the bits where they start.
fn part<'s>(shape: &'s Shape, starts: Vec<usize>, member: &str) -> Option<(&'s Shape, Vec<usize>)> {
    match shape {
        Shape::Array { len, bytes, element } => {
            let each = |start| (0..*len).map(move |number| start + 8 * number * bytes);
            part(element, starts.into_iter().flat_map(each).collect(), member)
        }
        _ if member.is_empty() => Some((shape, starts)),
        Shape::Struct(members) => members.iter().find_map(|inner| {
            let rest = member.strip_prefix(&inner.name)?;
            let rest = rest.strip_prefix('_').or_else(|| rest.is_empty().then_some(rest))?;
            let starts = starts.iter().map(|start| start + inner.at).collect();
            part(&inner.shape, starts, rest)
        }),
        Shape::Other => None,
    }
}

/// The bits of an element.
fn taken(bytes: &[u8], pieces: &[Piece], size: usize) -> Vec<u8> {
    let mut value = vec![0; size];
    for piece in pieces {
        put_bits(&mut value, piece.to, bytes, piece.from, piece.bits);
    }
    value
}

fn put_bits(to: &mut [u8], at: usize, from: &[u8], first: usize, bits: usize) {
    if [at, first, bits].iter().all(|number| number % 8 == 0) {
        to[at / 8..][..bits / 8].copy_from_slice(&from[first / 8..][..bits / 8]);
        return;
    }
    for bit in 0..bits {
        let set = from[(first + bit) / 8] >> ((first + bit) % 8) & 1;
        let byte = &mut to[(at + bit) / 8];
        *byte = *byte & !(1 << ((at + bit) % 8)) | set << ((at + bit) % 8);
    }
}

impl Variable {
    fn put(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.mask.len());
        // SAFETY: these bytes are the variable's.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at as *mut u8, bytes.len());
        }
    }
}

unsafe fn memory(at: usize, len: usize) -> &'static [u8] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(at as *const u8, len) }
}

/// Values of a table.
pub struct Values {
    /// Bytes of one.
    size: usize,
    is_int: bool,
    /// Names, first bits and bits of a struct's members.
    members: Vec<(String, usize, usize)>,
}

impl Values {
    pub fn of(program: &Program, table: &Table) -> Values {
        let members = match table.value {
            Type::Struct(id) => {
                let slots = program.struct_layout(id).1;
                let fields = program.structs[id].fields.iter().zip(slots);
                let named = fields.filter(|(field, _)| !field.is_padding());
                named
                    .map(|(field, slot)| {
                        (field.name.clone(), slot.bit_offset as usize, slot.bits as usize)
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        let size = program.size_of(table.value) as usize;
        Values { size, is_int: table.value.is_int(), members }
    }

    /// The bits of an element that starts at a bit: all of it, or those of some of its members.
    fn pieces(&self, shape: &Shape, start: usize) -> Option<Vec<Piece>> {
        let whole = Piece { from: start, to: 0, bits: 8 * self.size };
        let Shape::Struct(members) = shape else { return Some(vec![whole]) };
        let has = |name: &str| self.members.iter().any(|(own, ..)| own == name);
        if members.iter().all(|member| member.name.is_empty() || has(&member.name)) {
            return Some(vec![whole]);
        }
        let pieces = self.members.iter().map(|(name, to, bits)| {
            let member = members.iter().find(|member| member.name == *name)?;
            (member.bits == *bits).then(|| Piece { from: start + member.at, to: *to, bits: *bits })
        });
        pieces.collect()
    }

    /// Bytes of an element with its first value taken away or added, if it is an integer; of a
    /// struct the bits that differ.
    fn combined(
        &self,
        bytes: &[u8],
        begins: &[u8],
        mask: &[u8],
        with: fn(u64, u64) -> u64,
    ) -> Vec<u8> {
        let masked: Vec<u8> = bytes.iter().zip(mask).map(|(byte, mask)| byte & mask).collect();
        if begins.iter().all(|byte| *byte == 0) {
            return masked;
        }
        if !self.is_int {
            let turned = masked.iter().zip(begins).map(|(byte, begin)| byte ^ begin);
            return turned.zip(mask).map(|(byte, mask)| byte & mask).collect();
        }
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let found = with(number(&masked), number(begins)).to_le_bytes();
        found[..bytes.len()].iter().zip(mask).map(|(byte, mask)| byte & mask).collect()
    }
}
