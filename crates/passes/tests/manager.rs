//! The pass manager: names, hooks, times, limits.

use nicforge_ir::text::parse;
use nicforge_ir::{Program, Verified, verify};
use nicforge_passes::registry::{EXPAND, PASSES, PREPARE, SIMPLIFY, pass_named};
use nicforge_passes::{PassError, PassManager};

const HEAD: &str = "program p ports 1 event net_recv(pkt: packet) in reason \"no\" ";

fn program(text: &str) -> Verified<Program> {
    verify(parse(&format!("{HEAD}{text}")).unwrap()).unwrap()
}

#[test]
fn every_pass_has_a_name_of_its_own_and_a_description() {
    for (i, pass) in PASSES.iter().enumerate() {
        assert!(
            pass.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
            "{}",
            pass.name()
        );
        assert!(!pass.description().is_empty());
        assert!(PASSES[..i].iter().all(|other| other.name() != pass.name()));
    }
    assert!(PREPARE.iter().chain(&SIMPLIFY).chain(&EXPAND).all(|name| pass_named(name).is_some()));
}

#[test]
fn an_unknown_pass_is_refused_with_those_there_are() {
    let result = PassManager::new().run(program(""), &["fould"]);
    let message = result.map(|_| ()).unwrap_err().to_string();
    let known: Vec<&str> = PASSES.iter().map(|pass| pass.name()).collect();
    assert_eq!(message, format!("there is no pass `fould`; there are {}", known.join(", ")));
}

#[test]
fn a_broken_pass_is_named_with_what_is_wrong() {
    let text = format!("{HEAD} handler h on net_recv(%pkt: packet) {{ return }}");
    let program = parse(&text).unwrap();
    let errors = verify(program.clone()).unwrap_err();
    let first = errors[0].to_string();
    let broken = PassError::Broken { pass: "fold", errors, program: Box::new(program) };
    let said = format!("internal error: pass `fold` left a program that does not verify: {first}");
    assert_eq!(broken.to_string(), said);
}

#[test]
fn hooks_see_every_run_and_times_add_up() {
    let mut seen = Vec::new();
    let text = "handler h on net_recv(%pkt: packet) { %a: u8 = 1 %b: u8 = add %a, %a drop %pkt, \"no\" return }";
    let mut manager = PassManager::new();
    manager.print_after(|name, program| seen.push((name, program.handlers.len())));
    manager.run_default(program(text)).unwrap();
    let times: Vec<_> = manager.times().iter().map(|time| (time.pass, time.runs)).collect();
    drop(manager);
    // The second round finds nothing to do.
    let once = |name: &&'static str| (*name, 1);
    let twice = SIMPLIFY.iter().map(|name| (*name, 2));
    assert_eq!(
        times,
        PREPARE.iter().map(once).chain(twice).chain(EXPAND.iter().map(once)).collect::<Vec<_>>()
    );
    assert_eq!(seen.len(), PREPARE.len() + 2 * SIMPLIFY.len() + EXPAND.len());
    assert_eq!(seen[..2], [("inline", 1), ("fold", 1)]);
}

#[test]
fn deep_and_long_programs_stay_within_the_verifiers_limits() {
    // 300 early returns would become 300 nested ifs.
    let returns: String = (0..300)
        .map(|i| format!("%c{i}: u32 = {i} %d{i}: u1 = eq %x, %c{i} if %d{i} {{ return %c{i} }} "))
        .collect();
    let early = format!(
        "func f(%x: u32) -> (u32) {{ {returns} return %x }}
         handler h on net_recv(%pkt: packet) {{ %ok: u1, %x: u32 = extract %pkt %y: u32 = call f(%x)
           emit %pkt, %y drop %pkt, \"no\" return }}"
    );
    PassManager::new().run_default(program(&early)).unwrap();
    // Loops as deep as they may nest.
    let loops =
        format!("{} continue 0 }} {}", "loop 2 { ".repeat(250), "continue 0 } ".repeat(249));
    let deep =
        format!("handler h on net_recv(%pkt: packet) {{ {loops} drop %pkt, \"no\" return }}");
    PassManager::new().run(program(&deep), &["unroll", "simplify-control", "unroll"]).unwrap();
}

#[test]
fn exponential_call_trees_stop_growing() {
    let funcs: String = (0..40)
        .map(|i| format!("func f{i}(%x: u32) -> (u32) {{ %a: u32 = call f{0}(%x) %b: u32 = call f{0}(%a) return %b }} ", i + 1))
        .collect();
    let text = format!(
        "{funcs} func f40(%x: u32) -> (u32) {{ %y: u32 = add %x, %x return %y }}
         handler h on net_recv(%pkt: packet) {{ %ok: u1, %x: u32 = extract %pkt %y: u32 = call f0(%x)
           emit %pkt, %y drop %pkt, \"no\" return }}"
    );
    let after = PassManager::new().run(program(&text), &["inline"]).unwrap();
    assert!(after.funcs.len() > 1, "calls that would make the body too large stay");
}
