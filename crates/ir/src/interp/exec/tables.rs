//! What ops on tables and on the byte strings of their entries do.

use super::super::store::{Inserted, Slot};
use super::super::trace::{Access, Tracer};
use super::super::{Eviction, Val, arith};
use super::{Exec, Frame};
use crate::io::Output;
use crate::ops::{BufSource, CmpOp, CommuteOp, Op};
use crate::program::{InstId, TableId};
use crate::types::Type;

impl<T: Tracer + ?Sized> Exec<'_, '_, T> {
    fn access(&mut self, table: TableId, key: &[u8], hit: bool, writes: bool) {
        if self.tracer.active() {
            self.tracer.table(&Access { table, key, hit, writes });
        }
    }

    /// Makes sure the entry is there; counts what that cost.
    fn ensure(&mut self, table: TableId, key: &[u8]) -> bool {
        match self.state.table(table).ensure(key) {
            Inserted::Done { evicted } => {
                if let Some(gone) = evicted {
                    self.state.counters.evicted[table] += 1;
                    self.state.evictions.push(Eviction { table, key: gone, by: key.to_vec() });
                }
                true
            }
            Inserted::Full => {
                // Where only the control plane inserts, nothing was refused.
                let counts = !self.program.tables[table].kind.is_filled_from_outside();
                self.state.counters.refused[table] += u64::from(counts);
                false
            }
        }
    }

    pub(super) fn table_op(&mut self, frame: &mut Frame, id: InstId) {
        let inst = &frame.body.insts[id];
        let results = &inst.results[..];
        match &inst.op {
            Op::Lookup { table, key } => {
                let key = self.bytes(frame, *key);
                let value = self.state.table(*table).find(&key).map(|slot| slot.value.clone());
                self.access(*table, &key, value.is_some(), false);
                self.set_read(frame, results, value.as_deref());
            }
            Op::LookupBits { table, key, bits } => {
                let (key, bits) = (self.bytes(frame, *key), frame.int(*bits) as u32);
                let found = self.state.table(*table).find_prefix(&key, bits);
                let value = found.map(|slot| slot.value.clone());
                self.access(*table, &key, value.is_some(), false);
                self.set_read(frame, results, value.as_deref());
            }
            Op::Contains { table, key } => {
                let key = self.bytes(frame, *key);
                let hit = self.state.table(*table).find(&key).is_some();
                self.access(*table, &key, hit, false);
                frame.set(results[0], Val::Int(hit as u64));
            }
            Op::Update { table, key, value } => {
                let (key, value) = (self.bytes(frame, *key), self.bytes(frame, *value));
                let hit = self.state.table(*table).find(&key).is_some();
                self.access(*table, &key, hit, true);
                let ok = self.ensure(*table, &key);
                if let (true, Some(slot)) = (ok, self.state.table(*table).find(&key)) {
                    slot.value.copy_from_slice(&value);
                }
                frame.set(results[0], Val::Int(ok as u64));
            }
            Op::Delete { table, key } => {
                let key = self.bytes(frame, *key);
                let existed = self.state.table(*table).remove(&key);
                self.access(*table, &key, existed, true);
                frame.set(results[0], Val::Int(existed as u64));
            }
            Op::Least { table, path } => {
                let ty = self.program.tables[*table].value;
                let part = self.shapes.locate(ty, path, |v| frame.int(v));
                let (bits, signed) = match self.program.project(ty, path) {
                    Some(Type::Int { bits, signed }) => (bits, signed),
                    _ => (64, false),
                };
                let order = |slot: &Slot| match part.map(|part| self.shapes.read(&slot.value, part))
                {
                    Some(Val::Int(number)) => arith::order(bits, signed, number),
                    _ => 0,
                };
                let least = self.state.table(*table).least(order);
                let (key, value) = least.unzip();
                self.access(*table, key.as_deref().unwrap_or_default(), key.is_some(), false);
                frame.set(results[0], Val::Int(key.is_some() as u64));
                for (result, bytes) in results[1..].iter().zip([key, value]) {
                    let ty = frame.body.ty(*result);
                    let bytes = bytes.unwrap_or_else(|| vec![0; self.shapes.size(ty)]);
                    frame.set(*result, self.shapes.decode(ty, &bytes));
                }
            }
            Op::Commute { op, table, key, path, amount } => {
                let key = self.bytes(frame, *key);
                let hit = self.state.table(*table).find(&key).is_some();
                self.access(*table, &key, hit, true);
                if !self.ensure(*table, &key) {
                    return;
                }
                let value_type = self.program.tables[*table].value;
                let part = self.shapes.locate(value_type, path, |v| frame.int(v));
                let (bits, signed) = self.int_type(frame, *amount);
                if let (Some(part), Some(slot)) = (part, self.state.table(*table).find(&key)) {
                    let new = commute(
                        *op,
                        bits,
                        signed,
                        self.shapes.read(&slot.value, part),
                        frame.int(*amount),
                    );
                    self.shapes.write(&mut slot.value, part, &new);
                }
            }
            _ => self.buf_op(frame, id),
        }
    }

    /// Ops on the byte strings of entries.
    fn buf_op(&mut self, frame: &mut Frame, id: InstId) {
        let inst = &frame.body.insts[id];
        let results = &inst.results[..];
        match &inst.op {
            Op::BufAppend { table, key, source } => {
                let key = self.bytes(frame, *key);
                let data = match source {
                    BufSource::Packet { pkt, len } => {
                        let len = self.u32(frame, *len);
                        self.packet(frame, *pkt).prefix(len).to_vec()
                    }
                    BufSource::Value(value) => self.bytes(frame, *value).to_vec(),
                };
                let room = self.program.tables[*table].buf.unwrap_or(0) as usize;
                let slot = self.state.table(*table).find(&key);
                let hit = slot.is_some();
                let fitting = slot.filter(|slot| slot.buf.len() + data.len() <= room);
                let ok = fitting.map(|slot| slot.buf.extend_from_slice(&data)).is_some();
                self.access(*table, &key, hit, true);
                frame.set(results[0], Val::Int(ok as u64));
            }
            Op::BufLen { table, key } => {
                let key = self.bytes(frame, *key);
                let len = self.state.table(*table).find(&key).map(|slot| slot.buf.len());
                self.access(*table, &key, len.is_some(), false);
                frame.set(results[0], Val::Int(len.unwrap_or(0) as u64));
            }
            Op::BufRead { table, key, off } => {
                let (key, off) = (self.bytes(frame, *key), self.u32(frame, *off) as usize);
                let size = self.shapes.size(frame.body.ty(results[1]));
                let slot = self.state.table(*table).find(&key);
                let hit = slot.is_some();
                let bytes =
                    slot.and_then(|slot| slot.buf.get(off..)?.get(..size)).map(<[u8]>::to_vec);
                self.access(*table, &key, hit, false);
                self.set_read(frame, results, bytes.as_deref());
            }
            Op::BufClear { table, key } => {
                let key = self.bytes(frame, *key);
                let hit =
                    self.state.table(*table).find(&key).map(|slot| slot.buf.clear()).is_some();
                self.access(*table, &key, hit, true);
            }
            Op::BufGenerate { table, key, port, .. } => {
                let key = self.bytes(frame, *key);
                let buf =
                    self.state.table(*table).find(&key).map(|slot| std::mem::take(&mut slot.buf));
                self.access(*table, &key, buf.is_some(), true);
                frame.set(results[0], Val::Int(buf.is_some() as u64));
                if let Some(data) = buf {
                    self.output(match port {
                        Some(port) => Output::Send { port: self.u32(frame, *port), frame: data },
                        None => Output::HostPacket { frame: data },
                    });
                }
            }
            other => unreachable!("{other:?} is run elsewhere"),
        }
    }
}

/// The new value of an integer under a commutative update.
fn commute(op: CommuteOp, bits: u8, signed: bool, old: Val, amount: u64) -> Val {
    let Val::Int(old) = old else { return old };
    let less = |a, b| arith::cmp(CmpOp::Lt, bits, signed, a, b);
    Val::Int(match op {
        CommuteOp::Add => arith::bin(crate::ops::BinOp::Add, bits, signed, old, amount),
        CommuteOp::Min => {
            if less(amount, old) {
                amount
            } else {
                old
            }
        }
        CommuteOp::Max => {
            if less(old, amount) {
                amount
            } else {
                old
            }
        }
        CommuteOp::Or => old | amount,
    })
}
