//! Handlers behind the datapath in hardware (`spin sim --datapath rtl`) do what they do behind the
//! software one: the same frames leave, the same bytes go to the host, the same handlers run on the
//! same packets of the same messages, header first and completion last. Cycles differ, and so does
//! the order in which units that run side by side send. Buffers and order of the scheduler are
//! compared one by one in crates/run/tests/spin_datapath.rs.

mod common;

use std::collections::BTreeMap;

use common::{Place, example};
use serde_json::Value;

/// Frames of a capture.
fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while let Some((head, tail)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        frames.push(tail[..length].to_vec());
        rest = &tail[length..];
    }
    frames
}

struct Ran {
    json: Value,
    sent: Vec<Vec<u8>>,
    /// Message, packet and handler, sorted.
    handlers: Vec<(u64, u64, String)>,
}

fn sim(place: &Place, arguments: &[&str], datapath: &str) -> Ran {
    let common = ["--datapath", datapath, "--json", "--out", "sent.pcap"];
    let all: Vec<&str> =
        ["spin", "sim"].into_iter().chain(arguments.iter().copied()).chain(common).collect();
    let ran = place.run(&all);
    let json: Value = serde_json::from_str(ran.ok()).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let mut sent = frames(&std::fs::read(place.path().join("sent.pcap")).unwrap());
    sent.sort();
    let mut list: Vec<&Value> = json["handlers"].as_array().unwrap().iter().collect();
    list.sort_by_key(|handler| handler["start"].as_u64());
    let mut by_message: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for handler in &list {
        let name = handler["handler"].as_str().unwrap();
        by_message.entry(handler["message"].as_u64().unwrap()).or_default().push(name);
    }
    for (message, kinds) in by_message {
        let header = kinds.iter().rposition(|kind| *kind == "header").unwrap_or(0);
        let tail = kinds.iter().position(|kind| *kind == "tail").unwrap_or(kinds.len() - 1);
        assert!(header == 0 && tail == kinds.len() - 1, "message {message}: {kinds:?}");
    }
    let mut handlers: Vec<_> = list
        .iter()
        .map(|handler| {
            let number = |name: &str| handler[name].as_u64().unwrap();
            (number("message"), number("packet"), handler["handler"].as_str().unwrap().to_string())
        })
        .collect();
    handlers.sort();
    Ran { json, sent, handlers }
}

/// Runs both ways, hardware also with stalls.
fn both(arguments: &[&str], sent: usize) -> Option<Ran> {
    if std::env::var_os("NICFORGE_VERILATOR").is_none_or(|path| path.is_empty()) {
        println!("skipped: Verilator is missing: run scripts/bootstrap.sh");
        return None;
    }
    let place = Place::new();
    let software = sim(&place, arguments, "software");
    assert_eq!(software.sent.len(), sent);
    for stalls in ["0", "7"] {
        let all = [arguments, &["--stalls", stalls]].concat();
        let hardware = sim(&place, &all, "rtl");
        assert_eq!(hardware.handlers, software.handlers);
        assert!(hardware.sent == software.sent, "other frames");
        for name in [
            "handled",
            "sent",
            "to_host",
            "dropped",
            "host_written_bytes",
            "commands",
            "faults",
            "output",
        ] {
            assert_eq!(hardware.json[name], software.json[name], "{name}");
        }
        let counts = |ran: &Ran| {
            ran.json["counters"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c["count"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&hardware), counts(&software));
        if stalls == "0" {
            // Table II of FPsPIN: matching 4 cycles, ingress DMA 8 to 70.
            assert_eq!(hardware.json["datapath"]["matching"]["min"], 4);
            assert!(hardware.json["datapath"]["ingress"]["max"].as_u64().unwrap() <= 70);
        }
    }
    Some(software)
}

#[test]
fn pings_are_answered() {
    for (file, traffic) in [("icmp_echo", "icmp"), ("udp_echo", "udp")] {
        for bytes in ["64", "1024"] {
            let file = example(&format!("spin/{file}.c"));
            both(
                &[
                    &file,
                    "--traffic",
                    traffic,
                    "--match",
                    traffic,
                    "-s",
                    bytes,
                    "-p",
                    "40",
                    "-d",
                    "60",
                ],
                40,
            );
        }
    }
}

#[test]
fn files_arrive() {
    let file = example("spin/slmp_receive.c");
    let arguments = [
        "--traffic",
        "slmp",
        "--match",
        "slmp",
        "-m",
        "5",
        "-p",
        "20",
        "-s",
        "1460",
        "-d",
        "120",
        "--answer-after",
        "200",
    ];
    if let Some(ran) = both(&[&[file.as_str()], &arguments[..]].concat(), 100) {
        assert!(ran.json["host_written_bytes"].as_u64().unwrap() >= 100 * (1460 - 52));
        assert_eq!(ran.handlers.iter().filter(|handler| handler.2 == "tail").count(), 5);
    }
}

/// No module takes more cycles than FPsPIN's, and every module has its area.
#[test]
fn the_tables_of_cycles_and_areas_are_shown() {
    if std::env::var_os("NICFORGE_VERILATOR").is_none_or(|path| path.is_empty()) {
        println!("skipped: Verilator is missing: run scripts/bootstrap.sh");
        return;
    }
    let place = Place::new();
    let said: Value =
        serde_json::from_str(place.run(&["validate", "spin-rtl", "--json"]).ok()).unwrap();
    let rows = said["rows"].as_array().unwrap();
    let cycles: Vec<&Value> = rows
        .iter()
        .filter(|row| row["source"] == "FPsPIN Tab. II" && !row["published"].is_null())
        .collect();
    assert_eq!(cycles.len(), 4);
    assert!(
        cycles.iter().all(|row| row["ours"].as_f64() <= row["published"].as_f64()),
        "{cycles:?}"
    );
    assert_eq!(rows.iter().filter(|row| row["metric"] == "LUTs").count(), 10);
    place
        .run(&["validate", "spin-rtl", "--remake", "--only", "nf_x"])
        .fails(2, &["`nf_x` is none of nf_spin_match, nf_spin_alloc"]);
}

#[test]
fn what_hardware_cannot_do_is_refused() {
    let place = Place::new();
    let file = example("spin/udp_echo.c");
    let run =
        |rest: &[&str]| place.run(&[&["spin", "sim", &file, "--datapath", "rtl"], rest].concat());
    run(&["--bugs"]).fails(1, &["none of the faults that --bugs asks for"]);
    let ping = example("spin/pspin/ping_pong.c");
    place
        .run(&["spin", "sim", &ping, "--machine", "pspin", "--datapath", "rtl"])
        .fails(1, &["the datapath in hardware is that of `fpspin`", "`pspin` differs"]);
    place.is_clean();
}
