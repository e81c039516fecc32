//! The rows of the table of ops: their vocabulary, and the macro that makes everything else from
//! them.

use super::field::Kind;

/// What ops are about: who gives meaning to one class (interpreter, emitters) dispatches on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Integers, aggregates, and fields of the event: one result, no packet, no table.
    Value,
    /// Ops on one packet: their first operand.
    Packet,
    /// Ops on an entry of a table.
    Entry,
    /// Ops on the byte string of an entry.
    Bytes,
    /// What is seen or asked outside.
    Outside,
    /// Regions and their ends, and calls.
    Control,
}

/// Demands on an operand; messages begin with the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// Whatever the class or another row of the verifier asks.
    Be,
    Packet,
    Int(&'static str),
    /// No packet.
    Data(&'static str),
    Aggregate(&'static str),
    Have(&'static str, Ty),
    /// Not an operand: what the parser calls the field.
    Named(&'static str),
    /// Not an operand: a table whose entries may be missing.
    Removable,
    /// Not an operand: a hash table, whose entries come and go by handlers alone.
    Hash,
    /// Not an operand: a table of prefixes.
    Lpm,
    /// Not an operand: text with a place for each operand; what the parser calls it.
    Format(&'static str),
    /// Not an operand: a path of constant indices in range to an integer that is no bit-field.
    Whole,
}

/// A type that a row states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    U1,
    U32,
    U64,
    /// The type of the `n`-th operand.
    Of(usize),
    /// The key of the op's table.
    Key,
    /// The value of the op's table.
    Entry,
    /// What the op's path leads to.
    Part,
    /// An element of the op's constant array.
    Element,
}

/// The results of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    Types(&'static [Ty]),
    /// One value of any type.
    Any,
    /// One integer of any type.
    AnyInt,
    /// `(ok: u1, value)`, the value of any type.
    OkAndAny,
    /// What regions, functions or terminators say.
    Own,
}

/// Effects of an op, as bits.
pub type Touch = u16;
pub const NOTHING: Touch = 0;
pub const READS_ENTRY: Touch = 1;
pub const WRITES_ENTRY: Touch = 2;
/// The write commutes with itself.
pub const COMMUTES: Touch = 4;
pub const READS_PACKET: Touch = 8;
/// Moves the cursor, changes bytes or gives the packet away.
pub const WRITES_PACKET: Touch = 16;
/// Ordered with every other such op, unless its field `pure` holds.
pub const ORDERED: Touch = 32;
/// Ends a region or owns regions.
pub const CONTROL: Touch = 64;
/// Moves the cursor and changes no byte.
pub const CURSOR: Touch = 128;
/// The time of arrival.
pub const CLOCK: Touch = 256;
/// The event's random stream.
pub const RANDOM: Touch = 512;
/// What the developer reads.
pub const LOG: Touch = 1024;
/// The operating system's routes.
pub const ROUTES: Touch = 2048;
/// Other bytes stand where the frame's were.
pub const OVERWRITES: Touch = 4096;

/// The kind of work an op is: prices and accelerators go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Nothing is executed.
    Free,
    /// Arithmetic on the result's words.
    Alu,
    /// Arithmetic on the operands' words.
    Compare,
    /// Reading a member.
    Member,
    /// Writing a member: the last operand.
    Replace,
    /// Reading an element of a constant array.
    Element,
    /// A hash of the last operand.
    Hash,
    /// A checksum of the last operand.
    Sum,
    /// A checksum of the packet.
    PacketSum,
    /// A cipher or a digest over the packet.
    Crypto,
    /// A search for regular expressions in the packet.
    Regex,
    Clock,
    Draw,
    /// A field of the packet's description.
    Port,
    /// Bytes of the packet into the second result.
    Read,
    /// The last operand into the packet.
    Write,
    /// The packet's cursor and length.
    Cursor,
    /// The packet is given up or an event generated.
    Leave,
    /// An entry of a table.
    Entry,
    /// All entries of a table.
    Scan,
    /// Bytes behind a byte string.
    Append,
    /// Bytes of a byte string into the second result.
    Bytes,
    /// The length of a byte string.
    Length,
    Log,
    Routes,
    Branch,
    /// A function.
    Call,
}

/// One field of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRow {
    pub name: &'static str,
    pub kind: Kind,
    pub must: Must,
}

/// One op.
#[derive(Debug)]
pub struct Row {
    /// The variant of [`Op`](super::Op).
    pub name: &'static str,
    pub doc: &'static str,
    pub class: Class,
    /// How the text form writes it: braces hold fields, in the order of the row.
    pub text: &'static str,
    /// Fields in order.
    pub fields: &'static [FieldRow],
    /// What the first result is called where it has no name of its own; empty if nothing fits.
    pub called: &'static str,
    pub gives: Gives,
    pub touch: Touch,
    pub work: Work,
    /// Makes the op from fields without regions.
    pub build: fn(&mut dyn Iterator<Item = super::field::Part>) -> Option<super::Op>,
}

/// A piece of how the text form writes an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Literal(&'static str),
    Field(FieldRow, List),
}

/// Brackets around a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Nothing, or it is no list.
    Bare,
    /// Parentheses.
    Parentheses,
    /// A space and parentheses, unless the list is empty.
    Optional,
}

impl Row {
    /// The pieces of the text in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + use<> {
        let mut rest = self.text;
        let mut fields = self.fields.iter();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let Some(inner) = rest.strip_prefix('{') else {
                let (literal, behind) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
                rest = behind;
                return Some(Piece::Literal(literal));
            };
            let (name, behind) = inner.split_once('}')?;
            rest = behind;
            let list = match name.as_bytes().first() {
                Some(b'(') => List::Parentheses,
                Some(b' ') if name.contains('(') => List::Optional,
                _ => List::Bare,
            };
            fields.next().map(|field| Piece::Field(*field, list))
        })
    }

    /// The words that the text form begins with: one, or those of a set.
    pub fn words(&self) -> &'static [&'static str] {
        match self.fields.first().map(|field| field.kind) {
            Some(Kind::Word { words, .. }) if self.text.starts_with('{') => words,
            _ => &[],
        }
    }

    /// The word that the text form begins with; empty where it is one of a set.
    pub fn word(&self) -> &'static str {
        let end = self.text.find([' ', '{']).unwrap_or(self.text.len());
        &self.text[..end]
    }
}

/// Makes [`Op`](super::Op), the rows and the ways through the fields of an op.
macro_rules! ops {
    (@must) => { Must::Be };
    (@must $must:expr) => { $must };
    ($($class:ident {$(
        $(#[doc = $doc:literal])*
        $name:ident
        $(( $($t:ident: $t_type:ty $(= $t_must:expr)?),* ))?
        $({ $($(#[doc = $f_doc:literal])* $f:ident: $f_type:ty $(= $f_must:expr)?),* $(,)? })?
        $text:literal $(as $called:literal)?, $gives:expr, $touch:expr, $work:ident;
    )*})*) => {
        /// An operation.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {$($(
            $(#[doc = $doc])*
            $name $(( $($t_type),* ))? $({ $($(#[doc = $f_doc])* $f: $f_type),* })?,
        )*)*}

        /// Ops by number, as rows are.
        #[derive(Clone, Copy)]
        enum Number {$($($name,)*)*}

        /// Every op's row, in the order of [`Op`].
        pub static ROWS: &[Row] = &[$($(
            Row {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),*),
                class: Class::$class,
                text: $text,
                fields: &[
                    $($(FieldRow {
                        name: stringify!($t),
                        kind: <$t_type as Field>::KIND,
                        must: ops!(@must $($t_must)?),
                    },)*)?
                    $($(FieldRow {
                        name: stringify!($f),
                        kind: <$f_type as Field>::KIND,
                        must: ops!(@must $($f_must)?),
                    },)*)?
                ],
                called: concat!($($called)?),
                gives: $gives,
                touch: $touch,
                work: Work::$work,
                build: |_parts| Some(Op::$name
                    $(( $(<$t_type as Field>::take(_parts.next()?)?),* ))?
                    $({ $($f: <$f_type as Field>::take(_parts.next()?)?),* })?),
            },
        )*)*];

        impl Op {
            /// The op's row in the table of ops.
            pub fn row(&self) -> &'static Row {
                let number = match self {$($(Op::$name { .. } => Number::$name,)*)*};
                &ROWS[number as usize]
            }

            /// Shows every field in order, until `see` has seen enough.
            pub fn fields<'a>(&'a self, see: &mut dyn FnMut(Arg<'a>) -> bool) {
                match self {$($(
                    Op::$name $(( $($t),* ))? $({ $($f),* })? => {
                        let _ = true $($(&& see(Field::arg($t)))*)? $($(&& see(Field::arg($f)))*)?;
                    }
                )*)*}
            }

            /// The `n`-th operand.
            pub fn operand(&self, n: usize) -> Option<ValueId> {
                let mut _left = n;
                match self {$($(
                    Op::$name $(( $($t),* ))? $({ $($f),* })? => {
                        $($(if let Some(found) = nth($t, &mut _left) { return Some(found) })*)?
                        $($(if let Some(found) = nth($f, &mut _left) { return Some(found) })*)?
                        None
                    }
                )*)*}
            }

            /// Replaces every operand by `change` of it.
            pub fn map_operands(&mut self, change: &mut dyn FnMut(ValueId) -> ValueId) {
                match self {$($(
                    Op::$name $(( $($t),* ))? $({ $($f),* })? => {
                        $($(Field::map_operands($t, change);)*)?
                        $($(Field::map_operands($f, change);)*)?
                    }
                )*)*}
            }

            /// Replaces the regions the op owns, in order.
            pub fn map_regions(&mut self, change: &mut dyn FnMut(BlockId) -> BlockId) {
                match self {$($(
                    Op::$name $(( $($t),* ))? $({ $($f),* })? => {
                        $($(Field::map_region($t, change);)*)?
                        $($(Field::map_region($f, change);)*)?
                    }
                )*)*}
            }
        }
    };
}

pub(super) use ops;
