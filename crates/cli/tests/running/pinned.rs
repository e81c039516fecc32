//! Programs that outlive their runs: killed, upgraded, taken over, detached.

use std::path::Path;

use super::{Net, TABLES, count_of, json, script};
use crate::common::{self, Place, Ran, can_load, counter, within};

const FOLDER: &str = "/sys/fs/bpf/nicforge/c";

/// Gives the calling thread, and the commands that it starts, a BPF file system of their own. It
/// ends with them.
fn own_bpffs() {
    let mount = |from: &std::ffi::CStr, to: &std::ffi::CStr, flags| {
        let none = std::ptr::null();
        // SAFETY: C strings that live through the call.
        unsafe { libc::mount(from.as_ptr(), to.as_ptr(), from.as_ptr(), flags, none) }
    };
    // SAFETY: no pointers.
    let apart = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    let done = [
        apart,
        mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE),
        mount(c"bpf", c"/sys/fs/bpf", 0),
    ];
    assert_eq!(done, [0; 3], "{}", std::io::Error::last_os_error());
}

fn metric(place: &Place, line: &str) -> bool {
    place.run(&["metrics"]).ok().contains(line)
}

impl Net {
    /// Takes the program's place again.
    fn again(&self, place: &Place, file: &str) -> common::Background {
        self.start(place, &["run", file, "--dev", "nf0", "--pin=c"])
    }
}

/// Kills a run, and has what it left behind removed.
fn kill(place: &Place, run: common::Background) -> Ran {
    run.signal(libc::SIGKILL);
    let ran = run.end();
    place.run(&["table", "list"]);
    assert!(place.sockets().is_empty());
    ran
}

#[test]
fn a_pinned_program_outlives_its_process() {
    if !can_load() {
        return;
    }
    own_bpffs();
    let (place, net) = (Place::new(), Net::new(1));
    place.file("c.c", counter("nf_log(\"seen\"); nf_drop(pkt, \"unwanted\");"));
    place.file("tables.toml", TABLES);
    let pinned = ["run", "c.c", "--dev", "nf0", "--pin", "--events"];
    let run = net.start(&place, &pinned);
    let sender = net.sender();
    net.send(&sender, 5, 10);
    within("packets are counted", || count_of(&place, "5") == 10);
    place.run(&["detach"]).fails(3, &["a `nicforge run` works with", FOLDER, "end it first"]);
    net.run(&place, &pinned).fails(3, &["a `nicforge run` works with"]);
    kill(&place, run);

    // Nobody is there, and packets are processed all the same.
    assert!(net.attached(&place));
    net.send(&sender, 5, 7);
    within("tables can be read", || count_of(&place, "5") == 17);
    for line in [
        "nicforge_packets_in_total{program=\"c\"} 17\n",
        "nicforge_packets_dropped_total{program=\"c\",reason=\"unwanted\"} 17\n",
        "nicforge_table_entries{program=\"c\",table=\"by_type\"} 2\n",
    ] {
        within("counters can be read", || net.run(&place, &["metrics"]).ok().contains(line));
    }
    let elsewhere = place.run(&["metrics"]);
    assert!(elsewhere.err.contains("interface `nf0` is not here"), "{elsewhere:?}");
    assert_eq!(place.run(&["table", "set", "by_type", "8", "80", "--pin", "c"]).ok(), "");
    let unknown = ["nothing is pinned at", "pinned: c"];
    place.run(&["table", "list", "--pin=other"]).fails(1, &unknown);
    place.run(&["metrics", "--pin=other"]).fails(1, &unknown);
    place.run(&["reload", "c.c"]).fails(1, &["no program is running"]);
    let busy =
        ["already runs XDP program", "`nicforge detach c` ends it", "`run --pin=c` takes its"];
    net.run(&place, &["run", "c.c", "--dev", "nf0"]).fails(3, &busy);
    let run = net.start(&place, &pinned);
    within("nothing is lost", || count_of(&place, "5") == 17);
    assert_eq!(count_of(&place, "9"), 90, "tables are not filled again");
    assert_eq!(count_of(&place, "8"), 80);
    net.send(&sender, 5, 3);
    for line in [
        "nicforge_packets_in_total{program=\"c\"} 20\n",
        "nicforge_packets_dropped_total{program=\"c\",reason=\"unwanted\"} 20\n",
    ] {
        within("counters go on", || metric(&place, line));
    }
    let ran = kill(&place, run);
    assert_eq!(ran.out.matches("seen").count(), 7 + 3, "what was for the host waited: {ran:?}");

    // Another version of the program: one table is larger, one means something else.
    let new = counter("nf_drop(pkt, \"new\");")
        .replace("uint32_t, 64)", "uint32_t, 128)")
        .replace("lpm, routes, nf_be32, uint32_t, 8", "lpm, routes, nf_be32, uint64_t, 8")
        .replace("uint32_t route;", "uint64_t route;");
    place.file("new.c", new);
    let run = net.again(&place, "new.c");
    net.send(&sender, 5, 1);
    within("entries were copied", || count_of(&place, "5") == 21);
    let both = |old: u64, new: u64| {
        metric(&place, &format!("program=\"new\",reason=\"unwanted\"}} {old}\n"))
            && metric(&place, &format!("program=\"new\",reason=\"new\"}} {new}\n"))
    };
    within("drops of both are known", || both(20, 1));
    // A reload is pinned like the first.
    place.run(&["reload", "c.c"]).ok();
    net.send(&sender, 5, 1);
    within("the first one is back", || count_of(&place, "5") == 22);
    kill(&place, run);
    let run = net.again(&place, "new.c");
    within("entries were copied twice", || count_of(&place, "5") == 22);
    assert!(metric(&place, "reason=\"unwanted\"} 21\n"));

    // An end in order leaves it, too.
    run.signal(libc::SIGINT);
    let ran = run.end();
    assert!(ran.err.contains("new stays on nf0") && ran.err.contains("takes the place"), "{ran:?}");
    assert!(net.attached(&place));
    let json_of = json(place.run(&["detach", "--json"]).ok());
    assert_eq!(json_of["result"]["interfaces"][0], "nf0");
    assert!(!net.attached(&place) && !Path::new(FOLDER).exists());
    place.run(&["detach"]).fails(1, &["nothing is pinned"]);
    place.run(&["detach", "c"]).fails(1, &["nothing is pinned at", FOLDER]);
    place.is_clean();
}

/// Whenever a start is cut short, the next one works, and keeps what there was.
#[test]
fn a_start_may_be_killed_at_any_moment() {
    if !can_load() {
        return;
    }
    own_bpffs();
    let (place, net) = (Place::new(), Net::new(1));
    place.file("c.c", counter("nf_drop(pkt, \"unwanted\");"));
    let sender = net.sender();
    // How long a start takes here.
    let began = std::time::Instant::now();
    let run = net.again(&place, "c.c");
    let takes = began.elapsed();
    kill(&place, run);
    place.run(&["detach"]).ok();
    let (mut random, mut sent) = (nicforge_util::random::Random::new(7), 0);
    // Most of a start is compiling; what matters comes at its end.
    for round in 0..if common::soak() { 100 } else { 6 } {
        let wait = takes.mul_f64(0.7 + 0.35 * random.unit());
        let command = place.command(&["run", "c.c", "--dev", "nf0", "--pin=c"]);
        let run = net.sandbox.nic.enter(|| Ok(common::Background::start(command))).unwrap();
        std::thread::sleep(wait);
        kill(&place, run);
        // A first start that was cut short leaves nothing that counts.
        let there = Path::new(FOLDER).join("state").exists();
        assert!(there || round % 3 == 0, "what was pinned stays");
        net.send(&sender, 5, 1);
        sent = if there { sent + 1 } else { 0 };
        let run = net.again(&place, "c.c");
        net.send(&sender, 5, 1);
        sent += 1;
        within("all packets are counted", || count_of(&place, "5") == sent);
        kill(&place, run);
        if round % 3 == 2 {
            place.run(&["detach", "c"]).ok();
            assert!(!net.attached(&place) && !Path::new(FOLDER).exists());
            sent = 0;
        }
    }
}

/// Interfaces go and come back, also while nobody is there; other interfaces are no mistake to make
/// unseen.
#[test]
fn pinned_programs_and_interfaces() {
    if !can_load() {
        return;
    }
    own_bpffs();
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    let ran = script(
        &place,
        "start() { \"$NICFORGE\" run c.c --dev n0 --pin --wait-interface 2> err > out & RUN=$!; wait_for err 'runs on n0'; }\n\
         stop() { kill -INT $RUN; wait $RUN; echo \"status $?\"; }\n\
         runs() { ip -o link show n0 | grep -q xdp && echo \"runs $1\"; }\n\
         pair; start; \"$NICFORGE\" table set by_type 3 33\n\
         ip link del n0; wait_for err 'gone; waiting'; pair; wait_for err 'is back'; stop; runs 1\n\
         ip link del n0; pair; start; runs 2; \"$NICFORGE\" table get by_type 3; stop\n\
         bpftool net detach xdp dev n0 || ip link set n0 xdp off || true\n\
         start; runs 3; stop\n\
         ip link add m0 type veth peer name m1\n\
         \"$NICFORGE\" run c.c --dev m0 --pin 2>&1 || echo \"status $?\"\n\
         \"$NICFORGE\" run c.c --dev m0 --pin=here/and/there 2>&1 || echo \"status $?\"; test ! -e here\n\
         \"$NICFORGE\" run c.c --dev n0 --pin=a.b 2>&1 || echo \"status $?\"\n\
         \"$NICFORGE\" run c.c --dev n0 --pin --candidate 0 2>&1 || echo \"status $?\"\n\
         \"$NICFORGE\" run c.c --dev net_null0 --pin --target dpdk 2>&1 || echo \"status $?\"\n\
         \"$NICFORGE\" run c.c --pin 2>&1 || echo \"status $?\"\n\
         mkdir own; mount -t bpf bpf own; \"$NICFORGE\" run c.c --dev m0 --pin=$PWD/own/x --duration 0.1 > out\n\
         \"$NICFORGE\" detach; \"$NICFORGE\" detach $PWD/own/x; ls own\n\
         mkdir other own/other own/other/maps; touch other/file\n\
         \"$NICFORGE\" detach $PWD/other 2>&1 || ls other\n\
         \"$NICFORGE\" detach $PWD/own/other 2>&1 || ls own/other\n\
         \"$NICFORGE\" run c.c --dev m0 --pin=$PWD/own/other 2>&1 || ls own/other\n",
    );
    let wants = [
        "status 0\nruns 1\n",
        "runs 2\n3 -> 33\nstatus 0\n",
        "runs 3\n",
        "runs on n0: give the same interfaces, another name (`--pin=NAME`)",
        "here/and/there` is in no BPF file system",
        "is not empty and has no dot",
        "--pin lets a program of one stage outlive its run",
        "--pin needs a target whose programs the kernel runs: xdp",
        "--dev <IFACE|DEVICE>",
        "c is detached from n0; its tables are gone: by_type, routes\n",
        "own/x is detached from m0",
        "other` is in no BPF file system",
        "file\n",
        "own/other` holds `maps`, which is nothing of `nicforge run --pin`",
        "maps\n",
        "own/other` holds `maps`, which is nothing of `nicforge run --pin`",
        "maps\n",
    ];
    let Ran { out, .. } = &ran;
    let mut rest = ran.ok();
    for want in wants {
        let at = rest.find(want).unwrap_or_else(|| panic!("no `{want}` in {out}"));
        rest = &rest[at + want.len()..];
    }
    place.is_clean();
}
