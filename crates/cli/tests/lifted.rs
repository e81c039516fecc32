//! XDP objects as programs: what is lifted does what the object does in the kernel, and what has no
//! meaning is refused by name.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Place, can_load, capture, soak};
use nicforge_run::compile::compile_xdp;
use serde_json::Value;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/xdp");

/// Names of the examples, but of the chain: loaders decide its links.
fn examples() -> Vec<String> {
    let paths = std::fs::read_dir(EXAMPLES).unwrap().map(|entry| entry.unwrap().path());
    let sources = paths.filter(|path| path.extension().is_some_and(|ending| ending == "c"));
    let names = sources.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    names.filter(|name| name != "chain").collect()
}

fn object(place: &Place, name: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/lift");
    let source = Path::new(folder).join(format!("{name}.c"));
    place.file(&format!("{name}.o"), compile_xdp(&source, &[]).expect("clang"));
}

/// True if this machine's kernel has the functions that `dynptr.c` and `numbers.c` call: Linux 6.5.
fn has_kernel_functions() -> bool {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let found = types.windows(18).any(|name| name == b"\0bpf_dynptr_adjust");
    if !found {
        eprintln!("programs with kfuncs left out: this kernel has no bpf_dynptr_adjust");
    }
    found
}

/// An object as compilers wrote it before clang 9: no BTF, and symbols without types and sizes.
fn as_before_clang_9(mut object: Vec<u8>) -> Vec<u8> {
    let number = |object: &[u8], at: usize, size: usize| {
        object[at..at + size].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    for at in 0..object.len() - 4 {
        if object[at..].starts_with(b".BTF") {
            object[at + 1] = b'X';
        }
    }
    let (table, count) = (number(&object, 0x28, 8), number(&object, 0x3c, 2));
    for header in (0..count).map(|nth| table + 64 * nth) {
        const SYMBOLS: usize = 2;
        if number(&object, header + 4, 4) != SYMBOLS {
            continue;
        }
        let (start, size) = (number(&object, header + 24, 8), number(&object, header + 32, 8));
        for symbol in (start..start + size).step_by(24) {
            // Objects and functions; sections keep their type.
            if matches!(object[symbol + 4] & 15, 1 | 2) {
                object[symbol + 4] &= 0xf0;
                object[symbol + 16..symbol + 24].fill(0);
            }
        }
    }
    object
}

#[test]
fn lifted_programs_do_what_the_object_does_in_the_kernel() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let objects = [
        "counters", "tunnel", "calls", "loops", "loader", "apart", "before", "older", "slots",
        "sizes", "numbered", "idioms", "prints", "within", "places", "varying", "dynptr",
        "numbers",
    ];
    objects.into_iter().for_each(|name| object(&place, name));
    let has = has_kernel_functions();
    let plain = as_before_clang_9(std::fs::read(place.path().join("older.o")).unwrap());
    place.file("plain.o", plain);
    for (program, tables) in [
        ("counters.o", 2),
        ("calls.o", 3),
        ("tunnel.o:encapsulate", 0),
        ("tunnel.o:xdp/out", 0),
        ("loops.o", 1),
        ("apart.o", 1),
        ("older.o", 2),
        ("plain.o", 2),
        ("slots.o:first", 1),
        ("numbered.o:prog", 0),
        ("sizes.o:sizes", 0),
        ("sizes.o:few", 0),
        ("prints.o:prints", 0),
        ("within.o:within", 0),
        ("places.o:places", 0),
        ("varying.o:stack", 0),
        ("varying.o:map", 1),
        ("varying.o:stores", 0),
        ("idioms.o:casts", 0),
        ("idioms.o:segments", 0),
        ("idioms.o:wraps", 0),
        ("idioms.o:signs", 0),
        ("idioms.o:counts", 0),
        ("before.o:xdp/longer", 0),
        ("before.o:xdp/shorter", 0),
        ("loader.o:xdp/metadata", 0),
        ("loader.o:xdp/members", 1),
        ("loader.o:xdp/sample", 0),
        ("dynptr.o:xdp", 1),
        ("numbers.o", 1),
    ] {
        if !has && ["dynptr.o", "numbers.o"].iter().any(|one| program.starts_with(one)) {
            continue;
        }
        let ran = place.run(&["verify", program]);
        let matches = format!("matches the reference: 400 of 400 events, {tables} of {tables}");
        assert!(ran.ok().contains(&format!("the object in the kernel {matches}")), "{ran:?}");
        assert!(ran.out.contains(&format!("xdp {matches}")), "{ran:?}");
    }
    // Messages to the host are compared byte for byte, too.
    ["tails", "callbacks", "ports", "data", "prefixes", "bytes", "rings", "exits", "behead"]
        .into_iter()
        .for_each(|name| object(&place, name));
    let programs = [
        ("tails.o:xdp/trailer", 1),
        ("tails.o:xdp/either", 1),
        ("tails.o:xdp/limits", 1),
        ("callbacks.o:xdp/trips", 1),
        ("callbacks.o:xdp/cells", 2),
        ("callbacks.o:xdp/records", 0),
        ("ports.o:xdp/others", 0),
        ("data.o", 1),
        ("bytes.o", 0),
        ("rings.o", 1),
        ("varying.o:message", 0),
        ("prints.o:capture", 0),
        ("prefixes.o:sender", 2),
        ("prefixes.o:bits", 2),
        ("prefixes.o:rules_count", 1),
        ("behead.o:behead", 0),
        ("behead.o:again", 0),
        ("exits.o:loop", 0),
        ("exits.o:find", 0),
        ("dynptr.o:xdp/record", 2),
    ];
    // A third of them on DPDK, where each is compiled for seconds; `make soak` has all there.
    for (nth, (program, tables)) in programs.into_iter().enumerate() {
        if !has && program.starts_with("dynptr.o") {
            continue;
        }
        let target = if soak() || nth % 3 == 0 { "dpdk" } else { "xdp" };
        let ran = place.run(&["verify", program, "--target", target]);
        let matches = format!("matches the reference: 400 of 400 events, {tables} of {tables}");
        assert!(ran.ok().contains(&format!("the object in the kernel {matches}")), "{ran:?}");
        let there = if target == "dpdk" { "dpdk (net_recv" } else { "xdp matches" };
        assert!(ran.out.contains(there), "{ran:?}");
        // The interpreter of eBPF calls the functions of `bpf_loop`, too.
        assert!(program != "callbacks.o:xdp/trips" || ran.out.contains("packets come through "));
    }
    ["tc", "dynptr"].into_iter().for_each(|name| object(&place, name));
    for (program, tables) in [
        ("tc.o:masquerade", 1),
        ("tc.o:mark", 1),
        ("tc.o:options", 0),
        ("tc.o:resize", 1),
        ("tc.o:classic", 1),
        ("tc.o:tunnel_in", 0),
        ("tc.o:tunnel_out", 0),
        ("dynptr.o:tc", 1),
        ("varying.o:loads", 0),
    ] {
        if !has && program == "dynptr.o:tc" {
            continue;
        }
        // Of some packets the kernel makes no socket buffer.
        let ran = place.run(&["verify", program]);
        let matches = format!(" events, {tables} of {tables} tables\n");
        assert!(ran.ok().contains("the object in the kernel matches the reference"), "{ran:?}");
        assert!(ran.out.contains(&format!("400 of 400{matches}")), "{ran:?}");
    }
    let ran = place.run(&["verify", "tc.o:first", "--tail-call", "steps[1]=second"]);
    assert!(ran.ok().contains("the object in the kernel matches the reference"), "{ran:?}");
    // What random numbers decide is left out, also where most of them decide alike.
    object(&place, "chance");
    let ran = place.run(&["verify", "chance.o:chance"]);
    assert!(ran.ok().contains("the object in the kernel matches the reference"), "{ran:?}");
    assert!(ran.err.contains("the time or random numbers decide"), "{ran:?}");
    // So is what entries decide that full LRU maps gave up, where the kernel chooses others.
    object(&place, "evicts");
    let ran = place.run(&["verify", "evicts.o"]);
    assert!(ran.ok().contains("the object in the kernel matches the reference"), "{ran:?}");
    assert_eq!(ran.out.matches(" events, 3 of 3 tables").count(), 2, "{ran:?}");
    assert!(ran.err.contains("hang on entries that a full LRU map gave up"), "{ran:?}");
    assert!(ran.out.contains("hang on entries that a full lru table gave up"), "{ran:?}");
    // So are the keys of a map that times are.
    let ran = place.run(&["verify", "chance.o:rate"]);
    assert!(ran.ok().contains("matches the reference: 400 of 400 events, 1 of 1"), "{ran:?}");
    // What the test run does not take is compared on the target only.
    let ran = place.run(&["verify", "loader.o:alone"]);
    assert!(ran.ok().contains("was not run: section `xdp/cpumap` is for programs in"), "{ran:?}");
    place.is_clean();
}

/// Loops that are too long to be written out become loops, which do the same.
#[test]
fn long_loops_do_what_they_do_in_the_kernel() {
    let place = Place::new();
    object(&place, "rolled");
    for program in ["search", "bytes", "counted"] {
        let program = format!("rolled.o:xdp/{program}");
        let air = place.run(&["build", &program, "--emit", "air"]);
        assert!(air.ok().contains("loop ") && air.out.len() < 20_000, "{air:?}");
        if can_load() {
            let ran = place.run(&["verify", &program, "--target", "dpdk"]);
            let matches = "in the kernel matches the reference: 400 of 400 events, 1 of 1 tables";
            assert!(ran.ok().contains(matches), "{ran:?}");
            assert!(ran.out.contains("dpdk (net_recv"), "{ran:?}");
        }
    }
    place.is_clean();
}

/// The programs of `examples/xdp` lift, do what the kernel does, and do so compiled again.
#[test]
fn examples_do_what_the_kernel_does() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path().join("objects")).unwrap();
    for name in examples() {
        let path = Path::new(EXAMPLES).join(format!("{name}.c"));
        let object = compile_xdp(&path, &[]).expect("clang");
        place.file(&format!("objects/{name}.o"), object);
    }
    let programs = examples().len();
    assert!(programs >= 30, "{programs} programs");
    let ran =
        place.run(&["validate", "lift", "--from", "objects", "--targets", "xdp", "--recompile"]);
    let all = format!(
        "{programs} of {programs} lifted, {programs} as in the kernel, 0 otherwise, 0 not run there\n\
         compiled again: {programs} alike, 0 otherwise, 0 not run"
    );
    assert!(ran.ok().contains(&all), "{ran:?}");
    // Entries are made for what packets ask, so what is done with them is run too.
    for (name, blocks) in [("srv6_encap", 32), ("srv6_decap", 24), ("vxlan_encap", 9)] {
        let ran = place.run(&["verify", &format!("objects/{name}.o")]);
        let through = format!("packets come through {blocks} of {blocks} basic blocks\n");
        assert!(ran.ok().contains(&through), "{ran:?}");
    }
    let object = compile_xdp(&Path::new(EXAMPLES).join("chain.c"), &[]).expect("clang");
    place.file("chain.o", object);
    let steps = ["--tail-call", "steps[1]=policy", "--tail-call", "steps[2]=xdp/forward"];
    let ran = place.run(&[&["verify", "chain.o:parse"][..], &steps].concat());
    let matches =
        "the object in the kernel matches the reference: 400 of 400 events, 1 of 1 tables";
    assert!(ran.ok().contains(matches), "{ran:?}");
    place.is_clean();
}

/// Objects of other compilers, and of other settings, do what they do in the kernel. `make soak`
/// takes all examples and all compilers that are here.
#[test]
fn objects_of_other_compilers_do_what_the_kernel_does() {
    if !can_load() {
        return;
    }
    let own = nicforge_clang::name();
    let mut compilers = vec![(own, "-target bpf -Oz -mcpu=v2")];
    if soak() {
        compilers.push((own, "-target bpf -O3 -mcpu=v4 -fno-unroll-loops"));
        compilers.extend(["clang-14", "clang-15", "clang-16"].map(|one| (one, "-target bpf -O1")));
        compilers.extend(["-O1 -gbtf", "-O2 -gbtf"].map(|flags| ("bpf-gcc", flags)));
    }
    for (compiler, flags) in compilers {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("SKIPPED: {compiler} is not here");
            continue;
        }
        let place = Place::new();
        std::fs::create_dir(place.path().join("objects")).unwrap();
        let few = ["mss_clamp", "gre_decap", "srv6_encap", "quic_lb6"].map(str::to_string);
        let names = if soak() { examples() } else { few.into() };
        for name in &names {
            let mut command = Command::new(compiler);
            command.args(flags.split(' ')).args(["-g", "-I", "/usr/include"]);
            command.arg("-I").arg(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH));
            command.arg("-c").arg(Path::new(EXAMPLES).join(format!("{name}.c")));
            command.arg("-o").arg(place.path().join(format!("objects/{name}.o")));
            // Some lack what an example needs.
            let ran = command.output().unwrap();
            assert!(ran.status.success() || compiler != own, "{ran:?}");
        }
        let ran = place.run(&["validate", "lift", "--from", "objects", "--targets=xdp", "--json"]);
        let said: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let rows = said["rows"].as_array().unwrap();
        assert!(rows.len() >= names.len() / 3, "{compiler}: {ran:?}");
        for row in rows {
            let reason = row["reason"].as_str().unwrap_or_default();
            let library = reason.contains("calls __bswapsi2, which the object does not hold");
            let half = reason.contains("takes a packet pointer for a number");
            let known = compiler == "bpf-gcc" && (library || half);
            assert!(row["lifted"] == true || known, "{compiler} {flags}: {row}");
            assert_ne!(row["agrees"], false, "{compiler} {flags}: {row}");
            assert!(row["agrees"] == true || compiler != own, "{compiler} {flags}: {row}");
        }
        // Where the kernel refused an object, its verifier's log is kept.
        if compiler == own {
            place.is_clean();
        }
    }
}

/// Maps that nobody outside may write, and LRU maps that forget, get no entries that are not there.
#[test]
fn entries_are_those_that_the_kernel_takes() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let source = "
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4);
    __type(key, __u8);
    __type(value, __u32);
} seen SEC(\".maps\");
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __uint(map_flags, BPF_F_RDONLY);
    __type(key, __u8);
    __type(value, __u32);
} given SEC(\".maps\");
SEC(\"xdp\") int reads(struct xdp_md *ctx)
{
    unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 34 > end)
        return XDP_PASS;
    __u8 key = data[33];
    __u32 *value = bpf_map_lookup_elem(&seen, &key);
    if (value && *value == 1)
        return XDP_DROP;
    value = bpf_map_lookup_elem(&given, &key);
    return value && *value == 1 ? XDP_TX : XDP_PASS;
}
char _license[] SEC(\"license\") = \"GPL\";
";
    let object = compile_xdp(&place.file("reads.c", source), &[]).expect("clang");
    place.file("reads.o", object);
    let matches =
        "the object in the kernel matches the reference: 400 of 400 events, 2 of 2 tables";
    let ran = place.run(&["verify", "reads.o"]);
    assert!(ran.ok().contains(matches), "{ran:?}");
    place.is_clean();
}

/// Members and helpers of socket buffers that mean nothing off the machine are refused by name.
#[test]
fn tc_programs_are_refused_by_name() {
    let place = Place::new();
    object(&place, "tc");
    for (program, why) in [
        ("tc.o:whom", "asks whom a packet is for (pkt_type)"),
        ("tc.o:hash", "calls bpf_get_hash_recalc, which has no meaning here"),
        ("tc.o:ethernet", "bpf_skb_adjust_room with flags 0x"),
        ("tc.o:copied", "copies a packet with headers that were put in front"),
        ("tc.o:other", "section `cgroup_skb/ingress` is neither for XDP nor for tc"),
        ("tc.o", "several programs; choose one with --program"),
    ] {
        place.run(&["check", program]).fails(1, &[why]);
    }
    place.is_clean();
}

/// A folder of objects as a table: programs that lift, beside the kernel, and those that do not.
#[test]
fn a_folder_of_objects_is_a_table() {
    let place = Place::new();
    place.run(&["validate", "lift"]).fails(2, &["--from"]);
    std::fs::create_dir(place.path().join("objects")).unwrap();
    let all = ["validate", "lift", "--from", "objects", "--targets", "dpdk,u280"];
    place.run(&all).fails(1, &["no XDP or tc program in the objects below objects"]);
    for name in ["counters", "chain"] {
        object(&place, name);
        let object = format!("{name}.o");
        std::fs::rename(place.path().join(&object), place.path().join("objects").join(&object))
            .unwrap();
    }
    place.file("objects/broken.o", [b"\x7fELF\x02\x01\x01", &[0; 11][..], &[247, 0]].concat());
    place.file("objects/other.o", "no object");
    if !can_load() {
        return;
    }
    let ran = place.run(&all);
    let line = |program: &str| {
        let line = ran.ok().lines().find(|line| line.contains(program));
        line.unwrap_or_else(|| panic!("{program}: {ran:?}")).to_string()
    };
    assert!(line("counters.o:").contains("2 of 2  400 of 400 events, 2 of 2 maps"), "{ran:?}");
    assert!(line("chain.o:first").contains("map `jumps`, whose programs are not known"));
    assert!(line("broken.o").contains("0 of 2"), "{ran:?}");
    assert!(!ran.out.contains("other.o") && ran.out.contains("2 of 5 lifted, 2 as in the kernel"));
    place.is_clean();
}

/// What an object leaves to its loader: slots of program arrays, global data, sizes of maps.
#[test]
fn loaders_decide_chains_constants_and_sizes() {
    let place = Place::new();
    object(&place, "chain");
    let unknown = place.run(&["check", "chain.o:first"]);
    unknown.fails(1, &["map `jumps`, whose programs are not known", "--tail-call jumps[SLOT]"]);
    let empty = place.run(&["verify", "chain.o:first", "--tail-call", "jumps=empty"]);
    empty.ok();
    for (option, value, why) in [
        ("--global", "limits=5", "no global variable `limits`"),
        ("--map-entries", "saw=8", "no map `saw`"),
        ("--tail-call", "jumps[0]=last", "no program or section `last`"),
    ] {
        place.run(&["check", "chain.o:third", option, value]).fails(1, &[why]);
    }
    if !can_load() {
        return;
    }
    let calls = ["--tail-call", "jumps[1]=second", "--tail-call", "jumps[2]=xdp/third"];
    let sizes = ["--map-entries", "seen=8"];
    for limit in ["limit=5", "limit=9"] {
        let ran = [&["verify", "chain.o:first", "--global", limit][..], &calls, &sizes].concat();
        let ran = place.run(&ran);
        let matches = "the object in the kernel matches the reference: 400 of 400 events, 1 of 1";
        assert!(ran.ok().contains(matches), "{ran:?}");
    }
    place.is_clean();
}

/// What goes to all ports in a device map goes to each of them once, whatever the map's kind, but
/// to the one it came by only if the program says so.
#[test]
fn redirects_to_all_ports_of_a_device_map() {
    let place = Place::new();
    object(&place, "ports");
    let table = |name: &str, rows: &[(u32, String)]| {
        let row =
            |(key, value): &(u32, String)| format!("[[{name}]]\nkey = {key}\nvalue = {value}\n");
        rows.iter().map(row).collect::<String>()
    };
    let plain = |at: u32, ifindex: u32| (at, ifindex.to_string());
    let slot = |at: u32, key: u32, ifindex: u32| {
        (at, format!("{{ at_0 = {key}, at_4 = {ifindex}, at_8 = 0 }}"))
    };
    place.file("numbered.toml", table("numbered", &[plain(0, 3), plain(2, 1), plain(3, 2)]));
    place.file("named.toml", table("named", &[slot(0, 7, 2), slot(2, 9, 1), slot(3, 1, 4)]));
    let frame = |first: u8, last: u8| {
        let mut frame = vec![0; 60];
        (frame[0], frame[5]) = (first, last);
        frame
    };
    place.file("in.pcap", capture(&[frame(1, 0), frame(0, 9), frame(0, 8)]));
    for (program, tables, sent, stack) in [
        ("ports.o:xdp/all", "numbered.toml", [3, 3, 3, 0], 0),
        ("ports.o:xdp/others", "named.toml", [1, 1, 0, 1], 1),
    ] {
        for target in ["interp", "dpdk", "xdp"] {
            if target == "xdp" && !can_load() {
                continue;
            }
            let run = ["run", program, "--target", target, "--tables", tables];
            let ran = place.run(&[&run[..], &["--pcap", "in.pcap", "--json"]].concat());
            let said: serde_json::Value = serde_json::from_str(ran.ok()).expect("JSON");
            // Ports that nothing left by are not always shown.
            let port = |at: usize| said["sent"][at].as_u64().unwrap_or(0);
            assert_eq!([0, 1, 2, 3].map(port), sent, "{program} {target}: {ran:?}");
            assert_eq!(said["stack"], stack, "{program} {target}: {ran:?}");
        }
    }
    place.is_clean();
}

/// Objects with bytes changed anywhere end with a program or a reason.
#[test]
fn changed_objects_are_lifted_or_refused() {
    let place = Place::new();
    let mut random = nicforge_util::random::Random::new(7);
    let (mut lifted, mut refused) = (0, 0);
    let objects = [("counters", None), ("calls", None), ("older", None), ("chain", Some("third"))];
    for (name, function) in objects {
        object(&place, name);
        let whole = std::fs::read(place.path().join(format!("{name}.o"))).expect("written");
        for _ in 0..100 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(4) {
                let at = random.index(bytes.len());
                bytes[at] = random.next() as u8;
            }
            if random.below(10) == 0 {
                bytes.truncate(random.index(bytes.len()));
            }
            // What libbpf gets of it, whether or not it takes that.
            let _ = nicforge_isa::object::for_libbpf(&bytes);
            let program = function.map(str::to_string);
            let options = nicforge_lift::Options { program, ..Default::default() };
            match nicforge_lift::lift(&bytes, &options) {
                Ok(_) => lifted += 1,
                Err(reason) => {
                    assert_eq!(reason.to_string().lines().count(), 1, "{reason}");
                    refused += 1;
                }
            }
        }
    }
    assert!(lifted > 0 && refused > 0, "{lifted} lifted, {refused} refused");
}

/// Parsers whose ways share code that is not where all of them meet.
#[test]
fn tangled_control_flow_is_lifted_once() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    for name in ["count_min", "quic_lb4"] {
        let object =
            compile_xdp(&Path::new(EXAMPLES).join(format!("{name}.c")), &[]).expect("clang");
        place.file(&format!("{name}.o"), object);
        let ran = place.run(&["verify", &format!("{name}.o")]);
        let matches = "the object in the kernel matches the reference: 400 of 400 events, 1 of 1";
        assert!(ran.ok().contains(matches), "{ran:?}");
    }
}

#[test]
fn objects_read_like_programs_written_by_hand() {
    let place = Place::new();
    object(&place, "counters");
    let text = place.run(&["build", "counters.o", "--target", "interp", "--emit", "air"]);
    let text = text.ok();
    for line in [
        "struct stats_value packed { packets: u64, bytes: u64 }",
        "table stats: array[u32 -> stats_value] capacity 256",
        "commute add seen[",
        "drop %pkt, \"XDP_ABORTED\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_has_no_meaning_is_refused_by_name() {
    let place = Place::new();
    ["refused", "kfunc", "tunnel", "behead"].into_iter().for_each(|name| object(&place, name));
    place
        .run(&["check", "refused.o:traced"])
        .fails(1, &["`tp_btf/xdp_exception` is neither for XDP nor for tc"]);
    // The only one for XDP is meant.
    let refused = place.run(&["check", "refused.o"]);
    refused.fails(1, &["calls bpf_sk_lookup_udp, which has no meaning here", "refused.c:10"]);
    let named = "calls bpf_xdp_metadata_rx_timestamp, which the object does not hold";
    place.run(&["check", "kfunc.o"]).fails(1, &[named, "kfunc.c:12"]);
    place.run(&["check", "tunnel.o"]).fails(1, &["several programs", "encapsulate", "xdp/out"]);
    place.run(&["check", "tunnel.o:none"]).fails(1, &["no program or section `none`"]);
    let taken = "uses bytes that were taken off the front, by a number that varies";
    place.run(&["check", "behead.o:twice"]).fails(1, &[taken, "behead.c:"]);
    place.file("broken.o", b"\x7fELF and nothing else");
    place.run(&["check", "broken.o"]).fails(1, &["not a readable ELF object"]);
}
