//! What `bound` says of sPIN handlers against what `spin sim`, which shares no code with it, sees
//! them take: no handler whose instructions are in the cache and whose commands find their ways
//! free takes longer, whatever the packet.

mod common;

use std::collections::HashSet;

use common::{Background, Place, example};
use nicforge_util::Random;
use serde_json::Value;

/// Bytes of the largest packet, headers included, and packets of a run.
const MOST: u64 = 512;
const PACKETS: u64 = 48;

/// Reads and writes the memory of a cluster that is not its own.
const FAR_NAME: &str = "far";
const FAR: &str = "#include <handler.h>
__handler__ void far_ph(handler_args_t *args)
{
    volatile uint32_t *there = (volatile uint32_t *)args->task->scratchpad[1];
    for (int i = 0; i < 16; i++)
        there[i] += i;
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)
{
    volatile handler_fn all[] = {NULL, far_ph, NULL};
    *hh = all[0];
    *ph = all[1];
    *th = all[2];
    *mem = NULL;
}
";

/// Frames of any bytes and sizes, every other one an echo request as far as handlers look, a
/// millisecond apart.
fn capture(random: &mut Random) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for number in 0..PACKETS as u32 {
        let size = 60 + random.below(MOST - 60 + 1) as usize;
        let mut frame: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        if number % 2 == 0 {
            (frame[14], frame[34]) = (0x45, 8);
        }
        for word in [0, number * 1000, size as u32, size as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Runs something and reads its JSON.
fn json(place: &Place, args: &[&str]) -> Value {
    let ran = place.run(args);
    serde_json::from_str(ran.ok()).unwrap_or_else(|e| panic!("{e}: {args:?}"))
}

#[test]
fn no_simulated_handler_takes_longer_than_its_bound() {
    let place = Place::new();
    let mut random = Random::new(7);
    place.file("any.pcap", capture(&mut random));
    place.file("far.c", FAR);
    // Machine, handlers, traffic besides random bytes, trips of their loop where the packet's own
    // length field ends it.
    let cases = [
        ("pspin", "pspin/empty", Some("pspin"), None),
        ("pspin", "pspin/ping_pong", Some("pspin"), None),
        ("pspin", "pspin/copy_to_host", Some("pspin"), None),
        ("pspin", "pspin/copy_from_host", Some("pspin"), None),
        ("pspin", "pspin/host_direct", Some("pspin"), None),
        ("pspin", "pspin/filtering", Some("pspin"), None),
        ("pspin", "pspin/reduce", None, Some("121")),
        ("fpspin", "icmp_echo", Some("icmp"), None),
        ("fpspin", "udp_echo", Some("udp"), None),
        ("fpspin", "slmp_receive", Some("slmp"), None),
        ("pspin", FAR_NAME, Some("pspin"), None),
        ("fpspin", FAR_NAME, Some("udp"), None),
    ];
    for (machine, name, traffic, trips) in cases {
        let image = format!("{}.elf", name.replace('/', "_"));
        let source = match name {
            FAR_NAME => format!("{name}.c"),
            _ => example(&format!("spin/{name}.c")),
        };
        place.run(&["spin", "build", &source, "-o", &image, "--machine", machine]).ok();
        let most = MOST.to_string();
        let mut args =
            vec!["bound", &image, "--target", machine, "--mtu", &most, "--by", "packet-rate"];
        args.push("--json");
        args.extend(trips.iter().flat_map(|trips| ["--unroll", trips]));
        let bound = json(&place, &args);
        assert_eq!(bound["status"], "exact", "{name}");
        let cycles = bound["cycles"].as_f64().unwrap();
        let sim = |more: &[&str]| {
            let args = ["spin", "sim", &image, "--machine", machine, "--json"];
            json(&place, &[&args[..], more].concat())
        };
        let mut runs = Vec::new();
        let packets = PACKETS.to_string();
        for size in [64, 200, MOST] {
            let (size, traffic) = (size.to_string(), traffic.unwrap_or("pspin"));
            runs.push(sim(&["--traffic", traffic, "-p", &packets, "-s", &size, "-d", "20000"]));
        }
        // Where trips are given, the packet's length field has to be one of these packets'.
        if trips.is_none() {
            runs.push(sim(&["--pcap", "any.pcap"]));
        }
        for run in runs {
            let (mut seen, mut slowest, mut count) = (HashSet::new(), 0.0_f64, 0);
            for handler in run["handlers"].as_array().unwrap() {
                // The first run on a unit fetches instructions.
                if handler["handler"] == "packet" && !seen.insert(handler["unit"].as_u64().unwrap())
                {
                    slowest = slowest.max(handler["cycles"].as_f64().unwrap());
                    count += 1;
                }
            }
            assert!(count > 0, "{name}: no handler ran twice on a unit");
            assert!(
                slowest <= cycles,
                "{name} on {machine}: {slowest} cycles, the bound is {cycles}"
            );
        }
    }
    place.is_clean();
}

/// One query of this handler's would take minutes: a limit, and Ctrl-C, hold inside it, and what is
/// known by then is a valid bound.
#[test]
fn limits_hold_inside_a_query() {
    let place = Place::new();
    let source = example("spin/icmp_echo.c");
    place.run(&["spin", "build", &source, "-o", "icmp.elf", "--", "-DWHOLE_CHECKSUM"]).ok();
    let bound = ["bound", "icmp.elf", "--target", "fpspin", "--json"];
    // Where much else runs, there may be no bound yet after a second.
    let limited = |seconds: &str| {
        Background::start(place.command(&[&bound[..], &["--timeout", seconds]].concat())).end()
    };
    let limited = ["1", "5", "25"].into_iter().map(limited).find(|ran| ran.status.success());
    let limited = limited.expect("no bound within 25 seconds");
    let interrupted = Background::start(place.command(&bound));
    // The first bound is there at once; the query that takes long begins soon after.
    common::worked(interrupted.pid(), 2);
    interrupted.signal(libc::SIGINT);
    for ran in [limited, interrupted.end()] {
        let report: Value = serde_json::from_str(ran.ok()).unwrap();
        assert_eq!(report["status"], "lower_bound", "{report}");
        assert!(report["bit_rate_bps"].as_f64().unwrap() > 0.0);
    }
    place.is_clean();
}
