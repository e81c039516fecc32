//! What stages share bounds a plan: a memory that serves little, and the link to the host.

use std::path::Path;

use nicforge_bound::plan::{Guarantee, guarantee};
use nicforge_ir::Program;
use nicforge_ir::verify::{Verified, verify};
use nicforge_plan::{Objective, Plan};
use nicforge_planner::assemble;
use nicforge_planner::instance::Config;
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{CANDIDATES, Limits, search};
use nicforge_target::quantity::{BitRate, Rate};
use nicforge_target::{Device, Target};

/// An example, its plan on a target, and the planned program.
fn planned(name: &str, target: &Target) -> (Plan, Verified<Program>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join("examples").join(name).join(name).with_extension("c");
    let options = nicforge_frontend::Options::new(root.join("runtime/include"));
    let Ok(output) = nicforge_frontend::compile(&source, &options) else {
        panic!("{name} compiles")
    };
    let program = verify(output.program).unwrap();
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: false };
    let config = Config::default();
    let found = search(&program, target, &config, Goal::Rate, limits, &|| false).unwrap();
    let plan = assemble::plan(&program, target, &config, Objective::Rate, &found, found.best);
    let program = assemble::program_of(&plan).unwrap();
    (plan, program)
}

fn bounded(plan: &Plan, program: &Program, target: &Target) -> Guarantee {
    let found = guarantee(plan, program, target, None).unwrap();
    assert!(found.exact && found.pps <= found.uniform_keys_pps, "{found:?}");
    found
}

fn rate(text: &str) -> Rate {
    Rate::parse(text).unwrap()
}

#[test]
fn a_slow_memory_limits_all_stages_together() {
    let mut target = nicforge_target::find("bluefield2").unwrap();
    let (mut plan, program) = planned("flow_stats", &target);
    for table in &mut plan.tables {
        table.memory = "dram".to_string();
    }
    let free = bounded(&plan, &program, &target);
    assert_ne!(free.limit, "dram");
    let mut serve = |text: &str| {
        let memory = target.memories.iter_mut().find(|memory| memory.name == "dram").unwrap();
        memory.operations = Some(rate(text));
        bounded(&plan, &program, &target)
    };
    let (slow, slower) = (serve("1 M/s"), serve("500 k/s"));
    assert_eq!((slow.limit.as_str(), slower.limit.as_str()), ("dram", "dram"));
    assert!(slow.pps < free.pps);
    // One device-wide memory serves all replicas: it is the same whatever the keys, and
    // proportional to what it serves.
    assert_eq!(slow.pps, slow.uniform_keys_pps);
    assert!((slow.pps / slower.pps - 2.0).abs() < 1e-6, "{} and {}", slow.pps, slower.pps);
    // The slowest packet makes a whole number of operations, of all stages.
    let operations = 1e6 / slow.pps;
    assert!(
        operations >= 2.0 && (operations - operations.round()).abs() < 1e-3,
        "{operations} operations"
    );
}

#[test]
fn frames_that_cross_to_the_host_are_limited_by_its_link() {
    let mut target = nicforge_target::find("bluefield2").unwrap();
    let (mut plan, program) = planned("flow_stats", &target);
    let free = bounded(&plan, &program, &target);
    assert_ne!(free.limit, "host link");
    let host = target.units.iter().find(|group| group.device == Device::Host).unwrap().name.clone();
    let last = plan.stages.len() - 1;
    assert!(last > 0, "two stages to be joined by the link");
    plan.stages[last].group = host;
    target.host_link.as_mut().unwrap().rate = BitRate::parse("100 Mbit/s").unwrap();
    let found = bounded(&plan, &program, &target);
    assert_eq!(found.limit, "host link");
    let edge = plan.edges.iter().find(|edge| edge.to == plan.stages[last].name).unwrap();
    let bits = 8.0 * f64::from(target.ports.mtu + edge.bytes);
    assert!((found.pps * bits / 100e6 - 1.0).abs() < 1e-6, "{} packets of {bits} bits", found.pps);
}
