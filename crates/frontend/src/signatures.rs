//! Signatures of functions, and the arguments that calls hand over.

use nicforge_ir::{ConstId, FuncId, TableId, Type};

use crate::parts::Parts;

/// Parameters and result of a function.
#[derive(Debug)]
pub struct Signature {
    pub params: Vec<ParamKind>,
    pub result: Option<Type>,
}

/// Ways in which a function takes a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    Value(Type),
    /// A pointer to a variable: value in, and unless `read_only`, value out.
    InOut {
        ty: Type,
        read_only: bool,
    },
    Packet,
}

/// Knowledge of a function's argument where it is called.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// No more than the parameter says.
    Plain,
    /// An integer.
    Known(u64),
    /// An integer in a range.
    Bounded((i128, i128)),
    /// A pointer to all of a variable, of whose integers this is known.
    Parts(Parts),
    /// A pointer to memory of this type.
    Memory(Type, First),
    /// A pointer to a constant array.
    Constant(ConstId, Type, First),
    /// A pointer into a variable of static storage duration.
    Static(TableId, Way, First),
    /// A pointer into a variable that others lead to as well.
    Within {
        /// The variable, counted among those that pointers lead to.
        target: usize,
        /// Its type, and whether nothing is written there, with the first of its pointers.
        whole: Option<(Type, bool)>,
        /// From the variable to the part that this one leads to.
        way: Way,
        first: First,
    },
}

/// The way to a part of a variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The start of the steps, if it is not the variable: the bits of another part from one on, as
    /// a type.
    pub over: Option<(Box<Way>, u64, Type)>,
    pub steps: Vec<Step>,
    /// Type of the part.
    pub ty: Type,
}

/// A step from a variable to a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Field(u32),
    Index(First),
}

/// The element of an array that a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum First {
    /// None: the pointer leads to all of it.
    Whole,
    Known(u64),
    /// Passed behind the array.
    Passed,
}

/// A function that is called.
#[derive(Debug)]
pub struct Callee {
    pub signature: Signature,
    /// The parameters that are pointers whose memory is the caller's: their elements are used, or
    /// their type is not told.
    pub memory: Vec<bool>,
    /// The parameters that may decide when loops end, its own or callers'.
    pub loops: Vec<bool>,
}

/// A function that was lowered.
#[derive(Clone, Copy, Debug)]
pub struct FuncInfo {
    pub id: FuncId,
    pub result: Option<Type>,
}

/// Progress of a function.
#[derive(Clone, Copy, Debug)]
pub enum FuncState {
    /// Being lowered: a call now is recursion.
    Open,
    Done(FuncInfo),
    Broken,
}
