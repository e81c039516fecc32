//! The αIR program and artifact that fit fixtures/fixture.bpf.c, and what the tests need around
//! them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;

use nicforge_codegen::{LogFormat, XdpArtifact, XdpBuf, XdpMapShape, XdpProgram, XdpTable};
use nicforge_ir::{
    Body, Direction, DropReason, Event, Field, Handler, Input, InputEvent, Param, Program,
    ReasonId, Span, StructDef, Table, TableId, TableKind, Type,
};
use nicforge_run::compile::Mode;
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded};

pub const FIXTURE: &str = include_str!("../fixtures/fixture.bpf.c");

/// True if BPF programs can be loaded; says loudly what is missing if not.
pub fn can_load() -> bool {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    eprintln!("SKIPPED: this test loads BPF programs and makes network namespaces: run it as root");
    false
}

pub struct Fixture {
    pub program: Program,
    pub artifact: XdpArtifact,
    pub hits: TableId,
    pub slots: TableId,
    pub total: TableId,
    pub routes: TableId,
    pub acl: TableId,
    pub texts: TableId,
    pub unwanted: ReasonId,
}

fn field(name: &str, ty: Type) -> Field {
    Field { name: name.into(), ty, bit_width: None, big_endian: false }
}

fn table(
    program: &mut Program,
    name: &str,
    kind: TableKind,
    types: (Type, Type),
    capacity: u32,
) -> TableId {
    let (key, value) = types;
    let (name, span) = (name.to_string(), Span::default());
    program.tables.push(Table {
        name,
        kind,
        key,
        key_big_endian: false,
        value,
        capacity,
        buf: None,
        max_replicas: None,
        by_number: false,
        shared: false,
        span,
    })
}

pub fn fixture() -> Fixture {
    let mut p = Program::new("fixture");
    p.ports = 2;
    let hit = p.add_struct(StructDef {
        name: "hit".into(),
        packed: false,
        fields: vec![field("packets", Type::U64), field("bytes", Type::U32)],
    });
    let address = p.array_of(Type::U8, 4);
    let hits = table(&mut p, "hits", TableKind::Hash, (Type::U32, Type::Struct(hit)), 4);
    let slots = table(&mut p, "slots", TableKind::Array, (Type::U32, Type::U32), 8);
    let total = table(&mut p, "total", TableKind::Array, (Type::U32, Type::U64), 4);
    let routes = table(&mut p, "routes", TableKind::Lpm, (address, Type::U32), 8);
    let acl = table(&mut p, "acl", TableKind::Ternary, (Type::U16, Type::U8), 4);
    let texts = table(&mut p, "texts", TableKind::Hash, (Type::U32, Type::U16), 4);
    p.tables[texts].buf = Some(6);
    let unwanted = p.reasons.push(DropReason { text: "unwanted".into(), span: Span::default() });
    let event = |name: &str, ty| Event {
        name: name.into(),
        direction: Direction::In,
        params: vec![Param { name: "x".into(), ty, borrowed: false }],
        zeros: 0,
        period: None,
    };
    let events = [
        p.events.push(event("net_recv", Type::Packet)),
        p.events.push(event("host_send", Type::U64)),
    ];
    let programs = events
        .into_iter()
        .map(|event| {
            let name = p.events[event].name.clone();
            let handler = p.handlers.push(Handler {
                name: name.clone(),
                event,
                body: Body::default(),
                max_replicas: None,
                unordered: false,
                room: None,
                side: None,
                span: Span::default(),
            });
            XdpProgram { name: format!("nf_{name}"), handler, event }
        })
        .collect();
    let map =
        |table, map: &str, shape, buf| XdpTable { table, map: map.into(), shape, front: 0, buf };
    let artifact = XdpArtifact {
        source: FIXTURE.into(),
        programs,
        tables: vec![
            map(hits, "hits", XdpMapShape::Exact, None),
            map(slots, "slots", XdpMapShape::Array, None),
            map(total, "total", XdpMapShape::PerCpuSum, None),
            map(routes, "routes", XdpMapShape::Lpm, None),
            map(acl, "acl", XdpMapShape::TernaryList, None),
            map(
                texts,
                "texts",
                XdpMapShape::Exact,
                Some(XdpBuf { capacity: 6, len_offset: 4, bytes_offset: 8, value_size: 16 }),
            ),
        ],
        reasons: vec![(Some(unwanted), "unwanted".into()), (None, "no room for headers".into())],
        logs: vec![LogFormat { text: "port {} at {}".into(), signed: vec![false, false] }],
        uses_time_or_random: true,
        uses_host_ring: true,
        process: None,
        pipeline: None,
    };
    Fixture { program: p, artifact, hits, slots, total, routes, acl, texts, unwanted }
}

impl Fixture {
    pub fn object(&self, mode: Mode) -> Vec<u8> {
        compile_bpf("fixture", &self.artifact.source, mode, &includes()).unwrap()
    }

    pub fn load(&self, mode: Mode, ifindex: Vec<u32>) -> Loaded {
        let options = LoadOptions { mode, ifindex };
        Loaded::load(&self.program, &self.artifact, &self.object(mode), &options).unwrap()
    }
}

pub fn includes() -> Vec<PathBuf> {
    Vec::new()
}

/// A 60-byte frame of an Ethernet type; `source` is its source address's last byte.
pub fn frame(ether_type: u16, source: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, source];
    frame.extend(ether_type.to_be_bytes());
    frame.resize(60, 0xaa);
    frame
}

pub fn net(port: u32, frame: Vec<u8>) -> InputEvent {
    InputEvent { time_ns: 1234, seed: 7, input: Input::Net { port, frame } }
}
