//! The sPIN NIC with the kernel at its other end: real pings, real datagrams, files over SLMP,
//! programs on the host.

mod common;

use common::{Place, Ran, can_load, example, soak};

/// Starts a NIC and waits for its interface; ends it and shows what it counted.
const FUNCTIONS: &str = r#"
ip link set lo up
start_nic() {
    case $ENGINE in hardware) set -- "$@" --datapath rtl ;; *) set -- "$@" --engine "$ENGINE" ;; esac
    # What an earlier one said must not be taken for its word.
    : > nic.err
    "$NICFORGE" spin run "$@" --tap spin0 --address 10.9.0.1/24 > nic.out 2> nic.err & NIC=$!
    until_so 'grep -q "on spin0" nic.err || ! kill -0 $NIC'
    grep -q "on spin0" nic.err || { cat nic.err; exit 9; }
}
end_nic() { kill -INT $NIC; wait $NIC || true; cat nic.out; }
# Each when the one before was answered: for its last answers, `ping -c 5` hardly waits.
pings() {
    count=$1; shift
    for _ in $(seq "$count"); do ping -q -c 1 -W 300 "$@" 10.9.0.2; done
}
start_program() { "$@" > program.out & PROGRAM=$!; until_so 'grep -q ready program.out'; }
"#;

/// Runs a script in a network namespace of its own. Nobody gives up because the machine is slow.
fn in_namespace(place: &Place, engine: &str, script: &str) -> Ran {
    let mut command = place.script(&format!("{FUNCTIONS}\n{script}"));
    command
        .env("NICFORGE_PSPIN", "nic.sock")
        .env("NICFORGE_SLMP_SECONDS", "300")
        .env("ENGINE", engine);
    common::finish(command)
}

/// Number of pings that were answered in a run that went well.
fn answered(ran: &Ran) -> usize {
    ran.ok().matches("1 packets transmitted, 1 received, 0% packet loss").count()
}

/// Host programs and images, built by their makefile in a folder of this test.
fn host_programs(place: &Place) {
    let host = place.path().join("spin/host");
    std::fs::create_dir_all(&host).unwrap();
    let from = example("spin");
    for folder in ["", "host"] {
        for entry in std::fs::read_dir(format!("{from}/{folder}")).unwrap() {
            let path = entry.unwrap().path();
            let wanted = path.extension().is_some_and(|e| e == "c" || e == "h")
                || path.ends_with("Makefile");
            if wanted {
                let to = place.path().join("spin").join(folder).join(path.file_name().unwrap());
                std::fs::copy(&path, to).unwrap();
            }
        }
    }
    let mut make = place.prepare("make", &["-s", "all", "mpi_types"]);
    make.current_dir(&host).env("NICFORGE", common::NICFORGE);
    common::finish(make).ok();
}

#[test]
fn ping_and_datagrams_are_answered_by_handlers() {
    ping("iss");
}

#[test]
fn ping_and_datagrams_are_answered_by_native_handlers() {
    ping("native");
}

fn ping(engine: &str) {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let echo = |name: &str| example(&format!("spin/{name}.c"));
    let script =
        format!("start_nic {} --match icmp\npings 5\npings 3 -s 1400\nend_nic", echo("icmp_echo"));
    let ran = in_namespace(&place, engine, &script);
    assert_eq!(answered(&ran), 8, "{ran:?}");
    assert_eq!(ran.out.matches("1400(1428) bytes of data").count(), 3, "{ran:?}");
    assert!(ran.out.contains("8, 8 handlers ran, 0 failed"), "{ran:?}");

    let script = format!(
        "start_nic {} --match udp:7\n{}\nend_nic",
        echo("udp_echo"),
        r#"python3 - <<'END'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(300)
for n in (0, 1, 500, 1400):
    s.sendto(bytes(n), ("10.9.0.2", 7))
    print("echo", len(s.recvfrom(2000)[0]))
s.sendto(b"x", ("10.9.0.2", 8))
# Frames are taken in order: when this one is answered, the one before was looked at.
s.sendto(b"", ("10.9.0.2", 7))
s.recvfrom(2000)
END"#
    );
    let ran = in_namespace(&place, engine, &script);
    assert!(ran.ok().contains("echo 0\necho 1\necho 500\necho 1400\n"), "{ran:?}");
    assert!(ran.out.contains("1 for nobody"), "port 8 is not for handlers: {ran:?}");
    place.is_clean();
}

/// Against a dictionary, from eight clients at a time.
#[test]
fn keys_and_values_live_in_the_nic() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let client = r#"python3 - <<'END'
import random, socket, struct, sys, threading
def client(number):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(300)
    rng, have, differ = random.Random(number), {}, 0
    for _ in range(150):
        code, key, value = rng.choice((1, 2, 2, 3)), rng.randrange(12) * 8 + number, rng.randrange(1 << 64)
        s.sendto(struct.pack("<BQQ", code, key, value), ("10.9.0.2", 9332))
        answer = struct.unpack("<BQQ", s.recv(100))
        if code == 2:
            want = (0, key, value)
            have[key] = value
        else:
            want = (0, key, have[key]) if key in have else (1, key, value)
            if code == 3:
                have.pop(key, None)
        differ += answer != want
    s.sendto(b"x", ("10.9.0.2", 9332))
    sys.stdout.write(f"client {number} {differ} {len(have) > 2} refused {s.recv(100)[0]}\n")
threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
END"#;
    let script =
        format!("start_nic {} --match udp:9332\n{client}\nend_nic", example("spin/kv_lookup.c"));
    let ran = in_namespace(&place, "iss", &script);
    for number in 0..8 {
        assert!(ran.ok().contains(&format!("client {number} 0 True refused 3\n")), "{ran:?}");
    }
    assert!(ran.out.contains("1208, 1208 handlers ran, 0 failed"), "{ran:?}");
    place.is_clean();
}

#[test]
fn programs_on_the_host_take_part() {
    programs("iss");
}

#[test]
fn programs_on_the_host_take_part_in_native_handlers() {
    programs("native");
}

/// The same programs, with the calls of the same library, and the datapath in hardware.
#[test]
fn programs_on_the_host_take_part_behind_hardware() {
    programs("hardware");
}

/// True if Verilator is there; says so if not.
fn has_hardware() -> bool {
    let has = std::env::var_os("NICFORGE_VERILATOR").is_some_and(|path| !path.is_empty());
    if !has {
        println!("skipped: Verilator is missing: run scripts/bootstrap.sh");
    }
    has
}

fn programs(engine: &str) {
    if !can_load() || (engine == "hardware" && !has_hardware()) {
        return;
    }
    let place = Place::new();
    host_programs(&place);
    let script = r#"
start_nic --device nic.sock
start_program spin/host/echo_host spin/host/build/icmp_echo icmp 5
pings 5
wait $PROGRAM; cat program.out
start_program spin/host/echo_host spin/host/build/udp_echo udp 2
python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(300)
for text in (b"one", b"three"):
    s.sendto(text, ("10.9.0.2", 777))
    print(s.recvfrom(100)[0])
'
wait $PROGRAM; cat program.out
! spin/host/echo_host script udp
! NICFORGE_PSPIN=nowhere spin/host/echo_host spin/host/build/udp_echo udp
end_nic"#;
    let ran = in_namespace(&place, engine, script);
    assert_eq!(answered(&ran), 5, "{ran:?}");
    assert!(ran.out.contains("b'one'\nb'three'\n"), "{ran:?}");
    // Two counters of the handler, and nothing of the ICMP handler, which counts nothing.
    assert!(ran.out.contains("5 packets; handler nan cycles"), "{ran:?}");
    assert!(
        ran.out.contains("2 packets; handler ") && ran.out.contains("7, 7 handlers ran"),
        "{ran:?}"
    );
    assert!(ran.err.contains("script: the NIC does not take the image"), "{ran:?}");
    assert!(ran.err.contains("nowhere: No such file or directory; start a NIC with"), "{ran:?}");
    assert!(!place.path().join("nic.sock").exists());
    place.is_clean();
}

#[test]
fn files_arrive_intact_over_a_line_that_loses_doubles_and_reorders() {
    files("iss");
}

#[test]
fn files_arrive_intact_over_a_line_that_loses_doubles_and_reorders_with_native_handlers() {
    files("native");
}

#[test]
fn files_arrive_intact_over_a_line_that_loses_doubles_and_reorders_behind_hardware() {
    files("hardware");
}

fn files(engine: &str) {
    if !can_load() || (engine == "hardware" && !has_hardware()) {
        return;
    }
    let place = Place::new();
    host_programs(&place);
    // Simulated hardware takes a minute for the longer one.
    let length = if engine == "hardware" && !soak() { 350_001 } else { 700_001u32 };
    let bytes: Vec<u8> =
        (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    place.file("file", &bytes);
    let script = r#"
start_nic --device nic.sock --loss 1% --duplicate 1% --reorder 2% --seed 11
start_program spin/host/slmp_host spin/host/build/slmp_receive got -1 1048576
spin/host/slmp_send -s 10.9.0.2 -f file -w 64 -t 3
spin/host/slmp_send -s 10.9.0.2 -f file -w 1 -n 1
head -c 100 file > short
spin/host/slmp_send -s 10.9.0.2 -f short
# Not before the senders have all they wait for: the last acknowledgement is lost as often as any packet.
kill -INT $PROGRAM; wait $PROGRAM
cmp file got-0.out; cmp file got-1.out; cmp short got-2.out
end_nic"#;
    let ran = in_namespace(&place, engine, script);
    let spoilt = ran.ok().lines().find(|line| line.starts_with("on the line")).unwrap_or_default();
    let lost: u64 = spoilt.split_whitespace().nth(3).and_then(|n| n.parse().ok()).unwrap_or(0);
    assert!(lost > 5, "{ran:?}");
    place.is_clean();
}

/// Contiguous, vector, hvector, indexed, struct, and the paper's simple and complex types.
#[test]
fn mpi_datatypes_are_unpacked_by_handlers_as_mpi_unpacks_them() {
    mpi("iss");
}

#[test]
fn mpi_datatypes_are_unpacked_by_handlers_as_mpi_unpacks_them_natively() {
    mpi("native");
}

fn mpi(engine: &str) {
    if !can_load() {
        return;
    }
    let place = Place::new();
    host_programs(&place);
    let script = r#"
start_nic --device nic.sock --loss 1% --duplicate 1% --reorder 2% --seed 3
spin/host/mpi_types spin/host/build/datatypes 10.9.0.2 3 8
spin/host/mpi_types spin/host/build/datatypes 10.9.0.2 16 4 complex
end_nic"#;
    let ran = in_namespace(&place, engine, script);
    assert_eq!(ran.ok().matches(": equal\n").count(), 8, "{ran:?}");
    assert!(ran.out.contains("complex: 16 messages of 221184 bytes packed"), "{ran:?}");
    place.is_clean();
}

#[test]
fn a_native_handler_without_end_and_one_that_fails_leave_the_nic_alive() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let handler = "#include <handler.h>\n#include <packets.h>\n\
        __handler__ void x_ph(handler_args_t *args)\n{\n\
        if (args->task->pkt_mem_size > 1000)\nfor (;;)\n__asm__ volatile(\"\");\n*(volatile int *)8 = 1;\n}\n\
        void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)\n\
        { *hh = *th = NULL; *ph = x_ph; *mem = NULL; }\n";
    place.file("bad.c", handler);
    let script = "start_nic bad.c --match icmp --watchdog 0\n! ping -c 1 -W 1 -s 1200 10.9.0.2 > ping.out\n\
        ! ping -c 2 -i 0.05 -W 1 10.9.0.2 > ping.out\n\
        until_so '[ $(grep -c \"at 0x8\" nic.err) = 2 ]'\nend_nic\ncat nic.err";
    let ran = in_namespace(&place, "native", script);
    assert!(ran.ok().contains("3, 2 handlers ran, 2 failed"), "{ran:?}");
    assert!(ran.out.contains("bad.c:8): at 0x8: nothing can be written there"), "{ran:?}");
    place.is_clean();
}
