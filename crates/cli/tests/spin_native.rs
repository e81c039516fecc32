//! Handlers compiled for this computer do what they do on interpreted units, and fail in ways that
//! are explained.

mod common;

use common::{Place, example};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Runs everywhere and compares; how many frames left.
fn same(place: &Place, name: &str, arguments: &[&str]) -> u64 {
    let file = example(&format!("spin/{name}.c"));
    let all = ["spin", "verify", &file, "-m", "3", "-p", "6", "--json"];
    let ran = place.run(&[&all[..], arguments].concat());
    let json = json(&ran.out);
    assert_eq!(json["differences"], Value::Array(Vec::new()), "{name}: {ran:?}");
    assert!(json["handlers"].as_u64() >= Some(18), "{name}: {ran:?}");
    json["sent"].as_u64().unwrap()
}

#[test]
fn every_example_does_the_same_on_both_engines() {
    let place = Place::new();
    for name in [
        "aggregate",
        "copy_from_host",
        "copy_to_host",
        "empty",
        "filtering",
        "histogram",
        "host_direct",
        "ping_pong",
        "reduce",
    ] {
        same(&place, &format!("pspin/{name}"), &["--machine", "pspin"]);
    }
    let host = ["--answer-after", "500", "--", "-DDO_HOST=true"];
    assert_eq!(same(&place, "icmp_echo", &["--traffic", "icmp"]), 18);
    assert_eq!(same(&place, "udp_echo", &[]), 18);
    assert_eq!(same(&place, "udp_echo", &host), 18, "handlers wait for the host");
    same(&place, "slmp_receive", &["--traffic", "slmp", "--answer-after", "500"]);
    same(&place, "datatypes", &["--traffic", "slmp", "--answer-after", "500"]);
    let file = example("spin/udp_echo.c");
    let ran = json(place.run(&["spin", "sim", &file, "--engine", "native", "--json"]).ok());
    assert_eq!((&ran["speed"], ran.get("latency")), (&Value::from("functional"), None));
}

/// Writes a number that depends on the packet, one that depends on the machine if asked, and one
/// that depends on who comes last.
const WRITES: &str = "#include <handler.h>
#include <spin_dma.h>
#ifdef __x86_64__
#define HERE 1
#else
#define HERE 0
#endif
__handler__ void x_ph(handler_args_t *args)
{
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t command;
    uint32_t message = task->flow_id;
    uint64_t value = 0x1122334455667788 + DIFFERS * HERE;
    spin_write_to_host(host + 64 + 8 * message, value, &command);
    spin_cmd_wait(command);
    spin_write_to_host(host, task->pkt_mem_size + LAST * args->hpu_gid, &command);
    spin_cmd_wait(command);
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)
{ volatile handler_fn all[] = {NULL, x_ph, NULL}; *hh = all[0]; *ph = all[1]; *th = all[2]; *mem = 0; }
";

#[test]
fn differences_between_machines_and_from_what_is_expected_are_found() {
    let place = Place::new();
    place.file("w.c", WRITES);
    let verify = |differs: &str, last: &str, expected: &[&str]| {
        let (differs, last) = (format!("-DDIFFERS={differs}"), format!("-DLAST={last}"));
        let all = ["spin", "verify", "w.c", "-p", "9", "-s", "200"];
        place.run(&[&all[..], expected, &["--", &differs, &last]].concat())
    };
    let ran =
        verify("0", "0", &["--expect-host", "0x40=8877665544332211", "--expect-host", "0=c8"]);
    assert!(ran.ok().contains("compared iss, native: 9 handlers"), "{ran:?}");
    assert!(ran.out.ends_with("no differences; 2 expected hold\n"), "{ran:?}");
    verify("1", "0", &[]).fails(1, &["1 differences"]);
    let ran = verify("1", "0", &[]);
    assert!(
        ran.out.contains("native: host memory, offset 0x40, 1 bytes: 89 instead of 88"),
        "{ran:?}"
    );
    let ran = verify("0", "1", &[]);
    assert!(ran.ok().contains("depends on when packets come: 1 bytes of host memory"), "{ran:?}");
    place.file("want", [0x88, 0x77, 0]);
    let ran = verify("0", "0", &["--expect-host", "64=@want"]);
    ran.fails(1, &["2 differences"]);
    for machine in ["iss", "native"] {
        let text = format!("{machine}: host memory, offset 0x42: 66 instead of the 00 expected");
        assert!(ran.out.contains(&text), "{ran:?}");
    }
    verify("0", "0", &["--expect-host", "64=123"]).fails(2, &["not an even number"]);
    place.is_clean();
}

fn handlers(body: &str) -> String {
    format!(
        "#include <handler.h>\n#include <packets.h>\n\
         static int deep(int n) {{ volatile int room[64]; room[0] = n; return n ? deep(n - 1) + room[0] : 0; }}\n\
         __handler__ void x_ph(handler_args_t *args)\n{{\n    task_t *task = args->task;\n    (void)task;\n    (void)deep;\n{body}\n}}\n\
         void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)\n\
         {{ volatile handler_fn all[] = {{NULL, x_ph, NULL}}; *hh = all[0]; *ph = all[1]; *th = all[2]; *mem = 0; }}\n"
    )
}

#[test]
fn native_handlers_that_fail_are_explained_with_their_line_and_the_rest_goes_on() {
    let place = Place::new();
    let cases = [
        ("    *(volatile int *)0 = 1;", "bad.c:9 (x_ph): at 0x0: nothing can be written there"),
        ("    for (;;) __asm__ volatile(\"\");", "bad.c:9 (x_ph): still running after "),
        ("    volatile futex_t lock = 1; futex_lock(&lock);", "still running after "),
        ("    deep(20000);", ": below the handler's stack"),
        (
            "    ((void (*)(void))0x4000)();",
            "pc 0x00004000: at 0x4000: nothing can be read or run there",
        ),
        ("    volatile int zero = 0; zero = 7 / zero;", ": division by zero"),
        (
            "    assert(task->pkt_mem_size == 3);",
            ": a breakpoint, as abort and failed assertions have",
        ),
        ("    __asm__ volatile(\"ud2\");", "bad.c:9 (x_ph): at 0x"),
    ];
    for (body, text) in cases {
        place.file("bad.c", handlers(body));
        let ran =
            place.run(&["spin", "sim", "bad.c", "--engine", "native", "-p", "3", "--", "-O1"]);
        assert!(ran.ok().contains(text), "{body}: {ran:?}");
        assert!(ran.out.contains("handled            3 packets"), "{body}: {ran:?}");
        assert!(ran.out.contains("handlers           3 of 3 failed"), "{body}: {ran:?}");
    }
    // The same of interpreted units.
    place.file("bad.c", handlers("    *(volatile int *)0 = 1;"));
    let ran = place.run(&["spin", "sim", "bad.c", "-p", "1", "--", "-O1"]);
    assert!(ran.ok().contains("bad.c:9 (x_ph+"), "{ran:?}");
}

#[test]
fn native_handlers_print_and_commands_take_locals_and_nothing_else() {
    let place = Place::new();
    let body = "    char text[32] = \"0123456789012345678901234567890\";\n    spin_cmd_t command;\n\
         \x20   for (int i = 0; i < 6; i++)\n        spin_send_packet(text, 32, &command);\n    spin_cmd_wait(command);\n\
         \x20   printf(\"%s %5d|%-5u|%08x %.3f %c%%\\n\", \"abc\", -42, 7u, 0xbeefu, 3.14159, 65);\n\
         \x20   spin_send_packet((void *)0x10000000, 32, &command);";
    place.file("good.c", handlers(body));
    let ran = place.run(&["spin", "sim", "good.c", "--engine", "native", "-p", "2"]);
    assert!(ran.ok().contains("[0.0] abc   -42|7    |0000beef 3.142 A%\n"), "{ran:?}");
    assert!(ran.out.contains("sent              12 packets, 384 bytes\n"), "{ran:?}");
    assert!(
        ran.out.contains("command refused, the handler goes on: 32 bytes at 0x10000000"),
        "{ran:?}"
    );

    place.file("asm.c", handlers("    __asm__ volatile(\"csrr a0, mhartid\");"));
    place
        .run(&["spin", "sim", "asm.c", "--engine", "native"])
        .fails(1, &["do not compile for this computer", "--engine iss"]);
    place.run(&["spin", "build", "asm.c"]).ok();
    place
        .run(&["spin", "sim", "asm.elf", "--engine", "native"])
        .fails(1, &["the image has no part for this computer"]);
    place.run(&["spin", "build", "good.c"]).ok();
    let ran = place.run(&["spin", "sim", "good.elf", "--engine", "native", "-p", "2"]);
    assert!(ran.ok().contains("sent              12 packets"), "{ran:?}");
    place.is_clean();
}
