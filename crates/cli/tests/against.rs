//! `nicforge verify OLD --against NEW`: two versions of an XDP program.

mod common;

use common::{Place, can_load};
use serde_json::Value;

const PROGRAM: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, ENTRIES);
    __type(key, __u32);
    __type(value, __u64);
} flows SEC(".maps");

SEC("xdp") int filter(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    if ((void *)(eth + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = (void *)(eth + 1);
    if ((void *)(ip + 1) > end)
        return XDP_DROP;
    __u32 key = ip->saddr;
    __u64 *count = bpf_map_lookup_elem(&flows, &key);
    if (!count) {
        __u64 one = 1;
        bpf_map_update_elem(&flows, &key, &one, BPF_ANY);
        return XDP_PASS;
    }
    BODY
    return XDP_TX;
}
"#;

const COUNTS: &str = "*count += 1; if (*count > 100) return XDP_DROP; ip->ttl--;";

fn write(place: &Place, name: &str, body: &str, entries: &str) {
    place.file(name, PROGRAM.replace("BODY", body).replace("ENTRIES", entries));
}

#[test]
fn versions_are_proved_equal_or_told_apart() {
    let place = Place::new();
    write(&place, "old.c", COUNTS, "1024");
    let same = "__u64 now = *count + 1; ip->ttl = ip->ttl + 255; *count = now; if (now >= 101) \
                { ip->ttl = 9; return XDP_DROP; }";
    write(&place, "same.c", same, "1024");
    write(&place, "limit.c", &COUNTS.replace("100", "101"), "1024");
    write(&place, "silent.c", &COUNTS.replace("*count += 1;", ""), "1024");
    write(&place, "clock.c", &format!("if (bpf_ktime_get_ns() == 77) return 1; {COUNTS}"), "1024");
    write(&place, "sized.c", COUNTS, "512");
    let verify = |new: &str, more: &[&str]| {
        place.run(&[&["verify", "old.c", "--against", new], more].concat())
    };
    // What dropped packets hold is nobody's business.
    let ran = verify("same.c", &[]);
    assert!(ran.ok().contains("proved equal for every frame of 14 to 3520 bytes"), "{ran:?}");
    assert!(ran.out.contains("\nold: at most "), "{ran:?}");

    let ran = verify("limit.c", &["--json", "--out", "packet.pcap"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&found["outcome"], &found["open"]), (&"differ".into(), &Value::Array(vec![])));
    let example = &found["example"];
    assert_eq!((&example["old"], &example["new"]), (&"XDP_DROP".into(), &"XDP_TX".into()));
    assert_eq!(example["entries"][0]["value"], "64 00 00 00 00 00 00 00");
    let by = if can_load() { "kernel" } else { "interpreter" };
    assert_eq!(example["checked"], by, "{example}");
    assert!(place.path().join("packet.pcap").metadata().unwrap().len() > 24 + 16);

    let ran = verify("silent.c", &[]);
    ran.fails(1, &[]);
    let entries: Vec<&str> = ran.out.lines().filter(|line| line.contains(": flows[")).collect();
    assert!(entries.len() == 2, "{ran:?}");
    let ran = verify("clock.c", &[]);
    ran.fails(1, &[]);
    assert!(ran.out.contains("if bpf_ktime_get_ns gives 77\nchecked: both ran on it in the inter"));
    // Nothing can be said of what a map holds that is another map.
    let ran = verify("sized.c", &[]);
    ran.fails(5, &["not proved equal"]);
    assert!(ran.out.contains("map `flows` is not the same in both: hash, keys of 4"), "{ran:?}");

    // An object beside the one that is made of it.
    let source = place.path().join("old.c");
    place.file("old.o", nicforge_run::compile::compile_xdp(&source, &[]).expect("clang"));
    let ran = place.run(&["verify", "old.o", "--prove"]);
    assert!(ran.ok().contains("\nproved equal for every frame"), "{ran:?}");
    place.run(&["verify", "old.c", "--prove"]).fails(2, &["--prove is for XDP objects"]);

    verify("none.c", &[]).fails(1, &["none.c"]);
    verify("same.c", &["--target", "dpdk"]).fails(2, &["--target xdp"]);
    place.is_clean();
}
