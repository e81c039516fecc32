//! Which values travel with their event and which wait in the packet's context, and where there.
//!
//! A value that a stage only hands on is copied at every edge it crosses if it is a parameter. In
//! the context, memory that stays with the packet, it is written once by who makes it and read by
//! who uses it; stages between leave it alone. The interpreter knows nothing of this: αIR passes
//! everything as parameters, and a plan says which of them a code generator may leave behind
//! (Alkali calls this the choice between pass-by-event and pass-by-context).
//!
//! # Which values
//!
//! Parameters that are handed on unchanged are joined into one *value* by union-find over (event,
//! parameter). A value goes to the context if that takes fewer copies: a copy by event costs sender
//! and receiver, a copy by context only those who make it and those who use it. What an event is
//! steered by stays a parameter, and so does a value of which one event carries two copies, since
//! these may differ on other ways.
//!
//! # Where
//!
//! Two values may share bytes if no event carries both: a value that is alive between two handlers
//! is a parameter of the event between them, so events are all places where values meet. Handlers
//! read what they use before they write anything. Slots are given largest value first, each at the
//! lowest aligned offset that is free, which is greedy and not always the least room. Order of
//! events and parameters decides ties, so equal programs get equal slots.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{Direction, EventId, HandlerId, Op, Program, Type, ValueId};
use nicforge_plan::{Edge, Slot, Steering};

/// A parameter of an event.
type Place = (EventId, usize);

/// Puts values of a planned program into the context where that is cheaper, as far as `room` bytes
/// go; the bytes used. `share`: values that never meet may have the same bytes.
pub fn assign(program: &Program, edges: &mut [Edge], room: u32, share: bool) -> u32 {
    let mut values: Vec<Value> =
        joined(program).into_iter().filter(|v| v.pays(program, edges)).collect();
    values.sort_by_key(|value| (std::cmp::Reverse(value.bytes), value.places.first().copied()));
    let mut placed: Vec<(Value, u32)> = Vec::new();
    for value in values {
        let meets = |other: &Value| {
            !share || other.events().any(|event| value.events().any(|e| e == event))
        };
        let taken: Vec<(u32, u32)> = placed
            .iter()
            .filter(|(other, _)| meets(other))
            .map(|(other, at)| (*at, at + other.bytes))
            .collect();
        let align = value.bytes.next_power_of_two().min(8);
        let free =
            |at: &u32| taken.iter().all(|(from, to)| at + value.bytes <= *from || *to <= *at);
        let at = (0..room).step_by(align as usize).find(free);
        if let Some(at) = at.filter(|at| at + value.bytes <= room) {
            placed.push((value, at));
        }
    }
    for (value, at) in &placed {
        value.place(program, edges, *at);
    }
    for edge in edges.iter_mut() {
        edge.bytes =
            edge.values.iter().filter(|value| value.context.is_none()).map(|v| v.bytes).sum();
    }
    placed.iter().map(|(value, at)| at + value.bytes).max().unwrap_or(0)
}

/// Parameters that always hold the same as one another.
struct Value {
    bytes: u32,
    places: BTreeSet<Place>,
    /// Events whose senders, or one of them, make the value.
    made: BTreeSet<Place>,
    /// Parameters that their handler does something with besides handing them on.
    used: BTreeSet<Place>,
}

impl Value {
    fn events(&self) -> impl Iterator<Item = EventId> {
        self.places.iter().map(|(event, _)| *event)
    }

    /// True if the context takes fewer copies than events do, and nothing stands against it.
    fn pays(&self, program: &Program, edges: &[Edge]) -> bool {
        let twice = self.places.len() != self.events().collect::<BTreeSet<_>>().len();
        let steers = |(event, param): &Place| {
            let data = &program.events[*event];
            edges.iter().any(|edge| {
                edge.event == data.name
                    && matches!(&edge.steering, Steering::Key { param: by, .. } if *by == data.params[*param].name)
            })
        };
        let carried = |(event, _): &Place| {
            let name = &program.events[*event].name;
            edges.iter().any(|edge| &edge.event == name)
        };
        !twice
            && self.made.len() + self.used.len() < 2 * self.places.len()
            && self.places.iter().all(carried)
            && !self.places.iter().any(steers)
    }

    fn place(&self, program: &Program, edges: &mut [Edge], at: u32) {
        for place in &self.places {
            let data = &program.events[place.0];
            let name = &data.params[place.1].name;
            for edge in edges.iter_mut().filter(|edge| edge.event == data.name) {
                for carried in edge.values.iter_mut().filter(|carried| &carried.name == name) {
                    carried.context = Some(Slot {
                        at,
                        stored: self.made.contains(place),
                        loaded: self.used.contains(place),
                    });
                }
            }
        }
    }
}

/// The values of all internal events that carry a packet.
fn joined(program: &Program) -> Vec<Value> {
    let mut root: BTreeMap<Place, Place> = BTreeMap::new();
    for (event, data) in &program.events {
        let packet = data.params.iter().any(|param| param.ty == Type::Packet);
        if data.direction == Direction::Internal && packet {
            let plain =
                data.params.iter().enumerate().filter(|(_, param)| param.ty != Type::Packet);
            root.extend(plain.map(|(at, _)| ((event, at), (event, at))));
        }
    }
    let (mut made, mut used) = (BTreeSet::new(), BTreeSet::new());
    for handler in program.handlers.keys() {
        let known: BTreeSet<Place> = root.keys().copied().collect();
        let uses = Uses::of(program, handler, &known);
        for (from, to) in uses.handed_on {
            let (a, b) = (find(&root, from), find(&root, to));
            root.insert(a.max(b), a.min(b));
        }
        made.extend(uses.made);
        used.extend(uses.used);
    }
    let mut groups: BTreeMap<Place, Value> = BTreeMap::new();
    let places: Vec<Place> = root.keys().copied().collect();
    for place in places {
        let bytes = program.size_of(program.events[place.0].params[place.1].ty);
        let value = groups.entry(find(&root, place)).or_insert_with(|| Value {
            bytes,
            places: BTreeSet::new(),
            made: BTreeSet::new(),
            used: BTreeSet::new(),
        });
        value.places.insert(place);
        value.made.extend(made.contains(&place).then_some(place));
        value.used.extend(used.contains(&place).then_some(place));
    }
    groups.into_values().filter(|value| value.bytes > 0).collect()
}

fn find(root: &BTreeMap<Place, Place>, mut place: Place) -> Place {
    while root[&place] != place {
        place = root[&place];
    }
    place
}

/// What a handler does with the parameters of its event, and with those of the events it generates.
struct Uses {
    handed_on: Vec<(Place, Place)>,
    made: Vec<Place>,
    used: Vec<Place>,
}

impl Uses {
    fn of(program: &Program, handler: HandlerId, known: &BTreeSet<Place>) -> Uses {
        let data = &program.handlers[handler];
        let body = &data.body;
        let params = &body.blocks[body.entry()].params;
        let own = |value: ValueId| {
            params.iter().position(|param| *param == value).map(|at| (data.event, at))
        };
        let mut uses = Uses { handed_on: Vec::new(), made: Vec::new(), used: Vec::new() };
        body.for_each_inst(body.entry(), &mut |inst| {
            let Op::Generate { event, args } = &body.insts[inst].op else {
                uses.used.extend(body.insts[inst].op.operands().filter_map(own));
                return;
            };
            for (at, arg) in args.iter().enumerate() {
                match (
                    known.contains(&(*event, at)),
                    own(*arg).filter(|place| known.contains(place)),
                ) {
                    (true, Some(from)) => uses.handed_on.push((from, (*event, at))),
                    (true, None) => uses.made.push((*event, at)),
                    (false, from) => uses.used.extend(from),
                }
            }
        });
        uses
    }
}

#[cfg(test)]
mod tests {
    use nicforge_ir::{text, verify};
    use nicforge_plan::Carried;

    use super::*;

    const CHAIN: &str = include_str!("../../../docs/validation/alkali/context.air");

    fn edges(program: &Program) -> Vec<Edge> {
        let inside = program.events.values().filter(|event| event.direction == Direction::Internal);
        let one = |event: &nicforge_ir::Event| {
            let plain = event.params.iter().filter(|param| param.ty != Type::Packet);
            let carried = |p: &nicforge_ir::Param| Carried {
                name: p.name.clone(),
                bytes: program.size_of(p.ty),
                context: None,
            };
            Edge {
                event: event.name.clone(),
                from: vec!["a".to_string()],
                to: "b".to_string(),
                steering: Steering::One,
                values: plain.map(carried).collect(),
                bytes: 0,
                reorder: None,
            }
        };
        inside.map(one).collect()
    }

    fn chain() -> Program {
        let program =
            text::parse(CHAIN).unwrap_or_else(|e| panic!("{}:{}: {}", e.line, e.col, e.message));
        verify(program).unwrap_or_else(|e| panic!("{}", e[0])).into_inner()
    }

    /// Alkali's example: 16, 16 and 32 bits that never live together need 32 bits.
    #[test]
    fn values_that_never_meet_share_bytes() {
        let program = chain();
        let mut list = edges(&program);
        assert_eq!(assign(&program, &mut list, 64, false), 8);
        let mut list = edges(&program);
        assert_eq!(assign(&program, &mut list, 64, true), 4);
        let slots: Vec<(String, Slot)> = list
            .iter()
            .flat_map(|edge| &edge.values)
            .filter_map(|value| Some((value.name.clone(), value.context?)))
            .collect();
        assert_eq!(slots.len(), 6, "{slots:?}");
        assert!(slots.iter().all(|(_, slot)| slot.at < 4), "{slots:?}");
        assert!(list.iter().all(|edge| edge.bytes == 0), "{list:?}");
    }

    #[test]
    fn a_value_stays_a_parameter_without_room_and_where_it_steers() {
        let program = chain();
        let mut list = edges(&program);
        assert_eq!(assign(&program, &mut list, 0, true), 0);
        assert!(list.iter().all(|edge| edge.bytes > 0));
        let mut list = edges(&program);
        list[0].steering = Steering::Key { param: list[0].values[0].name.clone(), instances: None };
        assign(&program, &mut list, 64, true);
        assert_eq!(list[0].values[0].context, None);
        assert_eq!(list[0].bytes, 2);
    }
}
