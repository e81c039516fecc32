//! Real clients through real programs: ping, dig, curl with nginx, and memcached's protocol, in network namespaces.
//!
//! ```text
//!   client ---- port 0 [ NIC: the example under `nicforge run --dev` ] port 1 ---- servers
//! ```
//!
//! The NIC's namespace forwards nothing by itself, so what gets through or is answered was the program.

use nicforge_tests::kernel_is_missing;
use nicforge_tests::net::{Namespace, cable};
use nicforge_tests::nic::{Nic, reported};
use serde_json::json;

const CLIENT_MAC: &str = "02:00:00:00:00:01";
const NIC_MAC: &str = "02:00:00:00:00:0a";

/// Whether to leave a test out, said loudly.
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
    // Data of no byte, less than a timestamp, odd, usual, and as much as a frame holds. `ping` compares what comes back.
    for (count, size) in [(3, 0), (2, 7), (20, 56), (5, 999), (200, 1472)] {
        let ping = client.run(&format!("ping -c {count} -i 0.002 -W 1 -s {size} 10.0.0.2"));
        let wanted = format!("{count} packets transmitted, {count} received, 0% packet loss");
        assert!(ping.ok && ping.stdout.contains(&wanted), "{}", ping.stdout);
        assert!(!ping.stdout.contains("wrong data"), "{}", ping.stdout);
        replies += count;
        bytes += count * size;
    }
    let stats = json!([{ "key": 0, "value": { "replies": replies, "bytes": bytes } }]);
    let counted = json!(program.dump("stats"));
    assert_eq!(text(&counted), text(&stats));
    // Fragments are not answered: they go to the kernel, which has no such address.
    assert!(!client.run("ping -c 1 -W 0.2 -s 3000 10.0.0.2").ok);
    assert_eq!(json!(program.dump("stats")), counted);
    let report = program.stop();
    assert_eq!(reported(&report, "packets in"), replies + 3, "{report}");
    assert!(!client.run("ping -c 1 -W 0.2 10.0.0.2").ok);
}

/// JSON whose 64-bit numbers, which the tool may print as text, are all text.
fn text(value: &serde_json::Value) -> String {
    value.to_string().replace(['"', ' '], "")
}
