//! Round two: operand and result types of the ops that are no terminators and own no loop.

use cranelift_entity::EntityRef;

use super::body::{BodyCheck, names};
use crate::build::mask;
use crate::native::Passing;
use crate::ops::{BufSource, Op, Proj, UnOp};
use crate::program::{Direction, InstId, Table, TableId, TableKind, ValueId};
use crate::types::Type;

/// What is wrong with an op.
type Check = Result<(), String>;

fn require(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(message()) }
}

impl BodyCheck<'_, '_, '_> {
    /// Checks one op whose operands are all visible.
    pub fn plain_op(&mut self, inst: InstId) {
        if let Err(message) = self.op(inst) {
            self.error(inst, message);
        }
    }

    fn ty(&self, value: ValueId) -> Type {
        self.body.ty(value)
    }

    fn name(&self, ty: Type) -> String {
        self.c.program.type_name(ty)
    }

    fn is(&self, what: &str, value: ValueId, ty: Type) -> Check {
        let found = self.ty(value);
        require(found == ty, || format!("{what} must be {}, not {}", self.name(ty), self.name(found)))
    }

    fn int(&self, what: &str, value: ValueId) -> Check {
        let found = self.ty(value);
        require(found.is_int(), || format!("{what} must be an integer, not {}", self.name(found)))
    }

    fn data(&self, what: &str, value: ValueId) -> Check {
        require(self.ty(value) != Type::Packet, || format!("{what} cannot be a packet"))
    }

    fn packet(&self, value: ValueId) -> Check {
        let found = self.ty(value);
        require(found == Type::Packet, || format!("expected a packet, not {}", self.name(found)))
    }

    fn results(&self, inst: InstId, expected: &[Type]) -> Check {
        let found: Vec<Type> = self.body.insts[inst].results.iter().map(|v| self.ty(*v)).collect();
        require(found == expected, || {
            format!("the results are ({}) but must be ({})", names(self.c, &found), names(self.c, expected))
        })
    }

    /// The type of the only result.
    fn one_result(&self, inst: InstId) -> Result<Type, String> {
        match self.body.insts[inst].results[..] {
            [result] => Ok(self.ty(result)),
            ref all => Err(format!("there must be one result, not {}", all.len())),
        }
    }

    /// `(ok: u1, value)` of any type but packets.
    fn ok_and_value(&self, inst: InstId) -> Check {
        let found: Vec<Type> = self.body.insts[inst].results.iter().map(|v| self.ty(*v)).collect();
        let fits = matches!(found[..], [Type::BOOL, value] if value != Type::Packet);
        require(fits, || format!("the results must be (u1, value), not ({})", names(self.c, &found)))
    }

    /// The type at the end of a path.
    fn path(&self, ty: Type, path: &[Proj]) -> Result<Type, String> {
        for step in path {
            if let Proj::Index(index) = step {
                self.int("an index", *index)?;
            }
        }
        let end = self.c.program.project(ty, path);
        end.ok_or_else(|| format!("the path does not fit type {}", self.name(ty)))
    }

    fn table(&self, id: TableId) -> Result<&Table, String> {
        self.c.program.tables.get(id).ok_or_else(|| format!("there is no table {}", id.index()))
    }

    fn table_and_key(&self, id: TableId, key: ValueId) -> Result<&Table, String> {
        let table = self.table(id)?;
        self.is("the key", key, table.key)?;
        Ok(table)
    }

    /// A table whose entries have byte strings, with a key that fits.
    fn buf_table(&self, id: TableId, key: ValueId) -> Check {
        let table = self.table_and_key(id, key)?;
        require(table.buf.is_some(), || format!("the entries of table `{}` have no byte strings", table.name))
    }

    fn op(&self, inst: InstId) -> Check {
        let op = &self.body.insts[inst].op;
        match op {
            Op::Int(_)
            | Op::Zero
            | Op::Bin(..)
            | Op::Cmp(..)
            | Op::Un(..)
            | Op::Cast(_)
            | Op::Select { .. }
            | Op::Get { .. }
            | Op::Set { .. }
            | Op::ConstElem { .. }
            | Op::Hash { .. }
            | Op::CsumAdd { .. }
            | Op::Now
            | Op::Random => self.value_op(inst, op),
            Op::InPort { .. }
            | Op::Extract { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Skip { .. }
            | Op::Trim { .. }
            | Op::Emit { .. }
            | Op::Reset { .. }
            | Op::Len { .. }
            | Op::PktCsum { .. }
            | Op::Drop { .. } => self.packet_op(inst, op),
            Op::Lookup { .. }
            | Op::Contains { .. }
            | Op::Update { .. }
            | Op::Delete { .. }
            | Op::Commute { .. }
            | Op::BufAppend { .. }
            | Op::BufLen { .. }
            | Op::BufRead { .. }
            | Op::BufClear { .. } => self.table_op(inst, op),
            Op::Generate { .. }
            | Op::BufGenerate { .. }
            | Op::Log { .. }
            | Op::FibLookup { .. }
            | Op::Extern { .. }
            | Op::Call { .. }
            | Op::If { .. } => self.event_op(inst, op),
            Op::Loop { .. } | Op::Yield(_) | Op::Break { .. } | Op::Continue { .. } | Op::Return(_) => Ok(()),
        }
    }

    fn value_op(&self, inst: InstId, op: &Op) -> Check {
        match op {
            Op::Int(raw) => {
                let ty = self.one_result(inst)?;
                let bits =
                    ty.bits().ok_or_else(|| format!("an integer constant cannot be a {}", self.name(ty)))?;
                require(mask(*raw, bits) == *raw, || {
                    format!("{raw} has bits above the width of {}", self.name(ty))
                })
            }
            Op::Zero => {
                self.one_result(inst)?;
                Ok(())
            }
            Op::Bin(_, a, b) | Op::Cmp(_, a, b) => {
                self.int("an operand", *a)?;
                self.is("the second operand", *b, self.ty(*a))?;
                let result = if matches!(op, Op::Cmp(..)) { Type::BOOL } else { self.ty(*a) };
                self.results(inst, &[result])
            }
            Op::Un(un, a) => {
                self.int("the operand", *a)?;
                if *un == UnOp::Bswap {
                    let fits = matches!(self.ty(*a).bits(), Some(16 | 32 | 64));
                    require(fits, || format!("bytes of {} cannot be swapped", self.name(self.ty(*a))))?;
                }
                self.results(inst, &[self.ty(*a)])
            }
            Op::Cast(a) => {
                self.int("the operand", *a)?;
                let ty = self.one_result(inst)?;
                require(ty.is_int(), || format!("an integer cannot become a {}", self.name(ty)))
            }
            Op::Select { cond, then, other } => {
                self.is("the condition", *cond, Type::BOOL)?;
                self.data("a choice", *then)?;
                self.is("the second choice", *other, self.ty(*then))?;
                self.results(inst, &[self.ty(*then)])
            }
            Op::Get { agg, path } => {
                let part = self.path(self.ty(*agg), path)?;
                self.data("the operand", *agg)?;
                self.results(inst, &[part])
            }
            Op::Set { agg, path, value } => {
                let part = self.path(self.ty(*agg), path)?;
                self.data("the operand", *agg)?;
                self.is("the new part", *value, part)?;
                self.results(inst, &[self.ty(*agg)])
            }
            Op::ConstElem { array, index } => {
                let found = self.c.program.consts.get(*array);
                let array = found.ok_or_else(|| format!("there is no constant array {}", array.index()))?;
                self.int("an index", *index)?;
                self.results(inst, &[array.elem])
            }
            Op::Hash { seed: sum, value } | Op::CsumAdd { sum, value } => {
                self.is("the first operand", *sum, Type::U32)?;
                self.data("the value", *value)?;
                self.results(inst, &[Type::U32])
            }
            Op::Now => self.results(inst, &[Type::U64]),
            _ => self.results(inst, &[Type::U32]),
        }
    }

    fn packet_op(&self, inst: InstId, op: &Op) -> Check {
        let operands = op.operands();
        self.packet(operands[0])?;
        match op {
            Op::Extract { .. } => self.ok_and_value(inst),
            Op::Load { off, .. } => {
                self.is("the offset", *off, Type::U32)?;
                self.ok_and_value(inst)
            }
            Op::Store { off, value, .. } => {
                self.is("the offset", *off, Type::U32)?;
                self.data("the value", *value)?;
                self.results(inst, &[Type::BOOL])
            }
            Op::Skip { len, .. } | Op::Trim { len, .. } => {
                self.is("the length", *len, Type::U32)?;
                self.results(inst, &[Type::BOOL])
            }
            Op::Emit { value, .. } => {
                self.data("the value", *value)?;
                self.results(inst, &[])
            }
            Op::PktCsum { sum, len, .. } => {
                self.is("the sum", *sum, Type::U32)?;
                self.is("the length", *len, Type::U32)?;
                self.results(inst, &[Type::U32])
            }
            Op::Drop { reason, .. } => {
                let known = self.c.program.reasons.is_valid(*reason);
                require(known, || format!("there is no reason {}", reason.index()))?;
                self.results(inst, &[])
            }
            Op::Reset { .. } => self.results(inst, &[]),
            _ => self.results(inst, &[Type::U32]),
        }
    }

    fn table_op(&self, inst: InstId, op: &Op) -> Check {
        match op {
            Op::Lookup { table, key } => {
                let value = self.table_and_key(*table, *key)?.value;
                self.results(inst, &[Type::BOOL, value])
            }
            Op::Contains { table, key } => {
                self.table_and_key(*table, *key)?;
                self.results(inst, &[Type::BOOL])
            }
            Op::Update { table, key, value } => {
                let table = self.table_and_key(*table, *key)?;
                self.is("the value", *value, table.value)?;
                written_by_handlers(table)?;
                self.results(inst, &[Type::BOOL])
            }
            Op::Delete { table, key } => {
                let table = self.table_and_key(*table, *key)?;
                written_by_handlers(table)?;
                require(table.kind != TableKind::Array, || {
                    format!("entries of array table `{}` always exist and cannot be deleted", table.name)
                })?;
                self.results(inst, &[Type::BOOL])
            }
            Op::Commute { table, key, path, amount, .. } => {
                let table = self.table_and_key(*table, *key)?;
                written_by_handlers(table)?;
                let part = self.path(table.value, path)?;
                require(part.is_int(), || "commutative updates change integers only".to_string())?;
                self.constant_path(table.value, path)?;
                self.is("the amount", *amount, part)?;
                self.results(inst, &[])
            }
            Op::BufAppend { table, key, source } => {
                self.buf_table(*table, *key)?;
                match source {
                    BufSource::Packet { pkt, len } => {
                        self.packet(*pkt)?;
                        self.is("the length", *len, Type::U32)?;
                    }
                    BufSource::Value(value) => self.data("the value", *value)?,
                }
                self.results(inst, &[Type::BOOL])
            }
            Op::BufLen { table, key } => {
                self.buf_table(*table, *key)?;
                self.results(inst, &[Type::U32])
            }
            Op::BufRead { table, key, off } => {
                self.buf_table(*table, *key)?;
                self.is("the offset", *off, Type::U32)?;
                self.ok_and_value(inst)
            }
            Op::BufClear { table, key } => {
                self.buf_table(*table, *key)?;
                self.results(inst, &[])
            }
            _ => Ok(()),
        }
    }

    /// Paths of commutative updates have constant indices in range and do not end in a bit-field, so that targets
    /// can use one atomic instruction.
    fn constant_path(&self, mut ty: Type, path: &[Proj]) -> Check {
        for step in path {
            match (ty, step) {
                (Type::Struct(id), Proj::Field(i)) => {
                    let field = &self.c.program.structs[id].fields[*i as usize];
                    require(field.bit_width.is_none(), || {
                        format!("bit-field `{}` cannot be updated commutatively", field.name)
                    })?;
                }
                (Type::Array(id), Proj::Index(index)) => {
                    let len = self.c.program.arrays[id].len as u64;
                    let fits = matches!(self.body.def_op(*index), Some(Op::Int(i)) if *i < len);
                    require(fits, || {
                        "an index of a commutative update must be a constant in range".to_string()
                    })?;
                }
                _ => {}
            }
            ty = self.path(ty, &[*step])?;
        }
        Ok(())
    }

    fn event_op(&self, inst: InstId, op: &Op) -> Check {
        let program = self.c.program;
        match op {
            Op::Generate { event: id, args } => {
                let event =
                    program.events.get(*id).ok_or_else(|| format!("there is no event {}", id.index()))?;
                let expected: Vec<Type> = event.params.iter().map(|p| p.ty).collect();
                self.args("event", &event.name, args, &expected)?;
                require(event.direction != Direction::In, || {
                    format!("event `{}` comes from outside and cannot be generated", event.name)
                })?;
                let handled = event.direction == Direction::Out || program.handler_of(*id).is_some();
                require(handled, || format!("no handler reacts to event `{}`", event.name))?;
                self.results(inst, &[])
            }
            Op::BufGenerate { event: id, table, key, port } => {
                self.buf_table(*table, *key)?;
                let event =
                    program.events.get(*id).ok_or_else(|| format!("there is no event {}", id.index()))?;
                match (event.name.as_str(), event.direction, port) {
                    ("net_send", Direction::Out, Some(port)) => self.is("the port", *port, Type::U32)?,
                    ("host_recv", Direction::Out, None) => {}
                    _ => {
                        return Err(
                            "a byte string leaves as net_send with a port or host_recv without".to_string()
                        );
                    }
                }
                self.results(inst, &[Type::BOOL])
            }
            Op::Log { format, args } => {
                for arg in args {
                    self.int("an argument", *arg)?;
                }
                let places = format.matches("{}").count();
                require(places == args.len(), || {
                    format!("the format has {places} places {{}} for {} arguments", args.len())
                })?;
                self.results(inst, &[])
            }
            Op::FibLookup { query } => {
                require(self.ty(*query).is_aggregate(), || "the query must be a struct".to_string())?;
                self.ok_and_value(inst)
            }
            Op::Extern { name, passing, args, .. } => {
                require(crate::text::is_identifier(name), || format!("`{name}` is no name of a C function"))?;
                require(passing.len() == args.len(), || {
                    format!("{} arguments are passed in {} ways", args.len(), passing.len())
                })?;
                let mut left = Vec::new();
                for (arg, passing) in args.iter().zip(passing) {
                    match passing {
                        Passing::Value => self.int("an argument", *arg)?,
                        _ => require(self.ty(*arg) != Type::Packet, || {
                            "the address of a packet cannot be passed".to_string()
                        })?,
                    }
                    left.extend((*passing == Passing::Write).then(|| self.ty(*arg)));
                }
                let results = self.body.insts[inst].results.iter().map(|v| self.ty(*v));
                let result: Option<Type> = results.clone().next().filter(|_| results.len() > left.len());
                require(result.is_none_or(Type::is_int), || "the result must be an integer".to_string())?;
                self.results(inst, &result.into_iter().chain(left).collect::<Vec<_>>())
            }
            Op::Call { func: id, args } => {
                let func =
                    program.funcs.get(*id).ok_or_else(|| format!("there is no function {}", id.index()))?;
                let entry = func.body.entry.and_then(|entry| func.body.blocks.get(entry));
                let params = entry.map_or(&[][..], |block| &block.params);
                let expected: Vec<Type> =
                    params.iter().filter_map(|v| func.body.values.get(*v)).map(|v| v.ty).collect();
                self.args("function", &func.name, args, &expected)?;
                self.results(inst, &func.results)
            }
            Op::If { cond, likely, .. } => {
                self.is("the condition", *cond, Type::BOOL)?;
                let fits = likely.is_none_or(|p| (0.0..=1.0).contains(&p));
                require(fits, || "a probability is from 0 to 1".to_string())
            }
            _ => Ok(()),
        }
    }

    fn args(&self, kind: &str, name: &str, args: &[ValueId], expected: &[Type]) -> Check {
        let found: Vec<Type> = args.iter().map(|v| self.ty(*v)).collect();
        require(found == expected, || {
            format!("{kind} `{name}` takes ({}), not ({})", names(self.c, expected), names(self.c, &found))
        })
    }
}

/// `lpm` and `ternary` tables are filled from outside.
fn written_by_handlers(table: &Table) -> Check {
    let fits = !matches!(table.kind, TableKind::Lpm | TableKind::Ternary);
    require(fits, || {
        format!(
            "table `{}` is of kind {}, which only the control plane writes",
            table.name,
            table.kind.name()
        )
    })
}
