//! How things are called in the text form.

use std::collections::HashMap;

use cranelift_entity::{EntityRef, SecondaryMap};

use crate::native::Passing;
use crate::program::{BlockId, Body, Program, ValueId};
use crate::types::Type;

/// The word before an argument of a function of C.
pub fn passed(passing: Passing) -> &'static str {
    match passing {
        Passing::Value => "",
        Passing::Read => "read ",
        Passing::Write => "write ",
    }
}

/// True if `name` can stand without quotes.
pub fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The type a word means, if it is `packet` or `uN`/`iN` with N from 1 to 64.
pub fn builtin_type(word: &str) -> Option<Type> {
    if word == "packet" {
        return Some(Type::Packet);
    }
    let signed = word.starts_with('i');
    let digits = word.strip_prefix(['u', 'i'])?;
    if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let bits: u8 = digits.parse().ok()?;
    (1..=64).contains(&bits).then_some(Type::Int { bits, signed })
}

/// A string literal of the text form.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Words that start an item. A name that is one of them stands in quotes, so that the parser finds
/// where items begin without parsing them.
pub const ITEM_WORDS: [&str; 9] =
    ["program", "file", "struct", "table", "const", "event", "reason", "func", "handler"];

/// A name as it is declared: in quotes unless it is an identifier that means nothing else.
pub fn declared(name: &str) -> String {
    let plain = is_identifier(name) && builtin_type(name).is_none() && !ITEM_WORDS.contains(&name);
    if plain { name.to_string() } else { quoted(name) }
}

/// How each item of one kind is referred to; the `n`-th of the same name (from 0) gets `#n` behind
/// it.
pub fn references<'a>(
    names: impl Iterator<Item = &'a str>,
    write: fn(&str) -> String,
) -> Vec<String> {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    names
        .map(|name| {
            let count = seen.entry(name).or_insert(0);
            let text = if *count == 0 { write(name) } else { format!("{}#{count}", write(name)) };
            *count += 1;
            text
        })
        .collect()
}

/// References to all items of a program.
pub struct ItemNames {
    pub structs: Vec<String>,
    pub tables: Vec<String>,
    pub consts: Vec<String>,
    pub events: Vec<String>,
    pub funcs: Vec<String>,
    pub reasons: Vec<String>,
}

impl ItemNames {
    pub fn new(program: &Program) -> ItemNames {
        ItemNames {
            structs: references(program.structs.values().map(|s| s.name.as_str()), declared),
            tables: references(program.tables.values().map(|t| t.name.as_str()), declared),
            consts: references(program.consts.values().map(|c| c.name.as_str()), declared),
            events: references(program.events.values().map(|e| e.name.as_str()), declared),
            funcs: references(program.funcs.values().map(|f| f.name.as_str()), declared),
            reasons: references(program.reasons.values().map(|r| r.text.as_str()), quoted),
        }
    }

    /// The name of item `id`; something unparsable if there is no such item, so that broken
    /// programs can be shown.
    pub fn of<I: EntityRef>(list: &[String], id: I) -> String {
        list.get(id.index()).cloned().unwrap_or_else(|| format!("?{}", id.index()))
    }

    pub fn ty(&self, program: &Program, ty: Type) -> String {
        match ty {
            Type::Int { .. } | Type::Packet => program.type_name(ty),
            Type::Struct(id) => ItemNames::of(&self.structs, id),
            Type::Array(id) => match program.arrays.get(id) {
                Some(def) => format!("{}[{}]", self.ty(program, def.elem), def.len),
                None => format!("?array{}", id.index()),
            },
        }
    }
}

/// The name of every value of a body, with the `%`, in the order in which the text defines them.
pub struct ValueNames {
    names: SecondaryMap<ValueId, String>,
    counts: HashMap<String, u32>,
    unnamed: u32,
}

impl ValueNames {
    pub fn new(body: &Body) -> ValueNames {
        let mut names =
            ValueNames { names: SecondaryMap::new(), counts: HashMap::new(), unnamed: 0 };
        if let Some(entry) = body.entry {
            names.block(body, entry, &mut Visited::default());
        }
        names
    }

    /// The name of a value; something unparsable if nothing in the body defines it.
    pub fn get(&self, value: ValueId) -> String {
        match self.names.get(value) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("%?{}", value.index()),
        }
    }

    fn block(&mut self, body: &Body, block: BlockId, visited: &mut Visited) {
        if !visited.enter(block) {
            return;
        }
        if let Some(data) = body.blocks.get(block) {
            data.params.iter().for_each(|v| self.add(body, *v));
            for inst in data.insts.iter().filter_map(|i| body.insts.get(*i)) {
                inst.results.iter().for_each(|v| self.add(body, *v));
                inst.op.regions().for_each(|region| self.block(body, region, visited));
            }
        }
        visited.leave();
    }

    fn add(&mut self, body: &Body, value: ValueId) {
        let Some(data) = body.values.get(value) else { return };
        let text = match &data.name {
            Some(name) => {
                let base = if is_identifier(name) { name.clone() } else { quoted(name) };
                let count = self.counts.entry(base.clone()).or_insert(0);
                *count += 1;
                if *count == 1 { format!("%{base}") } else { format!("%{base}.{}", *count - 1) }
            }
            None => {
                self.unnamed += 1;
                format!("%{}", self.unnamed - 1)
            }
        };
        self.names[value] = text;
    }
}

/// Guards a walk over regions of a program nobody verified: each region once, and not too deep.
#[derive(Default)]
pub struct Visited {
    seen: std::collections::HashSet<BlockId>,
    depth: usize,
}

impl Visited {
    pub fn enter(&mut self, block: BlockId) -> bool {
        if self.depth > super::MAX_NESTING || !self.seen.insert(block) {
            return false;
        }
        self.depth += 1;
        true
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }
}
