//! Queues between NIC and host (`runtime/host/nf_link.h`): the checks of tests/link with threads, a
//! bad DMA engine and processes that are killed, and the model checker's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn every_entry_comes_once_and_in_order() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("link");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-strict-aliasing"]);
    gcc.args(["-fsanitize=address,undefined", "-I"]).arg(repository().join("runtime/host"));
    let made = run(gcc
        .arg(repository().join("tests/link/link.c"))
        .arg("-o")
        .arg(&program)
        .arg("-lpthread"));
    assert!(made.status.success(), "{}", text(&made));
    let ran = run(Command::new(&program).args(["1", "20"]));
    assert!(
        ran.status.success() && text(&ran).contains("every entry once and in order: 20 rounds"),
        "{}",
        text(&ran)
    );
}

/// The protocol of entries, all orders of all steps; and without the look at the second line it is
/// wrong, so the checker would tell.
#[test]
fn the_protocol_holds_in_every_order_of_steps() {
    let model = std::fs::read_to_string(repository().join("tests/link/link.pml")).unwrap();
    let second = " && turn2[at % COUNT] == TURN(at, FULL)";
    assert!(model.contains(second));
    for (model, errors) in [(model.clone(), "errors: 0"), (model.replace(second, ""), "errors: 1")]
    {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("link.pml"), model).unwrap();
        let mut spin = Command::new("spin");
        let made = run(spin.args(["-a", "link.pml"]).current_dir(place.path()));
        assert!(made.status.success(), "{}", text(&made));
        let made = run(Command::new("gcc")
            .args(["-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"])
            .current_dir(place.path()));
        assert!(made.status.success(), "{}", text(&made));
        let ran =
            run(Command::new(place.path().join("pan")).arg("-m100000").current_dir(place.path()));
        assert!(text(&ran).contains(errors), "{}", text(&ran));
    }
}
