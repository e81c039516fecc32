//! Which stages may be replicated, and by what their events are steered.
//!
//! A stage may have several replicas if every table it writes is only added to (commutative), or if
//! some part of the event is in the key of *every* access to every table that handlers write: then
//! events with different values of that part never meet in a table, and each replica owns a shard.
//! The common part may be smaller than any one key (a source address shards a 5-tuple table too),
//! and it may be computed (the client's side of a connection, whichever way the packet goes).
//! Maestro (NSDI'24) derives such conditions by symbolic execution; here equal
//! [origins](crate::origin) say it.
//!
//! # Order
//!
//! Events with the same key must meet a table in arrival order. A stage `Q` with state sees them so
//! if every replicated stage before it keeps them together, that is, if what *it* is steered by is
//! part of `Q`'s keys. Otherwise a reorder point is needed in front of `Q` (a price), or the stages
//! before it stay single. Handlers with `NF_UNORDERED` give that up.
//!
//! Where one stage sends all packets, those of a key also leave in arrival order: if packets reach
//! it by several ways it needs such a point too, with or without state, on targets that have any.
//! Where that stage is replicated by something that is not in the keys of an earlier stage with
//! state, its replicas would mix what that stage saw in order, so order is restored at the ports.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use nicforge_ir::{Direction, EventId, HandlerId, Op, Program};
use nicforge_target::{Generator, LinkKind, Reorder, SpreadKind, Target};

use crate::ability::{Ability, ability};
use crate::origin::{Origin, Shape, Site, sites};
use crate::stages::{gives_to_host, senders, sends_out, sends_to, takes_packets};
use crate::tables;

/// A stage's steering, as decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Steer {
    pub ability: Ability,
    /// What its events are steered by, in terms of its own event; empty: any replica will do.
    pub by: BTreeSet<Origin>,
    /// `by` is the number of an instance, of so many, and replicas have ranges of them.
    pub instances: Option<u32>,
    /// Where handlers have events of their own: what those of each are steered by, always by a
    /// hash.
    pub each: BTreeMap<HandlerId, BTreeSet<Origin>>,
    /// `by` in terms of the packet that entered, where it can be said so.
    pub entry: BTreeSet<Origin>,
    /// Events must be put back into arrival order before it; a target that cannot do that cannot
    /// run the pipeline.
    pub reorder: bool,
    /// What its replicas send must be put back into arrival order at the ports.
    pub sorted_output: bool,
    /// Replicas it may have.
    pub most: u32,
}

impl Steer {
    /// Fields that the events of one of its handlers are steered by.
    pub fn of(&self, handler: HandlerId) -> &BTreeSet<Origin> {
        self.each.get(&handler).unwrap_or(&self.by)
    }

    /// Parts that a sender hashes for each event of a handler; none where a whole parameter steers
    /// as it is.
    pub fn hashed(&self, handler: HandlerId) -> usize {
        if self.each.is_empty() { crate::steer::hashed(&self.by) } else { self.of(handler).len() }
    }
}

/// Decides steering for all stages of a program on a target.
pub fn steer(program: &Program, stages: &[Vec<HandlerId>], target: &Target) -> Vec<Steer> {
    let (sending, mut known) = (Sending::of(program, stages), BTreeMap::new());
    let arguments: Vec<Rc<Vec<Shape>>> =
        stages.iter().map(|handlers| sending.to(program, handlers[0], &mut known)).collect();
    let abilities: Vec<Ability> =
        stages.iter().map(|handlers| ability(program, handlers)).collect();
    let unordered = |s: usize| stages[s].iter().any(|h| program.handlers[*h].unordered);
    let asked = |s: usize| stages[s].iter().filter_map(|h| program.handlers[*h].max_replicas).min();
    let limit = |s: usize| {
        let tables = stages[s].iter().flat_map(|h| tables::of_handler(program, *h));
        let of_tables = tables.filter_map(|table| program.tables[table].max_replicas).min();
        asked(s).unwrap_or(u32::MAX).min(of_tables.unwrap_or(u32::MAX))
    };
    let global = |s: usize, leaf: &Origin| leaf.with_params(&arguments[s]);
    // What every stage with shards has in common keeps order everywhere.
    let mut shared: Option<BTreeSet<Origin>> = None;
    for (s, ability) in abilities.iter().enumerate() {
        if let Ability::Sharded(leaves) = ability {
            let here: BTreeSet<Origin> = leaves.iter().map(|leaf| global(s, leaf)).collect();
            shared = Some(
                shared.map_or(here.clone(), |known| known.intersection(&here).cloned().collect()),
            );
        }
    }
    let shared = shared.unwrap_or_default();
    let reorder =
        target.links.iter().any(|link| link.from == link.to && link.reorder != Reorder::None);
    let sorted = target.sorts_output();
    let only_exit = only_exit(program, stages, &abilities).filter(|_| reorder && !sorted);
    let one_sender = target.links.iter().any(|link| link.kind == LinkKind::AfXdp);
    let mut list: Vec<Steer> = Vec::new();
    let mut keys_of: Vec<BTreeSet<Origin>> = Vec::new();
    for (s, ability) in abilities.iter().enumerate() {
        let entry = takes_packets(program, &stages[s]);
        let mut each = BTreeMap::new();
        let (mut ability, mut by) = match ability {
            Ability::Sharded(leaves) => {
                let chosen: BTreeSet<Origin> = leaves
                    .iter()
                    .filter(|leaf| shared.contains(&global(s, leaf)))
                    .cloned()
                    .collect();
                (ability.clone(), if chosen.is_empty() { leaves.clone() } else { chosen })
            }
            // Without state of its own it may as well keep together what later stages want
            // together.
            Ability::Free if entry => (Ability::Free, shared.clone()),
            Ability::Meeting(parts) => {
                each = parts
                    .iter()
                    .map(|(handler, part)| (*handler, BTreeSet::from([part.clone()])))
                    .collect();
                (ability.clone(), each.values().next().cloned().unwrap_or_default())
            }
            other => (other.clone(), BTreeSet::new()),
        };
        let mut instances = None;
        if !entry {
            by.retain(crate::steer::computable);
            if by.is_empty() && matches!(ability, Ability::Sharded(_)) {
                ability = Ability::Single(
                    "what its tables are keyed by is computed here, not before".to_string(),
                );
            }
            let numbered = crate::number::of_stage(program, &stages[s], &ability);
            if let Some((number, count)) =
                numbered.filter(|(number, _)| crate::steer::computable(number))
            {
                (by, instances) = (BTreeSet::from([number]), Some(count));
            }
        }
        if entry {
            by.retain(|leaf| steerable(leaf, program.ports, target.spread.kind));
            if target.spread.kind == SpreadKind::Rss {
                // A Toeplitz key that sees one address and nothing else exists for every port; see
                // `toeplitz`.
                by = by.into_iter().take(1).collect();
            }
            if by.is_empty() && matches!(ability, Ability::Sharded(_)) {
                ability = Ability::Single(
                    "receive-side scaling can spread by an address only, and not all keys have one in common"
                        .to_string(),
                );
            }
        }
        if one_sender && gives_to_host(program, &stages[s]) {
            // Whatever its keys allow: the ring of an AF_XDP socket has one producer, and events
            // that are handed over get one order.
            let name = &program.handlers[stages[s][0]].name;
            ability = Ability::Single(format!(
                "`{name}` hands packets to AF_XDP sockets, which take one sender"
            ));
            by.clear();
            instances = None;
            each.clear();
        }
        let mixes = only_exit == Some(s) && senders(program, stages, s) > 1;
        let state = !matches!(ability, Ability::Free) || mixes;
        let keys: BTreeSet<Origin> = match &ability {
            Ability::Sharded(leaves) => leaves.iter().map(|leaf| global(s, leaf)).collect(),
            // Meeting: its handlers want no order.
            _ => BTreeSet::new(),
        };
        let together = |before: &Steer| {
            before.most == 1 || (!before.entry.is_empty() && before.entry.is_subset(&keys))
        };
        // Events that come by ways of different lengths overtake one another whatever they are
        // steered by.
        let one_way = senders(program, stages, s) <= 1;
        let ordered = unordered(s) || !state || (one_way && list.iter().all(together));
        if !ordered && !reorder && one_way {
            // No reorder point here: what comes before must not be replicated.
            for before in &mut list {
                let single =
                    before.most == 1 || (!before.entry.is_empty() && before.entry.is_subset(&keys));
                if !single {
                    before.most = 1;
                    before.by.clear();
                    before.each.clear();
                    before.ability = Ability::Single(format!(
                        "replicas would overtake one another before `{}`, and this target cannot restore order",
                        program.handlers[stages[s][0]].name
                    ));
                }
            }
        }
        let ordered = ordered || (one_way && !reorder);
        let most = match &ability {
            Ability::Single(_) => 1,
            _ => limit(s).min(instances.unwrap_or(u32::MAX)),
        };
        let entry_terms = by.iter().map(|leaf| global(s, leaf)).collect();
        let (reorder, sorted_output) = (!ordered, false);
        list.push(Steer {
            ability,
            by,
            instances,
            each,
            entry: entry_terms,
            reorder,
            sorted_output,
            most,
        });
        keys_of.push(keys);
    }
    // Who talks to the ports has a core of its own there, and puts packets in order.
    let sorts = target
        .units
        .iter()
        .all(|group| matches!(group.codegen, Generator::Dpdk | Generator::Threads));
    if let Some(exit) = only_exit.filter(|_| sorts) {
        let inside = !takes_packets(program, &stages[exit]) && list[exit].most > 1;
        let mixes =
            |k: usize| k != exit && !unordered(k) && !list[exit].entry.is_subset(&keys_of[k]);
        let stateful = |k: &usize| !matches!(abilities[*k], Ability::Free);
        let keyed = stateful(&exit) && !list[exit].entry.is_empty() && !unordered(exit);
        let back = |to: usize| {
            (to + 1..stages.len()).any(|from| sends_to(program, &stages[from], &stages[to]))
        };
        let forward = !(0..stages.len()).any(back);
        list[exit].sorted_output =
            inside && keyed && forward && (0..exit).filter(stateful).any(mixes);
    }
    // Whether events reach a stage from several senders.
    let mixed = |list: &[Steer], s: usize| {
        let replicated = |b: usize| list[b].most > 1 && sends_to(program, &stages[b], &stages[s]);
        senders(program, stages, s) > 1 || (0..s).any(replicated)
    };
    // Order is restored by comparing the heads of queues, so each queue must be in order itself: a
    // stage in between that mixes what several senders give it has to sort it too.
    for s in (0..stages.len()).rev() {
        list[s].reorder |= list[s].sorted_output && mixed(&list, s);
        if !list[s].reorder && !list[s].sorted_output {
            continue;
        }
        for before in 0..s {
            if sends_to(program, &stages[before], &stages[s]) && mixed(&list, before) {
                list[before].reorder = true;
            }
        }
    }
    list
}

/// The one stage that sends packets, if there is just one and some stage has state by which they
/// are told apart.
fn only_exit(program: &Program, stages: &[Vec<HandlerId>], abilities: &[Ability]) -> Option<usize> {
    let keyed = abilities.iter().any(|ability| !matches!(ability, Ability::Free));
    let mut exits = (0..stages.len()).filter(|&s| sends_out(program, &stages[s]));
    exits.next().filter(|_| keyed && exits.next().is_none())
}

/// Where each handler generates internal events, and what their arguments are there.
struct Sending {
    by_handler: Vec<(EventId, HandlerId, Vec<Site>)>,
}

impl Sending {
    /// Follows every handler once.
    fn of(program: &Program, stages: &[Vec<HandlerId>]) -> Sending {
        let inside = |op: &Op| matches!(op, Op::Generate { event, .. } if program.events[*event].direction == Direction::Internal);
        let mut by_handler = Vec::new();
        for handler in stages.iter().flatten() {
            let mut by_event: BTreeMap<EventId, Vec<Site>> = BTreeMap::new();
            for site in sites(program, *handler, &inside) {
                if let Op::Generate { event, .. } =
                    program.handlers[*handler].body.insts[site.inst].op
                {
                    by_event.entry(event).or_default().push(site);
                }
            }
            by_handler.extend(by_event.into_iter().map(|(event, sites)| (event, *handler, sites)));
        }
        Sending { by_handler }
    }

    /// What the parameters of a handler's internal event are, in terms of the packet that entered,
    /// if all senders agree.
    fn to(
        &self,
        program: &Program,
        handler: HandlerId,
        known: &mut BTreeMap<EventId, Rc<Vec<Shape>>>,
    ) -> Rc<Vec<Shape>> {
        let event = program.handlers[handler].event;
        if let Some(before) = known.get(&event) {
            return before.clone();
        }
        let mut agreed: Option<Vec<Shape>> = None;
        // Where events go round nothing is known yet of what comes round.
        known.insert(event, Rc::default());
        for (_, sender, sites) in self.by_handler.iter().filter(|(to, _, _)| *to == event) {
            let outer = self.to(program, *sender, known);
            let inside =
                program.events[program.handlers[*sender].event].direction == Direction::Internal;
            let comes_round = inside && outer.is_empty();
            for site in sites {
                let of =
                    |shape| if comes_round { Shape::Other } else { compose(shape, &outer, site) };
                let args: Vec<Shape> = site.operands.iter().map(of).collect();
                agreed = Some(match agreed {
                    None => args,
                    Some(before) => before.iter().zip(&args).map(|(a, b)| agree(a, b)).collect(),
                });
            }
        }
        let agreed = Rc::new(agreed.unwrap_or_default());
        known.insert(event, agreed.clone());
        agreed
    }
}

fn compose(shape: &Shape, outer: &[Shape], site: &Site) -> Shape {
    match shape {
        // A header that may not be there is zero for the receiver, which the frame does not say.
        Shape::Int(origin) | Shape::Whole(origin) if !site.trusts(origin) => Shape::Other,
        Shape::Whole(origin) => Shape::Whole(origin.with_params(outer)),
        Shape::Int(origin) => Shape::Int(origin.with_params(outer)),
        Shape::Members(members) => {
            Shape::Members(members.iter().map(|m| compose(m, outer, site)).collect())
        }
        Shape::Other => Shape::Other,
    }
}

fn agree(a: &Shape, b: &Shape) -> Shape {
    match (a, b) {
        (Shape::Int(x), Shape::Int(y)) | (Shape::Whole(x), Shape::Whole(y)) if x == y => a.clone(),
        (Shape::Members(xs), Shape::Members(ys)) if xs.len() == ys.len() => {
            Shape::Members(xs.iter().zip(ys).map(|(x, y)| agree(x, y)).collect())
        }
        _ => Shape::Other,
    }
}

/// True if the NIC can spread packets by this.
fn steerable(leaf: &Origin, ports: u32, spread: SpreadKind) -> bool {
    match spread {
        SpreadKind::Any => (0..ports).all(
            |port| matches!(leaf.at_port(port), Origin::Frame { bit_offset: 0, bits, .. } if bits % 8 == 0),
        ),
        SpreadKind::Rss => (0..ports)
            .all(|port| matches!(leaf.at_port(port), Origin::Frame { offset: 26 | 30, bits: 32, .. })),
    }
}

#[cfg(test)]
mod tests {
    use nicforge_ir::text::parse;

    use super::*;

    /// Offset and bits of what packets are steered by, whose key is made of the frame's first four
    /// bytes.
    fn steered_by(key: &str) -> Vec<(u32, u32)> {
        let text = format!(
            "program part ports 2
table counts: hash[u32 -> u32] capacity 64
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
handler net_recv on net_recv(%pkt: packet) {{
  %ok: u1, %word: u32 = extract %pkt
  %number: u32 = bswap %word
  %by: u32 = 8
  %mask: u32 = 16777215
  %odd: u32 = 8388607
  %key: u32 = {key}
  if %ok {{
    %hit: u1, %x: u32 = lookup counts[%key]
    %more: u32 = add %x, %by
    %stored: u1 = update counts[%key], %more
    yield
  }} else {{
    yield
  }}
  generate net_send(%pkt, %by)
  return
}}
"
        );
        let program = parse(&text).unwrap();
        let target = nicforge_target::find("panic").unwrap();
        let stages = crate::stages::on(&program, &target);
        let by = &steer(&program, &stages, &target)[0].by;
        let bytes = |leaf: &Origin| match leaf {
            Origin::Frame { offset, bits, .. } => (*offset, *bits),
            _ => (u32::MAX, 0),
        };
        by.iter().map(bytes).collect()
    }

    #[test]
    fn parts_of_header_fields_steer() {
        assert_eq!(steered_by("add %number, %by"), []);
        assert_eq!(steered_by("and %number, %mask"), [(1, 24)]);
        assert_eq!(steered_by("and %mask, %number"), [(1, 24)]);
        assert_eq!(steered_by("shr %number, %by"), [(0, 24)]);
        assert_eq!(steered_by("and %word, %mask"), [(0, 24)]);
        // What stands beside the seven lowest bits of a byte would choose too.
        assert_eq!(steered_by("and %number, %odd"), []);
    }

    /// Packets of a flow go straight to where they are sent, or past `aside`, which `sends` packets
    /// of its own or not.
    fn restored(target: &str, sends: &str) -> bool {
        let text = format!(
            "program ways ports 2
table counts: hash[u32 -> u32] capacity 64
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
event aside(pkt: packet) internal
event away(pkt: packet) internal
handler net_recv on net_recv(%pkt: packet) {{
  %ok: u1, %key: u32 = extract %pkt
  %hit: u1, %x: u32 = lookup counts[%key]
  %one: u32 = 1
  %more: u32 = add %x, %one
  %stored: u1 = update counts[%key], %more
  if %hit {{
    generate aside(%pkt)
    yield
  }} else {{
    generate away(%pkt)
    yield
  }}
  return
}}
handler aside on aside(%pkt: packet) {{
  %one: u32 = 1
  generate {sends}
  return
}}
handler away on away(%pkt: packet) {{
  %one: u32 = 1
  generate net_send(%pkt, %one)
  return
}}
"
        );
        let program = parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let stages: Vec<Vec<HandlerId>> =
            program.handlers.keys().map(|handler| vec![handler]).collect();
        let target = nicforge_target::find(target).unwrap_or_else(|e| panic!("{e}"));
        steer(&program, &stages, &target)[2].reorder
    }

    #[test]
    fn packets_of_a_key_leave_in_order_where_one_stage_sends() {
        assert!(restored("bluefield2", "away(%pkt)"));
        assert!(restored("dpdk", "away(%pkt)"));
        // Two stages send, so nothing is said about order; nor where nobody can restore it.
        assert!(!restored("bluefield2", "net_send(%pkt, %one)"));
        assert!(!restored("xdp", "away(%pkt)"));
        assert!(!restored("agilio-cx", "away(%pkt)"));
    }
}
