//! Programs of `tests/programs/` that no example is: features beside each other, and the kernel's
//! own routing.

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::verify::verify;
use nicforge_ir::{Interp, TableBackend};
use nicforge_passes::PassManager;
use nicforge_run::compile::Mode;
use nicforge_run::control;
use nicforge_run::pcap::{self, SourceKind};
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded};
use nicforge_tests::net::{Namespace, cable};
use nicforge_tests::nic::{Nic, reported};
use nicforge_tests::{kernel_is_missing, root};
use serde_json::json;

#[test]
fn every_kind_of_table_does_the_same_in_the_kernel() {
    if let Some(why) = kernel_is_missing() {
        println!("skipped: {why}");
        return;
    }
    let folder = root().join("tests/programs/every_table");
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let output =
        nicforge_frontend::compile(&folder.join("every_table.c"), &options).expect("it compiles");
    let program = verify(output.program).expect("it verifies");
    let compiled = PassManager::new().run_default(program.clone()).expect("passes");
    let artifact = xdp::generate(&compiled, LineStyle::Comments).expect("it fits xdp");
    let object =
        compile_bpf("every_table", &artifact.source, Mode::Replay, &[root().join("runtime/xdp")])
            .expect("clang");
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let kernel = Loaded::load(&compiled, &artifact, &object, &options).expect("it loads");
    let entries = control::load_tables(&program, &folder.join("tables.toml")).expect("tables");
    let mut interp = Interp::new(&program);
    let mut tables = kernel.tables();
    control::apply(&mut interp, &entries).expect("room");
    control::apply(&mut tables, &entries).expect("room");
    let frames = pcap::read(&root().join("examples/l2_forward/traffic.pcap")).expect("a capture");
    let mut kinds = std::collections::BTreeSet::new();
    for (i, event) in pcap::merge(&[(SourceKind::Port(0), frames)]).iter().enumerate() {
        let want = interp.run(event).expect("the interpreter runs");
        assert_eq!(kernel.test_run(event).expect("the kernel runs"), want, "packet {i}");
        kinds.extend(want.iter().map(std::mem::discriminant).map(|d| format!("{d:?}")));
    }
    // Sent, dropped, logged and delivered to the host: otherwise this compares too little.
    assert_eq!(kinds.len(), 4);
    for id in program.tables.keys() {
        assert_eq!(tables.dump(id), interp.dump(id));
    }
}

#[test]
fn the_kernels_routes_and_neighbours_forward() {
    if let Some(why) = kernel_is_missing() {
        println!("skipped: {why}");
        return;
    }
    let (left, nic, right) = (Namespace::new(), Namespace::new(), Namespace::new());
    cable((&left, "eth0", "02:00:00:00:00:01"), (&nic, "nf0", "02:00:00:00:00:0a"));
    cable((&right, "eth0", "02:00:00:00:00:02"), (&nic, "nf1", "02:00:00:00:00:0b"));
    left.ip("address add 10.0.0.1/24 dev eth0\nroute add default via 10.0.0.254");
    right.ip("address add 10.0.1.1/24 dev eth0\nroute add default via 10.0.1.254");
    nic.ip("address add 10.0.0.254/24 dev nf0\naddress add 10.0.1.254/24 dev nf1");
    nic.ip("neighbour add 10.0.0.1 lladdr 02:00:00:00:00:01 dev nf0 nud permanent\n\
         neighbour add 10.0.1.1 lladdr 02:00:00:00:00:02 dev nf1 nud permanent");
    // The lookup answers only where the kernel forwards.
    for interface in ["all", "nf0", "nf1"] {
        let line = format!("sysctl -q -w net.ipv4.conf.{interface}.forwarding=1");
        assert!(nic.run(&line).ok, "{line}");
    }
    let program = Nic::start(&nic, "../tests/programs/fib_router", &["nf0", "nf1"], &json!({}));
    assert_eq!(left.pings(5, 56, "10.0.1.1"), 5);
    let forwarded = program.dump("forwarded");
    let report = program.stop();
    let count = |port: usize| {
        forwarded[port]["value"].to_string().trim_matches('"').parse::<u64>().unwrap_or(0)
    };
    assert_eq!((count(0), count(1)), (5, 5), "{report}");
    assert!(reported(&report, "packets in") >= 10, "{report}");
}
