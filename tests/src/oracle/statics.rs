//! Variables of static storage duration of a program that runs as plain C. Their memory is compared
//! with the entries of the tables that the front end makes of them.

use std::collections::HashMap;

use nicforge_ir::{Entry, Match, Program, Table};

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
}

impl Statics {
    /// Adds a variable as the object was loaded.
    ///
    /// # Safety
    /// There is one at the address, as long as `mask` and aligned for bytes.
    pub unsafe fn add(&mut self, name: String, at: usize, mask: Vec<u8>) {
        // SAFETY: as above.
        let begins = unsafe { memory(at, mask.len()) }.to_vec();
        self.of.entry(name).or_default().push(Variable { at, mask, begins });
    }

    /// Gives a program's variables the values that they had at first; all of the object's get them.
    pub fn reset(&self) {
        for variable in self.of.values().flatten() {
            variable.put(0, &variable.begins);
        }
    }

    fn find(&self, program: usize, name: &str) -> Option<&Variable> {
        let of = self.of.get(&format!("{name}_{program}")).or_else(|| self.of.get(name))?;
        // One of several is not told apart from the others.
        of.first().filter(|_| of.len() == 1)
    }

    /// True if a variable has this name; compilers leave out what nothing uses.
    pub fn has(&self, program: usize, name: &str) -> bool {
        self.of.contains_key(&format!("{name}_{program}")) || self.of.contains_key(name)
    }

    /// The entries of a variable's table; `None` without one.
    pub fn entries(&self, program: usize, name: &str, of: Values) -> Option<Vec<Entry>> {
        let variable = self.find(program, name)?;
        // SAFETY: the variable is as long as its mask.
        let now = unsafe { memory(variable.at, variable.mask.len()) };
        let elements = now.chunks(of.size).zip(variable.elements(of.size)).zip(0u32..);
        let entries = elements.map(|((now, (mask, begins)), number)| Entry {
            key: number.to_le_bytes().to_vec(),
            matching: Match::Exact,
            value: of.combined(now, begins, mask, u64::wrapping_sub),
            buf: None,
        });
        Some(entries.filter(|entry| entry.value.iter().any(|byte| *byte != 0)).collect())
    }

    /// Sets a variable as an entry of its table says; whether there is one.
    pub fn set(&self, program: usize, name: &str, of: Values, entry: &Entry) -> bool {
        let Some(variable) = self.find(program, name) else { return false };
        let number = entry.key.iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
        if let Some((mask, begins)) = variable.elements(of.size).nth(number) {
            let value = of.combined(&entry.value, begins, mask, u64::wrapping_add);
            variable.put(number * of.size, &value);
        }
        true
    }
}

impl Variable {
    /// Masks and first values of the elements.
    fn elements(&self, size: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.mask.chunks(size).zip(self.begins.chunks(size))
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.mask.len());
        // SAFETY: these bytes are the variable's.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (self.at + at) as *mut u8, bytes.len());
        }
    }
}

unsafe fn memory(at: usize, len: usize) -> &'static [u8] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(at as *const u8, len) }
}

/// Values of a table.
#[derive(Clone, Copy)]
pub struct Values {
    /// Bytes of one.
    pub size: usize,
    pub is_int: bool,
}

impl Values {
    pub fn of(program: &Program, table: &Table) -> Values {
        Values { size: program.size_of(table.value) as usize, is_int: table.value.is_int() }
    }

    /// Bytes of an element with its first value taken away or added, if it is an integer; of a
    /// struct the bits that differ.
    fn combined(
        self,
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
