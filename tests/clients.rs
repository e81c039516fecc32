//! Real clients through real programs: ping, dig, curl with nginx, and memcached's protocol, in
//! network namespaces.
//!
//! ```text
//!   client ---- port 0 [ NIC: the example under `nicforge run --dev` ] port 1 ---- servers
//! ```
//!
//! The NIC's namespace forwards nothing by itself, so what gets through or is answered was the
//! program.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::process::Stdio;

use nicforge_tests::net::{Daemon, Namespace, cable, done, wait_for};
use nicforge_tests::nic::{Nic, reported};
use nicforge_tests::web::{Web, curl};
use nicforge_tests::{kernel_is_missing, root};
use serde_json::{Value, json};

const CLIENT_MAC: &str = "02:00:00:00:00:01";
const NIC_MAC: &str = "02:00:00:00:00:0a";

/// Leaves a test out, said loudly.
fn skipped() -> bool {
    let why = kernel_is_missing();
    if let Some(why) = &why {
        eprintln!("SKIPPED: {why}");
    }
    why.is_some()
}

/// A client 10.0.0.1 at port `nf0` of a NIC's namespace, which it takes for 10.0.0.2.
fn client_and_nic() -> (Namespace, Namespace) {
    let (client, nic) = (Namespace::new(), Namespace::new());
    cable((&client, "eth0", CLIENT_MAC), (&nic, "nf0", NIC_MAC));
    client.ip(&format!(
        "address add 10.0.0.1/24 dev eth0\nneighbour add 10.0.0.2 lladdr {NIC_MAC} dev eth0 nud permanent"
    ));
    (client, nic)
}

#[test]
fn ping_is_answered_by_icmp_echo() {
    if skipped() {
        return;
    }
    let (client, nic) = client_and_nic();
    // The NIC's kernel has no address, so it answers nothing.
    assert!(!client.run("ping -c 1 -W 0.2 10.0.0.2").ok);
    let program = Nic::start(&nic, "icmp_echo", &["nf0"], &json!({}));
    let mut replies = 0;
    let mut bytes = 0;
    // Data of no byte, less than a timestamp, odd, usual, and as much as a frame holds. `ping`
    // compares what comes back.
    for (count, size) in [(3, 0), (2, 7), (20, 56), (5, 999), (200, 1472)] {
        assert_eq!(client.pings(count, size, "10.0.0.2"), count, "{size} bytes");
        replies += count;
        bytes += count * size;
    }
    let stats = json!([{ "key": 0, "value": { "replies": replies, "bytes": bytes } }]);
    let counted = json!(program.dump("stats"));
    assert_eq!(text(&counted), text(&stats));
    // ping takes answers before the kernel looks at their checksum, and that goes by unseen but in
    // its counters.
    assert_eq!(icmp_counter(&client, "InEchoReps"), replies);
    assert_eq!(icmp_counter(&client, "InCsumErrors"), 0);
    // The answer's time to live is its own.
    let ping = client.run("ping -c 1 -W 300 -t 3 10.0.0.2");
    assert!(ping.stdout.contains("ttl=64"), "{}", ping.stdout);
    let counted = json!(program.dump("stats"));
    // Fragments are not answered: they go to the kernel, which has no such address.
    assert!(!client.run("ping -c 1 -W 0.2 -s 3000 10.0.0.2").ok);
    assert_eq!(json!(program.dump("stats")), counted);
    let report = program.stop();
    assert_eq!(reported(&report, "packets in"), replies + 4, "{report}");
    assert!(!client.run("ping -c 1 -W 0.2 10.0.0.2").ok);
}

/// What the kernel of a namespace counted of ICMP messages.
fn icmp_counter(namespace: &Namespace, name: &str) -> u64 {
    let counters = namespace.run("cat /proc/net/snmp").stdout;
    let mut lines = counters.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let place = names.split(' ').position(|known| known == name).expect("a counter of this name");
    values.split(' ').nth(place).and_then(|value| value.parse().ok()).expect("a number")
}

/// JSON whose 64-bit numbers, which the tool may print as text, are all text.
fn text(value: &Value) -> String {
    value.to_string().replace(['"', ' '], "")
}

/// A name as it is in a DNS message, with zeroes up to the 48 bytes of dns_cache's keys, in
/// hexadecimal.
fn dns_name(name: &str) -> String {
    let labels =
        name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    let mut bytes: Vec<u8> = labels.collect();
    bytes.resize(48, 0);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn dig_is_answered_by_dns_cache() {
    if skipped() {
        return;
    }
    let (client, nic) = client_and_nic();
    // What the program passes on arrives at a kernel where nobody listens, which says so at once.
    nic.ip("address add 10.0.0.2/24 dev nf0");
    // On the wire these have 49 bytes, one more than a key, and 48.
    let too_long = "alabel-that-fills-the-key-up-to.its.end.example";
    let long = &too_long[1..];
    let record = |name: &str, address: &str, ttl: u32| json!({ "key": { "b": dns_name(name) }, "value": { "address": address, "ttl": ttl } });
    let records = [
        record("www.example.com", "192.0.2.80", 300),
        record("a.b", "198.51.100.7", 1),
        record(long, "203.0.113.255", 604800),
    ];
    let program = Nic::start(&nic, "dns_cache", &["nf0"], &json!({ "records": records }));
    let dig = |words: &str| {
        client.run(&format!("dig @10.0.0.2 +timeout=60 +tries=1 +nocmd +comments +nostats {words}"))
    };
    for (query, name, ttl, address) in [
        ("www.example.com", "www.example.com", 300, "192.0.2.80"),
        // The question comes back as it was asked.
        ("WWW.Example.COM", "WWW.Example.COM", 300, "192.0.2.80"),
        ("+noedns +norecurse a.b", "a.b", 1, "198.51.100.7"),
        (long, long, 604800, "203.0.113.255"),
    ] {
        let answer = dig(query);
        let said = &answer.stdout;
        assert!(answer.ok && said.contains("status: NOERROR"), "{said}");
        assert!(said.contains("QUERY: 1, ANSWER: 1, AUTHORITY: 0, ADDITIONAL: 0"), "{said}");
        assert!(
            !said.contains("WARNING")
                && !said.contains("malformed")
                && !said.contains("extra bytes"),
            "{said}"
        );
        let lines = said.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
        let lines: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [[&format!("{name}."), &ttl.to_string(), "IN", "A", address]], "{said}");
    }
    // Neither another name, nor another type, nor a name longer than a key, is answered by the
    // program.
    for query in
        ["ww.example.com", "example.com", "www.example.com AAAA", "www.example.com. MX", too_long]
    {
        let answer = dig(query);
        assert!(!answer.ok && answer.stdout.contains("connection refused"), "{}", answer.stdout);
    }
    let hits = |name: &str| {
        let key = json!({ "b": dns_name(name) });
        let rows = program.dump("records");
        rows.iter().find(|row| row["key"] == key).map(|row| row["value"]["hits"].clone())
    };
    assert_eq!(
        [hits("www.example.com"), hits("a.b"), hits(long)],
        [2, 1, 1].map(|n| Some(json!(n)))
    );
    program.stop();
}

const INSIDE_MAC: &str = "02:00:00:00:00:0a";
const OUTSIDE_MAC: &str = "02:00:00:00:00:0b";
const SERVER_MAC: &str = "02:00:00:00:00:02";

#[test]
fn curl_goes_through_nat() {
    if skipped() {
        return;
    }
    let [client, nic, server] = [(); 3].map(|()| Namespace::new());
    cable((&client, "eth0", CLIENT_MAC), (&nic, "nf0", INSIDE_MAC));
    cable((&server, "eth0", SERVER_MAC), (&nic, "nf1", OUTSIDE_MAC));
    client.ip(&format!(
        "address add 10.0.0.1/24 dev eth0
         address add 10.0.0.3/24 dev eth0
         neighbour add 10.0.0.2 lladdr {INSIDE_MAC} dev eth0 nud permanent
         route add default via 10.0.0.2"
    ));
    // The server knows the address outside, and no way to those inside.
    server.ip(&format!(
        "address add 203.0.113.10/24 dev eth0
         neighbour add 203.0.113.1 lladdr {OUTSIDE_MAC} dev eth0 nud permanent"
    ));
    let large: Vec<u8> =
        (0..1_100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let web = Web::start(
        &server,
        &["203.0.113.10:80"],
        &[("small", b"behind the NAT"), ("large", &large)],
    );
    let settings = json!({
        "address": "203.0.113.1", "inside_mac": INSIDE_MAC, "outside_mac": OUTSIDE_MAC, "gateway": SERVER_MAC,
    });
    let tables = json!({ "config": [{ "key": 0, "value": settings }] });
    let program = Nic::start(&nic, "nat", &["nf0", "nf1"], &tables);

    let url = "http://203.0.113.10";
    for _ in 0..5 {
        assert_eq!(curl(&client, &format!("{url}/small")), b"behind the NAT");
    }
    assert!(curl(&client, &format!("{url}/large")) == large, "the large file came back different");
    // Connections at the same time, of which none may get another's port.
    let parallel =
        curl(&client, &format!("-Z --parallel-immediate --parallel-max 8 {url}/small?[1-24]"));
    assert_eq!(parallel, b"behind the NAT".repeat(24));
    // Two hosts inside with the same port.
    for host in ["10.0.0.1", "10.0.0.3"] {
        curl(&client, &format!("--interface {host} --local-port 4000 {url}/small?{host}"));
    }

    let log = web.log(5 + 1 + 24 + 2);
    assert!(
        log.iter().all(|access| access.address == "203.0.113.1" && access.status == 200),
        "{log:?}"
    );
    let mappings = program.dump("mappings");
    let number = |row: &Value, part: &str, name: &str| row[part][name].as_u64();
    let outside: BTreeSet<u64> =
        mappings.iter().filter_map(|row| number(row, "value", "port")).collect();
    assert_eq!(outside.len(), mappings.len(), "a port outside is used twice: {mappings:?}");
    for access in &log {
        assert!(
            outside.contains(&u64::from(access.port)),
            "{access:?} comes from no mapping: {mappings:?}"
        );
    }
    for host in ["10.0.0.1", "10.0.0.3"] {
        let address = u64::from(u32::from(host.parse::<Ipv4Addr>().expect("an address")));
        let mapping = mappings.iter().find(|row| {
            (row["key"]["address"] == host || number(row, "key", "address") == Some(address))
                && number(row, "key", "port") == Some(4000)
        });
        let port = mapping.and_then(|row| number(row, "value", "port"));
        let seen = log
            .iter()
            .find(|access| access.path.ends_with(host))
            .map(|access| u64::from(access.port));
        assert!(port.is_some() && port == seen, "{host}: {port:?}, nginx saw {seen:?}");
    }

    // Nobody gets in uninvited.
    let uninvited = server.run("curl -q -sS --max-time 0.3 http://203.0.113.1:999/");
    assert!(!uninvited.ok);
    let report = program.stop();
    assert!(reported(&report, "no mapping") > 0, "{report}");
    // A route outside that only the program made.
    assert!(!client.run(&format!("curl -q -sS --max-time 0.3 {url}/small")).ok);
}

#[test]
fn curl_is_spread_over_servers_by_l4lb() {
    if skipped() {
        return;
    }
    let [client, nic, switch, one, two] = [(); 5].map(|()| Namespace::new());
    cable((&client, "eth0", CLIENT_MAC), (&nic, "nf0", INSIDE_MAC));
    cable((&switch, "up0", "02:00:00:00:01:00"), (&nic, "nf1", OUTSIDE_MAC));
    switch
        .ip("link add sw0 type bridge\nlink set sw0 addrgenmode none up\nlink set up0 master sw0");
    client.ip(&format!(
        "address add 10.0.0.1/24 dev eth0
         address add fd00::1/64 dev eth0 nodad
         neighbour add 10.0.0.2 lladdr {INSIDE_MAC} dev eth0 nud permanent
         neighbour add fd00::2 lladdr {INSIDE_MAC} dev eth0 nud permanent
         route add 192.0.2.80/32 via 10.0.0.2
         route add 2001:db8::80/128 via fd00::2"
    ));
    let mut servers = Vec::new();
    for (i, namespace) in [(1, &one), (2, &two)] {
        let port = format!("down{i}");
        cable(
            (namespace, "eth0", &format!("02:00:00:00:00:1{i}")),
            (&switch, &port, &format!("02:00:00:00:01:0{i}")),
        );
        switch.ip(&format!("link set {port} master sw0"));
        // Answers go to clients by way of the NIC.
        namespace.ip(&format!(
            "address add 10.1.0.1{i}/24 dev eth0
             address add fd01::1{i}/64 dev eth0 nodad
             neighbour add 10.1.0.2 lladdr {INSIDE_MAC} dev eth0 nud permanent
             neighbour add fd01::2 lladdr {INSIDE_MAC} dev eth0 nud permanent
             route add default via 10.1.0.2
             route add default via fd01::2"
        ));
        let large: Vec<u8> = format!("large file of server {i}\n").repeat(4000).into_bytes();
        let name = format!("server {i}\n");
        let listen = [format!("10.1.0.1{i}:80"), format!("[fd01::1{i}]:80")];
        let listen: Vec<&str> = listen.iter().map(String::as_str).collect();
        servers.push(Web::start(
            namespace,
            &listen,
            &[("name", name.as_bytes()), ("large", &large)],
        ));
    }

    // IPv4 addresses stand in the first four bytes of IPv6 addresses. The slots of a ring
    // alternate.
    let backend = |key: u32, address: &str, i: u32| json!({ "key": key, "value": { "address": address, "mac": format!("02:00:00:00:00:1{i}") } });
    let service = |address: &str, ring: u32| json!({ "key": { "address": address, "port": 80, "protocol": 6 }, "value": { "ring": ring } });
    let rings: Vec<Value> =
        (0..502).map(|i| json!({ "key": i, "value": i / 251 * 2 + i % 2 })).collect();
    let tables = json!({
        "services": [service("c000:0250::", 0), service("2001:db8::80", 251)],
        "rings": rings,
        "backends": [
            backend(0, "0a01:000b::", 1), backend(1, "0a01:000c::", 2),
            backend(2, "fd01::11", 1), backend(3, "fd01::12", 2),
        ],
    });
    let program = Nic::start(&nic, "l4lb", &["nf0", "nf1"], &tables);

    let mut asked = 0;
    for url in ["http://192.0.2.80", "http://[2001:db8::80]"] {
        // Each curl makes one connection, whose requests all go to the same server.
        let mut served: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..16 {
            let said = String::from_utf8(curl(&client, &format!("-g {url}/name {url}/name")))
                .expect("text");
            let (first, second) = said.split_once('\n').expect("two lines");
            assert_eq!(format!("{first}\n"), second, "one connection, two servers");
            *served.entry(first.to_string()).or_default() += 1;
            asked += 2;
        }
        // By chance all of 16 would go to one server once in 30000 runs.
        assert_eq!(served.keys().collect::<Vec<_>>(), ["server 1", "server 2"], "{served:?}");
        let large = String::from_utf8(curl(&client, &format!("-g {url}/large"))).expect("text");
        let first = large.lines().next().expect("a line");
        assert!(large == format!("{first}\n").repeat(4000), "the large file came back different");
        // As many connections at the same time.
        let parallel =
            curl(&client, &format!("-Z --parallel-immediate --parallel-max 8 {url}/name?[1-16]"));
        assert_eq!(parallel.len(), 16 * "server 1\n".len());
        asked += 17;
    }
    // The servers saw the client itself: only the destination is rewritten.
    let in_all = || servers.iter().map(|web| web.log(0).len()).sum::<usize>();
    wait_for("all requests in the logs", || (in_all() >= asked).then_some(()));
    for web in &servers {
        let log = web.log(1);
        assert!(
            log.iter().all(|a| ["10.0.0.1", "fd00::1"].contains(&&*a.address) && a.status == 200),
            "{log:?}"
        );
    }
    assert_eq!(in_all(), asked);
    // One flow per connection: 16 alone, one for the large file and up to 16 at once, on both
    // protocols.
    let flows = program.dump("flows").len();
    assert!((2 * 18..=2 * 33).contains(&flows), "{flows} flows");
    assert_eq!(program.dump("returns").len(), flows);
    // A service that is not in the table is not served.
    assert!(!client.run("curl -q -sS --max-time 0.3 http://192.0.2.80:81/name").ok);
    program.stop();
}

#[test]
fn a_memcached_client_is_answered_by_kv_cache() {
    if skipped() {
        return;
    }
    let (client, nic) = client_and_nic();
    nic.ip("address add 10.0.0.2/24 dev nf0");
    // A real memcached behind the NIC gets what the program passes on. The same client is
    // understood by both.
    let mut memcached = nic.command("memcached");
    memcached.args(["-u", "root", "-l", "10.0.0.2", "-U", "11211", "-p", "0", "-m", "16"]);
    let _memcached = Daemon(memcached.stdin(Stdio::null()).spawn().expect("memcached"));
    let ask = |from: &Namespace, requests: &[Value]| -> Vec<Value> {
        let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
        let script = root().join("tests/memcached_client.py");
        let said =
            done(from.command("python3").arg(script).args(["10.0.0.2", "11211"]), lines.as_bytes());
        assert!(said.ok, "{}", said.stderr);
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let get = |key: &str| json!({ "op": "get", "key": key });
    let set = |key: &str, value: &str, flags: u32| json!({ "op": "set", "key": key, "value": value, "flags": flags });
    let stored = json!({ "status": 0, "value": "" });
    let found = |value: &str, flags: u32| json!({ "status": 0, "value": value, "flags": flags });

    let version = json!({ "op": "version" });
    wait_for("memcached", || {
        (ask(&nic, std::slice::from_ref(&version))[0]["status"] == 0).then_some(())
    });
    let program = Nic::start(&nic, "kv_cache", &["nf0"], &json!({}));

    // What the program does itself: keys of 1 to 32 bytes, values of 0 to 64.
    let (key32, value64) = ("k".repeat(32), "v".repeat(64));
    let requests = [
        get("apple"),
        set("apple", "red", 7),
        get("apple"),
        set("apple", "green and long", 0xdead_beef),
        get("apple"),
        get("appl"),
        set("a", "", 0),
        get("a"),
        set(&key32, &value64, 1),
        get(&key32),
    ];
    let answers = ask(&client, &requests);
    assert_eq!(answers[0]["status"], 1, "{answers:?}");
    assert_eq!(answers[1], stored);
    assert_eq!(answers[2], found("red", 7));
    assert_eq!(answers[3], stored);
    assert_eq!(answers[4], found("green and long", 0xdead_beef));
    assert_eq!(answers[5]["status"], 1, "{answers:?}");
    assert_eq!(answers[6..], [stored.clone(), found("", 0), stored.clone(), found(&value64, 1)]);
    assert_eq!(program.dump("items").len(), 3);
    // Asked from its own side, past the program, memcached knows nothing of it.
    for answer in ask(&nic, &[get("apple"), get("a"), get(&key32)]) {
        assert_eq!(answer["status"], 1, "{answer}");
    }

    // What it leaves to memcached: longer keys, and other operations.
    let key33 = "k".repeat(33);
    let requests = [
        set(&key33, "long key", 3),
        get(&key33),
        version,
        json!({ "op": "delete", "key": key33 }),
        get(&key33),
    ];
    let answers = ask(&client, &requests);
    assert_eq!(answers[..2], [stored.clone(), found("long key", 3)]);
    let release = answers[2]["value"].as_str().unwrap_or_default();
    assert!(release.starts_with("1."), "{answers:?}");
    assert_eq!(answers[3], stored);
    assert_eq!(answers[4]["status"], 1);

    // An item is never in one of them old and in the other new, whichever takes the change.
    let large = "x".repeat(65);
    let requests = [
        set("apple", &large, 2),
        get("apple"),
        set("apple", "small again", 5),
        get("apple"),
        json!({ "op": "delete", "key": "apple" }),
        get("apple"),
    ];
    let answers = ask(&client, &requests);
    assert_eq!(
        answers[..4],
        [stored.clone(), found(&large, 2), stored.clone(), found("small again", 5)]
    );
    assert_eq!(answers[4], stored);
    assert_eq!(answers[5]["status"], 1, "{answers:?}");

    // Many keys, as a cache has.
    let many: Vec<Value> =
        (0..300).map(|i| set(&format!("key {i}"), &format!("value {}", i * i), i)).collect();
    assert!(ask(&client, &many).iter().all(|answer| *answer == stored));
    let many: Vec<Value> = (0..300).map(|i| get(&format!("key {i}"))).collect();
    for (i, answer) in (0..).zip(ask(&client, &many)) {
        assert_eq!(answer, found(&format!("value {}", i * i), i));
    }
    program.stop();
}
