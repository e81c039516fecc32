//! Commands that need no privilege: exit status, output, and nothing left behind.

mod common;

use std::path::Path;

use common::{Place, capture, counter, example, finish, frame, words};
use serde_json::Value;
use std::os::unix::fs::DirBuilderExt;

const BROKEN: &str = "#include <nicforge.h>\nvoid net_recv(nf_pkt pkt)\n{\n    if (nf_len(pkt) > 9)\n        nf_drop(pkt);\n}\n";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn check_says_what_there_is_or_what_is_wrong() {
    let place = Place::new();
    let ran = place.run(&["check", &example("l2_forward")]);
    assert!(ran.ok().ends_with("l2_forward.c: 1 handler, 0 tables, 1 port\n"), "{ran:?}");
    let ran = place.run(&["check", "--json", &example("l2_forward")]);
    assert_eq!(json(ran.ok())["ok"], true);

    place.file("broken.c", BROKEN);
    place.run(&["check", "broken.c"]).fails(1, &["error[NF0090]", "broken.c:"]);
    let ran = place.run(&["check", "--json", "broken.c"]);
    assert_eq!((ran.code(), ran.err.as_str()), (1, ""));
    let said = json(&ran.out);
    assert_eq!((&said["ok"], &said["diagnostics"][0]["code"]), (&false.into(), &"NF0090".into()));
    place.file("bad.air", "program t\nnonsense\n");
    place.run(&["check", "bad.air"]).fails(1, &["bad.air:2:1"]);
    let ran = place.run(&["check", "--json", "bad.air"]);
    assert_eq!((ran.code(), &json(&ran.out)["ok"]), (1, &false.into()));
    place.run(&["check", "missing.c"]).fails(1, &["missing.c"]);
    place.run(&["check", "missing.air"]).fails(1, &["missing.air: No such file"]);
    place.is_clean();
}

#[test]
fn what_killed_commands_left_is_removed() {
    let place = Place::new();
    let root = common::temporary_place(place.path());
    std::fs::DirBuilder::new().mode(0o700).create(&root).unwrap();
    for name in ["runtime-left", "host-used", "kept-old", "kept-young"] {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("nicforge.h"), "").unwrap();
    }
    let days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 86400);
    std::fs::File::open(root.join("kept-old")).unwrap().set_modified(days_ago).unwrap();
    // Another program's folder is nobody's business of ours.
    std::fs::create_dir(place.path().join("tmp/other")).unwrap();
    let check = || place.run(&["check", &example("l2_forward")]).ok().to_string();
    // A folder that a process uses is locked.
    let user = std::fs::File::open(root.join("host-used")).unwrap();
    user.lock().unwrap();
    check();
    assert_eq!(place.temporary(), ["host-used", "kept-young", "other"]);
    drop(user);
    check();
    assert_eq!(place.temporary(), ["kept-young", "other"]);
}

/// Somebody else's folder, or a link, in place of ours is not written to.
#[test]
fn a_foreign_temporary_place_is_not_used() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("trap")).unwrap();
    let root = common::temporary_place(place.path());
    std::os::unix::fs::symlink(place.path().join("trap"), root).unwrap();
    let ran = place.run(&["check", &example("l2_forward")]);
    ran.fails(3, &["is not a folder of this user", "set TMPDIR"]);
    assert!(std::fs::read_dir(place.path().join("trap")).unwrap().next().is_none());
}

#[test]
fn build_stops_where_it_is_told() {
    let place = Place::new();
    let program = example("icmp_echo");
    let emit = |form: &str| place.run(&["build", &program, "--emit", form]).ok().to_string();
    place.file("again.air", emit("air"));
    assert!(place.run(&["check", "again.air"]).ok().contains("again.air: 1 handler"));
    assert!(emit("passes").contains("handler"));
    let c = emit("c");
    assert!(c.contains("net_recv") && c.contains("#include"), "{c}");

    let ran = place.run(&["build", &program, "-o", "x.o"]);
    assert_eq!(ran.ok(), "wrote x.o\n");
    assert_eq!(std::fs::read(place.path().join("x.o")).unwrap()[..4], *b"\x7fELF");
    place.run(&["build", &program]).ok();
    assert!(place.path().join("icmp_echo.o").exists());

    let ran = place.run(&["build", "--list-passes"]);
    assert!(ran.ok().lines().any(|line| line.trim_start().starts_with("inline ")), "{ran:?}");
    let ran = place.run(&[
        "build",
        &program,
        "--emit",
        "passes",
        "--print-after",
        "inline",
        "--time-passes",
    ]);
    ran.ok();
    assert!(
        ran.err.starts_with("// after inline") || ran.err.contains("\n// after inline"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("ms\n"), "{}", ran.err);
    let unknown = ["build", program.as_str(), "--print-after", "nonsense"];
    place.run(&unknown).fails(2, &["no such pass", "--list-passes"]);
    place.run(&["build", &program, "-p", "nonsense"]).fails(2, &["nonsense"]);
    place.run(&["build", &program, "--target", "interp"]).fails(2, &["--emit air"]);
    place.run(&["build", &program, "-o", "no/such/dir.o"]).fails(1, &["no/such/dir.o"]);
    place.is_clean();
}

#[test]
fn run_interprets_a_capture() {
    let place = Place::new();
    let program = example("nf_chain");
    let captures = ["traffic.pcap", "traffic.1.pcap"].map(|file| format!("{program}/{file}"));
    let length = |path: &String| nicforge_run::pcap::read(Path::new(path)).unwrap().len();
    let packets: usize = captures.iter().filter(|path| Path::new(path).exists()).map(length).sum();
    let interp = ["run", program.as_str(), "--target", "interp"];
    let with = |more: &[&str]| place.run(&[&interp, more].concat()).ok().to_string();
    let text = with(&[]);
    assert!(text.starts_with("nf_chain on interp (the reference interpreter)\n"), "{text}");
    assert!(words(&text).contains(&format!(" packets in {packets} ")), "{text}");
    let report = json(&with(&["--json"]));
    assert_eq!(
        (&report["schema"], &report["packets_in"]),
        (&"nicforge/run".into(), &packets.into())
    );
    let metrics = with(&["--metrics"]);
    assert!(
        metrics.contains(&format!("nicforge_packets_in_total{{program=\"nf_chain\"}} {packets}\n")),
        "{metrics}"
    );
    assert!(
        metrics.lines().all(|line| line.starts_with('#') || line.starts_with("nicforge_")),
        "{metrics}"
    );
    assert!(with(&["--events"]).starts_with("1: "));

    with(&["--out", "sent.pcap"]);
    let sent: u64 = report["sent"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    let frames: usize = ["sent.0.pcap", "sent.1.pcap"]
        .map(|file| nicforge_run::pcap::read(&place.path().join(file)).unwrap().len())
        .iter()
        .sum();
    assert_eq!(frames as u64, sent);
    place.is_clean();
}

#[test]
fn trace_follows_one_event() {
    let place = Place::new();
    let program = example("l2_forward");
    let ran = place.run(&["trace", &program, "--packet", "2"]);
    assert!(ran.ok().starts_with("event 2 at "), "{ran:?}");
    assert!(ran.out.contains("l2_forward.c:") && ran.out.contains("=> "), "{ran:?}");
    for beyond in ["0", "1000000"] {
        place.run(&["trace", &program, "--packet", beyond]).fails(2, &["numbered 1 to"]);
    }
    place.is_clean();
}

#[test]
fn new_makes_a_program_that_runs() {
    let place = Place::new();
    assert!(place.run(&["new", "hello"]).ok().contains("nicforge run hello"));
    let ran = place.run(&["run", "hello", "--target", "interp"]);
    assert!(ran.ok().contains("packets in"), "{ran:?}");
    place.run(&["new", "hello"]).fails(1, &["hello exists already; nothing was changed"]);
    for bad in ["no-good", "1st", "a/b", ""] {
        place.run(&["new", bad]).fails(2, &["letters, digits and underscores"]);
    }
    place.is_clean();
}

#[test]
fn wrong_usage_is_2() {
    let place = Place::new();
    let program = example("l2_forward");
    for args in [
        &[][..],
        &["explode"],
        &["check"],
        &["run", &program, "--target", "abacus"],
        &["run", &program, "--target", "interp", "--dev", "lo"],
        &["run", &program, "--dev", "lo", "--pcap", "x"],
        &["run", &program, "--watch"],
        &["run", &program, "--dev", "lo", "--duration", "soon"],
        &["run", &program, "--dev", "lo", "--duration", "-1"],
        &["verify", &program, "--target", "interp"],
        &["table", "get", "x"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code(), 2, "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty() && !ran.err.contains("panicked"), "{args:?}: {ran:?}");
    }
    place.file("lonely.c", counter("nf_send(pkt, 0);"));
    place
        .run(&["run", "lonely.c", "--target", "interp"])
        .fails(2, &["no packets to run on", "--pcap"]);
    place.is_clean();
}

#[test]
fn bad_captures_are_named_with_their_place() {
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    let good = capture(&[frame(1), frame(2)]);
    place.file("cut.pcap", &good[..good.len() - 5]);
    place.file("text.pcap", "this is no capture");
    place.file("empty.pcap", "");
    let mut long = good.clone();
    long[24 + 8..24 + 12].fill(0xff);
    place.file("long.pcap", &long);
    let run = |pcap: &str| place.run(&["run", "c.c", "--target", "interp", "--pcap", pcap]);
    run("cut.pcap").fails(1, &["cut.pcap: damaged at byte", "packet 2"]);
    run("long.pcap").fails(1, &["long.pcap: damaged at byte", "packet 1"]);
    run("text.pcap").fails(1, &["text.pcap: not a capture: the first bytes are 74 68 69 73"]);
    run("empty.pcap").fails(1, &["empty.pcap: not a capture"]);
    run("none.pcap").fails(1, &["none.pcap: No such file"]);
    run("3=cut.pcap").fails(1, &["ports are 0 to 0"]);
    place.is_clean();
}

#[test]
fn bad_tables_are_named_with_their_place() {
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("p.pcap", capture(&[frame(1)]));
    let run = |text: &str| {
        place.file("t.toml", text);
        place.run(&["run", "c.c", "--target", "interp", "--pcap", "p.pcap", "--tables", "t.toml"])
    };
    run("[[by_type]]\nkey = 70000\n").fails(1, &["t.toml:2: table `by_type`: `key`: 70000"]);
    run("\n[[by_kind]]\nkey = 1\n").fails(1, &["t.toml:2", "no table `by_kind`; it has `by_type`"]);
    run("[[by_type]\n").fails(1, &["t.toml:1: "]);
    run("[[routes]]\nkey = \"10.0.0.0/40\"\n")
        .fails(1, &["t.toml:1: table `routes`: ", "prefix length 40"]);
    run("[[by_type]]\nkey = 5\nvalue = 3\n").ok();
    place.is_clean();
}

#[test]
fn a_reader_that_leaves_is_no_failure_of_ours() {
    let place = Place::new();
    let program = example("nf_chain");
    for args in [
        format!("build {program} --emit c"),
        format!("run {program} --target interp --events"),
        format!("trace {program} --packet 40"),
        "build --list-passes".to_string(),
        "--help".to_string(),
    ] {
        let script = format!("{{ '{}' {args}; }} 2>&1 | head -n 1", common::NICFORGE);
        let ran = finish(place.prepare("bash", &["-c", &script]));
        assert_eq!(ran.ok().lines().count(), 1, "{args}: {ran:?}");
        assert!(!ran.out.contains("panicked") && ran.err.is_empty(), "{args}: {ran:?}");
    }
    let script = format!(
        "'{}' run {program} --target interp --events | true; echo ${{PIPESTATUS[0]}}",
        common::NICFORGE
    );
    assert_eq!(finish(place.prepare("bash", &["-c", &script])).ok(), "141\n");
    place.is_clean();
}

/// An XDP program of the examples.
fn xdp(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xdp").join(name);
    path.to_str().unwrap().to_string()
}

#[test]
fn bounds_name_the_packet_and_what_limits_it() {
    let place = Place::new();
    let ran = place.run(&["bound", &xdp("path_explosion.c"), "--json", "--pcap", "worst.pcap"]);
    let said = json(ran.ok());
    assert_eq!(
        (&said["status"], &said["limit"], &said["min_packet_bytes"]),
        (&"exact".into(), &"DRAM".into(), &60.into())
    );
    assert!((said["bit_rate_bps"].as_f64().unwrap() / 1.8635e9 - 1.0).abs() < 1e-3, "{said}");
    assert!(said["witness"]["packet"].as_str().unwrap().starts_with("00000000"));
    assert!(said["path"][0]["line"].as_str().unwrap().starts_with("path_explosion.c:"));
    assert_eq!(std::fs::read(place.path().join("worst.pcap")).unwrap().len(), 24 + 16 + 60);

    // The listing it becomes has the same bound.
    let listing = place.run(&["bound", &xdp("path_explosion.c"), "--emit", "nfp"]).ok().to_string();
    place.file("worst.asm", &listing);
    let again = json(place.run(&["bound", "worst.asm", "--json"]).ok());
    assert_eq!(again["cycles"], said["cycles"]);
    assert_eq!(again["path"][0]["line"], "worst.asm:1");

    place.run(&["bound", &xdp("count_min.c"), "-D", "HASHES=5", "--require", "20G"]).ok();
    let refuted = place.run(&["bound", &xdp("count_min.c"), "-D", "HASHES=5", "--require", "25G"]);
    refuted.fails(1, &["the required rate does not hold"]);
    place.run(&["bound", &xdp("dos_filter.c"), "--what-if", "eth.type=0x86dd"]).ok();
}

/// Two handlers in assembly: one reads the EtherType and maybe a word more, the other follows a
/// pointer from memory.
const HANDLERS: &str = "
.text
.globl parse_ph
.type parse_ph, @function
parse_ph:
    lw a5,0(a0)
    lw a4,8(a5)
    lhu a3,12(a4)
    li a2,0x81
    bne a3,a2,1f
    lw a5,60(a5)
    lw a0,16(a5)
1:  ret
.size parse_ph, .-parse_ph
.type chase, @function
chase:
    lw a0,0(a0)
    ret
.size chase, .-chase
";

#[test]
fn handlers_are_bounded_on_spin_targets() {
    let place = Place::new();
    place.file("a.s", HANDLERS);
    let script = "riscv64-unknown-elf-as -march=rv32imac -mabi=ilp32 a.s -o a.o && \
        riscv64-unknown-elf-ld -m elf32lriscv -e 0 -Ttext=0x1d000000 a.o -o a.elf";
    finish(place.prepare("bash", &["-c", script])).ok();
    let bound = |more: &[&str]| place.run(&[&["bound", "a.elf"], more].concat());
    let said = json(bound(&["--target", "pspin", "--json", "--pcap", "worst.pcap"]).ok());
    assert_eq!((&said["status"], &said["limit"]), (&"exact".into(), &"port".into()));
    // Runtime 9; loads 2 with a use right behind, else 1: 2, 2, 1; 1, 1; 2 of the task, 22 of L2;
    // return 2.
    assert_eq!((&said["cycles"], &said["min_packet_bytes"]), (&42.0.into(), &60.into()), "{said}");
    assert_eq!(&said["witness"]["packet"].as_str().unwrap()[24..28], "8100");
    assert_eq!(said["path"][0]["line"], "parse_ph+0x0");
    let other = json(bound(&["--target", "pspin", "--json", "--what-if", "eth.type=0x0800"]).ok());
    assert!(other["cycles"].as_f64() < said["cycles"].as_f64());
    bound(&["--target", "fpspin", "--require", "10Mpps"]).ok();
    bound(&["--target", "fpspin", "--require", "1000Mpps"])
        .fails(1, &["the required rate does not hold"]);
    let text = bound(&["--target", "pspin", "--entry", "chase"]).ok().to_string();
    assert!(text.contains("chase+0x0: a load from an address that is not known"), "{text}");
    bound(&["--target", "pspin", "--entry", "chse"])
        .fails(1, &["no function `chse` in this file; there are chase, parse_ph"]);
    bound(&[]).fails(2, &["RISC-V handlers run on --target pspin or fpspin"]);
    bound(&["--target", "bluefield2"]).fails(2, &["bluefield2 has no RISC-V cores"]);
    place.run(&["bound", "a.o", "--target", "pspin"]).fails(1, &["the file is not linked"]);
    place
        .run(&["bound", &xdp("alaw.c"), "--entry", "f"])
        .fails(2, &["--entry is for RISC-V handlers"]);
    place.file("fake.elf", "\x7fELF and so on");
    place
        .run(&["bound", "fake.elf", "--target", "pspin"])
        .fails(1, &["not a readable 32-bit ELF file"]);
}

#[test]
fn nicforge_programs_are_bounded_on_described_targets() {
    let place = Place::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/l2_forward");
    let example = example.to_str().unwrap();
    let said = json(place.run(&["bound", example, "--target", "bluefield2", "--json"]).ok());
    assert_eq!((&said["status"], &said["target"]), (&"exact".into(), &"bluefield2".into()));
    assert!(said["basis"].as_str().unwrap().starts_with("modelled"));
    assert!(said["hot_spots"][0]["line"].as_str().unwrap().starts_with("l2_forward.c:"));
    assert_eq!(said["unknown"][0]["what"], "the port of arrival");
    // Without one it is bounded as the XDP program that it becomes.
    let said = json(place.run(&["bound", example, "--json"]).ok());
    assert_eq!((&said["status"], &said["target"]), (&"exact".into(), &"agilio-xdp".into()));
    place.file("bad.asm", "0:\t .0  immed[gprA_0, 0x0]\n");
    place
        .run(&["bound", "bad.asm", "--target", "bluefield2"])
        .fails(2, &["bluefield2 runs Nicforge programs"]);
    place.run(&["bound", example, "--target", "nosuch"]).fails(2, &["there is no such target"]);
}

#[test]
fn plans_say_what_they_guarantee() {
    let place = Place::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (name, stages) in [("nf_chain", 5), ("flow_stats", 3)] {
        let example = examples.join(name).to_str().unwrap().to_string();
        let args = ["plan", &example, "--target", "bluefield2", "--guarantee"];
        let said = json(place.run(&[&args[..], &["--json"]].concat()).ok());
        assert_eq!(said["stages"].as_array().unwrap().len(), stages, "{name}");
        let guaranteed = said["predicted"]["guaranteed_pps"].as_f64().unwrap();
        let expected = said["predicted"]["unlimited_pps"].as_f64().unwrap();
        assert!(guaranteed > 0.0 && guaranteed <= expected, "{name}: {guaranteed} of {expected}");
        let text = place.run(&args);
        assert!(text.ok().contains("Mpps (one flow)"), "{name}");
    }
}

#[test]
fn what_the_offload_lacks_is_named_and_hash_maps_are_modelled() {
    let place = Place::new();
    let source = |kind: &str| {
        format!(
            "#include <linux/bpf.h>
             #include <bpf/bpf_helpers.h>
             struct {{ __uint(type, {kind}); __uint(max_entries, 64); __type(key, __u32); __type(value, __u64); }} seen SEC(\".maps\");
             static __attribute__((noinline)) int count(__u32 key) {{
                 __u64 *n = bpf_map_lookup_elem(&seen, &key);
                 if (!n)
                     return XDP_DROP;
                 *n += 100000;
                 return XDP_PASS;
             }}
             SEC(\"xdp\") int prog(struct xdp_md *ctx) {{
                 __u32 *data = (void *)(long)ctx->data;
                 if ((void *)(data + 3) > (void *)(long)ctx->data_end)
                     return XDP_DROP;
                 return count(data[0]) == XDP_PASS ? count(data[2]) : XDP_DROP;
             }}"
        )
    };
    place.file("plain.c", source("BPF_MAP_TYPE_HASH"));
    place.file("percpu.c", source("BPF_MAP_TYPE_PERCPU_HASH"));
    let bound = |name: &str, more: &[&str]| {
        place.run(&[&["bound", name, "--target", "agilio-xdp"], more].concat())
    };
    let text = bound("plain.c", &[]);
    assert!(
        text.ok().contains("exactly") && text.ok().contains("but not those of hash maps"),
        "{}",
        text.ok()
    );
    bound("percpu.c", &[]).fails(1, &["map `seen` is of type percpu_hash", "--what-if plain-maps"]);
    assert_eq!(
        json(bound("percpu.c", &["--what-if", "plain-maps", "--json"]).ok())["cycles"],
        json(bound("plain.c", &["--json"]).ok())["cycles"]
    );
}

#[test]
fn the_highest_guarantee_is_another_plan_than_the_highest_rate() {
    let place = Place::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/firewall");
    let common = ["plan", example.to_str().unwrap(), "--target", "bluefield2", "--iterations", "8"];
    let fast = json(place.run(&[&common[..], &["--guarantee", "--json"]].concat()).ok());
    let args = [&common[..], &["--objective", "guaranteed-rate"]].concat();
    let sure = json(place.run(&[&args[..], &["--json"]].concat()).ok());
    let rate = |plan: &Value, which: &str| plan["predicted"][which].as_f64().unwrap();
    assert_eq!(sure["objective"], "guaranteed-rate");
    assert!(rate(&sure, "guaranteed_pps") > 1.2 * rate(&fast, "guaranteed_pps"), "{sure:#}");
    assert!(rate(&sure, "rate_pps") < rate(&fast, "rate_pps"));
    assert_ne!(sure["stages"], fast["stages"]);
    assert!(place.run(&args).ok().contains(" candidates bounded"));
    // Every plan is printed with what it guarantees.
    assert!(place.run(&common).ok().contains("Mpps (one flow)"));
}

#[test]
fn what_cannot_be_bound_says_why() {
    let place = Place::new();
    place.file("bad.asm", "0:\t .0  immed[gprA_0, 0x0]\n8:\t .1  frobnicate[gprA_0]\n");
    place.run(&["bound", "bad.asm"]).fails(1, &["bad.asm:2: ", "unknown instruction `frobnicate`"]);
    place.file("noise", "nothing of the kind");
    place.run(&["bound", "noise"]).fails(1, &["neither an ELF object, nor an NFP listing"]);
    place.file("fake.o", "\x7fELF and so on");
    place.run(&["bound", "fake.o"]).fails(1, &["not a readable ELF object"]);
    place
        .run(&["bound", &xdp("alaw.c"), "--what-if", "nonsense=1"])
        .fails(2, &["--what-if nonsense=1"]);
}

#[test]
fn validate_compares_with_published_data() {
    let place = Place::new();
    let said = json(place.run(&["validate", "nfp", "--json"]).ok());
    let rows = said["rows"].as_array().unwrap();
    let of = |source: &str| rows.iter().filter(|row| row["source"] == source).collect::<Vec<_>>();
    assert_eq!(of("table 1").len(), 12);
    // Programs of the same purpose, not the same programs.
    assert!(of("table 1").iter().all(|row| row["error"].as_f64().unwrap().abs() <= 0.4));
    assert!(of("count-min curve").iter().all(|row| row["error"].as_f64().unwrap().abs() < 0.1));
    assert!(rows.iter().any(|row| row["case"] == "all 21416 paths"));
}

/// Programs of others are told from what lies beside them, and each has a row for each target.
#[test]
fn validate_runs_programs_of_others() {
    let place = Place::new();
    let from = example("../tests/alkali");
    let words =
        ["validate", "originals", "--from", &from, "--targets", "liquidio,interp", "--json"];
    place.run(&words).fails(2, &["no such target"]);
    let words = ["validate", "originals", "--from", &from, "--targets", "liquidio", "--json"];
    let said = json(place.run(&words).ok());
    let rows = said["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!((&row["accepted"], &row["right"]), (&true.into(), &true.into()), "{row}");
        assert_eq!(row["as_plain_c"], row["frames"], "{row}");
        assert!(row["mpps"].as_f64().unwrap() > 0.0);
    }
    place.file("of_another.c", "void NET_RECV__x(buf_t packet) { bufextract(packet, 0); }");
    let said = json(place.run(&["validate", "originals", "--from", ".", "--json"]).ok());
    assert_eq!(said["rows"][0]["accepted"], false);
    place.run(&["validate", "originals", "--from", "nowhere"]).fails(1, &["nowhere"]);
    place.run(&["validate", "originals"]).fails(2, &["--from"]);
}

/// What would overflow clang's stack is said with its place before clang runs; what macros make is
/// said behind it.
#[test]
fn deep_programs_are_refused_in_a_line() {
    let place = Place::new();
    let program = |expression: &str| {
        format!(
            "#include <nicforge.h>\n#define A(x) ~~~~~~~~~~~~~~~~~~~~~x\n#define B(x) A(A(A(A(A(A(A(A(A(A(x))))))))))\n\
             #define C(x) B(B(B(B(B(B(B(B(B(B(x))))))))))\n#define D(x) C(C(C(C(C(C(C(C(C(C(x))))))))))\nNF_PORTS(1);\n\
             void net_recv(nf_pkt pkt)\n{{\n    uint32_t n = {expression}nf_len(pkt);\n    nf_send(pkt, n);\n}}\n"
        )
    };
    for deep in ["~", "-", "1 + ", "1 ? 2 : "] {
        place.file("deep.c", program(&deep.repeat(20_000)));
        place
            .run(&["check", "deep.c"])
            .fails(1, &["error[NF0027]", "deep.c:9:", "more than 1000 operators"]);
    }
    place.file("macro.c", program("D(1) +"));
    place.run(&["check", "macro.c"]).fails(1, &["error[NF0027]: clang crashed", "macros"]);
    place.is_clean();
}

/// `bound` on the kernel takes programs of ours as it takes their objects, and says what is wrong
/// with a damaged source.
#[test]
fn bound_on_xdp_takes_programs_and_names_errors() {
    let place = Place::new();
    let program = example("icmp_echo");
    place.run(&["build", &program, "-o", "x.o"]).ok();
    let rates = |file: &str| {
        let ran = place.run(&["bound", "--target", "xdp", file, "--json"]);
        let found = json(ran.ok());
        (found["packet_rate"].clone(), found["cycles"].clone())
    };
    assert_eq!(rates(&program), rates("x.o"));
    place.file("damaged.c", "#include <linux/bpf.h>\nint f(void) { retur 1 }\n");
    let ran = place.run(&["bound", "--target", "xdp", "damaged.c"]);
    ran.fails(1, &["damaged.c:2:", "error:"]);
    place.is_clean();
}

/// Another clang than those that are tested is used, and that is said.
#[test]
fn other_versions_of_clang_are_used_with_a_warning() {
    let place = Place::new();
    place.file("c.c", common::counter("nf_drop(pkt);"));
    let path = std::env::var("PATH").unwrap();
    let name = nicforge_clang::name();
    let clang = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let bin = place.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(clang.expect("clang is installed"), bin.join("clang-18")).unwrap();
    let mut command = place.command(&["check", "c.c"]);
    command.env("PATH", &bin);
    let ran = common::finish(command);
    ran.ok();
    assert!(
        ran.err.contains("warning: clang-18 is used, which is not tested (tested: 19, 16, 15, 14)"),
        "{ran:?}"
    );
}

/// What a target lacks is refused by every command, and never left out without a word.
#[test]
fn what_a_target_lacks_is_refused_by_every_command() {
    let place = Place::new();
    for command in ["build", "run", "verify", "plan", "sim"] {
        place
            .run(&[command, &example("flow_ageing"), "--target", "pspin"])
            .fails(1, &["flow_ageing.c:25:1", "timers", "compare nf_now() with a time in a table"]);
    }
}
