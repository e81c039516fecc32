//! Which constructs of a program a target lacks.

use std::collections::BTreeSet;

use nicforge_ir::{Body, Direction, FuncId, HandlerId, Op, Program, Side, Span, Words, Work};

use crate::spec::{Device, EventDirection, Feature, Kind, LinkKind, Target};

/// What target files call timers.
const TIMER: &str = "timer";

/// A construct that the target lacks, at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    pub span: Span,
    /// The construct, in the user's words.
    pub what: String,
}

/// Everything in `program` that `target` lacks, each construct once, in program order. Empty: it
/// runs there.
///
/// `program` is what the front end or the passes left; inlined code is judged once per place.
pub fn missing(program: &Program, target: &Target) -> Vec<Missing> {
    let mut list = Vec::new();
    for handler in program.handlers.values() {
        let event = &program.events[handler.event];
        // All timers are one event of the target.
        let name = if event.period.is_some() { TIMER } else { &event.name };
        // Packets start the handlers of a sPIN NIC, whatever its file offers.
        let started = event.period.is_none() || target.spin.is_none();
        let offered = started && offers(target, name, EventDirection::In);
        if event.direction == Direction::In && !offered {
            let what = if event.period.is_some() {
                "timers (NF_TIMER); compare nf_now() with a time in a table when a packet comes"
                    .to_string()
            } else {
                format!("the event `{}`", event.name)
            };
            list.push(Missing { span: handler.span, what });
        }
        if event.period.is_some() && handler.side == Some(Side::Host) {
            let what = "timers on the host side; let the timer enqueue to a handler there";
            list.push(Missing { span: handler.span, what: what.to_string() });
        }
    }
    for table in program.tables.values() {
        if !target.tables.contains(&Kind::from(table.kind)) {
            list.push(Missing {
                span: table.span,
                what: format!("tables of kind `{}`", table.kind.name()),
            });
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
    let loses =
        target.links.iter().any(|link| matches!(link.kind, LinkKind::Cpumap | LinkKind::AfXdp));
    for handler in program.handlers.values().filter(|_| loses) {
        if handler.room.is_some_and(|room| !room.loses) {
            let what = "queues that wait when they are full (those of the kernel lose, counted)"
                .to_string();
            list.push(Missing { span: handler.span, what });
        }
    }
    let moved = needs_host(program, target);
    let side =
        |id: HandlerId| program.handlers[id].side.or(moved.contains(&id).then_some(Side::Host));
    let handlers = program.handlers.iter().map(|(id, h)| (&h.body, features(target, side(id))));
    // A function is judged by each side that calls it; one that nobody calls, by all there is.
    let sides = |func: FuncId| {
        let by =
            program.handlers.iter().filter(move |(_, h)| called(program, &h.body).contains(&func));
        let sides: BTreeSet<bool> = by.map(|(id, _)| side(id) == Some(Side::Host)).collect();
        if sides.is_empty() { BTreeSet::from([true]) } else { sides }
    };
    let of = |host: bool| features(target, host.then_some(Side::Host));
    let funcs = program.funcs.iter();
    let funcs =
        funcs.flat_map(|(id, f)| sides(id).into_iter().map(move |host| (&f.body, of(host))));
    for (body, features) in handlers.chain(funcs) {
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

/// Handlers that call functions of C, ciphers or digests and may run on the host side, where only
/// the host side of a target has them: there they run. What comes from outside stays where it comes
/// in.
pub fn needs_host(program: &Program, target: &Target) -> BTreeSet<HandlerId> {
    let host_only = |feature| !target.features.contains(&feature) && on_host(target, feature);
    let (c, crypto) = (host_only(Feature::CFunctions), host_only(Feature::Crypto));
    let asks = |op: &Op| match op {
        Op::Extern { .. } => c,
        Op::Crypto { .. } => crypto,
        _ => false,
    };
    let inner = |id: HandlerId| {
        let handler = &program.handlers[id];
        handler.side.is_none() && program.events[handler.event].direction == Direction::Internal
    };
    let calls = |id: HandlerId| {
        let body = &program.handlers[id].body;
        any_op(body, asks)
            || called(program, body).iter().any(|func| any_op(&program.funcs[*func].body, asks))
    };
    program.handlers.keys().filter(|id| (c || crypto) && inner(*id) && calls(*id)).collect()
}

fn on_host(target: &Target, feature: Feature) -> bool {
    target.units.iter().any(|unit| unit.device == Device::Host && unit.features.contains(&feature))
}

fn any_op(body: &Body, is: impl Fn(&Op) -> bool) -> bool {
    let mut found = false;
    body.for_each_inst(body.entry(), &mut |inst| found |= is(&body.insts[inst].op));
    found
}

/// The functions that a body calls, and those that they call.
fn called(program: &Program, body: &Body) -> BTreeSet<FuncId> {
    let mut found = BTreeSet::new();
    let mut bodies = vec![body];
    while let Some(body) = bodies.pop() {
        body.for_each_inst(body.entry(), &mut |inst| {
            if let Op::Call { func, .. } = body.insts[inst].op
                && found.insert(func)
            {
                bodies.push(&program.funcs[func].body);
            }
        });
    }
    found
}

/// What a handler may use: what the whole target can, and on the host side what units there can
/// besides.
fn features(target: &Target, side: Option<Side>) -> Vec<Feature> {
    let units =
        target.units.iter().filter(|unit| side == Some(Side::Host) && unit.device == Device::Host);
    target.features.iter().chain(units.flat_map(|unit| &unit.features)).copied().collect()
}

fn offers(target: &Target, event: &str, direction: EventDirection) -> bool {
    target.events.get(event).is_some_and(|spec| spec.direction == direction)
}

/// Bytes that `verify` has sPIN cores put behind a frame.
const TRAILER: u32 = 16;

/// Bytes of the longest frame that a target sends.
fn longest(target: &Target) -> u32 {
    target.spin.as_ref().map_or(u32::MAX, |spin| spin.max_send.saturating_sub(TRAILER))
}

/// The remedy where only the host side of a target has a feature.
fn behind_queue(target: &Target, feature: Feature) -> &'static str {
    if on_host(target, feature) {
        "; its host side has them: put the call behind a queue to the host"
    } else {
        ""
    }
}

fn lacking(
    program: &Program,
    body: &Body,
    op: &Op,
    target: &Target,
    features: &[Feature],
) -> Option<String> {
    let need =
        |feature: Feature, what: &str| (!features.contains(&feature)).then(|| what.to_string());
    match op {
        op if op.reads_clock() => need(Feature::Time, "the time (nf_now)"),
        op if op.draws() => need(Feature::Random, "random numbers (nf_random)"),
        op if op.scans() => {
            need(Feature::TableScan, "looking at all entries of a table (nf_least, NF_EXPIRES)")
        }
        op if op.logs() => need(Feature::Log, "messages to the developer (nf_log)"),
        op if op.asks_routes() => {
            need(Feature::FibLookup, "the operating system's routes (nf_fib_lookup)")
        }
        op if op.work() == Work::PacketSum => {
            need(Feature::PayloadChecksum, "checksums over the payload (nf_csum_payload)")
        }
        Op::Crypto { op, .. } => need(
            Feature::Crypto,
            &format!(
                "ciphers and digests such as `nf_{}` where it is called{}",
                op.word(),
                behind_queue(target, Feature::Crypto)
            ),
        ),
        Op::Regex { .. } => need(
            Feature::LongLoops,
            "a search over the payload (nf_regex): loops of more than 16 trips",
        ),
        Op::Extend { .. } => need(Feature::Extend, "packets that grow at their end (nf_extend)"),
        Op::Extern { name, .. } => need(
            Feature::CFunctions,
            &format!(
                "functions of C such as `{name}` where it is called{}",
                behind_queue(target, Feature::CFunctions)
            ),
        ),
        Op::Bin(nicforge_ir::BinOp::Div | nicforge_ir::BinOp::Rem, _, by) => match body.def_op(*by)
        {
            Some(Op::Int(_)) => None,
            _ => need(Feature::Division, "division by a value that is not constant"),
        },
        Op::Loop { max_trips, .. } if *max_trips > 16 => {
            need(Feature::LongLoops, "loops of more than 16 trips")
        }
        op if op.sends_string() => {
            need(Feature::BufferPackets, "sending a table's byte string as a packet")
        }
        Op::NewPacket { value, .. } => {
            let (size, longest) = (program.size_of(body.ty(*value)), longest(target));
            need(Feature::NewPackets, "packets made from nothing (`nf_new`)").or_else(|| {
                (size > longest).then(|| format!("frames of {size} bytes (it sends {longest})"))
            })
        }
        Op::Generate { event, .. } => {
            let def = &program.events[*event];
            (def.direction == Direction::Out && !offers(target, &def.name, EventDirection::Out))
                .then(|| format!("the event `{}`", def.name))
        }
        _ => None,
    }
}
