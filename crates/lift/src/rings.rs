//! Queues and stacks as rings: an array of elements, and a number that says which is the oldest and
//! how many there are.

use nicforge_ir::{BinOp, CmpOp, Op, Span, Table, TableId, TableKind, Type, ValueId};

use crate::error::{Halt, refuse};
use crate::kind;
use crate::layout::identifier;
use crate::lifter::Lifter;
use crate::state::State;
use crate::value::{Abs, Cond, Num};

/// A flag of `bpf_map_push_elem`: the oldest element makes room.
const EXIST: u64 = 2;
const EINVAL: u64 = -22i64 as u64;
const E2BIG: u64 = -7i64 as u64;
const ENOENT: u64 = -2i64 as u64;

/// Where a ring begins and how full it is.
#[derive(Clone, Copy)]
struct Ends {
    table: TableId,
    oldest: Num,
    count: Num,
}

impl Lifter<'_> {
    /// The table of a ring's ends: 32 bits for the oldest element's index, above them 32 for how
    /// many there are.
    fn ends_table(&mut self, map: usize) -> TableId {
        if let Some(table) = self.rings.get(&map) {
            return *table;
        }
        let name = format!("{}_ends", identifier(self.map_name(map)));
        let table = self.program.tables.push(Table {
            name,
            kind: TableKind::Array,
            key: Type::U32,
            key_big_endian: false,
            value: Type::U64,
            capacity: 1,
            buf: None,
            max_replicas: None,
            by_number: false,
            shared: false,
            span: Span::default(),
        });
        self.rings.insert(map, table);
        table
    }

    fn ends(&mut self, map: usize) -> Ends {
        let table = self.ends_table(map);
        let key = self.build().int(0, Type::U32);
        let (_, both) = self.build().push2(Op::Lookup { table, key }, Type::BOOL, Type::U64);
        let both = Num::of(both, 64);
        let oldest = self.binary(BinOp::And, both, Num::known(u32::MAX.into()), 64);
        let count = self.binary(BinOp::Shr, both, Num::known(32), 64);
        Ends { table, oldest, count }
    }

    fn set_ends(&mut self, Ends { table, oldest, count }: Ends) {
        let high = self.binary(BinOp::Shl, count, Num::known(32), 64);
        let both = self.binary(BinOp::Or, high, oldest, 64);
        let (key, value) = (self.build().int(0, Type::U32), self.value(both, 64));
        self.push1(Op::Update { table, key, value }, Type::BOOL);
    }

    /// The index so many elements behind another one.
    fn behind(&mut self, index: Num, by: Num, capacity: Num) -> Num {
        let sum = self.binary(BinOp::Add, index, by, 64);
        let over = self.binary(BinOp::Sub, sum, capacity, 64);
        let around = self.compare(CmpOp::Ge, false, sum, capacity, 64);
        self.select(around, over, sum)
    }

    /// `bpf_map_push_elem`.
    pub fn push_element(
        &mut self,
        state: &mut State,
        map: usize,
        [value, flags]: [Abs; 2],
    ) -> Result<Abs, Halt> {
        let flags = self.num(flags)?;
        if flags.constant().is_some_and(|flags| !matches!(flags, 0 | EXIST)) {
            return Ok(Abs::known(EINVAL));
        }
        let known = |places: Vec<(u64, Num)>| places.iter().all(|(at, _)| matches!(at, 0 | 2));
        if flags.constant().is_none() && !self.places(flags).is_some_and(known) {
            return refuse("pushes an element by flags that may be anything");
        }
        let replaces = self.equals(flags, EXIST);
        let known = self.table(map)?;
        let table = &self.program.tables[known.table];
        let (ty, capacity) = (table.value, Num::known(table.capacity.into()));
        let value = self.read(value)?;
        let (value, _) = self.gather(state, value, 0, ty, &known.value)?;
        let Ends { table, oldest, count } = self.ends(map);
        let full = self.compare(CmpOp::Ge, false, count, capacity, 64);
        let index = self.behind(oldest, count, capacity);
        let key = self.value(index, 32);
        let kept = self.negate(replaces);
        let refuses = self.both(full, kept);
        match self.negate(refuses) {
            Cond::Value(takes) => self.update_if(takes, known.table, key, value),
            _ => {
                self.push1(Op::Update { table: known.table, key, value }, Type::BOOL);
            }
        }
        let gives_up = self.both(full, replaces);
        let next = self.behind(oldest, Num::known(1), capacity);
        let oldest = self.select(gives_up, next, oldest);
        let more = self.binary(BinOp::Add, count, Num::known(1), 64);
        let count = self.select(full, count, more);
        self.set_ends(Ends { table, oldest, count });
        Ok(Abs::Num(self.select(refuses, Num::known(E2BIG), Num::known(0))))
    }

    fn update_if(&mut self, cond: ValueId, table: TableId, key: ValueId, value: ValueId) {
        let outside = self.at;
        let (then, other) = (self.build().new_block(), self.build().new_block());
        self.build().push0(Op::If { cond, likely: None, then, other });
        self.at = then;
        self.push1(Op::Update { table, key, value }, Type::BOOL);
        self.build().push0(Op::Yield(Vec::new()));
        self.at = other;
        self.build().push0(Op::Yield(Vec::new()));
        self.at = outside;
    }

    /// `bpf_map_pop_elem` and `bpf_map_peek_elem`: where there is no element, memory becomes zero.
    pub fn pop_element(
        &mut self,
        state: &mut State,
        map: usize,
        to: Abs,
        removes: bool,
    ) -> Result<Abs, Halt> {
        let known = self.table(map)?;
        let table = &self.program.tables[known.table];
        let (ty, capacity) = (table.value, Num::known(table.capacity.into()));
        let ends = self.ends(map);
        let empty = self.equals(ends.count, 0);
        let fewer = self.binary(BinOp::Sub, ends.count, Num::known(1), 64);
        let left = self.select(empty, Num::known(0), fewer);
        let newest_first = self.map_kind(map) == kind::STACK;
        let index =
            if newest_first { self.behind(ends.oldest, left, capacity) } else { ends.oldest };
        let key = self.value(index, 32);
        let op = Op::Lookup { table: known.table, key };
        let (_, value) = self.build().push2(op, Type::BOOL, ty);
        let to = self.read(to)?;
        for leaf in known.value.all() {
            let part = self.part(value, &leaf, None);
            let part = self.select(empty, Num::known(0), part);
            self.store(state, to, leaf.off, leaf.size, Abs::Num(part))?;
        }
        if removes {
            let next = self.behind(ends.oldest, Num::known(1), capacity);
            let moved = self.select(empty, ends.oldest, next);
            let oldest = if newest_first { ends.oldest } else { moved };
            self.set_ends(Ends { oldest, count: left, ..ends });
        }
        Ok(Abs::Num(self.select(empty, Num::known(ENOENT), Num::known(0))))
    }
}
