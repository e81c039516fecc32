//! Words that signals in the handlers' module must not be called: the module's own and those of the
//! language (IEEE 1800-2017, annex B).

#[rustfmt::skip]
pub const TAKEN: &[&str] = &[
    "clk", "rst", "state", "advance", "now", "port", "slot", "slot_line", "stream", "header",
    "emitted", "pkt_end", "go", "idle", "frees", "input", "output", "wire", "reg", "logic",
    "module", "begin", "table", "always", "assign", "initial", "posedge", "negedge", "edge",
    "event", "function", "task", "generate", "parameter", "localparam", "integer", "time", "real",
    "signed", "unsigned", "and", "or", "xor", "not", "nand", "nor", "xnor", "buf", "force",
    "release", "wait", "repeat", "forever", "fork", "join", "disable", "deassign", "strong0",
    "strong1", "supply0", "supply1", "tri", "wand", "wor", "small", "medium", "large", "scalared",
    "vectored", "specify", "primitive", "genvar", "cell", "config", "design", "instance",
    "library", "liblist", "use", "include", "bit", "byte", "shortint", "longint", "type", "enum",
    "packed", "union", "class", "new", "this", "super", "local", "protected", "rand", "randc",
    "constraint", "solve", "before", "inside", "dist", "with", "matches", "tagged", "priority",
    "unique", "unique0", "final", "first_match", "property", "sequence", "assert", "assume",
    "cover", "expect", "checker", "clocking", "interface", "modport", "package", "program",
    "import", "export", "extends", "extern", "virtual", "pure", "context", "ref", "alias", "bind",
    "bins", "var", "string", "null", "chandle", "iff", "let", "global", "strong", "weak", "until",
    "within", "intersect", "throughout", "soft", "accept_on", "reject_on", "eventually", "implies",
    "implements", "interconnect", "nettype", "nexttime", "restrict", "step", "timeunit",
    "timeprecision", "showcancelled", "noshowcancelled", "pulsestyle_onevent", "automatic", "cmos",
    "nmos", "pmos", "endcase", "endmodule", "endfunction", "endtask", "casex", "casez", "defparam",
    "ifnone", "join_any", "join_none", "trireg", "pullup", "pulldown", "rtran", "tran", "untyped",
    "wildcard", "foreach", "covergroup", "coverpoint", "cross", "illegal_bins", "ignore_bins",
    "binsof", "div_req", "div_dividend", "div_divisor", "div_done", "div_quotient",
    "div_remainder", "seed", "drawn", "window", "length", "for_frame", "for_message", "tick",
    "valid",
    "turn", "free_ok", "ends", "ended", "draining", "c_done", "pause", "hold", "sent", "at_gate", "inside_now", "kind", "number", "unused_room",
];
