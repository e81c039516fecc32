//! The packet on a way: where the cursor is, what is read of the window, how it leaves.

use super::super::super::tables::bits_below;
use super::beside::What;
use super::edits::Leaving;
use super::*;

/// Bytes that are moved at once, and the most that a value has for which more than itself is.
const STRETCH: u32 = 32;
const MOST_SMALL: u32 = 8;
/// Bytes of an answer of `nf_frame_bytes`.
const MOST_ANSWERED: u32 = 64;

impl Packet {
    /// Bytes that were overwritten anywhere.
    pub(super) fn patches(&self) -> Vec<Patch> {
        self.edited.as_ref().map_or(Vec::new(), |edited| edited.patches.clone())
    }
}

impl<'a> Walk<'a, '_, '_> {
    pub(super) fn packet(&self) -> Packet {
        self.packet.clone().unwrap_or(Packet {
            cursor: Cursor::At(0),
            end: mark("length"),
            has: 0,
            emitted: vec![Emitted::default()],
            edited: None,
            doubt: None,
        })
    }

    /// `cursor` and `bytes` behind it.
    pub(super) fn behind(&mut self, cursor: &Cursor, bytes: u32) -> Cursor {
        match cursor {
            Cursor::At(at) => Cursor::At(at + bytes),
            Cursor::Signal(_, _) if bytes == 0 => cursor.clone(),
            Cursor::Signal(signal, most) => {
                let value = format!("{signal} + {}", number(16, u64::from(bytes)));
                Cursor::Signal(self.wire("cursor", 16, value, timing::carry(12)), most + bytes)
            }
        }
    }

    /// The most that a length can be where it is at all within a frame; `None` if that is not
    /// known.
    pub(super) fn most_of(&self, value: ValueId) -> Option<u32> {
        if let Some(number) = self.low.constant(value) {
            return u32::try_from(number).ok();
        }
        let here = self.bounds.get(&value).and_then(|range| u32::try_from(range.1).ok());
        match (here, self.most_by_op(value)) {
            (Some(here), Some(most)) => Some(here.min(most)),
            (here, most) => here.or(most),
        }
    }

    /// The most that a value may be by the op that makes it, whatever conditions say.
    fn most_by_op(&self, value: ValueId) -> Option<u32> {
        match self.body.def_op(value)? {
            Op::Cast(a) => self.most_of(*a),
            Op::Select { then, other, .. } => Some(self.most_of(*then)?.max(self.most_of(*other)?)),
            Op::If { then, other, .. } => {
                let ValueDef::Result(_, at) = self.body.values[value].def else { return None };
                let of = |arm: BlockId| match &self.body.terminator(arm)?.op {
                    Op::Yield(values) => self.most_of(*values.get(at as usize)?),
                    // A way that does not come here.
                    _ => Some(0),
                };
                Some(of(*then)?.max(of(*other)?))
            }
            Op::Get { agg, path } => {
                let part =
                    self.dag.bits.locate(self.low.ty(*agg), path, |v| self.low.constant(v))?;
                (part.bits <= 8).then(|| (1 << part.bits) - 1)
            }
            // A difference below zero is a number far beyond any frame, also times a small factor.
            Op::Bin(nicforge_ir::BinOp::Sub, a, b) => {
                let by = u32::try_from(self.low.constant(*b)?).ok().filter(|by| *by <= 256)?;
                (self.low.width(*a) >= 32).then_some(())?;
                Some(self.most_of(*a)?.saturating_sub(by))
            }
            Op::Bin(nicforge_ir::BinOp::Mul, a, b) => {
                let by = u32::try_from(self.low.constant(*b)?).ok().filter(|by| *by <= 64)?;
                self.most_of(*a)?.checked_mul(by)
            }
            Op::Bin(nicforge_ir::BinOp::Add, a, b) => {
                self.most_of(*a)?.checked_add(self.most_of(*b)?)
            }
            Op::Bin(nicforge_ir::BinOp::Shl, a, b) => {
                let by = self.low.constant(*b).filter(|by| *by <= 6)?;
                self.most_of(*a).map(|most| most << by)
            }
            Op::Bin(nicforge_ir::BinOp::And, _, b) => {
                u32::try_from(self.low.constant(*b)?).ok().filter(|mask| *mask <= 255)
            }
            _ => None,
        }
    }

    pub(super) fn packet_op(&mut self, id: InstId, way: &Way) -> Result<(), NoPipe> {
        let inst = &self.body.insts[id];
        if !matches!(inst.op, Op::Emit { .. } | Op::Reset { .. }) {
            self.settle();
        }
        let mut packet = self.packet();
        match &inst.op {
            Op::Extract { .. } => {
                let cursor = packet.cursor.clone();
                let size = self.dag.bits.bytes(self.low.ty(inst.results[1]));
                self.read(way, (inst.results[0], inst.results[1]), (&cursor, 0, None), &packet);
                packet.cursor = self.behind(&cursor, size);
                // What was there before is there again.
                if self.low.constant(inst.results[0]).is_none() {
                    packet.doubt = Some((inst.results[0], Box::new(cursor)));
                }
            }
            Op::Load { off, .. } => {
                let (mut far, mut plus) = (None, 0);
                let cursor = match self.low.constant(*off) {
                    Some(off) if off < u64::from(BEYOND) => self.behind(&packet.cursor, off as u32),
                    Some(_) => Cursor::At(BEYOND),
                    None => {
                        let beyond = self.range_here(*off).1 >= u64::from(BEYOND);
                        let most_off = self.most_of(*off).unwrap_or(BEYOND).min(BEYOND);
                        let (base, more) = if beyond { (*off, 0) } else { self.apart(*off) };
                        let off = self.low.u32(base);
                        let off = self.wire("off", 32, off, 0);
                        far = beyond.then(|| {
                            self.wire("far", 1, format!("|{off}[31:15]"), timing::tree(17))
                        });
                        let value = format!("{} + 16'({off})", text(&packet.cursor));
                        let signal = self.wire("place", 16, value, timing::carry(12));
                        plus = more;
                        Cursor::Signal(signal, most(&packet.cursor) + most_off - more)
                    }
                };
                self.read(way, (inst.results[0], inst.results[1]), (&cursor, plus, far), &packet);
            }
            Op::Store { off, value, .. } => return self.store(inst.results[0], *off, *value),
            Op::Skip { len, .. } => {
                let back = Box::new(packet.cursor.clone());
                packet.doubt = Some((inst.results[0], back));
                let most_len = self.most_of(*len);
                let constant = self.low.constant(*len);
                let len = *len;
                let (ok, delay) = match (&packet.cursor, constant) {
                    (Cursor::At(at), Some(len)) if u64::from(*at) + len < 1 << 16 => {
                        at_least(&packet.end, 16, u64::from(*at) + len)
                    }
                    _ => {
                        let rest = self.rest(&packet);
                        (format!("{} <= {{16'h0, {rest}}}", self.low.u32(len)), timing::carry(32))
                    }
                };
                self.result(inst.results[0], ok, delay);
                packet.cursor = match constant {
                    Some(len) if len + u64::from(most(&packet.cursor)) <= u64::from(BEYOND) => {
                        self.behind(&packet.cursor, len as u32)
                    }
                    _ => {
                        let len = self.low.u32(len);
                        let value = format!("{} + 16'({len})", text(&packet.cursor));
                        // Behind what has no bound nothing is read, but it may leave.
                        let total = most(&packet.cursor)
                            .saturating_add(most_len.unwrap_or(BEYOND))
                            .min(BEYOND);
                        Cursor::Signal(self.wire("cursor", 16, value, timing::carry(12)), total)
                    }
                };
            }
            Op::Trim { len, .. } => {
                let (fits, end) = self.prefix_end(&packet, *len);
                self.result(inst.results[0], fits, 0);
                packet.has = 0;
                packet.end = end;
            }
            Op::Emit { value, .. } => {
                let size = self.dag.bits.bytes(self.low.ty(*value));
                let bytes = self.low.bytes_of(*value);
                packet.emitted.iter_mut().for_each(|list| list.parts.push((bytes.clone(), size)));
            }
            Op::Reset { .. } => {
                packet.cursor = Cursor::At(0);
                packet.emitted = vec![Emitted::default()];
                packet.doubt = None;
            }
            Op::Len { .. } => {
                let rest = self.rest(&packet);
                self.result(inst.results[0], format!("{{16'h0, {rest}}}"), 0);
            }
            _ => {}
        }
        self.packet = Some(packet);
        Ok(())
    }

    /// The packet where nobody looked whether the bytes in front of the cursor were there: it is
    /// where it was if they were not.
    pub(super) fn certain(&mut self, mut packet: Packet) -> Packet {
        if let Some((ok, back)) = packet.doubt.take() {
            packet.cursor = match self.low.constant(ok) {
                Some(0) => *back,
                Some(_) => packet.cursor,
                None => {
                    let ok = self.low.operand(ok);
                    self.either(&ok, packet.cursor, *back)
                }
            };
        }
        packet
    }

    /// Makes certain what the packet of this way has.
    pub(super) fn settle(&mut self) {
        if let Some(packet) = self.packet.take() {
            self.packet = Some(self.certain(packet));
        }
    }

    /// One of two cursors.
    pub(super) fn either(&mut self, cond: &str, a: Cursor, b: Cursor) -> Cursor {
        if a == b {
            return a;
        }
        let most = most(&a).max(most(&b));
        let value = format!("{cond} ? {} : {}", text(&a), text(&b));
        Cursor::Signal(self.wire("cursor", 16, value, timing::CHOOSE), most)
    }

    pub(super) fn rest(&mut self, packet: &Packet) -> String {
        match &packet.cursor {
            Cursor::At(0) => packet.end.clone(),
            cursor => {
                let value = format!("{} - {}", packet.end, text(cursor));
                self.wire("rest", 16, value, timing::carry(16))
            }
        }
    }

    /// Where `len` bytes behind the cursor end, or the frame, if that is before; and whether they
    /// are all there.
    pub(super) fn prefix_end(&mut self, packet: &Packet, len: ValueId) -> (String, String) {
        let rest = self.rest(packet);
        let len = self.low.u32(len);
        let fits = self.wire("fits", 1, format!("{len} <= {{16'h0, {rest}}}"), timing::carry(32));
        let value = format!("{fits} ? {} + 16'({len}) : {}", text(&packet.cursor), packet.end);
        (fits, self.wire("end", 16, value, timing::carry(16) + timing::CHOOSE))
    }

    /// A place as another one and a constant behind it, where places of a loop's trips have the
    /// former in common.
    pub(super) fn apart(&self, mut off: ValueId) -> (ValueId, u32) {
        let mut more = 0;
        while let Some(Op::Bin(nicforge_ir::BinOp::Add, a, b)) = self.body.def_op(off) {
            let (next, by) = match (self.low.constant(*a), self.low.constant(*b)) {
                (None, Some(by)) => (*a, by),
                (Some(by), None) => (*b, by),
                _ => break,
            };
            // Without a carry, so that both are within frames.
            if by > u64::from(MOST_WINDOW) || self.range_here(next).1 >= 1 << 15 {
                break;
            }
            (off, more) = (next, more + by as u32);
        }
        (off, more)
    }

    /// A value `plus` bytes behind `cursor`, and whether it is there; zero if the frame ends before
    /// it does, or if it is `far` beyond all frames.
    pub(super) fn read(
        &mut self,
        way: &Way,
        (ok, value): (ValueId, ValueId),
        (cursor, plus, far): (&Cursor, u32, Option<String>),
        packet: &Packet,
    ) {
        let ty = self.low.ty(value);
        let (size, width) = (self.dag.bits.bytes(ty), self.dag.bits.width(ty));
        let last = most(cursor) + plus + size;
        let end = &packet.end;
        let known = matches!(cursor, Cursor::At(at) if at + size <= packet.has);
        let (fits, delay) = match cursor {
            Cursor::At(BEYOND..) => ("1'b0".to_string(), 0),
            Cursor::At(at) => at_least(end, 16, u64::from(at + size)),
            Cursor::Signal(signal, _) => {
                let near = far.map_or(String::new(), |far| format!("!{far} && "));
                (
                    format!("{near}{end} >= {signal} + {}", number(16, u64::from(plus + size))),
                    timing::carry(16),
                )
            }
        };
        let name = self.low.rename(ok);
        if known {
            self.low.know(ok, 1);
        } else {
            self.put(&name, 1, fits, delay);
        }
        let ok = mark(&name);
        let bytes = match cursor {
            Cursor::At(BEYOND..) => self.wire("bytes", 8 * size, number(8 * size, 0), 0),
            Cursor::At(at) if last <= MOST_WINDOW => {
                self.dag.window = self.dag.window.max(last);
                self.frame(packet.edited.as_ref(), *at, at + size)
            }
            _ if last <= MOST_WINDOW => {
                self.dag.window = self.dag.window.max(last);
                self.shifted(packet, (&text(cursor), most(cursor)), plus, size)
            }
            _ => self.far_bytes(way, packet, &text(cursor), plus, size),
        };
        let read = self.low.of_bytes(ty, &bytes);
        let name = self.low.rename(value);
        if known {
            self.put(&name, width, read, 0);
        } else {
            self.put(&name, width, format!("{ok} ? {read} : {}", number(width, 0)), timing::CHOOSE);
        }
    }

    /// Which bytes are moved at once for `size` bytes `plus` behind a place that is data, since
    /// others of them may be read as well: from which one on, and how many.
    fn stretch(plus: u32, size: u32) -> (u32, u32) {
        let from = match size {
            ..=MOST_SMALL => plus / STRETCH * STRETCH,
            _ => plus,
        };
        let reach = if plus == from && size > MOST_SMALL { size } else { STRETCH + MOST_SMALL };
        (from, if plus == 0 { size } else { reach })
    }

    /// `size` bytes `plus` behind a place that is data, in the window.
    fn shifted(
        &mut self,
        packet: &Packet,
        (signal, most): (&str, u32),
        plus: u32,
        size: u32,
    ) -> String {
        let (from, bytes) = Self::stretch(plus, size);
        let top = match &packet.edited {
            None => {
                format!(
                    "{}[{}:{}]",
                    mark("window"),
                    8 * (most + from + bytes).min(MOST_WINDOW) - 1,
                    8 * from
                )
            }
            edited => self.frame(edited.as_ref(), from, (most + from + bytes).min(MOST_WINDOW)),
        };
        self.dag.window = self.dag.window.max((most + from + bytes).min(MOST_WINDOW));
        // Beyond `most` nothing is read.
        let low = bits_below(most + 1) - 1;
        let moved = format!("{}'({top} >> {{{signal}[{low}:0], 3'b000}})", 8 * bytes);
        let moved = self.wire("bytes", 8 * bytes, moved, timing::mux(most));
        self.part((moved, bytes), plus - from, size)
    }

    /// `size` bytes from byte `at` on of so many.
    fn part(&mut self, (bytes, count): (String, u32), at: u32, size: u32) -> String {
        match (at, count == size) {
            (0, true) => bytes,
            _ => self.wire(
                "bytes",
                8 * size,
                format!("{bytes}[{}:{}]", 8 * (at + size) - 1, 8 * at),
                0,
            ),
        }
    }

    /// So many bytes from byte `from` behind a place on, of a module beside the pipe.
    fn answers(
        &mut self,
        way: &Way,
        place: &str,
        (from, bytes): (u32, u32),
        what: impl Fn(u32) -> What,
    ) -> String {
        let mut parts = Vec::new();
        for at in (0..bytes).step_by(MOST_ANSWERED as usize) {
            let what = what(MOST_ANSWERED.min(bytes - at));
            let width = what.place_bits();
            let place = match from + at {
                0 => place.to_string(),
                more => format!("{place} + {}", number(width, u64::from(more))),
            };
            let place = self.wire("place", width, place, timing::carry(12));
            parts.push(self.ask(way, what, &place));
        }
        parts.reverse();
        self.wire("bytes", 8 * bytes, format!("{{{}}}", parts.join(", ")), 0)
    }

    /// `size` bytes `plus` behind a place in the strings of a memory.
    pub(super) fn stored_bytes(
        &mut self,
        way: &Way,
        memory: u64,
        (place, plus): (&str, u32),
        size: u32,
    ) -> String {
        let (from, bytes) = Self::stretch(plus, size);
        let found = self.answers(way, place, (from, bytes), |bytes| What::Stored { memory, bytes });
        self.part((found, bytes), plus - from, size)
    }

    /// `size` bytes `plus` behind a place anywhere in the frame.
    pub(super) fn far_bytes(
        &mut self,
        way: &Way,
        packet: &Packet,
        place: &str,
        plus: u32,
        size: u32,
    ) -> String {
        let (from, bytes) = Self::stretch(plus, size);
        let mut found = self.answers(way, place, (from, bytes), What::Bytes);
        if let Some(edited) = &packet.edited {
            let place = format!("{place} + {}", number(16, u64::from(from)));
            found = self.overwritten_since(edited, &place, (found, bytes));
        }
        self.part((found, bytes), plus - from, size)
    }

    /// A message to the host or a new packet, beside what becomes of the packet: the first `hlen`
    /// bytes of a value. `out` is its kind and its port.
    pub(super) fn made(&mut self, way: &Way, out: (u64, String), value: ValueId, hlen: String) {
        let (kind, port) = out;
        let size = self.dag.bits.bytes(self.low.ty(value));
        let header = vec![(self.low.bytes_of(value), size)];
        let zero = number(16, 0);
        self.dag.exits.push(Exit {
            when: way.clone(),
            given: self.given(way),
            kind,
            stays: true,
            number: port,
            addr: None,
            moved: None,
            header,
            hlen,
            from: zero.clone(),
            end: zero,
            patches: Vec::new(),
            cursor: None,
            emitted: size,
        });
    }

    /// Up to `len` bytes behind the cursor are written into the host's memory; the packet stays.
    pub(super) fn dma_write(&mut self, way: &Way, addr: ValueId, len: ValueId) {
        let mut packet = self.packet();
        let (width, text) = (self.low.width(addr), self.low.operand(addr));
        let addr = self.wire("addr", 64, Lower::resize(&text, width, 64), 0);
        (_, packet.end) = self.prefix_end(&packet, len);
        packet.has = 0;
        let Leaving { part, count, from } = self.leaving(&packet);
        let hlen = count.behind(self, 0);
        self.dag.exits.push(Exit {
            when: way.clone(),
            given: self.given(way),
            kind: kind::DMA_WRITE,
            stays: true,
            number: number(32, 0),
            addr: Some(addr),
            moved: None,
            header: part.into_iter().collect(),
            hlen,
            from,
            end: packet.end.clone(),
            patches: packet.patches(),
            cursor: if let Cursor::At(at) = packet.cursor { Some(at) } else { None },
            emitted: 0,
        });
    }

    /// Fates of the packet, or of a copy of it, after which it `stays`.
    pub(super) fn exit(&mut self, way: &Way, kind: u64, stays: bool, number: String) {
        let mut packet = self.packet();
        let lists = match kind {
            kind::DROP => vec![Emitted::default()],
            _ => std::mem::take(&mut packet.emitted),
        };
        if kind == kind::DROP {
            packet.edited = None;
        }
        for Emitted { when, parts: mut header, ragged } in lists {
            let way = when.iter().fold(way.clone(), |way, condition| self.and(&way, condition));
            let given = self.given(&way);
            if let Some(ragged) = ragged {
                let exit = self.ragged_exit(&packet, header, &ragged);
                self.dag.exits.push(Exit {
                    when: way,
                    given,
                    kind,
                    stays,
                    number: number.clone(),
                    ..exit
                });
                continue;
            }
            let emitted = header.iter().map(|part| part.1).sum();
            let Leaving { part, count, from } = self.leaving(&packet);
            header.extend(part);
            let hlen = count.behind(self, emitted);
            let cursor = if let Cursor::At(at) = packet.cursor { Some(at) } else { None };
            let (number, end) = (number.clone(), packet.end.clone());
            self.dag.exits.push(Exit {
                when: way,
                given,
                kind,
                stays,
                number,
                addr: None,
                moved: None,
                header,
                hlen,
                from,
                end,
                patches: packet.patches(),
                cursor,
                emitted,
            });
        }
    }
}
