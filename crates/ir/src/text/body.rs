//! Text to program: regions and operations.

use std::collections::HashMap;

use super::MAX_NESTING;
use super::names::{BIN, CMP, COMMUTE, UN, op_named};
use super::parse::{ParseError, Parser, Result};
use super::token::Tok;
use crate::native::Passing;
use crate::ops::{BufSource, Op, Proj};
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

    fn define(&mut self, scope: &mut Scope<'a>, def: Definition<'a>, place: ValueDef) -> Result<ValueId> {
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

    /// `{ instructions }`. With `implied_yield`, a region without terminator gets a `yield` of nothing.
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
            let yielding = Inst { op: Op::Yield(Vec::new()), results: Vec::new(), span: Span::default() };
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
            let yielding = Inst { op: Op::Yield(Vec::new()), results: Vec::new(), span: Span::default() };
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
            _ => return Err(self.error_before(format!("there is no member `{name}`: this is no struct"))),
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
        if let Some(op) = op_named(&BIN, word) {
            return Ok(Op::Bin(op, self.value(scope)?, self.second(scope)?));
        }
        if let Some(op) = op_named(&CMP, word) {
            return Ok(Op::Cmp(op, self.value(scope)?, self.second(scope)?));
        }
        if let Some(op) = op_named(&UN, word) {
            return Ok(Op::Un(op, self.value(scope)?));
        }
        match self.plain_op(scope, word)? {
            Some(op) => Ok(op),
            None => match self.table_op(scope, word)? {
                Some(op) => Ok(op),
                None => Err(self.error_before(format!("there is no operation `{word}`"))),
            },
        }
    }

    /// Ops whose operands are values, events, functions and texts.
    fn plain_op(&mut self, s: &Scope<'a>, word: &str) -> Result<Option<Op>> {
        let op = match word {
            "int" => Op::Int(self.u64("an integer")?),
            "zero" => Op::Zero,
            "cast" => Op::Cast(self.value(s)?),
            "select" => Op::Select { cond: self.value(s)?, then: self.second(s)?, other: self.second(s)? },
            "get" => {
                let agg = self.value(s)?;
                Op::Get { agg, path: self.path(s, Some(s.body.ty(agg)))? }
            }
            "set" => {
                let agg = self.value(s)?;
                let path = self.path(s, Some(s.body.ty(agg)))?;
                Op::Set { agg, path, value: self.second(s)? }
            }
            "const_elem" => Op::ConstElem { array: self.reference("const")?, index: self.index(s)? },
            "hash" => Op::Hash { seed: self.value(s)?, value: self.second(s)? },
            "csum_add" => Op::CsumAdd { sum: self.value(s)?, value: self.second(s)? },
            "now" => Op::Now,
            "random" => Op::Random,
            "in_port" => Op::InPort { pkt: self.value(s)? },
            "extract" => Op::Extract { pkt: self.value(s)? },
            "load" => Op::Load { pkt: self.value(s)?, off: self.second(s)? },
            "store" => Op::Store { pkt: self.value(s)?, off: self.second(s)?, value: self.second(s)? },
            "skip" => Op::Skip { pkt: self.value(s)?, len: self.second(s)? },
            "trim" => Op::Trim { pkt: self.value(s)?, len: self.second(s)? },
            "emit" => Op::Emit { pkt: self.value(s)?, value: self.second(s)? },
            "reset" => Op::Reset { pkt: self.value(s)? },
            "len" => Op::Len { pkt: self.value(s)? },
            "pkt_csum" => Op::PktCsum { pkt: self.value(s)?, sum: self.second(s)?, len: self.second(s)? },
            "drop" => {
                let pkt = self.value(s)?;
                self.comma()?;
                Op::Drop { pkt, reason: self.reference("reason")? }
            }
            "generate" => Op::Generate { event: self.reference("event")?, args: self.value_list(s)? },
            "log" => Op::Log { format: self.string("the format in quotes")?, args: self.value_list(s)? },
            "extern" => {
                let pure = self.accept_word("pure");
                let name = self.string("the function's name in quotes")?;
                let args = self.list('(', ')', |p| {
                    let words = [("read", Passing::Read), ("write", Passing::Write)];
                    let passing = words.into_iter().find(|(word, _)| p.accept_word(word));
                    Ok((passing.map_or(Passing::Value, |(_, passing)| passing), p.value(s)?))
                })?;
                let (passing, args) = args.into_iter().unzip();
                Op::Extern { name, pure, passing, args }
            }
            "fib_lookup" => Op::FibLookup { query: self.value(s)? },
            "call" => Op::Call { func: self.reference("func")?, args: self.value_list(s)? },
            "yield" => Op::Yield(self.values(s)?),
            "return" => Op::Return(self.values(s)?),
            "break" => {
                let depth = self.u32("how many loops out")?;
                Op::Break { depth, values: self.optional_list(s)? }
            }
            "continue" => {
                let depth = self.u32("how many loops out")?;
                Op::Continue { depth, values: self.optional_list(s)? }
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    fn optional_list(&mut self, scope: &Scope<'a>) -> Result<Vec<ValueId>> {
        if *self.peek() == Tok::Punct('(') { self.value_list(scope) } else { Ok(Vec::new()) }
    }

    /// Ops that begin with a table and a key.
    fn table_op(&mut self, s: &Scope<'a>, word: &str) -> Result<Option<Op>> {
        let op = match word {
            "lookup" => Op::Lookup { table: self.reference("table")?, key: self.index(s)? },
            "contains" => Op::Contains { table: self.reference("table")?, key: self.index(s)? },
            "update" => {
                Op::Update { table: self.reference("table")?, key: self.index(s)?, value: self.second(s)? }
            }
            "delete" => Op::Delete { table: self.reference("table")?, key: self.index(s)? },
            "commute" => {
                let name = self.word("add, min, max or or")?;
                let Some(op) = op_named(&COMMUTE, name) else {
                    let message = format!("expected add, min, max or or, found `{name}`");
                    return Err(self.error_before(message));
                };
                let table = self.reference("table")?;
                let key = self.index(s)?;
                let of = self.table_value(table)?;
                Op::Commute { op, table, key, path: self.path(s, Some(of))?, amount: self.second(s)? }
            }
            "buf_append" => {
                let table = self.reference("table")?;
                let key = self.index(s)?;
                self.comma()?;
                let source = if self.accept_word("packet") {
                    BufSource::Packet { pkt: self.value(s)?, len: self.second(s)? }
                } else {
                    BufSource::Value(self.value(s)?)
                };
                Op::BufAppend { table, key, source }
            }
            "buf_len" => Op::BufLen { table: self.reference("table")?, key: self.index(s)? },
            "buf_read" => {
                Op::BufRead { table: self.reference("table")?, key: self.index(s)?, off: self.second(s)? }
            }
            "buf_clear" => Op::BufClear { table: self.reference("table")?, key: self.index(s)? },
            "buf_generate" => {
                let event = self.reference("event")?;
                let table = self.reference("table")?;
                let key = self.index(s)?;
                let port = if self.accept(',') {
                    if !self.accept_word("port") {
                        let found = self.peek().describe();
                        return Err(self.error(format!("expected `port` and a value, found {found}")));
                    }
                    Some(self.value(s)?)
                } else {
                    None
                };
                Op::BufGenerate { event, table, key, port }
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    fn table_value(&self, table: crate::program::TableId) -> Result<Type> {
        // Tables are parsed before bodies, so every table that can be referred to is there.
        let missing = || ParseError::at(self.text, 0, "a table has no declaration".to_string());
        self.program.tables.get(table).map(|t| t.value).ok_or_else(missing)
    }
}
