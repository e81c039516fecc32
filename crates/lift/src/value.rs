//! What registers and memory hold while a program is followed: numbers with their ranges, and
//! pointers with their kinds.

use nicforge_ir::ValueId;

/// A number, 64 bits wide for the program.
///
/// The value in αIR may be narrower; what is missing is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Num {
    /// `None` where the number is known: `lo` and `hi` are both it.
    pub id: Option<ValueId>,
    pub lo: u64,
    pub hi: u64,
}

impl Num {
    pub const fn known(value: u64) -> Num {
        Num { id: None, lo: value, hi: value }
    }

    /// A value of αIR that is `bits` wide.
    pub fn of(id: ValueId, bits: u32) -> Num {
        Num { id: Some(id), lo: 0, hi: u64::MAX >> (64 - bits.clamp(1, 64)) }
    }

    /// A value in a range; known where the range holds one number.
    pub fn within(id: ValueId, lo: u64, hi: u64) -> Num {
        if lo == hi { Num::known(lo) } else { Num { id: Some(id), lo, hi } }
    }

    pub fn constant(self) -> Option<u64> {
        self.id.is_none().then_some(self.lo)
    }
}

/// A condition of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cond {
    Known(bool),
    Value(ValueId),
}

/// Signed reading of the low bits.
pub fn sign_extend(value: u64, bits: u32) -> u64 {
    ((value << (64 - bits)) as i64 >> (64 - bits)) as u64
}

/// The low bits, all of them for 64.
pub fn low(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// A place as a constant and a part that varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub off: i64,
    pub var: Option<Num>,
}

impl Place {
    pub const fn at(off: i64) -> Place {
        Place { off, var: None }
    }

    pub fn plus(self, by: i64) -> Place {
        Place { off: self.off.wrapping_add(by), ..self }
    }
}

/// Contents of a register, or of bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Abs {
    /// Never written.
    Nothing,
    /// Different kinds on the ways that join at an instruction.
    Mixed(usize),
    /// A result that programs have no business with; who reads it is refused.
    Unusable(&'static str),
    Num(Num),
    /// Into the context, so many bytes.
    Context(i64),
    /// Into the packet; dead once the packet's ends moved, which `epoch` tells.
    Packet {
        place: Place,
        epoch: u32,
    },
    /// Where the packet ends, and so many bytes on.
    PacketEnd {
        off: i64,
        epoch: u32,
    },
    /// Into the frame of a function.
    Stack {
        frame: usize,
        place: Place,
    },
    /// Into a record of a ring buffer that was reserved and not given away yet.
    Record {
        record: u32,
        place: Place,
    },
    /// A function of the program, by its first instruction.
    Function(usize),
    /// A map itself.
    Map(usize),
    /// Into a value that lookup number `lookup` found, or null if it found nothing.
    Value {
        lookup: u32,
        place: Place,
    },
    /// Into global data that nobody changes.
    Constant {
        map: usize,
        place: Place,
    },
}

impl Abs {
    pub const fn known(value: u64) -> Abs {
        Abs::Num(Num::known(value))
    }

    /// Kind of it in words, for refusals.
    pub fn kind(self) -> &'static str {
        match self {
            Abs::Nothing => "a register that was never written",
            Abs::Mixed(_) => "different kinds of pointers",
            Abs::Unusable(what) => what,
            Abs::Num(_) => "a number",
            Abs::Context(_) => "the context",
            Abs::Packet { .. } => "a packet pointer",
            Abs::PacketEnd { .. } => "the packet's end",
            Abs::Stack { .. } => "a stack pointer",
            Abs::Record { .. } => "a reserved record",
            Abs::Function(_) => "a function",
            Abs::Map(_) => "a map",
            Abs::Value { .. } => "a pointer to a map value",
            Abs::Constant { .. } => "a pointer to constant data",
        }
    }
}
