//! Programs that call functions of C files and libraries.

mod common;

use common::{Place, can_load, capture, example};

fn source(name: &str) -> String {
    example(&format!("../tests/programs/c_functions/{name}"))
}

/// What `--with` names for the fixture.
fn with() -> [String; 3] {
    ["--with".to_string(), source("functions.c"), "--with=-lz".to_string()]
}

fn run(place: &Place, command: &str, more: &[&str]) -> common::Ran {
    let (program, capture, with) = (source("c_functions.c"), example("nat/traffic.pcap"), with());
    let with = with.iter().map(String::as_str);
    let words =
        [command, &program, "--pcap", &capture].into_iter().chain(with).chain(more.iter().copied());
    place.run(&words.collect::<Vec<_>>())
}

#[test]
fn generated_code_and_the_interpreter_call_them_alike() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let on = |target| ["--target", target];
    for more in [
        &on("dpdk")[..],
        &["--target", "xdp", "--candidate", "0"],
        &on("xdp"),
        &on("agilio-cx"),
        &on("liquidio"),
    ] {
        let ran = run(&place, "verify", more);
        assert!(
            ran.ok().contains("matches the reference: 1127 of 1127 events, 2 of 2 tables"),
            "{more:?}: {ran:?}"
        );
    }
    place.is_clean();
}

/// The interpreter calls the real thing: zlib's checksum of bytes that are known.
#[test]
fn a_library_function_gives_what_it_is_known_for() {
    let place = Place::new();
    let program = "#include <nicforge.h>\nNF_PORTS(1);\n\
                   extern uint64_t crc32(uint64_t sum, const void *bytes, uint32_t length);\n\
                   void net_recv(nf_pkt pkt)\n{\n    uint8_t b[9];\n    nf_load(pkt, 14, &b);\n    \
                   uint64_t sum = crc32(0, b, 9);\n    nf_emit(pkt, &sum);\n    nf_send(pkt, 0);\n}\n";
    let program = place.file("sum.c", program);
    let mut frame = common::frame(0x1234);
    frame[14..23].copy_from_slice(b"123456789");
    let pcap = place.file("one.pcap", capture(&[frame]));
    let (program, pcap) = (program.to_str().unwrap(), pcap.to_str().unwrap());
    let out = place.path().join("out.pcap");
    let to = out.to_str().unwrap();
    place
        .run(&["run", program, "--target", "interp", "--pcap", pcap, "--with=-lz", "--out", to])
        .ok();
    // The check value of this CRC, in front of the frame.
    let sent = std::fs::read(&out).unwrap();
    assert!(
        sent.windows(14)
            .any(|at| at[..8] == 0xcbf4_3926u64.to_le_bytes() && at[8..] == [2, 0, 0, 0, 0, 1])
    );
    let verified =
        place.run(&["verify", program, "--target", "dpdk", "--pcap", pcap, "--with=-lz"]);
    assert!(verified.ok().contains("1 of 1 events"), "{verified:?}");
}

#[test]
fn whoever_has_state_has_one_thread() {
    let place = Place::new();
    let ran = place.run(&["explain", &source("c_functions.c"), "--target", "dpdk"]);
    assert!(ran.ok().contains("`spell` is a function of C that may have state"), "{ran:?}");
}

#[test]
fn targets_without_c_say_what_to_do() {
    let place = Place::new();
    let text = std::fs::read_to_string(source("c_functions.c")).unwrap();
    let called = text
        .replace("void work(", "static void work(")
        .replace("nf_enqueue(work, pkt, item)", "work(pkt, item)");
    let nic = place.file("nic.c", called.replace("NF_ON(host);", ""));
    let build = |target: &str| {
        place.run(&["build", nic.to_str().unwrap(), "--target", target, "--emit", "c"])
    };
    build("xdp").fails(1, &["nic.c:", "`spell` is a function of C", "a handler with NF_ON(host)"]);
    let planned = place.run(&["plan", nic.to_str().unwrap(), "--target", "xdp"]);
    planned.fails(
        1,
        &[
            "nic.c:",
            "lacks functions of C such as `spell`",
            "put the call behind a queue to the host",
        ],
    );
    // A queue that says no side leads where the function can run.
    let open = place.file("open.c", text.replace("NF_ON(host);", ""));
    let planned = place.run(&["plan", open.to_str().unwrap(), "--target", "xdp"]);
    assert!(planned.ok().contains("of 4 process"), "{planned:?}");
    let plan = |target: &str| place.run(&["plan", &source("c_functions.c"), "--target", target]);
    for target in ["pspin", "bluefield2"] {
        plan(target).fails(1, &["c_functions.c:", "lacks functions of C such as `spell`"]);
    }
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let (program, capture, functions) =
        (source("c_functions.c"), example("nat/traffic.pcap"), source("functions.c"));
    let verify = |more: &[&str]| {
        place.run(
            &[&["verify", &program, "--target", "dpdk", "--pcap", &capture][..], more].concat(),
        )
    };
    verify(&["--with", &functions])
        .fails(1, &["c_functions.c:", "nothing given by --with has the C function `crc32`"]);
    verify(&["--with", "nowhere.c"]).fails(1, &["--with nowhere.c: there is no such file"]);
    verify(&[]).fails(1, &["calls the C function", "--with FILE.c"]);
    let broken = place.file("broken.c", "int f(int x) {");
    verify(&["--with", broken.to_str().unwrap()])
        .fails(1, &["clang-19 refuses what was given", "broken.c:1"]);
    place.is_clean();
}

#[test]
fn a_crash_is_named() {
    let place = Place::new();
    let program = "#include <nicforge.h>\nstruct item {\n    nf_be32 source;\n    uint16_t length;\n    uint8_t rest[18];\n};\n\
                   extern uint32_t crash(const struct item *item);\n\
                   void net_recv(nf_pkt pkt)\n{\n    struct item item;\n    nf_load(pkt, 0, &item);\n    \
                   uint32_t port = crash(&item);\n    nf_send(pkt, port & 1);\n}\n";
    let program = place.file("crash.c", program);
    let (program, capture, functions) =
        (program.to_str().unwrap(), example("nat/traffic.pcap"), source("functions.c"));
    let go = |words: &[&str]| {
        place.run(&[words, &[program, "--pcap", &capture, "--with", &functions]].concat())
    };
    go(&["run", "--target", "interp"])
        .fails(1, &["a crash in `crash`: invalid address", "functions of C"]);
    go(&["verify", "--target", "dpdk"]).fails(1, &["signal: 11", "functions of C", "crash"]);
    place.is_clean();
}

#[test]
fn the_example_signs_with_openssl() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let frames: Vec<Vec<u8>> =
        (0..40u8).map(|n| request(n, if n % 4 == 3 { 20 } else { 40 })).collect();
    let pcap = place.file("requests.pcap", capture(&frames));
    let (program, hmac) = (example("sign/sign.c"), example("sign/hmac.c"));
    for target in ["xdp", "dpdk", "agilio-cx", "liquidio"] {
        let ran = place.run(&[
            "verify",
            &program,
            "--target",
            target,
            "--pcap",
            pcap.to_str().unwrap(),
            "--with",
            &hmac,
            "--with=-lcrypto",
        ]);
        assert!(ran.ok().contains("40 of 40 events, 1 of 1 tables"), "{target}: {ran:?}");
    }
}

/// A datagram for port 7000 with so many bytes.
fn request(number: u8, bytes: u8) -> Vec<u8> {
    let mut frame = common::frame(0x0800);
    frame.truncate(14);
    frame.extend([0x45, 0, 0, 28 + bytes, 0, number, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x30, number, 0x1b, 0x58, 0, 8 + bytes, 0, 0]);
    frame.extend((0..bytes).map(|at| at ^ number));
    frame
}
