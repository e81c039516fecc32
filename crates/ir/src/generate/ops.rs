//! Random ops without regions.

use super::body::Gen;
use crate::ops::{BinOp, BufSource, CmpOp, CommuteOp, Op, Proj, UnOp, Words};
use crate::program::{TableId, TableKind, ValueId};
use crate::types::Type;

/// Patterns that random bytes match sometimes: sets, counts, anchors, and ends that differ.
const PATTERNS: [&str; 5] = [
    r"\x00{2}",
    "^[\\x00-\\x7f]{2}[\\x80-\\xff]\n[^\\x00-\\x3f]$",
    "(?s)\\x01.{1,3}[\\x01-\\x0f]\n\\x0f[^\\x00]",
    "(?i)[a-f]+z|[0-9]{3}\n[xy]$",
    r"\b[0-9A-Z]\b",
];

impl Gen<'_, '_, '_> {
    /// One op of any kind that owns no regions.
    pub fn plain_statement(&mut self) {
        match (self.d.below(8), self.pkt) {
            (0..=2, _) => self.integer_op(),
            (3, _) => self.aggregate_op(),
            (4 | 5, Some(pkt)) => self.packet_op(pkt),
            (6, _) => self.table_op(),
            (7, _) => self.other_op(),
            _ => self.integer_op(),
        }
    }

    /// One op on integers or aggregates.
    pub fn arithmetic_statement(&mut self) {
        if self.d.below(2) == 0 { self.integer_op() } else { self.aggregate_op() }
    }

    pub fn emit(&mut self, pkt: ValueId, value: ValueId) {
        self.b.push0(Op::Emit { pkt, value });
    }

    pub fn hash(&mut self, seed: ValueId, value: ValueId) -> ValueId {
        self.b.push1(Op::Hash { seed, value }, Type::U32)
    }

    pub fn log(&mut self, format: &str, args: Vec<ValueId>) {
        self.b.push0(Op::Log { format: format.to_string(), args });
    }

    pub fn in_port(&mut self, pkt: ValueId) -> ValueId {
        self.b.push1(Op::InPort { pkt }, Type::U32)
    }

    fn word<W: Words>(&mut self) -> W {
        W::ALL[self.d.below(W::ALL.len())].0
    }

    fn push_kept(&mut self, op: Op, ty: Type) {
        let value = self.b.push1(op, ty);
        self.keep(value);
    }

    pub fn push_ok_and_kept(&mut self, op: Op, ty: Type) {
        let (ok, value) = self.b.push2(op, Type::BOOL, ty);
        self.keep(ok);
        self.keep(value);
    }

    fn integer_op(&mut self) {
        let ty = self.int_type();
        let a = self.pick(ty);
        match self.d.below(6) {
            0 | 1 => {
                let (op, b) = (self.word::<BinOp>(), self.pick_beside(ty, Some(a)));
                self.push_kept(Op::Bin(op, a, b), ty);
            }
            2 => {
                let (op, b) = (self.word::<CmpOp>(), self.pick_beside(ty, Some(a)));
                self.push_kept(Op::Cmp(op, a, b), Type::BOOL);
            }
            3 => {
                let fits = |op: &UnOp| ty.bits().is_some_and(|bits| op.fits(bits));
                let ops: Vec<UnOp> = UnOp::ALL.iter().map(|(op, ..)| *op).filter(fits).collect();
                let op = ops[self.d.below(ops.len())];
                self.push_kept(Op::Un(op, a), ty);
            }
            4 => {
                // Casts of casts are what folding must get right.
                let from = if self.d.below(2) == 0 { a } else { self.last_int().unwrap_or(a) };
                let to = self.int_type();
                self.push_kept(Op::Cast(from), to);
            }
            _ => {
                let ty = self.any_type();
                let (cond, then) = (self.pick(Type::BOOL), self.pick(ty));
                let other = self.pick_beside(ty, Some(then));
                self.push_kept(Op::Select { cond, then, other }, ty);
            }
        }
    }

    /// A random path into a type and the type at its end.
    fn path(&mut self, mut ty: Type) -> (Vec<Proj>, Type) {
        let mut path = Vec::new();
        loop {
            let step = match ty {
                Type::Struct(id) => {
                    Proj::Field(self.d.below(self.program.structs[id].fields.len()) as u32)
                }
                Type::Array(id) => {
                    let index = if self.d.one_in(3) {
                        self.pick(Type::U32)
                    } else {
                        // One more than there are, so that indices beyond the end occur.
                        let index = self.d.below(self.program.arrays[id].len as usize + 1) as u64;
                        let value = self.b.int(index, Type::U32);
                        self.keep(value)
                    };
                    Proj::Index(index)
                }
                _ => return (path, ty),
            };
            path.push(step);
            ty = self.program.project(ty, &[step]).unwrap_or(ty);
            if self.d.one_in(4) {
                return (path, ty);
            }
        }
    }

    fn aggregate_op(&mut self) {
        let aggregates: Vec<Type> =
            self.types.iter().copied().filter(|ty| ty.is_aggregate()).collect();
        let ty = aggregates[self.d.below(aggregates.len())];
        let (mut agg, (mut path, mut part)) = (self.pick(ty), self.path(ty));
        // Reads and writes near what was written before are what folding must get right.
        let written = self.scope.iter().rev().find_map(|v| match self.b.body.def_op(*v) {
            Some(Op::Set { path, .. }) => Some((*v, path.clone())),
            _ => None,
        });
        if let (Some((value, mut near)), true) = (written, self.d.below(2) == 0) {
            let of = self.b.body.ty(value);
            near.truncate(near.len() - self.d.below(2).min(near.len()));
            if let Some(end) = self.program.project(of, &near) {
                let (deeper, end) =
                    if self.d.below(2) == 0 { self.path(end) } else { (Vec::new(), end) };
                near.extend(deeper);
                (agg, path, part) = (value, near, end);
            }
        }
        let ty = self.b.body.ty(agg);
        if self.d.below(2) == 0 {
            self.push_kept(Op::Get { agg, path }, part);
        } else {
            let value = self.pick(part);
            self.push_kept(Op::Set { agg, path, value }, ty);
        }
    }

    /// A small number as u32: offsets and lengths that often fit, keys that often repeat.
    pub fn small(&mut self) -> ValueId {
        match self.d.below(3) {
            0 => {
                let value = self.b.int(self.d.below(5) as u64, Type::U32);
                self.keep(value)
            }
            1 => {
                let (value, three) = (self.pick(Type::U32), self.b.int(3, Type::U32));
                let value = self.b.push1(Op::Bin(BinOp::And, value, three), Type::U32);
                self.keep(value)
            }
            _ => self.pick(Type::U32),
        }
    }

    fn packet_op(&mut self, pkt: ValueId) {
        let ty = self.any_type();
        match self.d.below(12) {
            0..=2 => self.push_ok_and_kept(Op::Extract { pkt }, ty),
            3 => {
                let off = self.small();
                self.push_ok_and_kept(Op::Load { pkt, off }, ty);
            }
            4 => {
                let (off, value) = (self.small(), self.pick(ty));
                self.push_kept(Op::Store { pkt, off, value }, Type::BOOL);
            }
            5 => {
                let len = self.small();
                self.push_kept(Op::Skip { pkt, len }, Type::BOOL);
            }
            6 => {
                // Not too short: a packet trimmed to almost nothing would hide what follows.
                let number = self.d.below(40) as u64;
                if self.options.software && number < 20 {
                    let len = self.b.int(number, Type::U32);
                    return self.push_kept(Op::Extend { pkt, len }, Type::BOOL);
                }
                let len = self.b.int(20 + number, Type::U32);
                self.push_kept(Op::Trim { pkt, len }, Type::BOOL);
            }
            7 => {
                let value = self.pick(ty);
                self.emit(pkt, value);
            }
            8 => {
                self.b.push0(Op::Reset { pkt });
            }
            9 => self.push_kept(Op::Len { pkt }, Type::U32),
            10 => {
                let patterns = PATTERNS[self.d.below(PATTERNS.len())].to_string();
                let len = self.b.int(self.d.below(13) as u64, Type::U32);
                self.push_kept(Op::Regex { pkt, patterns, len }, Type::U32);
            }
            _ => {
                let (sum, len) = (self.pick(Type::U32), self.pick(Type::U32));
                self.push_kept(Op::PktCsum { pkt, sum, len }, Type::U32);
            }
        }
    }

    /// A table and a key for it.
    fn table(&mut self) -> (TableId, ValueId) {
        let table = TableId::from_u32(self.d.below(self.program.tables.len()) as u32);
        let key = match self.program.tables[table].key {
            Type::U32 => self.small(),
            ty => self.pick(ty),
        };
        (table, key)
    }

    fn table_op(&mut self) {
        if self.options.bufs && self.d.one_in(4) {
            return self.buf_op();
        }
        let (table, key) = self.table();
        let def = &self.program.tables[table];
        let searched = self.options.made && def.kind == TableKind::Hash;
        match self.d.below(if searched { 7 } else { 6 }) {
            0 | 1 => self.push_ok_and_kept(Op::Lookup { table, key }, def.value),
            2 => self.push_kept(Op::Contains { table, key }, Type::BOOL),
            3 if def.kind != TableKind::Array => {
                self.push_kept(Op::Delete { table, key }, Type::BOOL)
            }
            4 => {
                let path = self.counter(table);
                let part = self.program.project(def.value, &path).unwrap_or(def.value);
                let (op, amount) = (self.word::<CommuteOp>(), self.pick(part));
                self.b.push0(Op::Commute { op, table, key, path, amount });
            }
            6 => {
                let (types, path) = ([Type::BOOL, def.key, def.value], self.counter(table));
                let inst = self.b.push(Op::Least { table, path }, &types);
                let results = self.b.body.insts[inst].results.clone();
                for value in results {
                    self.keep(value);
                }
            }
            _ => {
                let value = self.pick(def.value);
                self.push_kept(Op::Update { table, key, value }, Type::BOOL);
            }
        }
    }

    /// The path to an integer of a table's values that atomic instructions can change: `state.n` or
    /// `state.inner.c`.
    fn counter(&mut self, table: TableId) -> Vec<Proj> {
        match self.program.tables[table].value {
            Type::Int { .. } => Vec::new(),
            _ if self.d.below(2) == 0 => vec![Proj::Field(0)],
            _ => vec![Proj::Field(3)],
        }
    }

    fn buf_op(&mut self) {
        let (table, key) = (TableId::from_u32(0), self.small());
        let ty = self.any_type();
        match (self.d.below(6), self.pkt) {
            (0, Some(pkt)) => {
                let source = BufSource::Packet { pkt, len: self.small() };
                self.push_kept(Op::BufAppend { table, key, source }, Type::BOOL);
            }
            (1, _) => {
                let source = BufSource::Value(self.pick(ty));
                self.push_kept(Op::BufAppend { table, key, source }, Type::BOOL);
            }
            (2, _) => self.push_kept(Op::BufLen { table, key }, Type::U32),
            (3, _) => {
                let off = self.small();
                self.push_ok_and_kept(Op::BufRead { table, key, off }, ty);
            }
            (4, _) => {
                self.b.push0(Op::BufClear { table, key });
            }
            _ => {
                let event =
                    self.program.event_named("net_send").expect("the generator declares it");
                let port = Some(self.b.int(self.d.below(2) as u64, Type::U32));
                self.push_kept(Op::BufGenerate { event, table, key, port }, Type::BOOL);
            }
        }
    }

    fn other_op(&mut self) {
        let ty = self.any_type();
        match (self.d.below(7), self.pkt) {
            (0, _) => {
                let (seed, value) = (self.pick(Type::U32), self.pick(ty));
                let hash = self.hash(seed, value);
                self.keep(hash);
            }
            (1, _) => {
                let (sum, value) = (self.pick(Type::U32), self.pick(ty));
                self.push_kept(Op::CsumAdd { sum, value }, Type::U32);
            }
            (2, _) => {
                let index = self.pick(Type::U32);
                let array = crate::program::ConstId::from_u32(0);
                self.push_kept(Op::ConstElem { array, index }, self.program.consts[array].elem);
            }
            (3, Some(pkt)) => {
                let port = self.in_port(pkt);
                self.keep(port);
            }
            (4, _) if self.options.time_and_random => {
                let now = self.d.below(2) == 0;
                if now {
                    self.push_kept(Op::Now, Type::U64);
                } else {
                    self.push_kept(Op::Random, Type::U32);
                }
            }
            (5, _) if self.options.logs => {
                let ty = self.int_type();
                let args = vec![self.pick(ty)];
                self.log("value {}", args);
            }
            (6, _) if self.options.made => self.new_packet(ty),
            _ => self.call(),
        }
    }

    fn new_packet(&mut self, ty: Type) {
        if ty.is_int() {
            return self.integer_op();
        }
        let event = self.program.event_named("net_send").expect("the generator declares it");
        let (value, len) = (self.pick(ty), self.small());
        let port = self.b.int(self.d.below(2) as u64, Type::U32);
        self.b.push0(Op::NewPacket { event, value, len, port });
    }

    /// Calls a function that leaves the packet where it is, if there is one.
    fn call(&mut self) {
        let callable: Vec<_> =
            self.program.funcs.iter().filter(|(_, f)| f.name != "finish").collect();
        if callable.is_empty() {
            return self.integer_op();
        }
        let (func, def) = callable[self.d.below(callable.len())];
        let params: Vec<Type> = {
            let entry = &def.body.blocks[def.body.entry()];
            entry.params.iter().map(|v| def.body.ty(*v)).collect()
        };
        if params.contains(&Type::Packet) && self.pkt.is_none() {
            return self.integer_op();
        }
        let args = params
            .iter()
            .map(|ty| match self.pkt {
                Some(pkt) if *ty == Type::Packet => pkt,
                _ => self.pick(*ty),
            })
            .collect();
        let inst = self.b.push(Op::Call { func, args }, &def.results);
        for value in self.b.body.insts[inst].results.clone() {
            self.keep(value);
        }
    }
}
