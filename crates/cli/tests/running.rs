//! Running programs: tables and metrics from another process, interfaces, replacement under
//! traffic, and what is left when a run ends, however it ends.

mod common;
#[path = "running/pinned.rs"]
mod pinned;

use common::{Background, Place, Ran, can_load, capture, counter, example, finish, frame, within};
use nicforge_run::live::Sender;
use nicforge_run::netns::Sandbox;
use serde_json::Value;

const TABLES: &str =
    "[[by_type]]\nkey = 9\nvalue = 90\n[[routes]]\nkey = \"10.0.0.0/8\"\nvalue = 1\n";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A run that holds, from when it answers.
fn holding(place: &Place, target: &str) -> Background {
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("p.pcap", capture(&[frame(5), frame(5), frame(6)]));
    place.file("t.toml", TABLES);
    let before = place.sockets().len();
    let args =
        ["run", "c.c", "--target", target, "--pcap", "p.pcap", "--tables", "t.toml", "--hold"];
    let run = Background::start(place.command(&args));
    within("the run listens", || place.sockets().len() == before + 1);
    run
}

/// Everything `nicforge table` can do.
fn use_tables(place: &Place) {
    let table = |args: &[&str]| place.run(&[&["table"], args].concat());
    let list = table(&["list"]);
    assert!(
        list.ok().lines().any(|line| line.contains("by_type") && line.contains("hash")),
        "{list:?}"
    );
    assert_eq!(table(&["get", "by_type", "5"]).ok(), "5 -> 2\n");
    assert_eq!(table(&["set", "by_type", "5", "50"]).ok(), "");
    assert_eq!(table(&["dump", "by_type"]).ok(), "5 -> 50\n6 -> 1\n9 -> 90\n");
    assert_eq!(table(&["delete", "by_type", "6"]).ok(), "");
    table(&["delete", "by_type", "6"]).fails(1, &["no entry for 6"]);
    table(&["get", "by_type", "6"]).fails(1, &["no entry for 6"]);
    assert_eq!(table(&["set", "routes", "10.1.0.0/16", "2"]).ok(), "");
    let routes = table(&["dump", "routes"]);
    assert!(routes.ok().contains("10.1.0.0/16") || routes.ok().contains("prefix 16"), "{routes:?}");

    assert_eq!(json(table(&["--json", "get", "by_type", "5"]).ok())["result"]["value"], 50);
    assert_eq!(json(table(&["list", "--json"]).ok())["result"][0]["table"], "by_type");
    assert_eq!(json(table(&["dump", "by_type", "--json"]).ok())["result"][1]["key"], 9);

    table(&["dump", "nothing"]).fails(1, &["no table `nothing`; it has `by_type`, `routes`"]);
    table(&["get", "by_type", "70000"]).fails(1, &["`key`: 70000 is not between 0 and 65535"]);
    table(&["set", "by_type", "1", "-1"]).fails(1, &["`value`: -1"]);
    table(&["set", "routes", "10.0.0.0/33", "1"]).fails(1, &["33"]);
    table(&["set", "by_type", "1", "1", "--mask", "3"]).fails(1, &["`mask` is no member"]);

    let metrics = place.run(&["metrics"]);
    assert!(
        metrics.ok().contains("nicforge_table_entries{program=\"c\",table=\"by_type\"} 2\n"),
        "{metrics:?}"
    );
    assert_eq!(json(place.run(&["metrics", "--json"]).ok())["schema"], "nicforge/run");
}

#[test]
fn tables_of_an_interpreted_run() {
    let place = Place::new();
    for command in [&["table", "list"][..], &["metrics"], &["reload", &example("l2_forward")]] {
        place.run(command).fails(1, &["no program is running; start one with `nicforge run`"]);
    }
    let run = holding(&place, "interp");
    use_tables(&place);
    let metrics = place.run(&["metrics"]);
    assert!(
        metrics.ok().contains("nicforge_packets_sent_total{program=\"c\",port=\"0\"} 3\n"),
        "{metrics:?}"
    );
    place.run(&["reload", "c.c"]).fails(1, &["nicforge run --dev"]);

    run.signal(libc::SIGHUP);
    run.end().ok();
    let run = holding(&place, "interp");
    let second = holding(&place, "interp");
    let (a, b) = (run.pid().to_string(), second.pid().to_string());
    place.run(&["table", "list"]).fails(1, &["several programs are running", &a, &b, "(c)"]);
    place.run(&["table", "list", "--run", &b]).ok();
    place.run(&["metrics", "--run", "1"]).fails(1, &["no program runs as process 1", &a]);
    second.signal(libc::SIGTERM);
    second.end().ok();
    run.signal(libc::SIGINT);
    let ran = run.end();
    assert!(ran.ok().contains("packets in"), "{ran:?}");
    place.is_clean();
}

#[test]
fn nohup_outlives_its_terminal() {
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("p.pcap", capture(&[frame(5)]));
    let args = [common::NICFORGE, "run", "c.c", "--target", "interp", "--pcap", "p.pcap", "--hold"];
    let run = Background::start(place.prepare("nohup", &args));
    within("the run listens", || place.sockets().len() == 1);
    run.signal(libc::SIGHUP);
    std::thread::sleep(std::time::Duration::from_millis(200));
    place.run(&["table", "list"]).ok();
    run.signal(libc::SIGTERM);
    run.end().ok();
    place.is_clean();
}

#[test]
fn tables_of_a_run_in_the_kernel() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let run = holding(&place, "xdp");
    use_tables(&place);
    run.signal(libc::SIGINT);
    let ran = run.end();
    assert!(ran.ok().contains("matches the reference: 3 of 3 events, 2 of 2 tables"), "{ran:?}");
    place.is_clean();
}

/// Through the registers of the simulated design.
#[test]
fn tables_of_a_simulated_design() {
    if nicforge_run::rtl::Verilator::find().is_err() {
        assert!(std::env::var_os("CI").is_none(), "Verilator is missing: run scripts/bootstrap.sh");
        println!("skipped: Verilator is missing: run scripts/bootstrap.sh");
        return;
    }
    let place = Place::new();
    // The simulator is built once, however long that takes.
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("p.pcap", capture(&[frame(5)]));
    let metrics = place.run(&["run", "c.c", "--target", "u280", "--pcap", "p.pcap", "--metrics"]);
    let line = "nicforge_packets_sent_total{program=\"c\",port=\"0\"} 1\n";
    assert!(metrics.ok().contains(line), "{metrics:?}");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let run = holding(&place, "u280");
        use_tables(&place);
        run.signal(signal);
        let ran = run.end();
        assert!(ran.ok().contains("sent 3 packets, 0 to the host"), "{ran:?}");
        place.is_clean();
    }
}

/// A test network whose port 0 a run uses.
struct Net {
    sandbox: Sandbox,
}

impl Net {
    fn new(ports: u32) -> Net {
        Net { sandbox: Sandbox::new(ports).unwrap() }
    }

    /// Starts a command in the namespace of the interfaces, and waits until a program runs on nf0.
    fn start(&self, place: &Place, args: &[&str]) -> Background {
        let command = place.command(args);
        let run = self.sandbox.nic.enter(|| Ok(Background::start(command))).unwrap();
        within("the run listens", || place.sockets().len() == 1);
        run
    }

    fn run(&self, place: &Place, args: &[&str]) -> Ran {
        let command = place.command(args);
        self.sandbox.nic.enter(|| Ok(finish(command))).unwrap()
    }

    /// What `ip` says about nf0.
    fn link(&self, place: &Place) -> String {
        let command = place.prepare("ip", &["-details", "link", "show", "dev", "nf0"]);
        self.sandbox.nic.enter(|| Ok(finish(command))).unwrap().ok().to_string()
    }

    fn attached(&self, place: &Place) -> bool {
        self.link(place).contains("prog/xdp")
    }

    fn sender(&self) -> Sender {
        self.sandbox.wire.enter(Sender::open).unwrap()
    }

    fn send(&self, sender: &Sender, ether_type: u16, count: usize) {
        let frame = frame(ether_type);
        for _ in 0..count {
            sender.send(self.sandbox.ports[0].wire_ifindex, &[&frame]).unwrap();
        }
    }
}

fn count_of(place: &Place, key: &str) -> u64 {
    let ran = place.run(&["table", "--json", "get", "by_type", key]);
    if ran.code() == 0 { json(&ran.out)["result"]["value"].as_u64().unwrap_or(0) } else { 0 }
}

#[test]
fn a_program_on_an_interface() {
    if !can_load() {
        return;
    }
    let (place, net) = (Place::new(), Net::new(1));
    place.file("c.c", counter("nf_drop(pkt, \"unwanted\");"));
    place.file("tables.toml", TABLES);
    let dev = ["run", "c.c", "--dev", "nf0"];
    let run = net.start(&place, &dev);
    assert_eq!(count_of(&place, "9"), 90, "tables are filled");
    net.send(&net.sender(), 5, 10);
    within("packets are counted", || count_of(&place, "5") == 10);
    let metrics = place.run(&["metrics"]);
    for line in [
        "nicforge_packets_in_total{program=\"c\"} 10\n",
        "nicforge_packets_dropped_total{program=\"c\",reason=\"unwanted\"} 10\n",
        "nicforge_packets_forwarded_total{program=\"c\"} 0\n",
        "nicforge_table_entries{program=\"c\",table=\"by_type\"} 2\n",
    ] {
        assert!(metrics.ok().contains(line), "{line}: {metrics:?}");
    }
    assert_eq!(place.temporary(), [""; 0], "headers are unpacked only while something is compiled");

    // A second one is refused, by the name of the first.
    net.run(&place, &dev)
        .fails(3, &["interface `nf0` already runs XDP program", "(nf_net_recv)", "xdp off"]);
    run.signal(libc::SIGINT);
    let ran = run.end();
    assert!(ran.ok().contains("unwanted") && ran.out.contains("packets in"), "{ran:?}");
    assert!(!net.attached(&place));
    place.is_clean();

    let ended = net.run(&place, &[&dev[..], &["--duration", "0.2", "--metrics"]].concat());
    assert!(ended.ok().starts_with("# HELP nicforge_packets_in_total"), "{ended:?}");
    let ended = net.run(&place, &[&dev[..], &["--duration", "0.2", "--json"]].concat());
    assert_eq!(json(ended.ok())["forwarded"], 0);
    net.run(&place, &["run", "c.c", "--dev", "nf7"])
        .fails(1, &["no network interface `nf7`", "ip link"]);
    net.run(&place, &["run", "c.c", "--dev", "nf0", "--dev", "lo"])
        .fails(1, &["the program has 1 port"]);
    place.is_clean();
}

#[test]
fn a_killed_run_leaves_nothing() {
    if !can_load() {
        return;
    }
    let (place, net) = (Place::new(), Net::new(1));
    place.file("c.c", counter("nf_drop(pkt, \"unwanted\");"));
    let run = net.start(&place, &["run", "c.c", "--dev", "nf0"]);
    assert!(net.attached(&place));
    run.signal(libc::SIGKILL);
    run.end();
    // The kernel detaches when the last descriptor of the link is gone, a moment after the process.
    within("the program is detached", || !net.attached(&place));
    assert_eq!(place.temporary(), [""; 0]);
    // The socket's name is all that can stay, and the next look removes it.
    place.run(&["table", "list"]).fails(1, &["no program is running"]);
    place.is_clean();
}

#[test]
fn a_capture_run_that_is_ended_leaves_nothing() {
    if !can_load() {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let place = Place::new();
        let run = holding(&place, "xdp");
        // In its hold it has its whole network and its program.
        run.signal(signal);
        let pid = run.pid();
        let ran = run.end();
        assert_eq!(
            ran.status.code(),
            if signal == libc::SIGKILL { None } else { Some(0) },
            "{ran:?}"
        );
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        assert_eq!(place.temporary(), [""; 0]);
        place.run(&["table", "list"]).fails(1, &["no program is running"]);
        place.is_clean();
    }
    // While it compiles, Ctrl-C goes to the compiler too.
    let place = Place::new();
    let run = Background::start(place.command(&["verify", &example("nf_chain")]));
    within("it has begun", || !place.temporary().is_empty());
    run.signal(libc::SIGINT);
    let ran = run.end();
    assert_eq!((ran.code(), ran.err.as_str()), (130, ""), "{ran:?}");
    place.is_clean();
}

/// A planned program on an interface: its stages answer for their drops, and a kill leaves none of
/// its queues behind.
#[test]
fn a_killed_pipeline_leaves_nothing() {
    if !can_load() {
        return;
    }
    let (place, net) = (Place::new(), Net::new(1));
    place.file("c.c", counter("nf_drop(pkt, \"unwanted\");"));
    let run = net.start(&place, &["run", "c.c", "--dev", "nf0", "--candidate", "0"]);
    let sender = net.sender();
    net.send(&sender, 5, 10);
    within("packets are counted", || count_of(&place, "5") == 10);
    place.file("d.c", counter("nf_drop(pkt, \"other\");"));
    place.run(&["reload", "d.c"]).fails(1, &["a planned program is not replaced while it runs"]);
    run.signal(libc::SIGKILL);
    run.end();
    within("the program is detached", || !net.attached(&place));
    assert_eq!(place.temporary(), [""; 0]);
    place.run(&["table", "list"]).fails(1, &["no program is running"]);
    place.is_clean();
}

#[test]
fn replacement_keeps_tables_under_traffic() {
    if !can_load() {
        return;
    }
    let (place, net) = (Place::new(), Net::new(1));
    place.file("c.c", counter("nf_drop(pkt, \"old\");"));
    place.file("tables.toml", TABLES);
    let run = net.start(&place, &["run", "c.c", "--dev", "nf0"]);
    let sender = net.sender();
    net.send(&sender, 5, 10);
    within("packets are counted", || count_of(&place, "5") == 10);

    // What does not compile, or the kernel refuses, changes nothing.
    place.file("bad.c", "#include <nicforge.h>\nvoid net_recv(nf_pkt pkt)\n{\n}\n");
    place.run(&["reload", "bad.c"]).fails(1, &["error[NF0090]", "bad.c:"]);
    place.file("two.c", counter("nf_drop(pkt);").replace("NF_PORTS(1)", "NF_PORTS(2)"));
    place.run(&["reload", "two.c"]).fails(1, &["the program has 2 ports"]);
    place.file("wrong.toml", "[[routes]]\nkey = 3000000000000\n");
    place.run(&["reload", "c.c", "--tables", "wrong.toml"]).fails(1, &["wrong.toml:2"]);
    place.run(&["reload", "missing.c"]).fails(1, &["missing.c: No such file"]);
    place.file("tables.c", common::TOO_MANY_TABLES);
    place.file("none.toml", "");
    place
        .run(&["reload", "tables.c"])
        .fails(1, &["tables.toml:1: the program has no table `by_type`"]);
    let refused = place.run(&["reload", "tables.c", "--tables", "none.toml"]);
    refused.fails(
        1,
        &["the kernel's verifier refuses program", "has reached the limit of 64", "complete log"],
    );
    common::remove_log(&refused);
    net.send(&sender, 5, 1);
    within("the old one goes on", || count_of(&place, "5") == 11);

    // The new one has other tables beside the same one, and counts from the same entries.
    let new = counter("nf_drop(pkt, \"new\");")
        .replace("lpm, routes, nf_be32, uint32_t, 8", "lpm, routes, nf_be32, uint64_t, 8")
        .replace("uint32_t route;", "uint64_t route; nf_add_value(&fresh, 1, 1);")
        .replace("NF_PORTS(1);", "NF_PORTS(1);\nNF_TABLE(hash, fresh, uint8_t, uint32_t, 4);");
    place.file("new.c", new.clone());
    place.file(
        "new.toml",
        "[[routes]]\nkey = \"10.0.0.0/8\"\nvalue = 77\n[[by_type]]\nkey = 5\nvalue = 1\n",
    );
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                net.send(&sender, 6, 1);
                sent += 1;
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            sent
        });
        let ran = place.run(&["reload", "new.c", "--tables", "new.toml"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let rows = ran.ok();
        let says =
            |table: &str, what: &str| rows.lines().any(|l| l.contains(table) && l.contains(what));
        assert!(rows.starts_with(&format!("process {} runs new now\n", run.pid())), "{rows}");
        assert!(
            says("by_type", "kept") && says("routes", "starts anew") && says("fresh", "new"),
            "{rows}"
        );
        sending.join().unwrap()
    });
    within("every packet was processed by one of them", || count_of(&place, "6") == sent);
    assert_eq!(count_of(&place, "5"), 11, "a kept table is not filled again");
    let routes = place.run(&["table", "dump", "routes"]);
    assert!(routes.ok().ends_with("-> 77\n"), "{routes:?}");
    let metrics = place.run(&["metrics"]);
    let total = format!("nicforge_packets_in_total{{program=\"new\"}} {}\n", sent + 11);
    assert!(metrics.ok().contains(&total), "{total}{metrics:?}");

    // A larger table is another map with the same entries.
    place.file(
        "new.c",
        new.replace("uint32_t, 64)", "uint32_t, 128)").replace("\"new\"", "\"newer\""),
    );
    let ran = place.run(&["reload", "new.c", "--json"]);
    let tables = &json(ran.ok())["result"]["tables"];
    let of = |name: &str| {
        tables.as_array().unwrap().iter().find(|t| t["table"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("by_type")["change"], &of("by_type")["entries"]),
        (&"copied".into(), &3.into())
    );
    assert_eq!(of("routes")["change"], "kept");
    assert_eq!(count_of(&place, "5"), 11);
    net.send(&sender, 5, 2);
    within("the newest one counts", || count_of(&place, "5") == 13);

    // A smaller one that has no room for them is refused.
    place.file("new.c", new.replace("uint32_t, 64)", "uint32_t, 2)"));
    place.run(&["reload", "new.c"]).fails(1, &["by_type", "full"]);
    run.signal(libc::SIGINT);
    let ran = run.end();
    let summary = ran.ok();
    assert!(["old", "new", "newer"].iter().all(|reason| summary.contains(reason)), "{ran:?}");
    assert!(!net.attached(&place));
    place.is_clean();
}

#[test]
fn watch_takes_changes_of_the_source() {
    if !can_load() {
        return;
    }
    let (place, net) = (Place::new(), Net::new(1));
    place.file("c.c", counter("nf_drop(pkt, \"before\");"));
    let run = net.start(&place, &["run", "c.c", "--dev", "nf0", "--watch"]);
    let sender = net.sender();
    net.send(&sender, 5, 3);
    within("packets are counted", || count_of(&place, "5") == 3);
    place.file("c.c", counter("nf_drop(pkt"));
    run.says("the program from before goes on");
    place.file("c.c", counter("nf_drop(pkt, \"after\");"));
    within("the change is taken", || {
        net.send(&sender, 5, 1);
        place.run(&["metrics"]).ok().contains("reason=\"after\"")
    });
    assert!(count_of(&place, "5") > 3);
    run.signal(libc::SIGINT);
    let ran = run.end();
    ran.ok();
    let said = ["c.c:", "the program from before goes on", "c.c changed and was replaced"];
    assert!(said.iter().all(|text| ran.err.contains(text)), "{ran:?}");
    place.is_clean();
}

/// Runs a script with `wait_for FILE TEXT` to wait for what a command says.
fn script(place: &Place, text: &str) -> common::Ran {
    let head = "wait_for() { until_so \"grep -q '$2' '$1'\"; }\n\
        pair() { ip link add n0 type veth peer name n1; ip link set n0 up; ip link set n1 up; }\n";
    common::finish(place.script(&format!("{head}{text}")))
}

/// Timers of a program on interfaces fire by the clock, also while no packet comes.
#[test]
fn timers_fire_while_a_program_runs() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file(
        "c.c",
        "#include <nicforge.h>\nNF_PORTS(1);\nstruct count { uint32_t n; };\n\
         NF_TABLE(array, beats, uint32_t, struct count, 1);\n\
         NF_TIMER(NF_MS(5)) void beat(void) { nf_add(&beats, 0, n, 1); }\n\
         void net_recv(nf_pkt pkt) { nf_drop(pkt, \"seen\"); }\n",
    );
    let ran = script(
        &place,
        "pair\n\
         \"$NICFORGE\" run c.c --dev n0 2> err > out & RUN=$!\n\
         wait_for err 'runs on n0'\n\
         ip address add 10.0.0.1/24 dev n1\n\
         ping -c 1 -W 1 10.0.0.2 > ping || true\n\
         beats() { \"$NICFORGE\" table dump beats | sed 's/.*\"n\":\\([0-9]*\\).*/\\1/'; }\n\
         first=$(beats)\n\
         for _ in $(seq 3000); do [ $(beats) -gt $((first + 20)) ] && break; sleep 0.02; done\n\
         echo \"$(($(beats) - first)) beats\"\n\
         kill -INT $RUN; wait $RUN; echo \"status $?\"\n",
    );
    let beats: u32 = ran.ok().split(' ').next().unwrap().parse().unwrap();
    assert!(beats > 20 && ran.out.contains("status 0"), "{ran:?}");
    place.is_clean();
}

/// A timer asks for an address with packets made from nothing, and the kernel at the other end
/// answers.
#[test]
fn new_packets_leave_by_their_port() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file(
        "c.c",
        "#include <nicforge.h>\nNF_PORTS(1);\n\
         struct arp { struct nf_eth eth; nf_be16 hw, proto; uint8_t sizes[2]; nf_be16 op;\n\
         nf_mac sender_mac; nf_be32 sender_ip; nf_mac target_mac; nf_be32 target_ip; }\n\
         __attribute__((packed));\n\
         NF_TABLE(array, answers, uint32_t, uint32_t, 1);\n\
         NF_TIMER(NF_MS(5)) void ask(void)\n{\n\
         nf_mac own = {{2, 0, 0, 0, 0, 0x42}}, all = {{255, 255, 255, 255, 255, 255}};\n\
         struct arp arp = {{all, own, NF_HTONS(0x0806)}, NF_HTONS(1), NF_HTONS(0x0800), {6, 4},\n\
         NF_HTONS(1), own, NF_HTONL(0x0a000002), {}, NF_HTONL(0x0a000001)};\n\
         nf_send(nf_new(arp), 0);\n}\n\
         void net_recv(nf_pkt pkt)\n{\n\
         struct arp arp;\n\
         if (nf_extract(pkt, &arp) && arp.op == NF_HTONS(2) &&\n\
         arp.sender_ip == NF_HTONL(0x0a000001))\n\
         nf_add_value(&answers, 0, 1);\n\
         nf_drop(pkt, \"seen\");\n}\n",
    );
    let ran = script(
        &place,
        "pair\n\
         ip address add 10.0.0.1/24 dev n1\n\
         \"$NICFORGE\" run c.c --dev n0 2> err > out & RUN=$!\n\
         wait_for err 'runs on n0'\n\
         answers() { \"$NICFORGE\" table dump answers | sed 's/.*-> //'; }\n\
         for _ in $(seq 3000); do [ $(answers) -gt 3 ] && break; sleep 0.02; done\n\
         echo \"$(answers) answers\"\n\
         kill -INT $RUN; wait $RUN; echo \"status $?\"\n",
    );
    let answers: u32 = ran.ok().split(' ').next().unwrap().parse().unwrap();
    assert!(answers > 3 && ran.out.contains("status 0"), "{ran:?}");
    place.is_clean();
}

/// The process sends copies of packets: a neighbour takes the answer that is one. Copies that are
/// too long for the interface are counted, and the run goes on.
#[test]
fn copies_of_packets_leave_by_their_port() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file(
        "c.c",
        "#include <nicforge.h>\nNF_PORTS(1);\n\
         struct arp { nf_be16 hw, proto; uint8_t sizes[2]; nf_be16 op;\n\
         nf_mac sender_mac; nf_be32 sender_ip; nf_mac target_mac; nf_be32 target_ip; }\n\
         __attribute__((packed));\n\
         void net_recv(nf_pkt pkt)\n{\n\
         struct nf_eth eth; struct arp arp;\n\
         nf_mac own = {{2, 0, 0, 0, 0, 0x42}};\n\
         if (nf_extract(pkt, &eth) && eth.type == NF_HTONS(0x0806) && nf_extract(pkt, &arp)) {\n\
         eth.dst = eth.src; eth.src = own;\n\
         nf_be32 asked = arp.target_ip;\n\
         arp.op = NF_HTONS(2);\n\
         arp.target_mac = arp.sender_mac; arp.target_ip = arp.sender_ip;\n\
         arp.sender_mac = own; arp.sender_ip = asked;\n\
         nf_emit(pkt, &eth); nf_emit(pkt, &arp);\n\
         struct { uint8_t bytes[100]; } more = {}; nf_emit(pkt, &more);\n\
         nf_send(nf_clone(pkt), 0);\n\
         nf_reset(pkt); nf_strip(pkt, sizeof(eth) + sizeof(arp));\n\
         nf_emit(pkt, &eth); nf_emit(pkt, &arp); nf_send(nf_clone(pkt), 0);\n}\n\
         nf_drop(pkt, \"seen\");\n}\n",
    );
    let ran = script(
        &place,
        "pair\n\
         \"$NICFORGE\" run c.c --dev n0 2> err > out & RUN=$!\n\
         wait_for err 'runs on n0'\n\
         ip link set n0 mtu 68\n\
         ip address add 10.0.0.1/24 dev n1\n\
         for _ in $(seq 300); do\n\
         ping -c 1 -W 0.2 10.0.0.2 > ping || true\n\
         ip neigh show 10.0.0.2 > neighbour\n\
         grep -q lladdr neighbour && break\n\
         done\n\
         kill -INT $RUN; wait $RUN; echo \"status $?\"; cat neighbour out\n",
    );
    let counted = ["copies sent by the process", "copies that no interface took"];
    assert!(counted.iter().all(|row| ran.out.contains(row)), "{ran:?}");
    assert!(ran.ok().contains("lladdr 02:00:00:00:00:42"), "{ran:?}");
    assert!(ran.out.contains("status 0"), "{ran:?}");
    place.is_clean();
}

/// A run whose interface is deleted says so and ends with its own status, or waits for it.
#[test]
fn an_interface_that_goes_away_is_told() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    let ran = script(
        &place,
        "pair\n\
         \"$NICFORGE\" run c.c --dev n0 2> err > out & RUN=$!\n\
         wait_for err 'runs on n0'\n\
         ip link del n0\n\
         wait $RUN || echo \"status $?\"\n\
         cat err\n",
    );
    assert!(ran.ok().contains("status 4") && ran.out.contains("interface `n0` is gone"), "{ran:?}");
    let ran = script(
        &place,
        "\"$NICFORGE\" run c.c --dev n0 --wait-interface 2> err > out & RUN=$!\n\
         wait_for err 'no interface `n0` yet'\n\
         pair\n\
         wait_for err 'runs on n0'\n\
         ip link del n0\n\
         wait_for err 'gone; waiting'\n\
         \"$NICFORGE\" reload c.c 2>&1 | grep 'is gone: reload when it is back'\n\
         pair\n\
         wait_for err 'is back'\n\
         ip -o link show n0 | grep -q xdp\n\
         kill -INT $RUN\n\
         wait $RUN; echo \"status $?\"\n",
    );
    assert!(ran.ok().contains("status 0"), "{ran:?}");
    place.is_clean();
}

/// Frames that do not lie in one page are the reason, with the largest MTU; with that, the program
/// runs.
#[test]
fn an_mtu_that_is_too_large_is_named() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    let ran = script(
        &place,
        "pair\n\
         for at in n0 n1; do\n\
             ip link set $at mtu 9000\n\
             S=0; \"$NICFORGE\" run c.c --dev n0 --duration 1 2> err > out || S=$?\n\
             echo \"status $S\"; cat err\n\
         done\n\
         LARGEST=$(sed -n 's/.*up to \\([0-9]*\\);.*/\\1/p' err)\n\
         for at in n0 n1; do ip link set $at mtu $LARGEST; done\n\
         \"$NICFORGE\" run c.c --dev n0 --duration 1 2> err > out; echo \"runs $?\"\n",
    );
    let out = ran.ok();
    assert!(out.contains("frames are too large for XDP") && out.contains("runs 0"), "{ran:?}");
    assert!(!out.contains("no native XDP"), "{ran:?}");
    place.is_clean();
}

/// A program that looks for VLAN tags is told where the interface hides them, and not when it no
/// longer does.
#[test]
fn hidden_vlan_tags_are_told() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("plain.c", counter("nf_send(pkt, 0);"));
    place.file("tags.c", counter("nf_send(pkt, eth.type == NF_HTONS(0x8100) ? 0 : 1);"));
    let ran = script(
        &place,
        "pair\n\
         try() { \"$NICFORGE\" run $1.c --dev n0 --duration 0.1 2> err > out; echo \"$2: $(grep -c 'ethtool -K n0 rxvlan off' err || true)\"; }\n\
         try plain plain\n\
         try tags hidden\n\
         ethtool -K n0 rxvlan off\n\
         try tags seen\n",
    );
    assert!(ran.ok().contains("plain: 0\nhidden: 1\nseen: 0"), "{ran:?}");
    place.is_clean();
}

/// Three capabilities are enough to run on interfaces and to verify; with fewer there is one clear
/// line. A run of root's gives up all others.
#[test]
fn the_least_capabilities_are_enough() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("p.pcap", capture(&[frame(5)]));
    std::fs::copy(common::NICFORGE, place.path().join("nicforge")).unwrap();
    for folder in ["run", "tmp"] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        std::fs::set_permissions(place.path().join(folder), open).unwrap();
    }
    let ran = script(
        &place,
        "pair\n\
         with() { CAPS=$1; shift; setpriv --reuid=65534 --regid=65534 --clear-groups \
             --inh-caps=-all$CAPS --ambient-caps=-all$CAPS --bounding-set=-all$CAPS ./nicforge \"$@\"; }\n\
         FULL=,+bpf,+net_admin,+perfmon\n\
         with $FULL verify c.c --pcap p.pcap\n\
         with $FULL run c.c --dev n0 --json 2> err > out & RUN=$!\n\
         wait_for err 'runs on n0'\n\
         ping -c 3 -i 0.01 -W 1 -I n1 10.9.9.9 >/dev/null 2>&1 || true\n\
         ip -o link show n0 | grep -q xdp\n\
         kill -INT $(pgrep -P $RUN nicforge || echo $RUN)\n\
         wait $RUN; echo \"run $?\"\n\
         for LESS in ,+net_admin ,+bpf,+perfmon ,+net_admin,+perfmon; do\n\
             S=0; with $LESS run c.c --dev n0 --duration 1 2> less > out || S=$?\n\
             echo \"less $S $(wc -l < less) $(grep -c 'CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON' less)\"\n\
         done\n\
         mkdir run2; XDG_RUNTIME_DIR=$PWD/run2 ./nicforge run c.c --dev n0 2> err2 > out2 & RUN=$!\n\
         wait_for err2 'runs on n0'\n\
         grep -E '^Cap(Prm|Eff|Bnd)' /proc/$RUN/status\n\
         kill -INT $RUN; wait $RUN; echo \"root $?\"\n",
    );
    let out = ran.ok();
    assert!(out.contains("xdp matches the reference: 1 of 1 events"), "{ran:?}");
    assert!(out.contains("run 0") && out.contains("root 0"), "{ran:?}");
    assert_eq!(out.matches("less 3 1 1").count(), 3, "{ran:?}");
    // CAP_DAC_READ_SEARCH, CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF.
    assert_eq!(out.matches("000000c000001004").count(), 3, "{ran:?}");
}
