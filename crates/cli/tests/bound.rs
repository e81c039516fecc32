//! `nicforge bound` on objects: a first bound at any time, bounds over time, what a rate needs, and
//! every program of an object.

mod common;

use std::path::Path;

use common::Place;
use serde_json::Value;

fn xdp(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xdp").join(name);
    path.to_str().unwrap().to_string()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_first_bound_does_not_wait_for_the_time_limit() {
    let place = Place::new();
    for target in ["agilio-xdp", "xdp"] {
        let bound = ["bound", &xdp("quic_lb6.c"), "--target", target];
        let exact = json(place.run(&[&bound[..], &["--json"]].concat()).ok());
        let soon = [&bound[..], &["--timeout", "0", "--json"]].concat();
        let soon = json(place.run(&soon).ok());
        let rate = |said: &Value| said["bit_rate_bps"].as_f64().unwrap();
        assert_eq!(exact["status"], "exact");
        assert!(rate(&soon) > 0.0 && rate(&soon) <= rate(&exact) * (1.0 + 1e-9), "{soon}");

        let text = place.run(&[&bound[..], &["--curve", "curve.csv"]].concat()).ok().to_string();
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("  before any path is checked: at least "), "{text}");
        let curve = std::fs::read_to_string(place.path().join("curve.csv")).unwrap();
        let rows = curve.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
        let bits: Vec<[f64; 2]> = rows
            .filter(|row| row[1] == "bit-rate")
            .map(|row| [row[0].parse().unwrap(), row[2].parse().unwrap()])
            .collect();
        assert!(bits.len() > 1 && bits[0][0] < 1.0, "{curve}");
        assert!(bits.windows(2).all(|two| two[0][1] < two[1][1]), "{curve}");
        assert!((bits[bits.len() - 1][1] / rate(&exact) - 1.0).abs() < 1e-6, "{curve} {exact}");
    }
}

/// So many cores keep the rate, and one fewer does not.
#[test]
fn what_a_rate_needs_is_just_enough() {
    let place = Place::new();
    let bound = ["bound", &xdp("quic_lb6.c")];
    for rate in ["1G", "10G", "2Mpps"] {
        let said = json(place.run(&[&bound[..], &["--need", rate, "--json"]].concat()).ok());
        let needed = &said["needed"];
        assert_eq!((&needed["nics"], &needed["exact"]), (&1.into(), &true.into()), "{said}");
        let cores = needed["cores"].as_u64().unwrap();
        let with = |cores: u64| {
            let cores = cores.to_string();
            place.run(&[&bound[..], &["--require", rate, "--cores", &cores]].concat())
        };
        assert!(cores > 1);
        with(cores).ok();
        with(cores - 1).fails(1, &["the required rate does not hold"]);
    }
    let text = place.run(&[&bound[..], &["--need", "200G"]].concat()).ok().to_string();
    assert!(text.contains("  200.00 Gbit/s needs ") && text.contains(" NICs: "), "{text}");
}

/// A program with a jump to the next instruction, one that calls what nobody knows, and a plain
/// one.
const SEVERAL: &str = r#"
struct xdp_md { unsigned data, data_end; };
#define SEC(name) __attribute__((section(name), used))
static long (*nobody)(void) = (void *)9999;
SEC("xdp/jump") int jump(struct xdp_md *ctx)
{
    int verdict = ctx->data_end - ctx->data > 100 ? 1 : 2;
    asm volatile("if %0 > 1 goto +0" : : "r"((long)verdict));
    return verdict;
}
SEC("xdp/odd") int odd(struct xdp_md *ctx) { return nobody(); }
extern int far(struct xdp_md *ctx) __attribute__((section(".ksyms")));
SEC("xdp/kernel") int kernel(struct xdp_md *ctx) { return far(ctx); }
SEC("xdp/pass") int pass(struct xdp_md *ctx) { return 2; }
"#;

#[test]
fn every_program_has_a_bound_or_a_reason() {
    let place = Place::new();
    place.file("several.c", SEVERAL);
    let all = ["bound", "several.c", "--target", "xdp", "--all"];
    let said = json(place.run(&[&all[..], &["--json"]].concat()).ok());
    let rows: Vec<(&str, &str)> = said["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["program"].as_str().unwrap(), row["status"].as_str().unwrap()))
        .collect();
    let want = [("jump", "exact"), ("odd", "refused"), ("kernel", "refused"), ("pass", "exact")];
    assert_eq!(rows, want, "{said}");
    let text = place.run(&all).ok().to_string();
    assert!(text.contains("helper number 9999 is not supported"), "{text}");
    assert!(text.contains("several.c:13: kernel functions are not supported"), "{text}");
    place
        .run(&["bound", "several.c", "--target", "xdp"])
        .fails(1, &["choose one with --program, or --all: jump, odd, kernel, pass"]);
    place.run(&["bound", "several.c", "--all", "--need", "1G"]).fails(2, &["--need"]);
}

/// What XDP and tc programs do to packets and call, one program each.
const HELPERS: &str = r#"
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
#define SEC(name) __attribute__((section(name), used))
#define HELPER(name, number, ...) static long (*name)(__VA_ARGS__) = (void *)number
struct ctx { u32 data, data_end, data_meta; };
struct skb { u32 len, type, mark, rest[16], data, data_end; };
HELPER(lookup, 1, void *, const void *);
HELPER(tail_call, 12, void *, void *, u32);
HELPER(vlan_push, 18, void *, u16, u16);
HELPER(load_bytes, 26, void *, u32, void *, u32);
HELPER(adjust_head, 44, void *, int);
HELPER(adjust_meta, 54, void *, int);
HELPER(adjust_tail, 65, void *, int);
HELPER(fib_lookup, 69, void *, void *, int, u32);
#define BEGIN(c) ((u8 *)(long)(c)->data)
#define END(c) ((u8 *)(long)(c)->data_end)
#define COPY(to, from) __builtin_memcpy(to, from, 12)

struct inner {
    int (*type)[2];
    int (*max_entries)[4];
    u32 *key;
    u32 *value;
} inner SEC(".maps");
struct {
    int (*type)[12];
    int (*max_entries)[4];
    u32 *key;
    struct inner *values[];
} outer SEC(".maps");
struct {
    int (*type)[3];
    int (*max_entries)[4];
    u32 *key;
    u32 *value;
} jumps SEC(".maps");

SEC("xdp/pop") int pop(struct ctx *c)
{
    u8 addresses[12], *p = BEGIN(c);
    if (p + 18 > END(c) || *(u16 *)(p + 12) != 0x81)
        return 2;
    COPY(addresses, p);
    if (adjust_head(c, 4))
        return 1;
    p = BEGIN(c);
    if (p + 14 > END(c))
        return 1;
    COPY(p, addresses);
    return p[13] == 7 ? 3 : 2;
}
SEC("xdp/push") int push(struct ctx *c)
{
    u8 addresses[12], *p = BEGIN(c);
    if (p + 14 > END(c))
        return 2;
    COPY(addresses, p);
    if (adjust_head(c, -4))
        return 1;
    p = BEGIN(c);
    if (p + 18 > END(c))
        return 1;
    COPY(p, addresses);
    *(u32 *)(p + 12) = 0x05000081;
    return p[11] == 9 && p[16] == 8 ? 3 : 2;
}
SEC("xdp/grow") int grow(struct ctx *c)
{
    u32 before = c->data_end - c->data;
    if (adjust_tail(c, 64))
        return 1;
    u8 *p = BEGIN(c);
    if (p + 128 > END(c))
        return 2;
    return p[127] + p[60] == 300 ? 3 : before > 100;
}
SEC("xdp/meta") int meta(struct ctx *c)
{
    if (adjust_meta(c, -4))
        return 1;
    u8 *m = (u8 *)(long)c->data_meta;
    if (m + 4 > BEGIN(c))
        return 1;
    *(u32 *)m = 5;
    return 2;
}
SEC("xdp/fib") int fib(struct ctx *c)
{
    u8 asked[64] = {};
    if (fib_lookup(c, asked, sizeof asked, 0))
        return 2;
    return asked[40] == 1 && asked[41] == 2 ? 3 : 1;
}
SEC("xdp/jump") int jump(struct ctx *c)
{
    tail_call(c, &jumps, 1);
    return BEGIN(c) + 100 > END(c) ? 2 : 1;
}
SEC("xdp/maps") int maps(struct ctx *c)
{
    u32 key = 1;
    void *map = (void *)lookup(&outer, &key);
    if (!map)
        return 2;
    u32 *value = (u32 *)lookup(map, &key);
    return value && *value == 7 ? 3 : 1;
}
SEC("tc") int queue(struct skb *c)
{
    u8 *p = BEGIN(c), some[6];
    if (p + 14 > END(c) || p[13] != 8)
        return 0;
    c->mark = 5;
    if (load_bytes(c, 14, some, 6) || some[3] != 9)
        return 2;
    if (vlan_push(c, 0x81, 5))
        return 2;
    p = BEGIN(c);
    return p + 18 > END(c) || p[12] != 3 || c->mark != 5;
}
SEC("kprobe/f") int probe(void *c) { return 0; }
"#;

/// Every witness is run on the interpreter before anything is printed.
#[test]
fn helpers_move_packets_and_write_memory() {
    let place = Place::new();
    place.file("helpers.c", HELPERS);
    let bound = ["bound", "helpers.c", "--target", "xdp"];
    let said = json(place.run(&[&bound[..], &["--all", "--json"]].concat()).ok());
    for row in said["programs"].as_array().unwrap() {
        let wanted = if row["program"] == "probe" { "refused" } else { "exact" };
        assert_eq!(row["status"], wanted, "{row}");
    }
    assert_eq!(said["programs"].as_array().unwrap().len(), 9);
    let worst = |program: &str| {
        json(place.run(&[&bound[..], &["--program", program, "--json"]].concat()).ok())
    };
    let bytes = |said: &Value, at: usize, count: usize| {
        said["witness"]["packet"].as_str().unwrap()[2 * at..2 * (at + count)].to_string()
    };
    // A tag is popped, and byte 13 of what is left is byte 17 of what came.
    let popped = worst("pop");
    assert_eq!((&*bytes(&popped, 12, 2), popped["min_packet_bytes"].as_u64()), ("8100", Some(60)));
    let pushed = worst("push");
    assert_eq!(&bytes(&pushed, 11, 1), "09", "the addresses moved along: {pushed}");
    // What is added at the end counts: 64 bytes and 64 more are 128.
    let grown = worst("grow");
    assert_eq!(grown["min_packet_bytes"].as_u64(), Some(64), "{grown}");
    let text = place.run(&[&bound[..], &["--program", "jump"]].concat()).ok().to_string();
    assert!(text.contains("presumed: a tail call ends the path"), "{text}");
    let text = place.run(&[&bound[..], &["--program", "queue"]].concat()).ok().to_string();
    assert!(text.contains("presumed: packets are in one piece"), "{text}");
}

/// A counter an EtherType: the more entries its array has, the farther away it is.
/// Every witness runs on the interpreter, through all programs of its chain.
#[test]
fn what_the_loader_decides_counts() {
    let place = Place::new();
    let chain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lift/chain.c");
    let chain = chain.to_str().unwrap().to_string();
    let bound = |more: &[&str]| {
        let first = ["bound", &chain, "--target", "xdp", "--program", "first"];
        place.run(&[&first[..], &["--by", "packet-rate", "--json"], more].concat())
    };
    let rate = |more: &[&str]| {
        let said = json(bound(more).ok());
        assert_eq!(said["status"], "exact", "{said}");
        said["packet_rate_pps"].as_f64().unwrap()
    };
    let open = json(bound(&[]).ok());
    assert!(open["presumed"].to_string().contains("a tail call ends the path"), "{open}");

    let slots = ["--tail-call", "jumps[1]=xdp/second", "--tail-call", "jumps[2]=third"];
    let whole = json(bound(&slots).ok());
    assert!(!whole["presumed"].to_string().contains("tail call"), "{whole}");
    // The way through all three: slot 1 by the last byte of an address, then more than 100 bytes.
    let packet = whole["witness"]["packet"].as_str().unwrap();
    assert_eq!(u8::from_str_radix(&packet[10..12], 16).unwrap() & 3, 1, "{whole}");
    assert_eq!(whole["min_packet_bytes"].as_u64(), Some(101), "{whole}");
    let through = rate(&slots);
    assert!(through < rate(&slots[2..]) && rate(&slots[2..]) < rate(&[]), "{whole}");

    // Keys that are not in the map take fewer instructions.
    assert!(rate(&[&slots[..], &["--global", "limit=100"]].concat()) > through);
    assert!(rate(&[&slots[..], &["--map-entries", "seen=2"]].concat()) > through);

    bound(&["--tail-call", "steps[0]=second"]).fails(1, &["steps"]);
    bound(&["--tail-call", "jumps[0]=nothing"]).fails(1, &["nothing"]);
    bound(&["--global", "limits=1"]).fails(1, &["limits"]);
    bound(&["--map-entries", "flows=1"]).fails(1, &["flows"]);
}

#[test]
fn tables_are_in_the_nearest_memory_with_room() {
    let place = Place::new();
    let cycles = |entries: u32| {
        let source = format!(
            "#include <nicforge.h>
             NF_PORTS(2);
             NF_TABLE(array, seen, uint32_t, uint32_t, {entries});
             void net_recv(nf_pkt pkt)
             {{
                 struct nf_eth eth;
                 if (!nf_extract(pkt, &eth)) {{
                     nf_drop(pkt, \"short\");
                     return;
                 }}
                 nf_add_value(&seen, nf_ntohs(eth.type) % {entries}, 1);
                 nf_reset(pkt);
                 nf_send(pkt, 1);
             }}"
        );
        let name = format!("seen{entries}.c");
        place.file(&name, &source);
        let said = json(place.run(&["bound", &name, "--target", "bluefield2", "--json"]).ok());
        assert_eq!(said["status"], "exact", "{said}");
        said["cycles"].as_f64().unwrap()
    };
    // 4 bytes an entry: 16 KiB of l1, 384 KiB of l2, 4 MiB of l3.
    let near = cycles(4096);
    assert_eq!(near, cycles(1024));
    let farther = [cycles(8192), cycles(1 << 18), cycles(1 << 21)];
    assert!(near < farther[0] && farther[0] < farther[1] && farther[1] < farther[2], "{farther:?}");
}

/// Two drivers' code, and an answer that names both where there is no such third.
#[test]
fn drivers_have_names() {
    let place = Place::new();
    let bound = ["bound", &xdp("quic_lb4.c")];
    let of = |more: &[&str]| place.run(&[&bound[..], more].concat());
    let listing = |driver| of(&["--driver", driver, "--emit", "nfp"]).ok().to_string();
    let (artifact, linux) = (listing("artifact"), listing("linux-6.1"));
    assert_eq!(artifact, of(&["--emit", "nfp"]).ok());
    assert!(linux.contains("br[.15001], defer[2]") && !artifact.contains("br[.15001]"), "{linux}");
    let refused = of(&["--driver", "linux-6.1"]);
    refused.fails(1, &["BPF helper 1, which is not published; --driver artifact"]);
    of(&["--driver", "linux"]).fails(2, &["there are artifact and linux-6.1"]);
    of(&["--driver", "artifact", "--target", "xdp"])
        .fails(2, &["--driver is for --target agilio-xdp"]);
}

/// Where an instruction takes a cycle, they are as many; on the NFP waits come on top.
#[test]
fn executed_instructions_stand_beside_cycles() {
    let place = Place::new();
    for (target, waits) in [("xdp", false), ("agilio-xdp", true)] {
        let bound = ["bound", &xdp("quic_lb4.c"), "--target", target];
        let said = json(place.run(&[&bound[..], &["--json"]].concat()).ok());
        let (cycles, executed) = (said["cycles"].as_f64(), said["instructions"].as_f64());
        let (cycles, executed) = (cycles.unwrap(), executed.unwrap());
        assert_eq!(executed < cycles, waits, "{said}");
        let text = place.run(&bound).ok().to_string();
        assert!(text.contains(&format!("{cycles} cycles for {executed} instructions")), "{text}");
    }
}

/// Timers take cycles of the units that packets run on, in bounds and in guarantees of plans.
#[test]
fn timers_lower_the_bound_of_packets() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/telemetry");
    let text = std::fs::read_to_string(folder.join("telemetry.c")).unwrap();
    let text = text.replace("NF_US(100)", "NF_MS(10)");
    let rate = |period: &str| {
        place.file("ageing.c", text.replace("NF_MS(10)", period));
        let said = json(place.run(&["bound", "ageing.c", "--target", "bluefield2", "--json"]).ok());
        // Ticks may be cheaper than the dearest one.
        assert_eq!(said["status"], "lower_bound");
        let presumed = said["presumed"][0].as_str().unwrap().to_string();
        let share = presumed.strip_prefix("timers take at most ").unwrap();
        let share: f64 = share.split(' ').next().unwrap().parse().unwrap();
        (said["packet_rate_pps"].as_f64().unwrap(), share / 100.0)
    };
    let ((seldom, little), (often, much)) = (rate("NF_MS(10)"), rate("NF_US(20)"));
    assert!(little < 0.01 && much > 0.01, "{little} {much}");
    assert!((often / seldom - (1.0 - much) / (1.0 - little)).abs() < 1e-3, "{often} {seldom}");
    let guaranteed = |period: &str| -> f64 {
        place.file("ageing.c", text.replace("NF_MS(10)", period));
        let plan = place.run(&["plan", "ageing.c", "--target", "agilio-cx"]);
        let rate = plan.ok().split("guaranteed: ").nth(1).and_then(|rest| rest.split(' ').next());
        rate.unwrap().parse().unwrap()
    };
    assert!(guaranteed("NF_US(5)") < 0.95 * guaranteed("NF_MS(10)"));
    place.file("ageing.c", text.replace("NF_MS(10)", "NF_NS(100)"));
    let bound = ["bound", "ageing.c", "--target", "bluefield2"];
    place.run(&bound).fails(1, &["timers alone may take all cycles of a core of bluefield2"]);
}

/// One packet in eight is slow; another program finds out with an atomic operation.
const SAMPLING: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} count SEC(".maps");
__u32 turn;
static __always_inline int slow(struct xdp_md *ctx)
{
    unsigned char *p = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    unsigned sum = 0;
    if (p + 60 > end)
        return XDP_PASS;
    for (int i = 0; i < 60; i++)
        sum = sum * 31 + p[i];
    return sum == 7 ? XDP_DROP : XDP_TX;
}
SEC("xdp/sample") int sample(struct xdp_md *ctx)
{
    __u32 zero = 0;
    __u64 *n = bpf_map_lookup_elem(&count, &zero);
    if (!n)
        return XDP_ABORTED;
    *n += 1;
    return *n & 7 ? XDP_PASS : slow(ctx);
}
SEC("xdp/turns") int turns(struct xdp_md *ctx)
{
    return __sync_fetch_and_add(&turn, 1) & 3 ? XDP_PASS : slow(ctx);
}
SEC("xdp/flows") int flows(struct xdp_md *ctx)
{
    __u32 spent[8] = {0}, key = ctx->rx_queue_index & 7;
    spent[key] = ctx->ingress_ifindex;
    return spent[(key + 1) & 7] ? slow(ctx) : XDP_PASS;
}
"#;

/// Paths that cannot repeat are counted as often as they can be taken.
#[test]
fn packets_in_a_row_know_what_the_ones_before_left() {
    let place = Place::new();
    place.file("sampling.c", SAMPLING);
    let bound = |program: &str, more: &[&str]| {
        let first = ["bound", "sampling.c", "--target", "xdp", "--program", program];
        place.run(&[&first[..], more].concat())
    };
    for (program, every) in [("sample", 8), ("turns", 4)] {
        let alone = json(bound(program, &["--json"]).ok())["cycles"].as_f64().unwrap();
        for count in [2, every, every + 1] {
            let said = json(bound(program, &["--json", "--in-a-row", &count.to_string()]).ok());
            let row = &said["in_a_row"];
            assert_eq!(row["status"], "exact", "{program}: {row}");
            let each = row["slowest"].as_array().unwrap().iter();
            let each: Vec<f64> =
                each.map(|packet| packet["instructions"].as_f64().unwrap()).collect();
            let slow = each.iter().filter(|instructions| **instructions > 100.0).count();
            assert_eq!(slow, 1 + usize::from(count > every), "{program}, {count}: {each:?}");
            assert_eq!(row["cycles"].as_f64(), Some(each.iter().sum()));
            assert!(each.contains(&alone), "{program}: {each:?} without {alone}");
        }
    }
    // What is supposed of a packet is supposed of each.
    let row = ["--json", "--in-a-row", "3", "--what-if", "17=5"];
    let said = json(bound("sample", &row).ok());
    for packet in said["in_a_row"]["slowest"].as_array().unwrap() {
        assert_eq!(&packet["packet"].as_str().unwrap()[34..36], "05", "{said}");
    }
    // Alone, a packet may take all of 500 ns; eight never do.
    bound("sample", &["--require", "10Mpps"]).fails(1, &["does not hold"]);
    let text = bound("sample", &["--require", "10Mpps", "--in-a-row", "8"]).ok().to_string();
    assert!(text.contains("any 8 packets in a row"), "{text}");
    // The stack is read at an index that the packet's queue decides: never where it was written.
    assert!(json(bound("flows", &["--json"]).ok())["cycles"].as_f64().unwrap() < 100.0);
    bound("sample", &["--in-a-row", "8", "--require", "1G"]).fails(2, &["10Mpps"]);
    place
        .run(&["bound", "sampling.c", "--program", "sample", "--in-a-row", "2"])
        .fails(2, &["--target xdp"]);
}

/// Every example that runs on xdp has a bound there.
#[test]
fn examples_are_bounded() {
    let place = Place::new();
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let (mut exact, mut bounded) = (0, 0);
    for entry in std::fs::read_dir(examples).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        // `sign` is for a target of its own, and the ciphers of `aes_tunnel` are in the process.
        let elsewhere = ["aes_tunnel", "sign"].contains(&name.as_str());
        let searches = ["fair_queue", "flow_ageing"];
        if !folder.join(format!("{name}.c")).is_file() || elsewhere {
            continue;
        }
        let folder = folder.to_string_lossy().into_owned();
        let all = ["bound", &folder, "--target", "xdp", "--all", "--timeout", "1", "--json"];
        let said = json(place.run(&all).ok());
        for program in said["programs"].as_array().unwrap() {
            // A timer that looks through a table: the kernel calls a function for each entry.
            let reason = program["reason"].as_str().unwrap_or_default();
            if searches.contains(&name.as_str()) && reason.ends_with("callbacks are not supported")
            {
                continue;
            }
            assert_ne!(program["status"], "refused", "{name}: {program}");
            exact += usize::from(program["status"] == "exact");
            bounded += 1;
        }
    }
    assert!(bounded >= 20 && exact >= bounded / 2, "{exact} exact of {bounded}");
}
