//! Every diagnostic code of the front end. Codes are stable: a retired one is not given out again.

/// A code and what it is about.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub id: &'static str,
    pub title: &'static str,
}

macro_rules! codes {
    ($($name:ident $id:literal $title:literal;)*) => {
        $(pub const $name: Code = Code { id: $id, title: $title };)*
        /// All codes, in order.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    CLANG "NF0001" "clang refuses the program";
    CLANG_MISSING "NF0002" "clang cannot be run";
    INTERNAL "NF0003" "the syntax tree has something this front end does not know";

    FLOAT "NF0010" "floating point";
    UNION "NF0011" "union";
    POINTER_TYPE "NF0012" "variable or member of pointer type";
    VLA "NF0013" "array without a constant length";
    ATOMIC "NF0014" "atomic object or operation outside the subset";
    WIDE_INT "NF0015" "integer wider than 64 bits";
    TOO_LARGE "NF0016" "struct or array too large";
    LAYOUT "NF0017" "layout attribute or bit-field the common layout lacks";
    NO_VALUE_TYPE "NF0018" "type that values cannot have";

    GOTO "NF0020" "goto that does not lead forward";
    ASM "NF0021" "inline assembly";
    RECURSION "NF0022" "recursion";
    UNBOUNDED "NF0023" "loop without a provable bound";
    BOUND_MISUSE "NF0024" "NF_BOUND in the wrong place or without a constant";
    LONG_LOOP "NF0025" "loop bound too large";
    SWITCH_SHAPE "NF0026" "case label inside another statement";
    NESTING "NF0027" "control flow nested too deeply";

    ADDRESS_OF "NF0030" "address taken outside a call's arguments";
    POINTER_USE "NF0031" "pointer arithmetic, comparison or conversion";
    DECAY "NF0032" "array used as a pointer";
    STRING "NF0033" "string used as a value";
    FUNCTION_POINTER "NF0034" "call through a pointer";
    UNKNOWN_FUNCTION "NF0035" "call of a function without a body";
    DYNAMIC_MEMORY "NF0036" "dynamic allocation";
    MEM_FUNCTION "NF0037" "memory function";
    VARARGS "NF0038" "function with a variable number of arguments";
    EXPRESSION "NF0039" "expression outside the subset";
    ALIAS "NF0040" "one variable passed by two pointers";
    BUILTIN "NF0041" "compiler builtin outside the subset";
    POINTER_PARAM "NF0042" "pointer parameter used as a value";
    EXTERN "NF0043" "C function with a declaration that cannot be called";
    OPAQUE "NF0044" "C outside the subset that uses what it cannot have";

    GLOBAL "NF0050" "variable outside functions that cannot be kept";
    CONST_INIT "NF0052" "initialiser that is not constant";

    TABLE_KIND "NF0060" "unknown table kind";
    TABLE_CAPACITY "NF0061" "table capacity";
    TABLE_KEY "NF0062" "key of the wrong type";
    TABLE_VALUE "NF0063" "value of the wrong type";
    TABLE_READ_ONLY "NF0064" "table of a kind that does not take the operation";
    TABLE_EXPECTED "NF0065" "argument that is not the address of a table";
    TABLE_BUF "NF0066" "byte string of a table that has none";
    TABLE_MEMBER "NF0067" "commutative update of something other than an integer member";
    TABLE_USE "NF0068" "table used outside a table operation";
    ARGUMENTS "NF0069" "wrong arguments of an operation";

    NO_HANDLER "NF0080" "program without a handler";
    HANDLER_NAME "NF0081" "function that is no handler";
    HANDLER_TYPE "NF0082" "handler with the wrong parameters or result";
    ANNOTATION "NF0083" "annotation without a handler or table, or out of range";
    HOST_MESSAGE "NF0084" "host messages of different types";
    QUEUE "NF0085" "queue without a handler, or one that cannot be";
    NOT_WRITTEN "NF0086" "member read that some way has not written";
    FIRES "NF0087" "function that does not call what it declares";
    TIMER "NF0088" "timer with a wrong period or handler";

    PACKET_KEPT "NF0090" "path that does not give a packet away";
    PACKET_GONE "NF0091" "packet used after it was given away";
    PACKET_COPIED "NF0092" "packet handle stored, copied or compared";
    PACKET_MIXED "NF0093" "function that consumes its packet only on some paths";
    PACKET_LOOP "NF0094" "packet given away in a loop that may go round again";
    PACKET_EXPECTED "NF0095" "argument that is not a packet variable";

    BYTE_ORDER "NF0100" "network and host byte order mixed";
    LOG_FORMAT "NF0101" "log format and arguments do not match";
    PATTERN "NF0102" "regular expression that cannot be searched for";

    BUFFER "NF0110" "buffer of Alkali's that no packet can be";
    LEFT_OPEN "NF0111" "something that Alkali leaves open";
}

/// What C has and the subset lacks. A function with nothing else against it can stay C, where the
/// program runs as a process.
const OUTSIDE: &[Code] = &[
    FLOAT,
    UNION,
    POINTER_TYPE,
    VLA,
    ATOMIC,
    WIDE_INT,
    TOO_LARGE,
    LAYOUT,
    NO_VALUE_TYPE,
    GOTO,
    ASM,
    RECURSION,
    UNBOUNDED,
    LONG_LOOP,
    SWITCH_SHAPE,
    NESTING,
    ADDRESS_OF,
    POINTER_USE,
    DECAY,
    STRING,
    FUNCTION_POINTER,
    UNKNOWN_FUNCTION,
    DYNAMIC_MEMORY,
    MEM_FUNCTION,
    VARARGS,
    EXPRESSION,
    ALIAS,
    BUILTIN,
    POINTER_PARAM,
];

/// The title of a code that is about something plain C has and the subset lacks.
pub fn outside_subset(id: &str) -> Option<&'static str> {
    OUTSIDE.iter().find(|code| code.id == id).map(|code| code.title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ascending() {
        assert!(ALL.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(ALL.iter().all(|code| code.id.len() == 6 && !code.title.is_empty()));
    }
}
