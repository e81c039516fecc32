//! Text to program: the items.
//!
//! Items may refer to later ones, so the parser first finds where each item starts and what it is
//! called; that fixes all ids. Then it parses structs, then the other declarations, then bodies,
//! which need the types of both.

use std::collections::HashMap;

use cranelift_entity::EntityRef;

use super::names::{ITEM_WORDS, builtin_type};
use super::token::{Tok, Token, tokens};
use crate::build::mask;
use crate::layout::int_layout;
use crate::program::{
    ConstArray, Direction, DropReason, Event, Func, Handler, Param, Program, Room, Side, Table,
    TableKind,
};
use crate::span::{SourceFile, Span};
use crate::types::{ArrayDef, ArrayId, Field, StructDef, Type};

/// Why a text is not αIR, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{col}: {message}")]
pub struct ParseError {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub col: u32,
    pub message: String,
}

impl ParseError {
    pub(super) fn at(text: &str, at: usize, message: String) -> ParseError {
        let before = &text[..at];
        let line = before.matches('\n').count() as u32 + 1;
        let col = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) as u32 + 1;
        ParseError { line, col, message }
    }
}

/// Array types nest at most this deep.
const MAX_DIMENSIONS: usize = 16;

/// Parses a program. It is well-formed, not verified: [`crate::verify::verify`] checks types and
/// scopes.
pub fn parse(text: &str) -> Result<Program> {
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        pos: 0,
        program: Program::new(""),
        items: Items::default(),
        next_struct: 0,
        arrays: HashMap::new(),
    };
    let starts = parser.find_items()?;
    let phases: [&[&str]; 4] = [
        &["program", "file"],
        &["struct"],
        &["table", "const", "event", "reason"],
        &["func", "handler"],
    ];
    for phase in phases {
        for (start, end) in
            starts.iter().zip(starts.iter().skip(1).chain([&(parser.tokens.len() - 1)]))
        {
            let Tok::Word(word) = parser.tokens[*start].kind else { continue };
            if phase.contains(&word) {
                parser.pos = start + 1;
                parser.item(word)?;
                if parser.pos != *end {
                    let found = parser.peek().describe();
                    return Err(parser.error(format!("expected the next item, found {found}")));
                }
            }
        }
    }
    Ok(parser.program)
}

/// Number of each item by name; the `n`-th item of one name is `name#n`.
#[derive(Default)]
pub(super) struct Items {
    by_name: HashMap<(&'static str, String), Vec<usize>>,
}

pub(super) struct Parser<'a> {
    pub text: &'a str,
    tokens: Vec<Token<'a>>,
    pos: usize,
    pub program: Program,
    items: Items,
    /// Structs are all there, empty, before the first is parsed; this is the one whose turn it is.
    next_struct: usize,
    arrays: HashMap<ArrayDef, ArrayId>,
}

pub(super) type Result<T> = std::result::Result<T, ParseError>;

impl<'a> Parser<'a> {
    // ---- tokens ----------------------------------------------------------------------------------------

    pub fn peek(&self) -> &Tok<'a> {
        &self.tokens[self.pos].kind
    }

    /// The next token; the end stays.
    pub fn next(&mut self) -> Tok<'a> {
        let token = self.tokens[self.pos].kind.clone();
        if token != Tok::End {
            self.pos += 1;
        }
        token
    }

    /// Byte offset of the next token.
    pub fn offset(&self) -> usize {
        self.tokens[self.pos].at
    }

    /// An error at the next token.
    pub fn error(&self, message: String) -> ParseError {
        ParseError::at(self.text, self.offset(), message)
    }

    /// An error at the token just taken.
    pub fn error_before(&self, message: String) -> ParseError {
        ParseError::at(self.text, self.tokens[self.pos.saturating_sub(1)].at, message)
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        Err(self.error(format!("expected {what}, found {}", self.peek().describe())))
    }

    pub fn accept(&mut self, c: char) -> bool {
        let found = *self.peek() == Tok::Punct(c);
        self.pos += found as usize;
        found
    }

    pub fn expect(&mut self, c: char) -> Result<()> {
        if self.accept(c) { Ok(()) } else { self.expected(&format!("`{c}`")) }
    }

    pub fn accept_arrow(&mut self) -> bool {
        let found = *self.peek() == Tok::Arrow;
        self.pos += found as usize;
        found
    }

    pub fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Tok::Word(w) if *w == word);
        self.pos += found as usize;
        found
    }

    pub fn word(&mut self, what: &str) -> Result<&'a str> {
        match *self.peek() {
            Tok::Word(word) => {
                self.pos += 1;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    pub fn string(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Tok::Text(text) => {
                let text = text.clone();
                self.pos += 1;
                Ok(text)
            }
            _ => self.expected(what),
        }
    }

    /// A name with or without quotes.
    pub fn name(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Tok::Word(word) => {
                let name = word.to_string();
                self.pos += 1;
                Ok(name)
            }
            _ => self.string(what),
        }
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        match *self.peek() {
            Tok::Int(value) => {
                self.pos += 1;
                Ok(value)
            }
            _ => self.expected(what),
        }
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        let value = self.u64(what)?;
        u32::try_from(value).map_err(|_| self.error_before(format!("{what} must fit 32 bits")))
    }

    /// An integer constant of a type: decimal or hexadecimal, negative only for signed types.
    pub fn constant(&mut self, ty: Type) -> Result<u64> {
        let negative = self.accept('-');
        let value = self.u64("an integer")?;
        let Type::Int { bits, signed } = ty else { return Ok(value) };
        let fits = match (negative, signed) {
            (false, false) => mask(value, bits) == value,
            (false, true) => value < 1 << (bits - 1),
            (true, true) => value <= 1 << (bits - 1),
            (true, false) => value == 0,
        };
        if !fits {
            let sign = if negative { "-" } else { "" };
            let name = self.program.type_name(ty);
            return Err(self.error_before(format!("{sign}{value} does not fit {name}")));
        }
        Ok(mask(if negative { value.wrapping_neg() } else { value }, bits))
    }

    /// Items between `open` and `close`, separated by commas.
    pub fn list<T>(
        &mut self,
        open: char,
        close: char,
        mut one: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut found = Vec::new();
        if self.accept(close) {
            return Ok(found);
        }
        loop {
            found.push(one(self)?);
            if self.accept(close) {
                return Ok(found);
            }
            if !self.accept(',') {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    /// `@file:start-end`, if it is there.
    pub fn span(&mut self) -> Result<Span> {
        if !self.accept('@') {
            return Ok(Span::default());
        }
        let file = self.u32("the number of a file")?;
        if file as usize >= self.program.files.len() {
            return Err(self.error_before(format!("there is no file number {file}")));
        }
        self.expect(':')?;
        let start = self.u32("the first byte of a span")?;
        self.expect('-')?;
        let end = self.u32("the end of a span")?;
        Ok(Span::new(EntityRef::new(file as usize), start, end))
    }

    // ---- items -----------------------------------------------------------------------------------------

    /// Where the items start; records their names.
    fn find_items(&mut self) -> Result<Vec<usize>> {
        let mut starts = Vec::new();
        let mut counts: HashMap<&'static str, usize> = HashMap::new();
        let mut depth = 0usize;
        for i in 0..self.tokens.len() {
            match self.tokens[i].kind {
                Tok::Punct('{') => depth += 1,
                Tok::Punct('}') => depth = depth.saturating_sub(1),
                Tok::Word(word) if depth == 0 => {
                    let Some(kind) = ITEM_WORDS.iter().find(|w| **w == word) else { continue };
                    let count = counts.entry(kind).or_insert(0);
                    let name = match self.tokens.get(i + 1).map(|t| &t.kind) {
                        Some(Tok::Word(name)) => name.to_string(),
                        Some(Tok::Text(name)) => name.clone(),
                        _ => String::new(),
                    };
                    self.items.by_name.entry((kind, name)).or_default().push(*count);
                    *count += 1;
                    starts.push(i);
                }
                _ => {}
            }
        }
        if starts.first() != Some(&0) || !self.accept_word("program") {
            return self.expected("`program NAME ports N`");
        }
        if counts["program"] > 1 {
            return Err(
                self.error_before("a text holds one program; this one has several".to_string())
            );
        }
        for def in starts.iter().filter(|s| self.tokens[**s].kind == Tok::Word("struct")) {
            let name = match &self.tokens[def + 1].kind {
                Tok::Word(name) => name.to_string(),
                Tok::Text(name) => name.clone(),
                _ => String::new(),
            };
            self.program.add_struct(StructDef { name, packed: false, fields: Vec::new() });
        }
        Ok(starts)
    }

    /// The item of a kind that is meant here: a name, with `#n` for the `n`-th of that name.
    pub fn reference<I: EntityRef>(&mut self, kind: &'static str) -> Result<I> {
        let name = self.name(&format!("the name of a {kind}"))?;
        let at = self.pos - 1;
        let number = if self.accept('#') { self.u32("a number")? as usize } else { 0 };
        let known = self.items.by_name.get(&(kind, name.clone()));
        match known.and_then(|list| list.get(number)) {
            Some(index) => Ok(I::new(*index)),
            None => {
                let message = format!("there is no {kind} `{name}`");
                Err(ParseError::at(self.text, self.tokens[at].at, message))
            }
        }
    }

    pub fn ty(&mut self) -> Result<Type> {
        let builtin = match self.peek() {
            Tok::Word(word) => builtin_type(word),
            Tok::Text(_) => None,
            _ => return self.expected("a type"),
        };
        let mut ty = match builtin {
            Some(ty) => {
                self.pos += 1;
                ty
            }
            None => Type::Struct(self.reference("struct")?),
        };
        let mut dimensions = 0;
        while self.accept('[') {
            let len = self.u32("the length of an array")?;
            self.expect(']')?;
            dimensions += 1;
            if dimensions > MAX_DIMENSIONS {
                return Err(self.error_before(format!(
                    "an array type has at most {MAX_DIMENSIONS} dimensions"
                )));
            }
            let def = ArrayDef { elem: ty, len };
            ty = Type::Array(
                *self.arrays.entry(def).or_insert_with(|| self.program.arrays.push(def)),
            );
        }
        Ok(ty)
    }

    fn item(&mut self, word: &str) -> Result<()> {
        match word {
            "program" => {
                self.program.name = self.name("the program's name")?;
                if self.accept_word("ports") {
                    self.program.ports = self.u32("the number of ports")?;
                }
            }
            "file" => {
                let path = self.string("the file's path in quotes")?;
                self.program.files.push(SourceFile { path, text: String::new() });
            }
            "struct" => self.struct_def()?,
            "table" => self.table()?,
            "const" => self.const_array()?,
            "event" => self.event()?,
            "reason" => {
                let text = self.string("the reason in quotes")?;
                let span = self.span()?;
                self.program.reasons.push(DropReason { text, span });
            }
            "func" => self.func()?,
            _ => self.handler()?,
        }
        Ok(())
    }

    fn struct_def(&mut self) -> Result<()> {
        self.name("the struct's name")?;
        let packed = self.accept_word("packed");
        let fields = self.list('{', '}', |p| {
            let name = p.name("a member's name")?;
            p.expect(':')?;
            let ty = p.ty()?;
            let bit_width = if p.accept(':') {
                let width = p.u32("the width of a bit-field")?;
                let fits = ty.bits().is_some_and(|bits| width >= 1 && width <= bits as u32);
                if !fits {
                    return Err(p.error_before(format!(
                        "a bit-field of type {} cannot be {width} bits wide",
                        p.program.type_name(ty)
                    )));
                }
                Some(width as u8)
            } else {
                None
            };
            Ok(Field { name, ty, bit_width, big_endian: p.accept_word("be") })
        })?;
        let def = &mut self.program.structs[EntityRef::new(self.next_struct)];
        self.next_struct += 1;
        def.packed = packed;
        def.fields = fields;
        Ok(())
    }

    fn table(&mut self) -> Result<()> {
        let name = self.name("the table's name")?;
        self.expect(':')?;
        let kind = self.word("a table kind")?;
        let Some(kind) = TableKind::ALL.into_iter().find(|k| k.name() == kind) else {
            let known = TableKind::ALL.map(TableKind::name).join(", ");
            return Err(self.error_before(format!("`{kind}` is no table kind; there are {known}")));
        };
        self.expect('[')?;
        let key = self.ty()?;
        let key_big_endian = self.accept_word("be");
        if !self.accept_arrow() {
            return self.expected("`->`");
        }
        let value = self.ty()?;
        self.expect(']')?;
        let mut table = Table {
            name,
            kind,
            key,
            key_big_endian,
            value,
            capacity: 0,
            buf: None,
            max_replicas: None,
            by_number: false,
            shared: false,
            span: Span::default(),
        };
        if !self.accept_word("capacity") {
            return self.expected("`capacity`");
        }
        table.capacity = self.u32("the table's capacity")?;
        if self.accept_word("buf") {
            table.buf = Some(self.u32("the size of the byte strings")?);
        }
        if self.accept_word("replicas") {
            table.max_replicas = Some(self.u32("a number of replicas")?);
        }
        table.by_number = self.accept_word("by_number");
        table.shared = self.accept_word("shared");
        table.span = self.span()?;
        self.program.tables.push(table);
        Ok(())
    }

    fn const_array(&mut self) -> Result<()> {
        let name = self.name("the array's name")?;
        self.expect(':')?;
        let elem = self.ty()?;
        self.expect('=')?;
        let bytes = if self.accept_word("hex") {
            let digits = self.string("hexadecimal digits in quotes")?;
            match hex_bytes(&digits) {
                Some(bytes) => bytes,
                None => {
                    return Err(self.error_before(
                        "expected an even number of hexadecimal digits".to_string(),
                    ));
                }
            }
        } else {
            let Type::Int { bits, .. } = elem else {
                return self.expected("`hex` and the bytes, as the elements are no integers");
            };
            let size = int_layout(bits).size as usize;
            let mut bytes = Vec::new();
            self.list('[', ']', |p| {
                let value = p.constant(elem)?;
                bytes.extend_from_slice(&value.to_le_bytes()[..size]);
                Ok(())
            })?;
            bytes
        };
        let span = self.span()?;
        self.program.consts.push(ConstArray { name, elem, bytes, span });
        Ok(())
    }

    fn event(&mut self) -> Result<()> {
        let name = self.name("the event's name")?;
        let params = self.list('(', ')', |p| {
            let name = p.name("a parameter's name")?;
            p.expect(':')?;
            let ty = p.ty()?;
            Ok(Param { name, ty, borrowed: p.accept_word("borrowed") })
        })?;
        let direction = match self.word("`in`, `out` or `internal`")? {
            "in" => Direction::In,
            "out" => Direction::Out,
            "internal" => Direction::Internal,
            other => {
                let message = format!("expected `in`, `out` or `internal`, found `{other}`");
                return Err(self.error_before(message));
            }
        };
        let zeros = if self.accept_word("zeros") { self.u32("the bytes of zeros")? } else { 0 };
        let period = if self.accept_word("period") {
            Some(self.u64("the nanoseconds of a period")?)
        } else {
            None
        };
        self.program.events.push(Event { name, direction, params, zeros, period });
        Ok(())
    }

    fn func(&mut self) -> Result<()> {
        let name = self.name("the function's name")?;
        let mut scope = super::body::Scope::default();
        self.entry_params(&mut scope)?;
        let results =
            if self.accept_arrow() { self.list('(', ')', |p| p.ty())? } else { Vec::new() };
        let span = self.span()?;
        let body = self.body(scope)?;
        self.program.funcs.push(Func { name, results, body, span });
        Ok(())
    }

    fn handler(&mut self) -> Result<()> {
        let name = self.name("the handler's name")?;
        if !self.accept_word("on") {
            return self.expected("`on` and the event");
        }
        let event = self.reference("event")?;
        let mut scope = super::body::Scope::default();
        self.entry_params(&mut scope)?;
        let unordered = self.accept_word("unordered");
        let max_replicas = if self.accept_word("replicas") {
            Some(self.u32("a number of replicas")?)
        } else {
            None
        };
        let side = if self.accept_word("side") {
            match self.word("`nic` or `host`")? {
                "nic" => Some(Side::Nic),
                "host" => Some(Side::Host),
                other => {
                    return Err(
                        self.error_before(format!("expected `nic` or `host`, found `{other}`"))
                    );
                }
            }
        } else {
            None
        };
        let room = if self.accept_word("room") {
            let entries = self.u32("a number of entries")?;
            let loses = match self.word("`loses` or `waits`")? {
                "loses" => true,
                "waits" => false,
                other => {
                    return Err(
                        self.error_before(format!("expected `loses` or `waits`, found `{other}`"))
                    );
                }
            };
            Some(Room { entries, loses })
        } else {
            None
        };
        let span = self.span()?;
        let body = self.body(scope)?;
        self.program.handlers.push(Handler {
            name,
            event,
            body,
            max_replicas,
            unordered,
            side,
            room,
            span,
        });
        Ok(())
    }
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok()).collect()
}
