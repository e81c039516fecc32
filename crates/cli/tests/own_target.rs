//! A target file of the user's own in every command: NICs that are not built in, and files with
//! mistakes.

mod common;

use common::{Place, can_emulate_arm, cut};
use serde_json::Value;

/// A file of `examples/targets`.
fn file(name: &str) -> String {
    common::example(&format!("targets/{name}.toml"))
}

/// Runs what takes a target, on a file and some examples. `says` is what `verify` prints of its
/// stand-in; `bound` is why there is no bound, if that is so.
fn in_every_command(name: &str, programs: &[&str], says: &str, bound: Option<&str>) {
    let (place, file) = (Place::new(), file(name));
    for program in programs {
        cut(&place, program);
        let run = |command: &str, more: &[&str]| {
            place.run(&[&[command, program, "--target", &file][..], more].concat())
        };
        assert!(run("check", &[]).ok().contains(&format!("{name}  yes")), "{program}");
        let plan: Value = serde_json::from_str(run("plan", &["--json"]).ok()).unwrap();
        assert_eq!(plan["target"], name);
        match bound {
            Some(why) => run("bound", &[]).fails(1, &[why]),
            None => assert!(run("bound", &["--timeout", "2"]).ok().contains(name), "{program}"),
        }
        let sim: Value = serde_json::from_str(run("sim", &["--packets", "100", "--json"]).ok()).unwrap();
        assert_eq!(sim["target"], name, "{sim}");
        run("explain", &[]).ok();
        assert!(run("report", &["--quick", "-o", "page.html"]).ok().contains("wrote page.html"));
        let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
        assert!(page.contains(&format!("id=\"{name}\"")), "{program}");

        assert!(!run("build", &["--emit", "c"]).ok().is_empty());
        run("build", &["-o", "built"]).ok();
        let built = place.path().join("built");
        if built.is_dir() {
            std::fs::remove_dir_all(&built).unwrap();
        } else {
            std::fs::remove_file(&built).unwrap();
        }
        let ran: Value = serde_json::from_str(run("run", &["--json"]).ok()).unwrap();
        assert_eq!((&ran["target"], &ran["program"]), (&name.into(), &(*program).into()));
        let verified = run("verify", &[]);
        let text = verified.ok();
        assert!(text.contains(&format!("{name} ")) && text.contains(says), "{program}: {text}");
        let simulated = place.run(&["verify", program, "--sim", &file]);
        assert!(simulated.ok().contains("(functional: simulated)"), "{program}: {simulated:?}");
    }
    place.is_clean();
}

#[test]
fn an_fpga_card_of_another_clock() {
    let why = "`pipe` are pipelines: their rate is the same for all packets";
    in_every_command("u250", &["conn_limiter"], "(RTL simulated by Verilator)", Some(why));
}

#[test]
fn sixteen_arm_cores() {
    if can_emulate_arm() {
        in_every_command("bluefield3", &["conn_limiter"], "(functional: emulated)", None);
    }
}

#[test]
fn sixty_four_riscv_cores_in_eight_clusters() {
    in_every_command("manycore", &["l2_forward", "flow_stats"], "(on simulated cores)", None);
}

/// The clock is the file's where cycles become time.
#[test]
fn cycles_are_those_of_the_files_clock() {
    let place = Place::new();
    cut(&place, "l2_forward");
    let ran = place.run(&["run", "l2_forward", "--target", &file("u250"), "--json"]);
    let ran: Value = serde_json::from_str(ran.ok()).unwrap();
    let (hz, each) = (ran["clock_hz"].as_f64().unwrap(), ran["cycles_per_event"].as_f64().unwrap());
    assert_eq!(hz, 200e6);
    assert!((ran["mpps"].as_f64().unwrap() - 200.0 / each).abs() < 1e-6, "{ran}");
}

/// Text of a built-in spec with something else in it, and what each command says of it.
fn refused(place: &Place, like: &str, change: [&str; 2], code: i32, says: &[&str]) {
    let shown = place.run(&["targets", "show", like]);
    assert!(shown.ok().contains(change[0]), "{like} has no {}", change[0]);
    place.file("mine.toml", shown.ok().replace(change[0], change[1]));
    for command in ["build", "run", "verify"] {
        let ran = place.run(&[command, "l2_forward", "--target", "./mine.toml"]);
        ran.fails(code, says);
        assert_eq!(ran.err.lines().count(), 1, "one message: {ran:?}");
    }
}

#[test]
fn mistakes_in_a_file_are_one_message_with_place_reason_and_remedy() {
    let place = Place::new();
    cut(&place, "l2_forward");
    let word = ["codegen = \"rtl\"", "codegen = \"fpga\""];
    let known = "expected one of `xdp`, `dpdk`, `nfp`, `riscv`, `rtl`, `threads`, `host`";
    refused(&place, "u280", word, 1, &["mine.toml:13: unknown variant `fpga`", known, "docs/targets.md"]);
    let key = ["clock = \"250 MHz\"       # [alkali]\ninit", "init"];
    refused(&place, "u280", key, 1, &["mine.toml:11: missing field `clock`", "targets show NAME"]);
    let host = ["codegen = \"dpdk\"", "codegen = \"host\""];
    let says = [
        "`dpdk`",
        "no back end for their codegen `host`",
        "put units first whose codegen is one of xdp, dpdk",
    ];
    refused(&place, "dpdk", host, 1, &says);
    let clock = ["clock = \"250 MHz\"", "clock = \"300 MHz\""];
    refused(&place, "u280", clock, 1, &["clocks up to 250 MHz: give units `pipe` such a clock"]);
    let link = ["kind = \"noc\"", "kind = \"axi\""];
    refused(
        &place,
        "panic",
        link,
        1,
        &["a section [spin], or a memory of scope `unit`", "targets show pspin"],
    );
    let cpu = ["costs = \"rv32\"", "costs = \"rv32\"\ncpu = \"rocket\""];
    refused(&place, "panic", cpu, 1, &["mine.toml", "cpu is for codegen dpdk, not for riscv; leave it out"]);

    for command in ["build", "run", "verify", "check", "plan", "sim", "bound"] {
        place.run(&[command, "l2_forward", "--target", "none.toml"]).fails(1, &["none.toml: No such file"]);
    }
    for command in ["build", "run", "verify", "check", "plan", "sim"] {
        place
            .run(&[command, "l2_forward", "--target", "u820"])
            .fails(2, &["there is no such target; there are"]);
    }
    place.is_clean();
}

/// Options that a file's back end has nothing for.
#[test]
fn options_are_asked_of_the_back_end() {
    let place = Place::new();
    cut(&place, "l2_forward");
    let (card, cores) = (file("u250"), file("manycore"));
    let run = |args: &[&str]| place.run(args);
    run(&["build", "l2_forward", "--target", &cores, "--synth"]).fails(2, &["--synth is for designs"]);
    run(&["run", "l2_forward", "--target", &cores, "--trace", "t.fst"]).fails(2, &["--trace needs a target"]);
    run(&["run", "l2_forward", "--target", &card, "--dev", "lo"]).fails(2, &["--dev needs a target"]);
    run(&["verify", "l2_forward", "--target", &cores, "--host-process"]).fails(2, &["--host-process is for"]);
    run(&["run", "l2_forward", "--target", &card, "--interleave", "1"]).fails(2, &["--target interp"]);
    run(&["verify", "l2_forward", "--target", "interp"]).fails(2, &["the interpreter is the reference"]);
}

/// Handlers on a sPIN NIC of a file: its clock, cores and memories are used, and what handlers
/// cannot name is refused.
#[test]
fn handlers_run_on_a_machine_of_a_file() {
    let place = Place::new();
    let shown = place.run(&["targets", "show", "pspin"]);
    let text = shown.ok().replace("name = \"pspin\"", "name = \"mine\"").replace("1 GHz", "500 MHz");
    place.file("mine.toml", text.replace("count = 32", "count = 24"));
    let handlers = common::example("spin/pspin/ping_pong.c");
    let sim = ["spin", "sim", &handlers, "-p", "8", "--json", "--machine"];
    let on = |machine: &str| -> Value {
        serde_json::from_str(place.run(&[&sim[..], &[machine]].concat()).ok()).unwrap()
    };
    let (mine, published) = (on("mine.toml"), on("pspin"));
    assert_eq!((&mine["machine"], &published["machine"]), (&"mine".into(), &"pspin".into()));
    assert_eq!(mine["sent"], published["sent"]);
    let built = place.run(&["spin", "build", &handlers, "-o", "p.elf", "--machine", "./mine.toml"]);
    assert!(built.ok().contains("wrote p.elf for mine"), "{built:?}");

    let say = |machine: &str, code: i32, texts: &[&str]| {
        place.run(&["spin", "build", &handlers, "--machine", machine]).fails(code, texts);
    };
    say(&file("manycore"), 1, &["has 8 clusters", "name the scratchpads of 4", "run --target"]);
    say("u280", 1, &["target `u280` is no sPIN NIC"]);
    say("pspim", 2, &["there is no such target; there are"]);
}
