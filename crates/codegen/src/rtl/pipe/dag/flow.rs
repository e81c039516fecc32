//! Control flow: regions with the condition under which they run, and what there is where ways join.

use super::*;

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
                    if without_emitted(&self.packet) != without_emitted(&self.loops[at].packet) {
                        return self.no("a loop moves the packet's cursor");
                    }
                    let slots = self.slots.clone();
                    let emitted = self.packet.as_ref().map(|packet| packet.emitted.clone());
                    let frame = &mut self.loops[at];
                    let list = match data.op {
                        Op::Break { .. } => {
                            frame.left.extend(emitted.map(|emitted| (way.clone(), emitted)));
                            &mut frame.breaks
                        }
                        _ => {
                            frame.again.extend(emitted);
                            &mut frame.continues
                        }
                    };
                    list.push((way, values, slots));
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
        let (yes, no) =
            if pure { (way.clone(), way.clone()) } else { (self.and(&way, &cond), self.and(&way, &not)) };
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
                self.join(&cond, after_first)?;
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

    /// Whether a way may leave a region other than at its end.
    fn leaves(&self, region: BlockId) -> bool {
        self.body.blocks[region].insts.iter().any(|inst| match &self.body.insts[*inst].op {
            Op::Return(_) | Op::Break { .. } | Op::Continue { .. } => true,
            op => op.regions().any(|inner| self.leaves(inner)),
        })
    }

    /// What an arm of an `if` says about values, and about an `extract` before it.
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
                    text.push_str(&format!("{} ? {} : ", way.as_deref().unwrap_or("1'b1"), part(slot)));
                }
                text.push_str(&last);
                self.wire(wanted, width, text, timing::mux(2 * list.len() as u32 - 2).max(timing::CHOOSE))
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
    fn join(&mut self, cond: &str, (packet, slots): (Option<Packet>, Slots)) -> Result<(), NoPipe> {
        let second = std::mem::take(&mut self.slots);
        self.slots = self.join_slots(vec![(Some(cond.to_string()), slots), (None, second)]);
        let (Some(a), Some(b)) = (packet, self.packet.clone()) else { return Ok(()) };
        if a == b {
            return Ok(());
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
        if emitted.len() > MOST_LISTS {
            return self.no("ways join on which too many different headers were emitted");
        }
        let cursor = self.either(cond, a.cursor, b.cursor);
        let end = if a.end == b.end {
            a.end
        } else {
            self.wire("end", 16, format!("{cond} ? {} : {}", a.end, b.end), timing::CHOOSE)
        };
        let edited = self.join_edits(cond, a.edited, b.edited);
        let has = a.has.min(b.has);
        self.packet = Some(Packet { cursor, end, has, emitted, edited, doubt: a.doubt });
        Ok(())
    }

    /// A loop, written out.
    fn repeat(&mut self, inst: InstId, way: Way) -> Result<Option<Way>, NoPipe> {
        let body = self.body;
        let data = &body.insts[inst];
        let Op::Loop { init, max_trips, body: inner } = &data.op else { return Ok(None) };
        if *max_trips > MOST_TRIPS {
            return self
                .no(&format!("a loop of {max_trips} trips is written out {MOST_TRIPS} times at most"));
        }
        if self.moves_packet(*inner) {
            return self.no("a loop moves the packet's cursor or sends");
        }
        let mut packet = self.packet.clone();
        self.loops.push(LoopFrame {
            breaks: Vec::new(),
            continues: Vec::new(),
            packet: packet.clone(),
            left: Vec::new(),
            again: Vec::new(),
        });
        let mut now: Vec<Known> = init.iter().map(|value| self.known(*value)).collect();
        let mut going = Some(way);
        let depth = self.loops.len() - 1;
        let bounds = self.bounds.clone();
        for _ in 0..*max_trips {
            let Some(way) = going.take() else { break };
            // Values of a trip are other ones than those of the one before.
            self.bounds.clone_from(&bounds);
            for (param, known) in body.blocks[*inner].params.iter().zip(now.clone()) {
                self.choose(*param, &[(None, known)]);
            }
            self.region(*inner, way)?;
            let mut again = std::mem::take(&mut self.loops[depth].again);
            if let (Some(packet), Some(emitted)) = (&mut packet, again.pop()) {
                if again.iter().any(|other| *other != emitted) {
                    return self.no("a loop emits headers on some ways to its next trip only");
                }
                packet.emitted = emitted;
            }
            self.packet.clone_from(&packet);
            let continues = std::mem::take(&mut self.loops[depth].continues);
            if continues.is_empty() {
                break;
            }
            going = Some(self.or(continues.iter().map(|(way, ..)| way.clone()).collect()));
            now = self.arrive(&body.blocks[*inner].params, continues);
        }
        self.bounds = bounds;
        let Some(mut frame) = self.loops.pop() else { return Ok(None) };
        if let Some(way) = going {
            frame.left.extend(packet.map(|packet| (way.clone(), packet.emitted)));
            frame.breaks.push((way, now, self.slots.clone()));
        }
        if frame.breaks.is_empty() {
            return Ok(None);
        }
        let ways = frame.breaks.iter().map(|(way, ..)| way.clone()).collect();
        self.span = data.span;
        self.leave_loop(frame.left)?;
        self.arrive(&data.results, frame.breaks);
        Ok(Some(self.or(ways)))
    }

    /// Gives values and entries what they are where several ways arrive.
    fn arrive(&mut self, targets: &[ValueId], from: Vec<(Way, Vec<Known>, Slots)>) -> Vec<Known> {
        let values = |at: usize| -> Vec<(Way, Known)> {
            from.iter().map(|(way, values, _)| (way.clone(), values[at].clone())).collect()
        };
        let known = (0..targets.len())
            .map(|at| {
                self.choose(targets[at], &values(at));
                self.known(targets[at])
            })
            .collect();
        self.slots = self.join_slots(from.into_iter().map(|(way, _, slots)| (way, slots)).collect());
        known
    }

    /// Whether a region has ops that change more than values and entries.
    fn moves_packet(&self, region: BlockId) -> bool {
        self.body.blocks[region].insts.iter().any(|inst| {
            let op = &self.body.insts[*inst].op;
            let effects = op.effects();
            (effects.packet_write.is_some() && !matches!(op, Op::Emit { .. }))
                || (effects.ordered && !matches!(op, Op::Random) && !self.waits_alone(op))
                || op.regions().any(|inner| self.moves_packet(inner))
        })
    }
}

/// A packet as it is but for what was emitted in front of it.
fn without_emitted(packet: &Option<Packet>) -> Option<Packet> {
    packet.as_ref().map(|packet| Packet { emitted: Vec::new(), ..packet.clone() })
}
