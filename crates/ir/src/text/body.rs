//! Text to program: regions and operations.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::MAX_NESTING;
use super::parse::{ParseError, Parser, Result};
use super::token::Tok;
use crate::native::Passing;
use crate::ops::field::{Kind, Part};
use crate::ops::row::{FieldRow, List, Must, Piece, Row};
use crate::ops::{BufSource, Op, Proj, ROWS};
use crate::program::{Block, BlockId, Body, Inst, Value, ValueDef, ValueId};
use crate::span::Span;
use crate::types::Type;

/// A body under construction and the values it has so far, by how the text writes them.
#[derive(Default)]
pub struct Scope<'a> {
    pub body: Body,
    values: HashMap<&'a str, ValueId>,
    depth: usize,
}

/// A value that the text is about to define.
struct Definition<'a> {
    key: &'a str,
    name: Option<String>,
    ty: Type,
    /// Byte offset in the text.
    at: usize,
}

impl<'a> Parser<'a> {
    /// `(%pkt: packet, …)`: makes the entry region with these parameters.
    pub fn entry_params(&mut self, scope: &mut Scope<'a>) -> Result<()> {
        let entry = scope.body.blocks.push(Block::default());
        scope.body.entry = Some(entry);
        let params = self.list('(', ')', |p| p.definition())?;
        for (i, param) in params.into_iter().enumerate() {
            let value = self.define(scope, param, ValueDef::Param(entry, i as u32))?;
            scope.body.blocks[entry].params.push(value);
        }
        Ok(())
    }

    /// The region behind the parameters.
    pub fn body(&mut self, mut scope: Scope<'a>) -> Result<Body> {
        let entry = scope.body.entry();
        self.region(&mut scope, entry, false)?;
        Ok(scope.body)
    }

    /// `%name: type`
    fn definition(&mut self) -> Result<Definition<'a>> {
        let Tok::Value { key, name } = self.peek().clone() else {
            return Err(self.error(format!("expected a value, found {}", self.peek().describe())));
        };
        let at = self.offset();
        self.next();
        self.expect(':')?;
        Ok(Definition { key, name, ty: self.ty()?, at })
    }

    fn define(
        &mut self,
        scope: &mut Scope<'a>,
        def: Definition<'a>,
        place: ValueDef,
    ) -> Result<ValueId> {
        let value = scope.body.values.push(Value { ty: def.ty, name: def.name, def: place });
        if scope.values.insert(def.key, value).is_some() {
            let message = format!("`%{}` is defined twice in this body", def.key);
            return Err(ParseError::at(self.text, def.at, message));
        }
        Ok(value)
    }

    fn value(&mut self, scope: &Scope<'a>) -> Result<ValueId> {
        let Tok::Value { key, .. } = *self.peek() else {
            return Err(self.error(format!("expected a value, found {}", self.peek().describe())));
        };
        match scope.values.get(key) {
            Some(value) => {
                self.next();
                Ok(*value)
            }
            None => Err(self.error(format!("`%{key}` is not defined before this point"))),
        }
    }

    /// Values separated by commas; none if the next token is no value.
    fn values(&mut self, scope: &Scope<'a>) -> Result<Vec<ValueId>> {
        let mut found = Vec::new();
        if matches!(self.peek(), Tok::Value { .. }) {
            found.push(self.value(scope)?);
            while self.accept(',') {
                found.push(self.value(scope)?);
            }
        }
        Ok(found)
    }

    fn value_list(&mut self, scope: &Scope<'a>) -> Result<Vec<ValueId>> {
        self.list('(', ')', |p| p.value(scope))
    }

    /// `{ instructions }`. With `implied_yield`, a region without terminator gets a `yield` of
    /// nothing.
    fn region(&mut self, scope: &mut Scope<'a>, block: BlockId, implied_yield: bool) -> Result<()> {
        if scope.depth > MAX_NESTING {
            return Err(self.error(format!("regions nest deeper than {MAX_NESTING}")));
        }
        self.expect('{')?;
        scope.depth += 1;
        while !self.accept('}') {
            self.inst(scope, block)?;
        }
        scope.depth -= 1;
        let terminated = scope.body.terminator(block).is_some_and(|inst| inst.op.is_terminator());
        if implied_yield && !terminated {
            let yielding =
                Inst { op: Op::Yield(Vec::new()), results: Vec::new(), span: Span::default() };
            let id = scope.body.insts.push(yielding);
            scope.body.blocks[block].insts.push(id);
        }
        Ok(())
    }

    fn inst(&mut self, scope: &mut Scope<'a>, block: BlockId) -> Result<()> {
        if self.accept_word("if") {
            return self.if_inst(scope, block);
        }
        if self.accept_word("loop") {
            return self.loop_inst(scope, block);
        }
        let mut results = Vec::new();
        if matches!(self.peek(), Tok::Value { .. }) {
            results.push(self.definition()?);
            while self.accept(',') {
                results.push(self.definition()?);
            }
            self.expect('=')?;
        }
        let first = results.first().map(|def| def.ty);
        let op = self.op(scope, first)?;
        let span = self.span()?;
        self.append(scope, block, op, results, span)
    }

    fn append(
        &mut self,
        scope: &mut Scope<'a>,
        block: BlockId,
        op: Op,
        results: Vec<Definition<'a>>,
        span: Span,
    ) -> Result<()> {
        let inst = scope.body.insts.push(Inst { op, results: Vec::new(), span });
        for (i, def) in results.into_iter().enumerate() {
            let value = self.define(scope, def, ValueDef::Result(inst, i as u32))?;
            scope.body.insts[inst].results.push(value);
        }
        scope.body.blocks[block].insts.push(inst);
        Ok(())
    }

    fn results(&mut self) -> Result<Vec<Definition<'a>>> {
        if self.accept_arrow() { self.list('(', ')', |p| p.definition()) } else { Ok(Vec::new()) }
    }

    /// `if %c likely 0.9 -> (%x: u32) { … } else { … }`
    fn if_inst(&mut self, scope: &mut Scope<'a>, block: BlockId) -> Result<()> {
        let cond = self.value(scope)?;
        let likely = if self.accept_word("likely") {
            let p = match self.next() {
                Tok::Real(p) => p,
                Tok::Int(p) => p as f32,
                other => {
                    let message = format!("expected a probability, found {}", other.describe());
                    return Err(self.error_before(message));
                }
            };
            if p > 1.0 {
                return Err(self.error_before("a probability is from 0 to 1".to_string()));
            }
            Some(p)
        } else {
            None
        };
        let results = self.results()?;
        let span = self.span()?;
        let then = scope.body.blocks.push(Block::default());
        let other = scope.body.blocks.push(Block::default());
        self.append(scope, block, Op::If { cond, then, other, likely }, results, span)?;
        self.region(scope, then, true)?;
        if self.accept_word("else") {
            self.region(scope, other, true)?;
        } else {
            let yielding =
                Inst { op: Op::Yield(Vec::new()), results: Vec::new(), span: Span::default() };
            let id = scope.body.insts.push(yielding);
            scope.body.blocks[other].insts.push(id);
        }
        Ok(())
    }

    /// `loop 16 (%i: u32 = %0) -> (%j: u32) { … }`
    fn loop_inst(&mut self, scope: &mut Scope<'a>, block: BlockId) -> Result<()> {
        let max_trips = self.u32("the number of trips")?;
        let carried = if *self.peek() == Tok::Punct('(') {
            self.list('(', ')', |p| {
                let def = p.definition()?;
                p.expect('=')?;
                Ok((def, p.value(scope)?))
            })?
        } else {
            Vec::new()
        };
        let results = self.results()?;
        let span = self.span()?;
        let body = scope.body.blocks.push(Block::default());
        let (params, init): (Vec<_>, Vec<_>) = carried.into_iter().unzip();
        self.append(scope, block, Op::Loop { init, max_trips, body }, results, span)?;
        for (i, param) in params.into_iter().enumerate() {
            let value = self.define(scope, param, ValueDef::Param(body, i as u32))?;
            scope.body.blocks[body].params.push(value);
        }
        self.region(scope, body, false)
    }

    fn comma(&mut self) -> Result<()> {
        self.expect(',')
    }

    /// `, %b`
    fn second(&mut self, scope: &Scope<'a>) -> Result<ValueId> {
        self.comma()?;
        self.value(scope)
    }

    /// `[%key]`
    fn index(&mut self, scope: &Scope<'a>) -> Result<ValueId> {
        self.expect('[')?;
        let value = self.value(scope)?;
        self.expect(']')?;
        Ok(value)
    }

    /// `.dst.b[%i]` from a value of type `ty`; also the type it leads to, if the path fits.
    fn path(&mut self, scope: &Scope<'a>, mut ty: Option<Type>) -> Result<Vec<Proj>> {
        let mut path = Vec::new();
        loop {
            let step = if self.accept('.') {
                Proj::Field(self.field(ty)?)
            } else if *self.peek() == Tok::Punct('[') {
                Proj::Index(self.index(scope)?)
            } else {
                return Ok(path);
            };
            ty = ty.and_then(|ty| self.program.project(ty, &[step]));
            path.push(step);
        }
    }

    fn field(&mut self, ty: Option<Type>) -> Result<u32> {
        if self.accept('#') {
            return self.u32("the number of a member");
        }
        let name = self.word("a member's name or `#` and its number")?;
        let def = match ty {
            Some(Type::Struct(id)) => &self.program.structs[id],
            _ => {
                return Err(
                    self.error_before(format!("there is no member `{name}`: this is no struct"))
                );
            }
        };
        match def.fields.iter().position(|field| field.name == name) {
            Some(index) => Ok(index as u32),
            None => Err(self.error_before(format!("struct `{}` has no member `{name}`", def.name))),
        }
    }

    /// An op that owns no regions. `result` is the type of its first result.
    fn op(&mut self, scope: &Scope<'a>, result: Option<Type>) -> Result<Op> {
        let number = matches!(self.peek(), Tok::Int(_) | Tok::Punct('-'));
        if let (true, Some(ty)) = (number, result) {
            return Ok(Op::Int(self.constant(ty)?));
        }
        let word = self.word("an operation")?;
        let Some((row, number)) = row_of(word) else {
            return Err(self.error_before(format!("there is no operation `{word}`")));
        };
        let parts = self.parts(scope, row, number)?;
        let missing = || self.error_before(format!("there is no operation `{word}` here"));
        (row.build)(&mut parts.into_iter()).ok_or_else(missing)
    }

    /// The fields of an op whose first word was read; `number` says which of a set it was.
    fn parts(&mut self, scope: &Scope<'a>, row: &Row, number: Option<usize>) -> Result<Vec<Part>> {
        let mut parts: Vec<Part> = number.map(Part::Word).into_iter().collect();
        let pieces = row.pieces().skip(parts.len());
        let mut first_word = number.is_none();
        let mut passing = None;
        for piece in pieces {
            let (field, list) = match piece {
                Piece::Literal(literal) => {
                    let literal = if first_word { &literal[row.word().len()..] } else { literal };
                    first_word = false;
                    literal.chars().filter(|c| *c != ' ').try_for_each(|c| self.expect(c))?;
                    continue;
                }
                Piece::Field(field, list) => (field, list),
            };
            match (field.kind, list) {
                (Kind::Passing, _) => {
                    passing = Some(parts.len());
                    parts.push(Part::Passing(Vec::new()));
                }
                (Kind::Values, List::Bare) => parts.push(Part::Values(self.values(scope)?)),
                (Kind::Values, List::Optional) if *self.peek() != Tok::Punct('(') => {
                    parts.push(Part::Values(Vec::new()));
                }
                (Kind::Values, _) if let Some(at) = passing => {
                    let (ways, args) = self.passed(scope)?;
                    parts[at] = Part::Passing(ways);
                    parts.push(Part::Values(args));
                }
                (Kind::Values, _) => parts.push(Part::Values(self.value_list(scope)?)),
                (Kind::Path, _) => {
                    let from = self.path_start(scope, &parts);
                    parts.push(Part::Path(self.path(scope, from)?));
                }
                _ => parts.push(self.field_of(scope, field)?),
            }
        }
        Ok(parts)
    }

    /// `(read %a, %b)`: arguments with how they are passed.
    fn passed(&mut self, scope: &Scope<'a>) -> Result<(Vec<Passing>, Vec<ValueId>)> {
        let args = self.list('(', ')', |p| {
            let words = [("read", Passing::Read), ("write", Passing::Write)];
            let passing = words.into_iter().find(|(word, _)| p.accept_word(word));
            Ok((passing.map_or(Passing::Value, |(_, passing)| passing), p.value(scope)?))
        })?;
        Ok(args.into_iter().unzip())
    }

    /// The type that a path begins at: of the op's table, or of the operand before.
    fn path_start(&self, scope: &Scope<'a>, parts: &[Part]) -> Option<Type> {
        let table =
            parts.iter().find_map(|part| if let Part::Table(id) = part { Some(*id) } else { None });
        // Tables are parsed before bodies, so every table that can be referred to is there.
        match (table, parts.last()) {
            (Some(table), _) => self.program.tables.get(table).map(|table| table.value),
            (None, Some(Part::Value(value))) => Some(scope.body.ty(*value)),
            _ => None,
        }
    }

    /// A field whose text needs nothing of what stands before it.
    fn field_of(&mut self, scope: &Scope<'a>, field: FieldRow) -> Result<Part> {
        let what = match field.must {
            Must::Named(what) | Must::Format(what) => what,
            _ => field.name,
        };
        Ok(match field.kind {
            Kind::Value => Part::Value(self.value(scope)?),
            Kind::Port => Part::Port(self.port(scope)?),
            Kind::Source if self.accept_word("packet") => Part::Source(BufSource::Packet {
                pkt: self.value(scope)?,
                len: self.second(scope)?,
            }),
            Kind::Source => Part::Source(BufSource::Value(self.value(scope)?)),
            Kind::Table => Part::Table(self.reference("table")?),
            Kind::Const => Part::Const(self.reference("const")?),
            Kind::Event => Part::Event(self.reference("event")?),
            Kind::Func => Part::Func(self.reference("func")?),
            Kind::Reason => Part::Reason(self.reference("reason")?),
            Kind::Word { words, what } => {
                let name = self.word(what)?;
                match words.iter().position(|word| *word == name) {
                    Some(number) => Part::Word(number),
                    None => {
                        return Err(self.error_before(format!("expected {what}, found `{name}`")));
                    }
                }
            }
            Kind::U32 => Part::Number(self.u32(what)?.into()),
            Kind::U64 => Part::Number(self.u64(what)?),
            Kind::Text => Part::Text(self.string(what)?),
            Kind::Pure => Part::Pure(self.accept_word("pure")),
            Kind::Values | Kind::Path | Kind::Passing | Kind::Likely | Kind::Region => {
                return Err(self.error(format!("`{}` cannot stand here", field.name)));
            }
        })
    }

    /// `, port %p`, or nothing.
    fn port(&mut self, scope: &Scope<'a>) -> Result<Option<ValueId>> {
        if !self.accept(',') {
            return Ok(None);
        }
        if !self.accept_word("port") {
            let found = self.peek().describe();
            return Err(self.error(format!("expected `port` and a value, found {found}")));
        }
        self.value(scope).map(Some)
    }
}

/// The row whose text begins with a word, and the word's number where it is one of a set.
fn row_of(word: &str) -> Option<(&'static Row, Option<usize>)> {
    static BY_WORD: OnceLock<HashMap<&str, (&Row, Option<usize>)>> = OnceLock::new();
    let by_word = BY_WORD.get_or_init(|| {
        let own = ROWS.iter().map(|row| (row.word(), (row, None)));
        let sets = ROWS.iter().flat_map(|row| {
            row.words().iter().enumerate().map(move |(number, word)| (*word, (row, Some(number))))
        });
        own.chain(sets).collect()
    });
    by_word.get(word).copied()
}
