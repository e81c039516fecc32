//! Expressions: integers of any width from what is in scope, without effects.

use super::pointers::Array;
use super::types::{self, Ty};
use super::{Gen, Of, Var};

impl Gen {
    /// A constant, often one at an edge.
    pub fn constant(&mut self) -> String {
        match self.r.below(8) {
            0 => "0".into(),
            1 => "1".into(),
            2 => format!("{}", self.r.below(16)),
            3 => format!("-{}", 1 + self.r.below(9)),
            4 => format!("0x{:x}u", self.r.bits()),
            5 => format!("0x{:x}ull", u64::from(self.r.bits()) << self.r.below(33)),
            6 => self
                .r
                .of(&["0xff", "0x7f", "0x80", "0xffff", "0x7fffffff", "0x80000000u", "63", "31"])
                .into(),
            _ => format!("{}", self.r.bits() as i16),
        }
    }

    /// An integer inside of a variable: a member of a member, an element. `None` if there is none.
    fn inside(&mut self, var: &Var, writes: bool) -> Option<(String, &'static str, Option<u32>)> {
        let (mut text, mut dot, mut ty) = (var.text.clone(), var.dot, var.ty.clone());
        let mut bits = None;
        loop {
            match ty {
                Ty::Int(int) => {
                    return Some((if dot == "->" { format!("*{text}") } else { text }, int, bits));
                }
                Ty::Struct(id) => {
                    let member = self.structs[id].members
                        [self.r.below(self.structs[id].members.len())]
                    .clone();
                    text = format!("{text}{dot}{}", member.name);
                    (dot, ty, bits) = (".", member.ty, member.bits);
                }
                Ty::Array(elem, len) => {
                    // An index has no index inside: where most variables are arrays it would have
                    // no end.
                    text = if writes || self.indexing || self.r.percent(50) {
                        format!("{text}[{}]", self.r.below(len as usize))
                    } else {
                        self.indexing = true;
                        let index = self.index(len);
                        self.indexing = false;
                        format!("GET({text}, {index})")
                    };
                    (ty, bits) = (*elem, None);
                }
            }
        }
    }

    /// An index that is mostly inside.
    pub fn index(&mut self, len: u32) -> String {
        let e = self.expr(1);
        match self.r.below(4) {
            0 => e,
            1 => format!("({e}) & 3"),
            _ => format!("REM((uint32_t)({e}), {len}u)"),
        }
    }

    /// An integer variable to read, with its type.
    pub fn readable(&mut self) -> Option<(String, &'static str)> {
        let var = self.scope.get(self.r.below(self.scope.len().max(1)))?.clone();
        self.inside(&var, false).map(|(text, int, _)| (text, int))
    }

    /// An integer variable to write.
    pub fn writable(&mut self) -> Option<(String, &'static str)> {
        let vars: Vec<Var> = self.scope.iter().filter(|var| var.writable).cloned().collect();
        let var = vars.get(self.r.below(vars.len().max(1)))?.clone();
        self.inside(&var, true).map(|(text, int, _)| (text, int))
    }

    /// Arrays to write into by an index known at run time, their elements integers.
    pub fn arrays(&self) -> Vec<Array> {
        let mut found = Vec::new();
        for var in self.scope.iter().filter(|var| var.writable) {
            if let Ty::Array(elem, len) = &var.ty
                && let Ty::Int(elem) = **elem
            {
                found.push(Array { text: var.text.clone(), elem, len: *len });
            }
            if let Ty::Struct(id) = var.ty {
                for member in &self.structs[id].members {
                    if let Ty::Array(elem, len) = &member.ty
                        && let Ty::Int(elem) = **elem
                    {
                        let text = format!("{}{}{}", var.text, var.dot, member.name);
                        found.push(Array { text, elem, len: *len });
                    }
                }
            }
        }
        found
    }

    /// A value of a struct, without effects.
    pub fn struct_value(&mut self, id: usize) -> String {
        let of = |var: &&Var| var.ty == Ty::Struct(id);
        let vars: Vec<Var> = self.scope.iter().filter(of).cloned().collect();
        if !vars.is_empty() && self.r.percent(80) {
            let var = self.r.pick(&vars);
            return if var.dot == "->" { format!("*{}", var.text) } else { var.text.clone() };
        }
        let mut members = self.structs[id].members.clone();
        if self.structs[id].union.is_some() {
            members = self.structs[id].whole(&self.structs);
            members.truncate(1);
        }
        let mut inits = Vec::new();
        for member in members {
            if self.r.percent(60) {
                let value = match &member.ty {
                    Ty::Int(int) => format!("({int})({})", self.expr(1)),
                    Ty::Struct(inner) => self.struct_value(*inner),
                    Ty::Array(elem, _) => match &**elem {
                        Ty::Int(int) => format!("{{({int})({})}}", self.expr(1)),
                        _ => "{}".into(),
                    },
                };
                inits.push(format!(".{} = {value}", member.name));
            }
        }
        format!("(struct s{id}){{{}}}", inits.join(", "))
    }

    /// A value of a type.
    pub fn value(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Struct(id) => self.struct_value(*id),
            Ty::Int(int) => format!("({int})({})", self.expr(2)),
            Ty::Array(..) => "0".into(),
        }
    }

    pub fn condition(&mut self) -> String {
        let (a, b) = (self.expr(2), self.expr(1));
        match self.r.below(8) {
            0 => a,
            1 => format!("!({a})"),
            2 => format!("({a}) && ({b})"),
            3 => format!("({a}) || ({b})"),
            _ => {
                let op = self.r.of(&["<", "<=", ">", ">=", "==", "!="]);
                format!("({a}) {op} ({b})")
            }
        }
    }

    /// A condition that changes something before it is tested.
    pub fn changing_condition(&mut self) -> String {
        let condition = self.condition();
        let Some((target, _)) = self.writable() else { return condition };
        let e = self.expr(1);
        match self.r.below(3) {
            0 => format!("({target} = {e}) && ({condition})"),
            1 => format!("{target} += {e}, {condition}"),
            _ => format!("(({target} = {e}) | 1) && ({condition})"),
        }
    }

    /// An integer.
    pub fn expr(&mut self, depth: u32) -> String {
        if depth == 0 || self.r.percent(20) {
            return match self.readable() {
                Some((text, _)) if self.r.percent(75) => text,
                _ => self.constant(),
            };
        }
        let a = self.expr(depth - 1);
        match self.r.below(25) {
            0..6 => {
                let (op, b) = (self.r.of(&["+", "-", "*", "&", "|", "^"]), self.expr(depth - 1));
                format!("({a}) {op} ({b})")
            }
            6 | 7 => {
                let (op, n) = (self.r.of(&["SHL", "SHR"]), self.amount());
                format!("{op}({a}, {n})")
            }
            8 | 9 => {
                let (op, b) = (self.r.of(&["DIV", "REM"]), self.expr(depth - 1));
                format!("{op}({a}, {b})")
            }
            10 | 11 => {
                let op = self.r.of(&["~", "-", "!", "+"]);
                format!("{op}({a})")
            }
            12..15 => {
                let int = *self.r.pick(&types::INTS);
                format!("({int})({a})")
            }
            15 => {
                let (c, b) = (self.condition(), self.expr(depth - 1));
                format!("(({c}) ? ({a}) : ({b}))")
            }
            16 => format!("({})", self.condition()),
            17 => {
                let of = self.r.below(self.structs.len());
                let (seed, value) = (self.r.below(4), self.struct_value(of));
                format!("nf_hash({seed}, {})", paren(&value))
            }
            18 => {
                let int = self.r.of(&["uint8_t", "uint16_t", "uint32_t", "uint64_t", "int16_t"]);
                format!("nf_hash({}, ({int})({a}))", self.r.below(4))
            }
            19 => {
                let call = self.r.of(&[
                    "nf_ntohs",
                    "nf_ntohl",
                    "nf_htonll",
                    "__builtin_bswap32",
                    "__builtin_bswap16",
                ]);
                format!("{call}({a})")
            }
            20 => {
                let of = self.r.below(self.structs.len());
                let value = self.struct_value(of);
                format!("nf_csum_add((uint16_t)({a}), {})", paren(&value))
            }
            24 => {
                // Without bits that are set, C leaves the counts of zeros open.
                let b = self.expr(depth - 1);
                match self.r.below(6) {
                    0 => format!("__builtin_clz((uint32_t)({a}) | 1)"),
                    1 => format!("__builtin_ctzll((uint64_t)({a}) | 1ull << 63)"),
                    2 => format!("__builtin_popcountll({a})"),
                    3 => format!("__builtin_ffs((int)({a})) + __builtin_parity((uint32_t)({b}))"),
                    4 => format!("__builtin_rotateleft32((uint32_t)({a}), (uint32_t)({b}))"),
                    _ => format!("__builtin_rotateright64((uint64_t)({a}), (uint64_t)({b}))"),
                }
            }
            21 if self.of != Of::Values => self
                .r
                .of(&["nf_len(pkt)", "nf_port(pkt)", "nf_csum_payload(pkt, 0, 20)"])
                .to_string(),
            22 => self
                .r
                .of(&["nf_now()", "(uint32_t)(nf_now() >> 10)", "nf_csum_fold(0x1234u)"])
                .to_string(),
            23 if !self.consts.is_empty() => {
                let number = self.r.below(self.consts.len());
                let index = self.index(self.consts[number].1);
                format!("GET(k{number}, {index})")
            }
            _ => a,
        }
    }

    fn amount(&mut self) -> String {
        match self.r.below(3) {
            0 => format!("{}", self.r.below(70)),
            1 => format!("({}) & 31", self.expr(0)),
            _ => self.expr(1),
        }
    }
}

/// Commas of an initialiser are no commas of a macro's arguments.
pub fn paren(text: &str) -> String {
    if text.contains(',') { format!("({text})") } else { text.to_string() }
}
