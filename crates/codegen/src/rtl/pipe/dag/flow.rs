//! Control flow: regions with the condition under which they run, and what there is where ways
//! join.

use super::*;

/// Trips of the longest loop that a pipe has written out, each with logic of its own. One over all
/// bytes of a frame would be thousands of stages, that take hours to lay out.
const MOST_TRIPS: u32 = 256;

impl Walk<'_, '_, '_> {
    pub(super) fn region(&mut self, region: BlockId, mut way: Way) -> Result<Ended, NoPipe> {
        let body = self.body;
        for &inst in &body.blocks[region].insts {
            let data = &body.insts[inst];
            self.span = data.span;
            match &data.op {
                Op::Yield(values) => {
                    let values = values.iter().map(|value| self.known(*value)).collect();
                    return Ok(Some((way, values)));
                }
                Op::Return(_) => {
                    self.ended.push((way, self.slots.clone()));
                    return Ok(None);
                }
                Op::Break { depth, values } | Op::Continue { depth, values } => {
                    let values = values.iter().map(|value| self.known(*value)).collect();
                    let at = self.loops.len() - 1 - *depth as usize;
                    let doubt = self.packet.as_ref().and_then(|packet| packet.doubt.clone());
                    if doubt != self.loops[at].doubt {
                        // The next trip's values have the same names.
                        self.settle();
                    }
                    let (slots, packet) = (self.slots.clone(), self.packet.clone());
                    let frame = &mut self.loops[at];
                    let list = match data.op {
                        Op::Break { .. } => &mut frame.breaks,
                        _ => &mut frame.continues,
                    };
                    list.push(Left { way, values, slots, packet });
                    return Ok(None);
                }
                Op::If { .. } => match self.decision(inst, way)? {
                    Some(on) => way = on,
                    None => return Ok(None),
                },
                Op::Loop { .. } => match self.repeat(inst, way)? {
                    Some(on) => way = on,
                    None => return Ok(None),
                },
                _ => self.inst(inst, &way)?,
            }
        }
        Ok(Some((way, Vec::new())))
    }

    /// An `if`: the way behind it, if one goes on.
    fn decision(&mut self, inst: InstId, way: Way) -> Result<Option<Way>, NoPipe> {
        let body = self.body;
        let data = &body.insts[inst];
        let Op::If { cond, then, other, .. } = &data.op else { return Ok(None) };
        if let Some(taken) =
            self.low.constant(*cond).map(|number| number != 0).or_else(|| self.decided(*cond))
        {
            let arm = if taken { *then } else { *other };
            let Some((way, values)) = self.region(arm, way)? else { return Ok(None) };
            for (result, known) in data.results.iter().zip(values) {
                self.choose(*result, &[(None, known)]);
            }
            return Ok(Some(way));
        }
        let cond = self.low.operand(*cond);
        let not = format!("!{cond}");
        let pure = only_computes(body, *then) && only_computes(body, *other);
        let (yes, no) = if pure {
            (way.clone(), way.clone())
        } else {
            (self.and(&way, &cond), self.and(&way, &not))
        };
        let before = (self.packet.clone(), self.slots.clone());
        let bounds = self.bounds.clone();
        self.learn(data, true);
        let first = self.region(*then, yes)?;
        let after_first = (self.packet.clone(), self.slots.clone());
        let bounds_after = std::mem::replace(&mut self.bounds, bounds.clone());
        (self.packet, self.slots) = before;
        self.learn(data, false);
        let second = self.region(*other, no)?;
        self.span = data.span;
        match (&first, &second) {
            (Some(_), None) => self.bounds = bounds_after,
            (None, Some(_)) => {}
            _ => self.bounds = bounds,
        }
        match (first, second) {
            (None, None) => Ok(None),
            (Some((way, values)), None) => {
                (self.packet, self.slots) = after_first;
                for (result, known) in data.results.iter().zip(values) {
                    self.choose(*result, &[(None, known)]);
                }
                Ok(Some(way))
            }
            (None, Some((way, values))) => {
                for (result, known) in data.results.iter().zip(values) {
                    self.choose(*result, &[(None, known)]);
                }
                Ok(Some(way))
            }
            (Some((yes, a)), Some((no, b))) => {
                self.join(&cond, after_first);
                for (result, (a, b)) in data.results.iter().zip(a.into_iter().zip(b)) {
                    self.choose(*result, &[(Some(cond.clone()), a), (None, b)]);
                }
                // Ways that only split and join are the way they came from.
                let leaves = |arm: BlockId| self.leaves(arm);
                let whole = pure || !(leaves(*then) || leaves(*other));
                Ok(Some(if whole { way } else { self.or(vec![yes, no]) }))
            }
        }
    }

    /// True if a way may leave a region other than at its end.
    fn leaves(&self, region: BlockId) -> bool {
        self.body.blocks[region].insts.iter().any(|inst| match &self.body.insts[*inst].op {
            Op::Return(_) | Op::Break { .. } | Op::Continue { .. } => true,
            op => op.regions().any(|inner| self.leaves(inner)),
        })
    }

    /// Learns from an arm of an `if` about values, and about an `extract` before it.
    fn learn(&mut self, data: &Inst, taken: bool) {
        let Op::If { cond, .. } = data.op else { return };
        self.heed(cond, taken);
        let (mut asked, mut holds) = (cond, taken);
        while let Some(Op::Un(nicforge_ir::UnOp::Not, inner)) = self.body.def_op(asked) {
            (asked, holds) = (*inner, !holds);
        }
        let Some(packet) = &mut self.packet else { return };
        if let Some((ok, back)) = packet.doubt.take_if(|(ok, _)| *ok == asked) {
            let _ = ok;
            match packet.cursor {
                _ if !holds => packet.cursor = *back,
                Cursor::At(at) => packet.has = packet.has.max(at),
                Cursor::Signal(..) => {}
            }
        }
    }

    /// Entries where ways join, each with its condition; the last one is what remains.
    pub(super) fn join_slots(&mut self, ways: Vec<(Way, Slots)>) -> Slots {
        let all: BTreeSet<(usize, usize)> =
            ways.iter().flat_map(|(_, slots)| slots.entries.keys().copied()).collect();
        let (apart, states): (Vec<Way>, Vec<Slots>) = ways.into_iter().unzip();
        let ways: Vec<(Way, Slots)> = self.among(apart).into_iter().zip(states).collect();
        let mut joined = Slots { stream: self.join_streams(&ways), ..Slots::default() };
        for (table, key) in all {
            let untouched = self.untouched(table, key);
            // Asked for on some ways only: on others it is as it was.
            let list: Vec<(&Way, &Slot)> = ways
                .iter()
                .map(|(way, slots)| (way, slots.entries.get(&(table, key)).unwrap_or(&untouched)))
                .collect();
            let width = self.dag.tables[table].value_bits;
            let mut pick = |wanted: &str, width: u32, part: &dyn Fn(&Slot) -> String| {
                let last = part(list[list.len() - 1].1);
                if list.iter().all(|(_, slot)| part(slot) == last) {
                    return last;
                }
                let mut text = String::new();
                for (way, slot) in &list[..list.len() - 1] {
                    text.push_str(&format!(
                        "{} ? {} : ",
                        way.as_deref().unwrap_or("1'b1"),
                        part(slot)
                    ));
                }
                text.push_str(&last);
                self.wire(
                    wanted,
                    width,
                    text,
                    timing::mux(2 * list.len() as u32 - 2).max(timing::CHOOSE),
                )
            };
            let hit = pick("there", 1, &|slot| slot.hit.clone());
            let value = pick("entry", width, &|slot| slot.value.clone());
            let mut changes: Vec<usize> =
                list.iter().flat_map(|(_, slot)| slot.changes.iter().copied()).collect();
            changes.sort_unstable();
            changes.dedup();
            joined.entries.insert((table, key), Slot { hit, value, changes });
        }
        joined
    }

    /// Packet and entries where two ways join: `first` if `cond`, else as they are.
    fn join(&mut self, cond: &str, (packet, slots): (Option<Packet>, Slots)) {
        let second = std::mem::take(&mut self.slots);
        self.slots = self.join_slots(vec![(Some(cond.to_string()), slots), (None, second)]);
        let (Some(a), Some(b)) = (packet, self.packet.clone()) else { return };
        if a == b {
            return;
        }
        let (a, b) = if a.doubt == b.doubt { (a, b) } else { (self.certain(a), self.certain(b)) };
        let emitted = if a.emitted == b.emitted {
            a.emitted
        } else {
            let not = opposite(cond);
            let with = |list: Emitted, condition: &str| {
                let when = list.when.into_iter().chain([condition.to_string()]).collect();
                Emitted { when, ..list }
            };
            let first = a.emitted.into_iter().map(|list| with(list, cond));
            first.chain(b.emitted.into_iter().map(|list| with(list, &not))).collect()
        };
        let emitted = match emitted.len() > MOST_LISTS {
            true => self.flattened(vec![(None, emitted)]),
            false => emitted,
        };
        let cursor = self.either(cond, a.cursor, b.cursor);
        let end = if a.end == b.end {
            a.end
        } else {
            self.wire("end", 16, format!("{cond} ? {} : {}", a.end, b.end), timing::CHOOSE)
        };
        let edited = self.join_edits(&[Some(cond.to_string()), None], vec![a.edited, b.edited]);
        let has = a.has.min(b.has);
        self.packet = Some(Packet { cursor, end, has, emitted, edited, doubt: a.doubt });
    }

    /// A loop, written out.
    fn repeat(&mut self, inst: InstId, way: Way) -> Result<Option<Way>, NoPipe> {
        let body = self.body;
        let data = &body.insts[inst];
        let Op::Loop { init, max_trips, body: inner } = &data.op else { return Ok(None) };
        if *max_trips > MOST_TRIPS {
            self.span = data.span;
            return self.no(&format!(
                "a loop of {max_trips} trips is written out, and a pipe has {MOST_TRIPS} at most"
            ));
        }
        let doubt = self.packet.as_ref().and_then(|packet| packet.doubt.clone());
        self.loops.push(LoopFrame { breaks: Vec::new(), continues: Vec::new(), doubt });
        let mut now: Vec<Known> = init.iter().map(|value| self.known(*value)).collect();
        let mut going = Some(way);
        let depth = self.loops.len() - 1;
        let bounds = self.bounds.clone();
        for trip in 0..*max_trips {
            let Some(way) = going.take() else { break };
            if self.dag.logic > LUTS {
                self.span = data.span;
                return self.no(&format!(
                    "a loop of {max_trips} trips is written out, and {trip} of them make {} bits of logic of the pipe; the device has \
                     {LUTS} LUTs",
                    self.dag.logic
                ));
            }
            // Values of a trip are other ones than those of the one before.
            self.bounds.clone_from(&bounds);
            for (param, known) in body.blocks[*inner].params.iter().zip(now.clone()) {
                self.choose(*param, &[(None, known)]);
            }
            self.region(*inner, way)?;
            let continues = std::mem::take(&mut self.loops[depth].continues);
            let Some(first) = continues.first() else { break };
            let mut emitted = first.packet.as_ref().map(|packet| packet.emitted.clone());
            let others = |left: &Left| {
                left.packet.as_ref().map(|packet| &packet.emitted) != emitted.as_ref()
            };
            if continues.iter().any(others) {
                let of =
                    |left: &Left| Some((left.way.clone(), left.packet.as_ref()?.emitted.clone()));
                emitted = Some(self.flattened(continues.iter().filter_map(of).collect()));
            }
            going = Some(self.or(continues.iter().map(|left| left.way.clone()).collect()));
            now = self.arrive(&body.blocks[*inner].params, continues);
            if let (Some(packet), Some(emitted)) = (&mut self.packet, emitted) {
                packet.emitted = emitted;
            }
        }
        self.bounds = bounds;
        let Some(mut frame) = self.loops.pop() else { return Ok(None) };
        if let Some(way) = going {
            let (slots, packet) = (self.slots.clone(), self.packet.clone());
            frame.breaks.push(Left { way, values: now, slots, packet });
        }
        if frame.breaks.is_empty() {
            return Ok(None);
        }
        let ways = frame.breaks.iter().map(|left| left.way.clone()).collect();
        self.span = data.span;
        let emitted = |left: &Left| Some((left.way.clone(), left.packet.as_ref()?.emitted.clone()));
        let emitted = frame.breaks.iter().filter_map(emitted).collect();
        let joined = self.leave_loop(emitted);
        self.arrive(&data.results, frame.breaks);
        self.packet.iter_mut().for_each(|packet| packet.emitted.clone_from(&joined));
        Ok(Some(self.or(ways)))
    }

    /// Gives values, entries and the packet what they are where several ways arrive; of the packet
    /// all but what was emitted in front of it.
    fn arrive(&mut self, targets: &[ValueId], from: Vec<Left>) -> Vec<Known> {
        let values = |at: usize| -> Vec<(Way, Known)> {
            from.iter().map(|left| (left.way.clone(), left.values[at].clone())).collect()
        };
        let known = (0..targets.len())
            .map(|at| {
                self.choose(targets[at], &values(at));
                self.known(targets[at])
            })
            .collect();
        let (mut slots, mut packets) = (Vec::new(), Vec::new());
        for left in from {
            packets.extend(left.packet.map(|packet| (left.way.clone(), packet)));
            slots.push((left.way, left.slots));
        }
        self.slots = self.join_slots(slots);
        self.packet = self.join_packets(packets);
        known
    }

    /// The packet of whichever of several ways was taken, but for what was emitted in front of it.
    fn join_packets(&mut self, ways: Vec<(Way, Packet)>) -> Option<Packet> {
        let (ways, mut packets): (Vec<Way>, Vec<Packet>) = ways.into_iter().unzip();
        packets.iter_mut().for_each(|packet| packet.emitted = Vec::new());
        let first = packets.first()?.clone();
        if packets.iter().all(|packet| *packet == first) {
            return Some(first);
        }
        if packets.iter().any(|packet| packet.doubt != first.doubt) {
            packets = packets.into_iter().map(|packet| self.certain(packet)).collect();
        }
        let ways = self.among(ways);
        let mut choose = |wanted: &str, width: u32, texts: Vec<String>| {
            if texts.iter().all(|text| *text == texts[0]) {
                return texts[0].clone();
            }
            let from: Vec<(&Way, &str)> =
                ways.iter().zip(texts.iter().map(String::as_str)).collect();
            let (value, delay) = taken(width, &from);
            self.wire(wanted, width, value, delay)
        };
        let end = choose("end", 16, packets.iter().map(|packet| packet.end.clone()).collect());
        let cursor = match packets.iter().all(|packet| packet.cursor == packets[0].cursor) {
            true => packets[0].cursor.clone(),
            false => {
                let most = packets.iter().map(|packet| most(&packet.cursor)).max().unwrap_or(0);
                let places = packets.iter().map(|packet| text(&packet.cursor)).collect();
                Cursor::Signal(choose("cursor", 16, places), most)
            }
        };
        let has = packets.iter().map(|packet| packet.has).min().unwrap_or(0);
        let edited = packets.iter().map(|packet| packet.edited.clone()).collect();
        let edited = self.join_edits(&ways, edited);
        Some(Packet {
            cursor,
            end,
            has,
            emitted: Vec::new(),
            edited,
            doubt: packets[0].doubt.clone(),
        })
    }
}
