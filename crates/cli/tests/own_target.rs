//! A target file of the user's own in every command: NICs that are not built in, and files with
//! mistakes.

mod common;

use common::{Background, Place, are_there, can_emulate_arm, cut, within};
use serde_json::Value;

/// A file of `examples/targets`.
fn file(name: &str) -> String {
    common::example(&format!("targets/{name}.toml"))
}

/// Runs what takes a target, on a file and some examples. `says` is what `verify` prints of its
/// stand-in; `bound` is why there is no bound, if that is so.
fn in_every_command(name: &str, programs: &[&str], says: &str, bound: Option<&str>) {
    let (place, file) = (Place::new(), file(name));
    let name = name.rsplit('/').next().unwrap();
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
        let sim: Value =
            serde_json::from_str(run("sim", &["--packets", "100", "--json"]).ok()).unwrap();
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
    in_every_command(
        "manycore",
        &["l2_forward", "flow_stats", "l4lb"],
        "(on simulated cores)",
        None,
    );
}

/// The tools of the spec's `[toolchain]`.
const RV64: [&str; 2] = ["riscv64-unknown-elf-gcc", "qemu-system-riscv64"];

/// A spec whose tool chain, memory map and port layer nothing here knows.
#[test]
fn a_riscv_soc_of_64_bits_with_its_own_tool_chain() {
    if are_there(&RV64) {
        let says = "(functional: images run by its toolchain)";
        in_every_command("rv64-soc/rv64-soc", &["conn_limiter"], says, None);
    }
}

/// A machine that is busy with something else reads late what a board says; nothing is lost then.
#[test]
fn a_late_reader_loses_nothing() {
    if !are_there(&RV64) {
        return;
    }
    let place = Place::new();
    let (program, spec) = (common::example("firewall"), file("rv64-soc/rv64-soc"));
    let run = Background::start(place.command(&["verify", &program, "--target", &spec]));
    let state = format!("/proc/{}/stat", run.pid());
    let ended = || std::fs::read_to_string(&state).is_ok_and(|state| state.contains(") Z "));
    while !ended() {
        std::thread::sleep(std::time::Duration::from_millis(200));
        run.signal(libc::SIGSTOP);
        std::thread::sleep(std::time::Duration::from_millis(300));
        run.signal(libc::SIGCONT);
    }
    let ran = run.end();
    assert!(ran.ok().contains("matches the reference: 2370 of 2370 events"), "{ran:?}");
    place.is_clean();
}

/// The runner of a kit finds agreement, one wrong byte, and an answer that is not whole.
#[test]
fn a_kit_tests_images_elsewhere() {
    if !are_there(&RV64) {
        return;
    }
    let place = Place::new();
    cut(&place, "nat");
    let spec = file("rv64-soc/rv64-soc");
    let made = place.run(&["kit", &spec, "nat", "-o", "kit"]);
    assert!(made.ok().contains("wrote kit: nat for rv64-soc"), "{made:?}");
    place
        .run(&["kit", &spec, "nat", "-o", "kit"])
        .fails(1, &["kit: there is something already", "-o"]);
    let text = std::fs::read_to_string(&spec).unwrap();
    let command = text.lines().find_map(|line| line.strip_prefix("run = \"")).unwrap();
    let command = command.trim_end_matches('"');
    let run = |command: &str| {
        let ran = std::process::Command::new(place.path().join("kit/run.py"))
            .arg(command)
            .output()
            .unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stdout).into_owned())
    };
    let (status, said) = run(command);
    assert!(
        status == Some(0) && said.starts_with("nat: agrees (") && said.contains("3 tables"),
        "{said}"
    );
    let expected = place.path().join("kit/nat/expected.txt").display().to_string();
    let (status, said) =
        run(&format!("sed '0,/^nf send /s/^nf send \\([0-9]*\\) ./nf send \\1 9/' {expected}"));
    assert!(
        status == Some(1) && said.contains("nat: differs") && said.contains("event "),
        "{said}"
    );
    let (status, said) = run(&format!("grep -v done {expected}"));
    assert!(status == Some(1) && said.contains("ends before `nf done`"), "{said}");
    let (status, said) =
        run(&format!("sed '/^nf entry/d; s/nf done/nf no-tables\\nnf done/' {expected}"));
    assert!(status == Some(0) && said.contains("0 tables"), "{said}");
}

/// `verify --exec`: the protocol through a command of the user's, for targets with images and
/// without.
#[test]
fn a_users_own_command_runs_what_is_verified() {
    let place = Place::new();
    cut(&place, "nat");
    place.run(&["kit", "xdp", "nat", "-o", "kit"]).ok();
    let answer = |program: &str| format!("{program} kit/nat/expected.txt");
    let verify = |target: &str, command: &str| {
        place.run(&["verify", "nat", "--target", target, "--exec", command])
    };
    let same = verify("xdp", &answer("cat"));
    assert!(
        same.ok().contains("xdp matches the reference") && same.out.contains("(run by --exec)"),
        "{same:?}"
    );
    verify("xdp", &answer("grep -v '^nf send 1 '")).fails(1, &[]);
    let untold = verify("xdp", &answer("sed '/^nf entry/d; s/nf done/nf no-tables\\nnf done/'"));
    assert!(
        untold.ok().contains("matches") && untold.err.contains("tables were not compared"),
        "{untold:?}"
    );
    let ended = verify("xdp", "echo booting; exit 7");
    ended
        .fails(3, &["echo booting; exit 7: it ended (exit status: 7) before `nf done`", "booting"]);
    verify("xdp", "echo nf failed no card").fails(3, &["no card"]);
    verify("xdp", "echo nf send 0 x 00").fails(3, &["no number in the line `nf send 0 x 00`"]);
    verify("xdp", "echo nf send 999999 0 00").fails(3, &["unknown event"]);
    // A target with images: the command gets the image.
    let image = verify("liquidio", "echo console; {image}");
    assert!(
        image.ok().contains("liquidio ") && image.out.contains("matches the reference"),
        "{image:?}"
    );
    place.is_clean();
}

/// Whoever ends `verify` ends the command that it runs.
#[test]
fn a_users_command_does_not_outlive_the_run() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let place = Place::new();
        cut(&place, "l2_forward");
        let command = "echo $$ >started.new; mv started.new started; exec sleep 1000000";
        let run = Background::start(place.command(&["verify", "l2_forward", "--exec", command]));
        let started = place.path().join("started");
        within("the command runs", || started.exists());
        let pid: i32 = std::fs::read_to_string(&started).unwrap().trim().parse().unwrap();
        run.signal(signal);
        let ran = run.end();
        assert_eq!(
            ran.status.code(),
            if signal == libc::SIGKILL { None } else { Some(130) },
            "{ran:?}"
        );
        // SAFETY: signal 0 only asks.
        within("the command is gone", || unsafe { libc::kill(pid, 0) } != 0);
        // What SIGKILL left, the next command sweeps.
        place.run(&["check", "l2_forward"]).ok();
        place.is_clean();
    }
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
    // `{line}` in what is said: where the change begins.
    let line = shown.out[..shown.out.find(change[0]).unwrap()].lines().count() + 1;
    let says: Vec<_> = says.iter().map(|say| say.replace("{line}", &line.to_string())).collect();
    let says: Vec<_> = says.iter().map(String::as_str).collect();
    place.file("mine.toml", shown.ok().replace(change[0], change[1]));
    for command in ["build", "run", "verify"] {
        let ran = place.run(&[command, "l2_forward", "--target", "./mine.toml"]);
        ran.fails(code, &says);
        assert_eq!(ran.err.lines().count(), 1, "one message: {ran:?}");
    }
}

#[test]
fn mistakes_in_a_file_are_one_message_with_place_reason_and_remedy() {
    let place = Place::new();
    cut(&place, "l2_forward");
    let word = ["codegen = \"rtl\"", "codegen = \"fpga\""];
    let known = "expected one of `xdp`, `dpdk`, `nfp`, `riscv`, `rtl`, `threads`, `host`";
    refused(
        &place,
        "u280",
        word,
        1,
        &["mine.toml:{line}: unknown variant `fpga`", known, "docs/targets.md"],
    );
    // What a table lacks is said of where it begins.
    let shown = place.run(&["targets", "show", "u280"]);
    let at = shown.ok().find("[[units]]\nname = \"pipe\"\n").unwrap();
    let clock = shown.out[at..].find("clock").unwrap() + at;
    let end = shown.out[clock..].find('\n').unwrap() + clock + 1;
    let key = [&shown.out[at..end], &shown.out[at..clock]];
    let says = ["mine.toml:{line}: missing field `clock`", "targets show NAME"];
    refused(&place, "u280", key, 1, &says);
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
    refused(
        &place,
        "panic",
        cpu,
        1,
        &["mine.toml", "cpu is for codegen dpdk, not for riscv; leave it out"],
    );

    for command in ["build", "run", "verify", "check", "plan", "sim", "bound"] {
        place
            .run(&[command, "l2_forward", "--target", "none.toml"])
            .fails(1, &["none.toml: No such file"]);
    }
    for command in ["build", "run", "verify", "check", "plan", "sim"] {
        place
            .run(&[command, "l2_forward", "--target", "u820"])
            .fails(2, &["there is no such target; there are"]);
    }
    place.is_clean();
}

/// A tool chain that is wrong.
#[test]
fn mistakes_in_a_tool_chain_are_told() {
    let place = Place::new();
    cut(&place, "l2_forward");
    let shown = place.run(&["targets", "show", "liquidio"]).ok().to_string();
    let with = |tools: &str| {
        place.file("mine.toml", format!("{shown}\n[toolchain]\n{tools}\n"));
        place.run(&["verify", "l2_forward", "--target", "./mine.toml"])
    };
    with("compiler = \"no-such-cc\"\nflags = []\nrun = \"{image}\"").fails(
        3,
        &["no-such-cc (toolchain of the target)", "install it, or name another in the spec"],
    );
    with("compiler = \"clang-19\"\nflags = [\"-fno-such-flag\"]\nrun = \"{image}\"")
        .fails(3, &["it refuses the generated files", "-fno-such-flag"]);
    with("compiler = \"clang-19\"\nflags = [\"-pthread\"]\nboard = \"none\"\nrun = \"{image}\"")
        .fails(1, &["mine.toml:", "board: ./none: No such file"]);
    let right = with("compiler = \"clang-19\"\nflags = [\"-pthread\"]\nrun = \"{image}\"");
    assert!(right.ok().contains("images run by its toolchain"), "{right:?}");
    with("compiler = \"clang-19\"\nflags = [\"-pthread\"]\nrun = \"echo {image}\"")
        .fails(3, &["before `nf done`"]);
    place.file(
        "mine.toml",
        shown.replace("codegen = \"threads\"", "codegen = \"dpdk\"")
            + "\n[toolchain]\ncompiler = \"cc\"\nflags = []\nrun = \"\"\n",
    );
    let ran = place.run(&["verify", "l2_forward", "--target", "./mine.toml"]);
    ran.fails(
        1,
        &["mine.toml:", "[toolchain] is for codegen threads, and the first units have dpdk"],
    );
    place.is_clean();
}

/// Options that a file's back end has nothing for.
#[test]
fn options_are_asked_of_the_back_end() {
    let place = Place::new();
    cut(&place, "l2_forward");
    let (card, cores) = (file("u250"), file("manycore"));
    let run = |args: &[&str]| place.run(args);
    run(&["build", "l2_forward", "--target", &cores, "--synth"])
        .fails(2, &["--synth is for designs"]);
    run(&["run", "l2_forward", "--target", &cores, "--trace", "t.fst"])
        .fails(2, &["--trace needs a target"]);
    run(&["run", "l2_forward", "--target", &card, "--dev", "lo"])
        .fails(2, &["--dev needs a target"]);
    run(&["verify", "l2_forward", "--target", &cores, "--host-process"])
        .fails(2, &["--host-process is for"]);
    run(&["run", "l2_forward", "--target", &card, "--interleave", "1"])
        .fails(2, &["--target interp"]);
    run(&["verify", "l2_forward", "--target", "interp"])
        .fails(2, &["the interpreter is the reference"]);
}

/// Handlers on a sPIN NIC of a file: its clock, cores and memories are used, and what handlers
/// cannot name is refused.
#[test]
fn handlers_run_on_a_machine_of_a_file() {
    let place = Place::new();
    let shown = place.run(&["targets", "show", "pspin"]);
    let text =
        shown.ok().replace("name = \"pspin\"", "name = \"mine\"").replace("1 GHz", "500 MHz");
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

/// Packets start handlers there, whatever else a file says.
#[test]
fn a_spin_nic_that_offers_timers_is_refused() {
    let place = Place::new();
    let shown = place.run(&["targets", "show", "pspin"]);
    let timer = "[events]\ntimer = { direction = \"in\", fields = [] }";
    let text = shown.ok().replace("name = \"pspin\"", "name = \"mine\"");
    place.file("mine.toml", text.replace("[events]", timer));
    let program = common::example("ring_wrap");
    for command in ["verify", "build", "plan"] {
        place.run(&[command, &program, "--target", "mine.toml"]).fails(1, &["mine lacks timers"]);
    }
    let checked = place.run(&["check", &program, "--target", "mine.toml"]);
    assert!(checked.out.contains("lacks timers (NF_TIMER)"), "{checked:?}");
    checked.fails(1, &[]);
    let listed = place.run(&["check", &program, "--target", "mine.toml", "--json"]);
    assert!(listed.out.contains("\"runs\": false"), "{listed:?}");
    listed.fails(1, &[]);
}
