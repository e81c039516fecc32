//! Which constructs of a program a target lacks.

use nicforge_ir::{Body, Direction, Op, Program, Side, Span};

use crate::spec::{Device, EventDirection, Feature, Kind, LinkKind, Target};

/// A construct that the target lacks, at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    pub span: Span,
    /// The construct, in the user's words.
    pub what: String,
}

/// Everything in `program` that `target` lacks, each construct once, in program order. Empty: it runs there.
///
/// `program` is what the front end or the passes left; inlined code is judged once per place.
pub fn missing(program: &Program, target: &Target) -> Vec<Missing> {
    let mut list = Vec::new();
    for handler in program.handlers.values() {
        let event = &program.events[handler.event];
        if event.direction == Direction::In && !offers(target, &event.name, EventDirection::In) {
            list.push(Missing { span: handler.span, what: format!("the event `{}`", event.name) });
        }
    }
    for table in program.tables.values() {
        if !target.tables.contains(&Kind::from(table.kind)) {
            list.push(Missing { span: table.span, what: format!("tables of kind `{}`", table.kind.name()) });
        }
        if table.buf.is_some() && !target.features.contains(&Feature::Buffers) {
            list.push(Missing {
                span: table.span,
                what: "byte strings in tables (NF_BUF_TABLE)".to_string(),
            });
        }
    }
    if program.ports > target.ports.count {
        list.push(Missing {
            span: program.handlers.values().next().map(|h| h.span).unwrap_or_default(),
            what: format!("{} network ports (it has {})", program.ports, target.ports.count),
        });
    }
    let loses = target.links.iter().any(|link| matches!(link.kind, LinkKind::Cpumap | LinkKind::AfXdp));
    for handler in program.handlers.values().filter(|_| loses) {
        if handler.room.is_some_and(|room| !room.loses) {
            let what = "queues that wait when they are full (those of the kernel lose, counted)".to_string();
            list.push(Missing { span: handler.span, what });
        }
    }
    let handlers = program.handlers.values().map(|h| (&h.body, features(target, h.side)));
    // Who calls a function is not known here: any unit may.
    let all = features(target, Some(Side::Host));
    let bodies = handlers.chain(program.funcs.values().map(|f| (&f.body, all.clone())));
    for (body, features) in bodies {
        body.for_each_inst(body.entry(), &mut |inst| {
            let data = &body.insts[inst];
            if let Some(what) = lacking(program, body, &data.op, target, &features) {
                list.push(Missing { span: data.span, what });
            }
        });
    }
    let mut seen: Vec<String> = Vec::new();
    list.retain(|missing| {
        let fresh = !seen.contains(&missing.what);
        if fresh {
            seen.push(missing.what.clone());
        }
        fresh
    });
    list
}

/// What a handler may use: what the whole target can, and on the host side what units there can besides.
fn features(target: &Target, side: Option<Side>) -> Vec<Feature> {
    let units = target.units.iter().filter(|unit| side == Some(Side::Host) && unit.device == Device::Host);
    target.features.iter().chain(units.flat_map(|unit| &unit.features)).copied().collect()
}

fn offers(target: &Target, event: &str, direction: EventDirection) -> bool {
    target.events.get(event).is_some_and(|spec| spec.direction == direction)
}

fn lacking(program: &Program, body: &Body, op: &Op, target: &Target, features: &[Feature]) -> Option<String> {
    let need = |feature: Feature, what: &str| (!features.contains(&feature)).then(|| what.to_string());
    match op {
        Op::Now => need(Feature::Time, "the time (nf_now)"),
        Op::Random => need(Feature::Random, "random numbers (nf_random)"),
        Op::Log { .. } => need(Feature::Log, "messages to the developer (nf_log)"),
        Op::FibLookup { .. } => need(Feature::FibLookup, "the operating system's routes (nf_fib_lookup)"),
        Op::Extern { name, .. } => {
            need(Feature::CFunctions, &format!("functions of C such as `{name}` where it is called"))
        }
        Op::PktCsum { .. } => need(Feature::PayloadChecksum, "checksums over the payload (nf_csum_payload)"),
        Op::Bin(nicforge_ir::BinOp::Div | nicforge_ir::BinOp::Rem, _, by) => match body.def_op(*by) {
            Some(Op::Int(_)) => None,
            _ => need(Feature::Division, "division by a value that is not constant"),
        },
        Op::Loop { max_trips, .. } if *max_trips > 16 => {
            need(Feature::LongLoops, "loops of more than 16 trips")
        }
        Op::BufGenerate { .. } => need(Feature::BufferPackets, "sending a table's byte string as a packet"),
        Op::Generate { event, .. } => {
            let def = &program.events[*event];
            (def.direction == Direction::Out && !offers(target, &def.name, EventDirection::Out))
                .then(|| format!("the event `{}`", def.name))
        }
        _ => None,
    }
}
