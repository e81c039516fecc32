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

    // A map that one version alone has is compared with nothing.
    let more = "struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, \
                __u32); __type(value, __u64); } seen SEC(\".maps\");\nSEC(\"xdp\")";
    let counts =
        "__u32 zero = 0; __u64 *all = bpf_map_lookup_elem(&seen, &zero); if (all) *all += 1;";
    let text = PROGRAM.replace("ENTRIES", "1024").replace("SEC(\"xdp\")", more);
    place.file("more.c", text.replace("BODY", &format!("{counts} {COUNTS}")));
    let ran = verify("more.c", &[]);
    ran.fails(5, &["not proved equal"]);
    assert!(ran.out.contains("only new has map `seen`; if what it holds"), "{ran:?}");
    let ran = verify("more.c", &["--ignore-map", "seen"]);
    assert!(ran.ok().contains("\nproved equal for every frame"), "{ran:?}");

    // An object beside the one that is made of it.
    let source = place.path().join("old.c");
    place.file("old.o", nicforge_run::compile::compile_xdp(&source, &[]).expect("clang"));
    let ran = place.run(&["verify", "old.o", "--prove"]);
    assert!(ran.ok().contains("\nproved equal for every frame"), "{ran:?}");
    place.run(&["verify", "old.c", "--prove"]).fails(2, &["--prove is for programs with"]);

    verify("none.c", &[]).fails(1, &["none.c"]);
    verify("same.c", &["--target", "dpdk"]).fails(2, &["--target xdp"]);
    place.is_clean();
}

/// Results that no verdict shows: where a program behind a tail call would redirect to, and the end
/// of a message that is too long to be followed.
#[test]
fn what_a_verdict_does_not_show_counts_too() {
    let place = Place::new();
    let head = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n";
    let map = |kind: &str, name: &str, more: &str| {
        format!("struct {{ __uint(type, BPF_MAP_TYPE_{kind}); {more} }} {name} SEC(\".maps\");\n")
    };
    let program = |body: &str| format!("SEC(\"xdp\") int f(struct xdp_md *ctx) {{ {body} }}\n");
    let licence = "char licence[] SEC(\"license\") = \"GPL\";\n";
    let sized = "__uint(max_entries, 4); __type(key, __u32); __type(value, __u32);";
    let jumps = map("PROG_ARRAY", "jumps", sized);
    let values = "__uint(max_entries, 1); __type(key, __u32); __uint(value_size, 8192);";
    let rings =
        map("RINGBUF", "ring", "__uint(max_entries, 65536);") + &map("ARRAY", "much", values);
    for (name, number) in [("one", 5), ("two", 6)] {
        let body = format!("bpf_redirect({number}, 0); bpf_tail_call(ctx, &jumps, 0); return 2;");
        place.file(&format!("to_{name}.c"), format!("{head}{jumps}{}{licence}", program(&body)));
        let body = format!(
            "__u32 at = 0; void *bytes = bpf_map_lookup_elem(&much, &at); \
             if (bytes) bpf_ringbuf_output(&ring, bytes, {number}000, 0); return 2;"
        );
        place.file(&format!("long_{name}.c"), format!("{head}{rings}{}{licence}", program(&body)));
    }
    let ran = place.run(&["verify", "to_one.c", "--against", "to_two.c"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.out.contains("old: tail call to jumps[0] to interface 5"), "{ran:?}");
    place.run(&["verify", "to_one.c", "--against", "to_one.c"]).ok();
    let ran = place.run(&["verify", "long_one.c", "--against", "long_one.c"]);
    ran.fails(5, &["not proved equal"]);
    assert!(ran.out.contains("a message of more than 4096 bytes"), "{ran:?}");
    // What cannot be followed is run.
    let ran = place.run(&["verify", "long_one.c", "--against", "long_two.c"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(
        ran.out.contains("  old: ring gets 5000 bytes\n  new: ring gets 6000 bytes,"),
        "{ran:?}"
    );
    place.is_clean();
}
