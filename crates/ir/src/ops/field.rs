//! What a field of an op can be, and what everybody may ask of one without knowing the op.

use crate::ids::{BlockId, ConstId, EventId, FuncId, ReasonId, TableId, ValueId};
use crate::native::Passing;

/// One step from an aggregate to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proj {
    /// Member number of a struct.
    Field(u32),
    /// Element of an array; beyond the end it reads zero and writes nothing.
    Index(ValueId),
}

/// Sources of what is appended to a table entry's byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufSource {
    /// The first `len` bytes of the packet's unread rest (all of it if it is shorter); the packet
    /// is not consumed.
    Packet { pkt: ValueId, len: ValueId },
    /// The bytes of a value.
    Value(ValueId),
}

/// Kinds of fields in the text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `%a`
    Value,
    /// `%a, %b`
    Values,
    /// `.member[%i]`
    Path,
    /// `, port %p`, or nothing.
    Port,
    /// `packet %p, %len` or `%a`
    Source,
    Table,
    Const,
    Event,
    Func,
    Reason,
    /// Stands behind the op.
    Region,
    /// A word of a set; `what` names the set in messages.
    Word {
        words: &'static [&'static str],
        what: &'static str,
    },
    U32,
    U64,
    /// A string in quotes.
    Text,
    /// `pure `, or nothing.
    Pure,
    /// ` likely 0.9`, or nothing.
    Likely,
    /// `read ` or `write ` before each of the arguments that follow.
    Passing,
}

/// A field as readers of an op see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'a> {
    Value(ValueId),
    Values(&'a [ValueId]),
    Path(&'a [Proj]),
    Port(Option<ValueId>),
    Source(BufSource),
    Table(TableId),
    Const(ConstId),
    Event(EventId),
    Func(FuncId),
    Reason(ReasonId),
    Region(BlockId),
    Word(&'static str),
    Number(u64),
    Text(&'a str),
    Pure(bool),
    Likely(Option<f32>),
    Passing(&'a [Passing]),
}

/// A field as the parser found it.
#[derive(Clone, Debug)]
pub enum Part {
    Value(ValueId),
    Values(Vec<ValueId>),
    Path(Vec<Proj>),
    Port(Option<ValueId>),
    Source(BufSource),
    Table(TableId),
    Const(ConstId),
    Event(EventId),
    Func(FuncId),
    Reason(ReasonId),
    /// Number of the word in its set.
    Word(usize),
    Number(u64),
    Text(String),
    Pure(bool),
    Passing(Vec<Passing>),
}

/// Steps that change a value into another.
pub type Change<'a> = &'a mut dyn FnMut(ValueId) -> ValueId;

/// A field of an op.
pub trait Field: Sized {
    const KIND: Kind;

    fn arg(&self) -> Arg<'_>;

    /// The field from its text; nothing if the text has none for it (regions).
    fn take(part: Part) -> Option<Self>;

    /// The `n`-th operand in the field.
    fn operand(&self, _n: usize) -> Option<ValueId> {
        None
    }

    /// How many operands are in the field.
    fn count(&self) -> usize {
        0
    }

    /// Replaces every operand.
    fn map_operands(&mut self, _change: Change) {}

    fn map_region(&mut self, _change: &mut dyn FnMut(BlockId) -> BlockId) {}
}

/// Fields of one kind without operands.
macro_rules! plain {
    ($($ty:ty: $kind:ident;)*) => {$(
        impl Field for $ty {
            const KIND: Kind = Kind::$kind;

            fn arg(&self) -> Arg<'_> {
                Arg::$kind(*self)
            }

            fn take(part: Part) -> Option<$ty> {
                if let Part::$kind(field) = part { Some(field) } else { None }
            }
        }
    )*};
}

plain! {
    TableId: Table;
    ConstId: Const;
    EventId: Event;
    FuncId: Func;
    ReasonId: Reason;
    bool: Pure;
}

impl Field for ValueId {
    const KIND: Kind = Kind::Value;

    fn arg(&self) -> Arg<'_> {
        Arg::Value(*self)
    }

    fn take(part: Part) -> Option<ValueId> {
        if let Part::Value(field) = part { Some(field) } else { None }
    }

    fn operand(&self, n: usize) -> Option<ValueId> {
        (n == 0).then_some(*self)
    }

    fn count(&self) -> usize {
        1
    }

    fn map_operands(&mut self, change: Change) {
        *self = change(*self);
    }
}

impl Field for Vec<ValueId> {
    const KIND: Kind = Kind::Values;

    fn arg(&self) -> Arg<'_> {
        Arg::Values(self)
    }

    fn take(part: Part) -> Option<Vec<ValueId>> {
        if let Part::Values(field) = part { Some(field) } else { None }
    }

    fn operand(&self, n: usize) -> Option<ValueId> {
        self.get(n).copied()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn map_operands(&mut self, change: Change) {
        self.iter_mut().for_each(|value| *value = change(*value));
    }
}

fn indices(path: &[Proj]) -> impl Iterator<Item = ValueId> {
    path.iter().filter_map(|step| if let Proj::Index(index) = step { Some(*index) } else { None })
}

impl Field for Vec<Proj> {
    const KIND: Kind = Kind::Path;

    fn arg(&self) -> Arg<'_> {
        Arg::Path(self)
    }

    fn take(part: Part) -> Option<Vec<Proj>> {
        if let Part::Path(field) = part { Some(field) } else { None }
    }

    fn operand(&self, n: usize) -> Option<ValueId> {
        indices(self).nth(n)
    }

    fn count(&self) -> usize {
        indices(self).count()
    }

    fn map_operands(&mut self, change: Change) {
        for step in self {
            if let Proj::Index(index) = step {
                *index = change(*index);
            }
        }
    }
}

impl Field for Option<ValueId> {
    const KIND: Kind = Kind::Port;

    fn arg(&self) -> Arg<'_> {
        Arg::Port(*self)
    }

    fn take(part: Part) -> Option<Option<ValueId>> {
        if let Part::Port(field) = part { Some(field) } else { None }
    }

    fn operand(&self, n: usize) -> Option<ValueId> {
        self.filter(|_| n == 0)
    }

    fn count(&self) -> usize {
        usize::from(self.is_some())
    }

    fn map_operands(&mut self, change: Change) {
        *self = self.map(change);
    }
}

impl Field for BufSource {
    const KIND: Kind = Kind::Source;

    fn arg(&self) -> Arg<'_> {
        Arg::Source(*self)
    }

    fn take(part: Part) -> Option<BufSource> {
        if let Part::Source(field) = part { Some(field) } else { None }
    }

    fn operand(&self, n: usize) -> Option<ValueId> {
        match (self, n) {
            (BufSource::Packet { pkt: value, .. } | BufSource::Value(value), 0) => Some(*value),
            (BufSource::Packet { len, .. }, 1) => Some(*len),
            _ => None,
        }
    }

    fn count(&self) -> usize {
        if matches!(self, BufSource::Packet { .. }) { 2 } else { 1 }
    }

    fn map_operands(&mut self, change: Change) {
        match self {
            BufSource::Packet { pkt, len } => (*pkt, *len) = (change(*pkt), change(*len)),
            BufSource::Value(value) => *value = change(*value),
        }
    }
}

impl Field for BlockId {
    const KIND: Kind = Kind::Region;

    fn arg(&self) -> Arg<'_> {
        Arg::Region(*self)
    }

    fn take(_: Part) -> Option<BlockId> {
        None
    }

    fn map_region(&mut self, change: &mut dyn FnMut(BlockId) -> BlockId) {
        *self = change(*self);
    }
}

impl Field for u64 {
    const KIND: Kind = Kind::U64;

    fn arg(&self) -> Arg<'_> {
        Arg::Number(*self)
    }

    fn take(part: Part) -> Option<u64> {
        if let Part::Number(field) = part { Some(field) } else { None }
    }
}

impl Field for u32 {
    const KIND: Kind = Kind::U32;

    fn arg(&self) -> Arg<'_> {
        Arg::Number(u64::from(*self))
    }

    fn take(part: Part) -> Option<u32> {
        if let Part::Number(field) = part { u32::try_from(field).ok() } else { None }
    }
}

impl Field for String {
    const KIND: Kind = Kind::Text;

    fn arg(&self) -> Arg<'_> {
        Arg::Text(self)
    }

    fn take(part: Part) -> Option<String> {
        if let Part::Text(field) = part { Some(field) } else { None }
    }
}

impl Field for Option<f32> {
    const KIND: Kind = Kind::Likely;

    fn arg(&self) -> Arg<'_> {
        Arg::Likely(*self)
    }

    fn take(_: Part) -> Option<Option<f32>> {
        None
    }
}

impl Field for Vec<Passing> {
    const KIND: Kind = Kind::Passing;

    fn arg(&self) -> Arg<'_> {
        Arg::Passing(self)
    }

    fn take(part: Part) -> Option<Vec<Passing>> {
        if let Part::Passing(field) = part { Some(field) } else { None }
    }
}
