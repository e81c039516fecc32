//! Round two: operand and result types of the ops that are no terminators and own no loop.

use cranelift_entity::EntityRef;

use super::body::{BodyCheck, names};
use crate::build::mask;
use crate::native::Passing;
use crate::ops::row::{Gives, Must, Ty};
use crate::ops::{Arg, BufSource, Class, CryptoOp, Op, Proj, Words};
use crate::patterns::Patterns;
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
        require(found == ty, || {
            format!("{what} must be {}, not {}", self.name(ty), self.name(found))
        })
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
            format!(
                "the results are ({}) but must be ({})",
                names(self.c, &found),
                names(self.c, expected)
            )
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
        require(fits, || {
            format!("the results must be (u1, value), not ({})", names(self.c, &found))
        })
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

    /// Checks of the op's row, then those of its own.
    fn op(&self, inst: InstId) -> Check {
        let op = &self.body.insts[inst].op;
        if op.is_terminator() || matches!(op, Op::Loop { .. }) {
            return Ok(());
        }
        self.fields(op)?;
        self.own(inst, op)?;
        self.gives(inst, op)
    }

    /// The items that the op names exist, and its operands are what the row says.
    fn fields(&self, op: &Op) -> Check {
        let mut rows = op.row().fields.iter();
        let mut checked = Ok(());
        op.fields(&mut |arg| {
            checked = match rows.next() {
                Some(row) => self.field(op, row.must, arg),
                None => Ok(()),
            };
            checked.is_ok()
        });
        checked
    }

    fn field(&self, op: &Op, must: Must, arg: Arg) -> Check {
        let program = self.c.program;
        let known = |kind: &str, there: bool, index: usize| {
            require(there, || format!("there is no {kind} {index}"))
        };
        match arg {
            Arg::Table(id) => {
                let table = self.table(id)?;
                let strings = op.class() != Class::Bytes || table.buf.is_some();
                require(strings, || {
                    format!("the entries of table `{}` have no byte strings", table.name)
                })?;
                if matches!(op, Op::Delete { .. }) {
                    deleted_by_handlers(table)?;
                }
                let hash = must != Must::Hash || table.kind == TableKind::Hash;
                require(hash, || {
                    format!("`{}` is for hash tables, unlike `{}`", op.row().word(), table.name)
                })?;
                require(must != Must::Lpm || table.kind == TableKind::Lpm, || {
                    format!("`{}` is for lpm tables, unlike `{}`", op.row().word(), table.name)
                })?;
                require(must != Must::Removable || table.kind != TableKind::Array, || {
                    format!(
                        "entries of array table `{}` always exist and cannot be deleted",
                        table.name
                    )
                })
            }
            Arg::Const(id) => known("constant array", program.consts.is_valid(id), id.index()),
            Arg::Event(id) => known("event", program.events.is_valid(id), id.index()),
            Arg::Func(id) => known("function", program.funcs.is_valid(id), id.index()),
            Arg::Reason(id) => known("reason", program.reasons.is_valid(id), id.index()),
            Arg::Value(value) => self.operand(op, must, value),
            Arg::Values(values) => {
                values.iter().try_for_each(|value| self.operand(op, must, *value))
            }
            Arg::Port(port) => port.iter().try_for_each(|value| self.operand(op, must, *value)),
            Arg::Source(BufSource::Packet { pkt, len }) => {
                self.packet(pkt)?;
                self.is("the length", len, Type::U32)
            }
            Arg::Source(BufSource::Value(value)) => self.data("the value", value),
            Arg::Path(path) => {
                let part = self.part(op)?;
                if must != Must::Whole {
                    return Ok(());
                }
                require(part.is_int(), || {
                    format!("`{}` takes the path to an integer", op.row().word())
                })?;
                self.constant_path(self.stated(op, Ty::Entry)?, path)
            }
            Arg::Text(text) if matches!(must, Must::Format(_)) => {
                let (places, args) = (text.matches("{}").count(), op.operands().count());
                require(places == args, || {
                    format!("the format has {places} places {{}} for {args} arguments")
                })
            }
            _ => Ok(()),
        }
    }

    fn operand(&self, op: &Op, must: Must, value: ValueId) -> Check {
        match must {
            // These are of other fields.
            Must::Be
            | Must::Named(_)
            | Must::Removable
            | Must::Hash
            | Must::Lpm
            | Must::Format(_)
            | Must::Whole => Ok(()),
            Must::Packet => self.packet(value),
            Must::Int(what) => self.int(what, value),
            Must::Data(what) => self.data(what, value),
            Must::Aggregate(what) => {
                require(self.ty(value).is_aggregate(), || format!("{what} must be a struct"))
            }
            Must::Have(what, ty) => self.is(what, value, self.stated(op, ty)?),
        }
    }

    /// A type that the row states.
    fn stated(&self, op: &Op, ty: Ty) -> Result<Type, String> {
        let table =
            || op.table().map_or(Err("the op names no table".to_string()), |id| self.table(id));
        match ty {
            Ty::U1 => Ok(Type::BOOL),
            Ty::U32 => Ok(Type::U32),
            Ty::U64 => Ok(Type::U64),
            Ty::Of(n) => {
                let missing = || format!("there is no operand {n}");
                op.operand(n).map(|value| self.ty(value)).ok_or_else(missing)
            }
            Ty::Key => table().map(|table| table.key),
            Ty::Entry => table().map(|table| table.value),
            Ty::Part => self.part(op),
            Ty::Element => {
                let mut found = Err("the op names no constant array".to_string());
                op.fields(&mut |arg| {
                    if let Arg::Const(id) = arg {
                        found = Ok(self.c.program.consts[id].elem);
                    }
                    true
                });
                found
            }
        }
    }

    /// Type that the op's path leads to, from its table's values or its first operand.
    fn part(&self, op: &Op) -> Result<Type, String> {
        let from = self.stated(op, if op.table().is_some() { Ty::Entry } else { Ty::Of(0) })?;
        let mut part = Ok(from);
        op.fields(&mut |arg| {
            if let Arg::Path(path) = arg {
                part = self.path(from, path);
            }
            true
        });
        part
    }

    fn gives(&self, inst: InstId, op: &Op) -> Check {
        match op.row().gives {
            Gives::Types(types) => {
                let types: Result<Vec<Type>, String> =
                    types.iter().map(|ty| self.stated(op, *ty)).collect();
                self.results(inst, &types?)
            }
            Gives::Any => self.one_result(inst).map(|_| ()),
            Gives::AnyInt => {
                let ty = self.one_result(inst)?;
                require(ty.is_int(), || format!("an integer cannot become a {}", self.name(ty)))
            }
            Gives::OkAndAny => self.ok_and_value(inst),
            Gives::Own => Ok(()),
        }
    }

    /// Checks that a row cannot say.
    fn own(&self, inst: InstId, op: &Op) -> Check {
        match op {
            Op::Int(raw) => {
                let ty = self.one_result(inst)?;
                let bits = ty
                    .bits()
                    .ok_or_else(|| format!("an integer constant cannot be a {}", self.name(ty)))?;
                require(mask(*raw, bits) == *raw, || {
                    format!("{raw} has bits above the width of {}", self.name(ty))
                })
            }
            Op::Un(op, a) => {
                let fits = self.ty(*a).bits().is_some_and(|bits| op.fits(bits));
                require(fits, || format!("bytes of {} cannot be swapped", self.name(self.ty(*a))))
            }
            _ => self.event_op(inst, op),
        }
    }

    /// Paths of commutative updates have constant indices in range and do not end in a bit-field,
    /// so that targets can use one atomic instruction.
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
        if let (true, Some(event)) = (op.sends_string(), op.event()) {
            let event = &program.events[event];
            // The port is the operand behind the key.
            let fits = matches!(
                (event.name.as_str(), event.direction, op.operand(1)),
                ("net_send", Direction::Out, Some(_)) | ("host_recv", Direction::Out, None)
            );
            return require(fits, || {
                "a byte string leaves as net_send with a port or host_recv without".to_string()
            });
        }
        match op {
            Op::NewPacket { event, .. } => {
                let event = &program.events[*event];
                let fits = (event.name.as_str(), event.direction) == ("net_send", Direction::Out);
                require(fits, || "a new packet leaves as net_send".to_string())
            }
            Op::Generate { event: id, args } => {
                let event = &program.events[*id];
                let expected: Vec<Type> = event.params.iter().map(|p| p.ty).collect();
                self.args("event", &event.name, args, &expected)?;
                require(event.direction != Direction::In, || {
                    format!("event `{}` comes from outside and cannot be generated", event.name)
                })?;
                let handled =
                    event.direction == Direction::Out || program.handler_of(*id).is_some();
                require(handled, || format!("no handler reacts to event `{}`", event.name))
            }
            Op::Crypto { op, args, .. } => self.crypto_op(inst, *op, args),
            Op::Regex { patterns, .. } => {
                let automaton = Patterns::of(patterns).and_then(|patterns| patterns.automaton());
                automaton.map(|_| ())
            }
            Op::Extern { name, passing, args, .. } => self.extern_op(inst, name, passing, args),
            Op::Call { func: id, args } => {
                let func = &program.funcs[*id];
                let entry = func.body.entry.and_then(|entry| func.body.blocks.get(entry));
                let params = entry.map_or(&[][..], |block| &block.params);
                let expected: Vec<Type> =
                    params.iter().filter_map(|v| func.body.values.get(*v)).map(|v| v.ty).collect();
                self.args("function", &func.name, args, &expected)?;
                self.results(inst, &func.results)
            }
            Op::If { likely, .. } => {
                let fits = likely.is_none_or(|p| (0.0..=1.0).contains(&p));
                require(fits, || "a probability is from 0 to 1".to_string())
            }
            _ => Ok(()),
        }
    }

    fn crypto_op(&self, inst: InstId, op: CryptoOp, args: &[ValueId]) -> Check {
        let takes = op.takes();
        require(args.len() == takes.len(), || {
            format!("`{}` takes {} arguments, not {}", op.word(), takes.len(), args.len())
        })?;
        for (arg, takes) in args.iter().zip(takes) {
            let size = self.c.program.size_of(self.ty(*arg));
            require(takes.fits(size), || {
                let (word, sizes) = (op.word(), takes.sizes());
                format!("{} of `{word}` has {sizes} bytes, not {size}", takes.name)
            })?;
        }
        let results = &self.body.insts[inst].results;
        let count = 1 + usize::from(op.gives().is_some());
        require(results.len() == count, || format!("`{}` gives {count} values", op.word()))?;
        require(self.ty(results[0]) == Type::BOOL, || "the first result must be u1".to_string())?;
        let Some((value, gives)) = results.get(1).zip(op.gives()) else { return Ok(()) };
        let ty = self.ty(*value);
        require(ty != Type::Packet && self.c.program.size_of(ty) == gives, || {
            format!("`{}` gives {gives} bytes, not a {}", op.word(), self.name(ty))
        })
    }

    fn extern_op(&self, inst: InstId, name: &str, passing: &[Passing], args: &[ValueId]) -> Check {
        require(crate::text::is_identifier(name), || {
            format!("`{name}` is no name of a C function")
        })?;
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

    fn args(&self, kind: &str, name: &str, args: &[ValueId], expected: &[Type]) -> Check {
        let found: Vec<Type> = args.iter().map(|v| self.ty(*v)).collect();
        require(found == expected, || {
            format!(
                "{kind} `{name}` takes ({}), not ({})",
                names(self.c, expected),
                names(self.c, &found)
            )
        })
    }
}

/// `lpm` and `ternary` tables are filled from outside; handlers change the entries that they find.
fn deleted_by_handlers(table: &Table) -> Check {
    require(!table.kind.is_filled_from_outside(), || {
        format!(
            "table `{}` is of kind {}, which only the control plane fills and empties",
            table.name,
            table.kind.name()
        )
    })
}
