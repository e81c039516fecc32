//! Programs whose text depends on the target.

mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{Place, can_load, capture, frame};

const PROGRAM: &str = "#include <nicforge.h>
NF_PORTS(1);
extern uint32_t double_of(uint32_t of);
void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt);
#if defined(NF_TARGET_DPDK)
    n = double_of(n);
#elif defined(NF_TARGET_XDP)
    if (n > 100) {
        nf_drop(pkt, \"long\");
        return;
    }
    n <<= 1;
#elif defined(NF_TARGET)
    n += n;
#else
    n *= 2;
    if (n > 200) {
        nf_drop(pkt, \"long\");
        return;
    }
    if (n < 100) {
        nf_drop(pkt, \"short\");
        return;
    }
#endif
#ifdef NF_TARGET_HOST
    if (n > 200) {
        nf_drop(pkt, \"long\");
        return;
    }
#endif
    nf_emit(pkt, &n);
    nf_send(pkt, 0);
}
";

/// A program, what it calls, and a capture with frames of some lengths.
fn files(place: &Place, text: &str, lengths: &[usize]) -> [String; 3] {
    let frames: Vec<Vec<u8>> = lengths
        .iter()
        .map(|length| {
            let mut one = frame(0x1234);
            one.resize(*length, 7);
            one
        })
        .collect();
    let twice = place.file(
        "twice.c",
        "#include <stdint.h>\nuint32_t double_of(uint32_t of) { return 2 * of; }\n",
    );
    let (program, pcap) = (place.file("program.c", text), place.file("in.pcap", capture(&frames)));
    [program, twice, pcap].map(|path| path.to_str().unwrap().to_string())
}

/// The reference is what is written for no target: only its reasons and its `short` frames tell.
#[test]
fn a_targets_text_is_compared_with_that_of_no_target() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let [program, twice, pcap] = files(&place, PROGRAM, &[60, 70, 120, 80]);
    for (target, works) in [("dpdk", true), ("xdp", true), ("u280", false), ("liquidio", true)] {
        let ran =
            place.run(&["verify", &program, "--target", target, "--pcap", &pcap, "--with", &twice]);
        if works {
            assert!(ran.ok().contains("4 of 4 events"), "{target}: {ran:?}");
        } else {
            // It has no host side, so nothing there drops what is long.
            assert_eq!(ran.status.code(), Some(1), "{ran:?}");
            assert!(
                ran.out.contains("1 of 4 events differ") && ran.out.contains("drop reason long"),
                "{ran:?}"
            );
        }
    }
    // A frame that only the definition drops.
    let [program, twice, pcap] = files(&place, PROGRAM, &[60, 40]);
    let ran =
        place.run(&["verify", &program, "--target", "dpdk", "--pcap", &pcap, "--with", &twice]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(ran.out.contains("event 2: expected drop reason short"), "{ran:?}");
    place.is_clean();
}

#[test]
fn every_command_reads_what_is_for_its_target() {
    let place = Place::new();
    let text = "#include <nicforge.h>\nNF_PORTS(1);\nvoid net_recv(nf_pkt pkt)\n{\n#ifdef NF_TARGET_AGILIO_CX\n    \
                nf_log(\"here {}\", nf_len(pkt));\n#endif\n#ifdef NF_TARGET_XDP\n    nf_send(pkt, nf_now() & 0);\n#else\n    \
                nf_send(pkt, 0);\n#endif\n}\n";
    let [program, _, pcap] = files(&place, text, &[60]);
    let checked = place.run(&["check", &program, "--target", "all"]);
    let said = checked.ok();
    assert!(said.contains("xdp         yes") && said.contains("nf_log"), "{said}");
    assert_eq!(said.matches("lacks messages").count(), 1, "{said}");
    let plans = place.run(&["plan", &program, "--target", "all"]);
    assert_eq!(plans.ok().matches("lacks messages").count(), 1, "{plans:?}");
    place
        .run(&["plan", &program, "--target", "agilio-cx"])
        .fails(1, &["lacks messages to the developer"]);
    place.run(&["plan", &program, "--target", "liquidio"]).ok();
    assert!(place.run(&["build", &program, "--emit", "c"]).ok().contains("nf_now"));
    assert!(
        !place
            .run(&["build", &program, "--emit", "c", "--target", "dpdk"])
            .ok()
            .contains("nf_now()")
    );
    place.run(&["run", &program, "--target", "interp", "--pcap", &pcap]).ok();
}

#[test]
fn what_cannot_be_compared_is_said() {
    let place = Place::new();
    let text = "#include <nicforge.h>\n#ifdef NF_TARGET\nNF_TABLE(hash, seen, uint32_t, uint32_t, 16);\n#endif\n\
                void net_recv(nf_pkt pkt)\n{\n#ifdef NF_TARGET\n    nf_update(&seen, 1, 2);\n#endif\n    nf_drop(pkt);\n}\n";
    let [program, _, pcap] = files(&place, text, &[60]);
    place
        .run(&["verify", &program, "--target", "dpdk", "--pcap", &pcap])
        .fails(1, &["for dpdk the program has other tables or ports than without a target"]);
}

/// Macros without parameters, after files were included.
fn macros(flags: &[&str], text: &str) -> BTreeSet<String> {
    let mut clang = Command::new(nicforge_clang::name());
    clang.args(["-std=gnu11", "-x", "c", "-dM", "-E", "-"]).args(flags);
    let mut child = clang.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success(), "{text}");
    let said = String::from_utf8(said.stdout).unwrap();
    let names = said.lines().filter_map(|line| line.split(' ').nth(1));
    names.filter(|name| !name.contains('(') && !name.starts_with('_')).map(String::from).collect()
}

/// Generated files for processes include headers of the C library, Linux and DPDK.
#[test]
fn members_may_have_the_names_of_macros() {
    let place = Place::new();
    let asked = Command::new("pkg-config").args(["--cflags", "libdpdk"]).output().unwrap();
    let flags = String::from_utf8(asked.stdout).unwrap();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let headers = [
        "errno.h",
        "signal.h",
        "stdio.h",
        "stdlib.h",
        "sched.h",
        "stdbool.h",
        "sys/socket.h",
        "sys/mman.h",
        "sys/stat.h",
        "sys/un.h",
        "sys/wait.h",
        "poll.h",
        "time.h",
        "fcntl.h",
        "assert.h",
        "unistd.h",
        "pthread.h",
        "rte_eal.h",
        "rte_ethdev.h",
        "rte_dmadev.h",
        "rte_malloc.h",
        "rte_ring.h",
    ];
    let text: String = headers.iter().map(|name| format!("#include <{name}>\n")).collect();
    let own = macros(&[], "#include <stdbool.h>\n#include <stdint.h>\n#include <stddef.h>\n");
    let known = ["asm", "typeof"].map(String::from).into();
    let mut names = &(&macros(&flags, &text) - &own) - &known;
    // Some thousands are of capital letters.
    let is_small = |name: &String| name.contains(|letter: char| letter.is_ascii_lowercase());
    let capital: Vec<String> = names.iter().filter(|name| !is_small(name)).cloned().collect();
    names.retain(is_small);
    assert!(names.contains("errno") && names.len() > 20 && capital.len() > 1000, "{names:?}");
    names.extend(capital.into_iter().step_by(40));
    let members: String = names.iter().map(|name| format!("    uint16_t {name};\n")).collect();
    let text = format!(
        "#include <nicforge.h>\nstruct all {{\n{members}}};\nNF_TABLE(array, all_of, uint32_t, \
         struct all, 4);\nvoid net_recv(nf_pkt pkt)\n{{\n    struct all all;\n    \
         nf_lookup(&all_of, 0, &all);\n    all.errno++;\n    \
         nf_update(&all_of, 0, all);\n    nf_send(pkt, 0);\n}}\n"
    );
    let program = place.file("members.c", text);
    let program = program.to_str().unwrap();
    let made = place.path().join("made");
    place.run(&["build", program, "--target", "dpdk", "-o", made.to_str().unwrap()]).ok();
    place.is_clean();
}
