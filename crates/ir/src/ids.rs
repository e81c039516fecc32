//! Ids of what a program has, by which its parts name each other.

use cranelift_entity::entity_impl;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);
        entity_impl!($name, $prefix);
    )*};
}

ids! {
    /// A table of the program.
    TableId "table";
    /// A read-only array initialised in the source.
    ConstId "const";
    /// An event that handlers react to or generate.
    EventId "event";
    /// A function that handlers call.
    FuncId "func";
    /// A handler.
    HandlerId "handler";
    /// A named reason for dropping packets.
    ReasonId "reason";
    /// An SSA value of one body.
    ValueId "%";
    /// A region of one body.
    BlockId "block";
    /// An instruction of one body.
    InstId "inst";
}
