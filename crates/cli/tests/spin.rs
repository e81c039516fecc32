//! sPIN handlers: images, simulations, and drivers and make rules as PsPIN's users have them.

mod common;

use common::{Background, NICFORGE, Place, are_there, example, within};
use serde_json::Value;

fn spin_example(name: &str) -> String {
    example(&format!("spin/{name}.c"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn handlers_become_images_or_say_what_is_wrong() {
    let place = Place::new();
    let built = place.run(&["spin", "build", &spin_example("icmp_echo")]);
    assert!(built.ok().starts_with("wrote icmp_echo.elf for fpspin: "), "{built:?}");
    assert!(built.out.ends_with("packet handler echo_ph\n"), "{built:?}");

    place.run(&["spin", "build", "absent.c"]).fails(1, &["absent.c: No such file"]);
    place.file("typo.c", "#include <handler.h>\nvoid x_ph(handler_args_t *args) { args->tusk; }\n");
    place
        .run(&["spin", "build", "typo.c"])
        .fails(1, &["the handlers do not compile:", "typo.c:2:", "'tusk'"]);
    place.file(
        "empty.c",
        "#include <handler.h>\n__handler__ void x_ph(handler_args_t *args) { (void)args; }\n",
    );
    place
        .run(&["spin", "build", "empty.c"])
        .fails(1, &["no `init_handlers` in empty.c; every image has one"]);
    let large = "volatile char large[1 << 22] = {1};\n\
                 void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)\n\
                 { (void)hh; (void)ph; (void)th; *mem = 0; large[5] = 1; }\n";
    place.file("large.c", format!("#include <handler.h>\n{large}"));
    place
        .run(&["spin", "build", "large.c"])
        .fails(1, &["the image does not fit into memory `L2`, by "]);
    place.file("x.elf", "no image");
    place
        .run(&["spin", "sim", "x.elf"])
        .fails(1, &["x.elf: neither C (*.c) nor an image of handlers"]);
    place
        .run(&["spin", "sim", "icmp_echo.elf", "-s", "12"])
        .fails(2, &["--size 12: such packets have 42 to"]);
    place
        .run(&["spin", "run", "icmp_echo.elf"])
        .fails(2, &["name an interface to make with --tap"]);
    place.is_clean();
}

/// Cycles of the published RTL logs: the pipeline exactly, handlers as close as the same work of
/// another compiler run gets.
#[test]
fn a_simulation_reports_what_each_packet_cost() {
    let place = Place::new();
    let sim = |name: &str, bytes: &str| {
        let file = spin_example(&format!("pspin/{name}"));
        let args = ["spin", "sim", &file, "--machine", "pspin", "-p", "8", "-s", bytes, "--json"];
        json(place.run(&args).ok())
    };
    for (bytes, to_task, to_handler) in [("64", 5, 13), ("512", 12, 20), ("1024", 20, 28)] {
        let empty = sim("empty", bytes);
        assert_eq!(empty["stages"]["nic_to_task"]["max"], to_task);
        assert_eq!(empty["stages"]["task_to_copy"]["max"], 4);
        assert_eq!(empty["stages"]["copy_to_handler"]["max"], to_handler);
        assert_eq!(empty["packet"]["median"], 9, "the runtime's own cost");
    }
    let reduce = sim("reduce", "1024");
    assert_eq!(
        (&reduce["handled"], &reduce["tail"]["min"]),
        (&Value::from(8), &reduce["tail"]["max"])
    );
    let cycles = reduce["packet"]["median"].as_u64().unwrap();
    assert!((1950..2080).contains(&cycles), "2018 in RTL: {cycles}");
    assert_eq!(reduce["host_written_bytes"], 8);

    let file = spin_example("pspin/ping_pong");
    let args = [
        "spin",
        "sim",
        &file,
        "--machine",
        "pspin",
        "-p",
        "4",
        "--timeline",
        "t.json",
        "--out",
        "sent.pcap",
    ];
    let table = place.run(&args);
    for line in [
        "sent               4 packets, 4096 bytes",
        "handlers           0 of 4 failed",
        "packet instrs.",
    ] {
        assert!(table.ok().contains(line), "{line}: {table:?}");
    }
    let timeline = json(&std::fs::read_to_string(place.path().join("t.json")).unwrap());
    let events = timeline["traceEvents"].as_array().unwrap();
    assert_eq!(
        events.iter().filter(|event| event["name"] == "packet" && event["ph"] == "X").count(),
        4
    );
    let sent = std::fs::read(place.path().join("sent.pcap")).unwrap();
    assert_eq!(sent.len(), 24 + 4 * (16 + 1024));
}

#[test]
fn traces_of_pspins_drivers_are_replayed() {
    let place = Place::new();
    let file = spin_example("pspin/aggregate");
    place.file("t", "1 3 256\na b 128 10 5 0\na b 0 1000 0 0\na b 256 0 5 1\n");
    let ran = json(
        place.run(&["spin", "sim", &file, "--machine", "pspin", "--trace", "t", "--json"]).ok(),
    );
    assert_eq!((&ran["handled"], &ran["tail"]["min"]), (&Value::from(2), &ran["tail"]["max"]));
    let starts: Vec<u64> =
        ran["handlers"].as_array().unwrap().iter().map(|h| h["start"].as_u64().unwrap()).collect();
    assert!(starts[1] - starts[0] >= 1010 - 40, "{starts:?}");
    place.file("bad", "1 1 256\na b 128 x 5 0\n");
    place
        .run(&["spin", "sim", &file, "--trace", "bad"])
        .fails(1, &["bad: line 2: there are no two names"]);
}

#[test]
fn a_host_that_works_answers_between_and_its_share_is_shown() {
    let place = Place::new();
    let file = spin_example("udp_echo");
    let sim = |work: &str| {
        let args = [
            "spin",
            "sim",
            &file,
            "-p",
            "20",
            "--json",
            "--host-work",
            work,
            "--",
            "-DDO_HOST=true",
        ];
        json(place.run(&args).ok())
    };
    let (busy, idle) = (sim("5000"), sim("100"));
    assert_eq!((&busy["sent"], &idle["sent"]), (&Value::from(20), &Value::from(20)));
    let share = |ran: &Value| ran["overlap"].as_f64().unwrap();
    assert!(share(&idle) < 0.7 && share(&busy) > 0.9, "{} {}", idle["overlap"], busy["overlap"]);
    // Handlers wait for the host's next look.
    assert!(busy["packet"]["median"].as_u64() > idle["packet"]["median"].as_u64());
    place.run(&["spin", "sim", &file, "--host-look", "5"]).fails(2, &["--host-work"]);
}

#[test]
fn handlers_that_fail_are_explained_and_the_rest_goes_on() {
    let place = Place::new();
    let handlers = |body: &str| {
        format!(
            "#include <handler.h>\n#include <packets.h>\n\
             static int deep(int n) {{ volatile int room[64]; room[0] = n; return n ? deep(n - 1) + room[0] : 0; }}\n\
             __handler__ void x_ph(handler_args_t *args)\n{{\n    task_t *task = args->task;\n    (void)task;\n    (void)deep;\n{body}\n}}\n\
             void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)\n\
             {{ volatile handler_fn all[] = {{NULL, x_ph, NULL}}; *hh = all[0]; *ph = all[1]; *th = all[2]; *mem = 0; }}\n"
        )
    };
    let cases = [
        ("    *(volatile int *)0 = 1;", "StoreFault at 0x0"),
        ("    for (;;) __asm__ volatile(\"\");", "still running after 10000 cycles"),
        ("    deep(20);", "StoreFault at 0x"),
        ("    *(volatile int *)0x1d000000 = 1;", "StoreFault at 0x1d000000"),
        ("    *((volatile char *)task->pkt_mem + 9000) = 1;", "StoreFault at 0x"),
        ("    __asm__ volatile(\"ebreak\");", "x_ph"),
    ];
    for (body, text) in cases {
        place.file("bad.c", handlers(body));
        let ran =
            place.run(&["spin", "sim", "bad.c", "-p", "3", "--watchdog", "10000", "--", "-O1"]);
        assert!(ran.ok().contains(text), "{body}: {ran:?}");
        assert!(ran.out.contains("handled            3 packets"), "{body}: {ran:?}");
        assert!(ran.out.contains("handlers           3 of 3 failed"), "{body}: {ran:?}");
    }
}

/// A driver and a makefile in the form of PsPIN's examples.
#[test]
fn drivers_and_makefiles_of_pspin_run_against_the_sdk() {
    let place = Place::new();
    place.run(&["spin", "sdk", "sdk", "--machine", "pspin"]).ok();
    place.run(&["spin", "sdk", "sdk"]).fails(1, &["sdk is not empty; nothing was changed"]);
    for folder in ["app/driver", "app/handlers"] {
        std::fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    let copy = |from: String, to: &str| std::fs::copy(from, place.path().join(to)).unwrap();
    copy(spin_example("pspin/copy_from_host"), "app/handlers/copy.c");
    place.file(
        "app/Makefile",
        "SPIN_APP_NAME = copy\nSPIN_APP_SRCS = handlers/copy.c\nSPIN_CFLAGS = -O3 -g\n\
         include $(PSPIN_RT)/rules/spin-handlers.mk\ninclude $(PSPIN_RT)/generic_driver/gdriver.mk\n",
    );
    place.file(
        "app/driver/driver.c",
        r#"#include "gdriver.h"
#include "pspinsim.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
static int frames, fed_back;
static void read_host(uint64_t addr, uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(addr + i);
}
static void out(uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        assert(data[i] == (uint8_t)(0xdeadbeefdeadbeef + i));
    frames++;
}
static void done(uint64_t user, uint64_t nic, uint64_t pspin, uint64_t feedback)
{
    assert(nic < pspin && pspin < feedback && feedback % 1000 == 0);
    (void)user;
    fed_back++;
}
int main(int argc, char **argv)
{
    int contexts;
    if (gdriver_init(argc, argv, NULL, &contexts) != GDRIVER_OK || contexts != 2)
        return 3;
    gdriver_add_ectx("build/copy", NULL, "copy_from_host_ph", NULL, NULL, NULL, 0, NULL, 0);
    pspinsim_cb_set_pkt_out(out);
    pspinsim_cb_set_pcie_slv_read(read_host);
    pspinsim_cb_set_pkt_feedback(done);
    pspinsim_set_fmq_prio(argc > 7 ? 300 : 0, 3);
    gdriver_run();
    uint8_t over = 0;
    pspinsim_run_tick(&over);
    assert(over == 1);
    gdriver_fini();
    printf("frames %d, fed back %d\n", frames, fed_back);
    return 0;
}
"#,
    );
    let in_app = |program: &str, args: &[&str]| {
        let mut command = place.prepare(program, args);
        command.current_dir(place.path().join("app")).env("NICFORGE", common::NICFORGE);
        command
            .env("PSPIN_RT", place.path().join("sdk"))
            .env("PSPIN_HW", place.path().join("sdk/hw"));
        common::finish(command)
    };
    in_app("make", &["deploy", "driver"]).ok();
    let ran = in_app("./sim_copy", &["-m", "2", "-p", "5", "-s", "200"]);
    assert!(ran.ok().ends_with("frames 10, fed back 10\n"), "{ran:?}");
    assert!(
        ran.out.contains("###### Statistics ######\nNIC inbound engine:\n\tPackets: 10;"),
        "{ran:?}"
    );
    assert_eq!(
        in_app("./sim_copy", &["-m", "2", "-p", "5", "-s", "200"]).ok(),
        ran.ok(),
        "the same each time"
    );
    assert_eq!(in_app("./sim_copy", &["-m", "x"]).code(), 3);
    in_app("./sim_copy", &["-m", "2", "-p", "5", "-s", "200", "-d", "9"])
        .fails(1, &["pspinsim_set_fmq_prio: 300 is no context; there are 0 to 255"]);
    // Host programs' makefiles build the library first.
    common::finish(place.prepare("touch", &["sdk/fpspin/slmp.c"])).ok();
    let built = common::finish(place.prepare("make", &["-C", "sdk/fpspin", "libfpspin.a"]));
    assert!(built.ok().contains("-c slmp.c"), "{built:?}");
    place.is_clean();
}

/// The bars of the comparison with RTL simulations and FPGA measurements.
#[test]
fn published_figures_are_met() {
    let place = Place::new();
    let rows = json(place.run(&["validate", "spin", "--json"]).ok());
    let rows = rows["rows"].as_array().unwrap();
    let stages: Vec<&Value> = rows
        .iter()
        .filter(|row| {
            ["NIC to task", "task to copy", "copy to handler"]
                .contains(&row["metric"].as_str().unwrap())
        })
        .collect();
    assert!(stages.len() > 100);
    for row in stages {
        assert_eq!(row["error"], 0.0, "{row}");
    }
    let ours = |metric: &str| {
        let row = rows.iter().find(|row| row["metric"] == metric).unwrap();
        row["ours"].as_f64().unwrap()
    };
    assert!(ours("median error, %") <= 10.0);
    assert!(ours("within 25 %, % of cells") >= 80.0);
}

#[test]
fn all_names_of_both_interfaces_compile_and_link() {
    let place = Place::new();
    let source = |name: &str| format!("{}/tests/api/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let handlers = source("handlers");
    place.run(&["spin", "build", &handlers, "-o", "p.elf", "--machine", "pspin"]).ok();
    place.run(&["spin", "build", &handlers, "-o", "f.elf", "--", "-DFP"]).ok();
    place.run(&["spin", "sdk", "sdk"]).ok();
    let flags = ["-O3", "-march=native", "-Wall", "-Werror", "-D__FPSPIN_HOST__", "-Isdk"];
    let host = source("host");
    let rest = [host.as_str(), "-Lsdk/fpspin", "-lfpspin", "-o", "host"];
    common::finish(place.prepare("gcc", &[&flags[..], &rest[..]].concat())).ok();
}

/// Link-time optimisation turns what handlers print into calls that the C library answers with
/// names of the runtime.
#[test]
fn handlers_that_print_are_optimised_at_link_time() {
    let place = Place::new();
    let source = "#include <handler.h>\n__handler__ void say_ph(handler_args_t *args) { printf(\"hello\\n\"); \
                  printf(\"%d\\n\", (int)args->task->pkt_mem_size); }\n\
                  void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **memory)\n\
                  { *hh = 0; *ph = say_ph; *th = 0; (void)memory; }\n";
    place.file("say.c", source);
    for machine in ["pspin", "fpspin"] {
        place
            .run(&["spin", "build", "say.c", "-o", "say.elf", "--machine", machine, "--", "-flto"])
            .ok();
    }
}

/// A handler that fails in an inline function of a header, at two lines.
const FAILS: &str = "#include <handler.h>
__handler__ void x_ph(handler_args_t *args)
{
    if (args->hpu_gid & 1)
        amo_add((volatile int32_t *)0x40, 1);
    else
        *(volatile int *)(0x80 + 4 * args->hpu_gid) = 1;
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)
{ volatile handler_fn all[] = {NULL, x_ph, NULL}; *hh = all[0]; *ph = all[1]; *th = all[2]; *mem = 0; }
";

#[test]
fn faults_are_grouped_by_the_users_lines() {
    let place = Place::new();
    place.file("bad.c", FAILS);
    let flags = ["-p", "6", "--", "-Wno-stringop-overflow"];
    let ran = place.run(&[&["spin", "sim", "bad.c"][..], &flags].concat());
    let at = |line: &str| ran.ok().matches(line).count();
    assert_eq!((at("bad.c:5 (x_ph+"), at("bad.c:7 (x_ph+"), at("pspin.h")), (1, 1, 0), "{ran:?}");
    assert_eq!(at("    4 times: payload handler, first in cycle "), 1, "{ran:?}");
    assert_eq!(at("    2 times: payload handler, first in cycle "), 1, "{ran:?}");
    let native = place.run(&[&["spin", "sim", "bad.c", "--engine", "native"][..], &flags].concat());
    assert!(native.ok().contains("bad.c:5 (x_ph"), "{native:?}");
    let ran = place.run(&[&["spin", "sim", "bad.c", "--json"][..], &flags].concat());
    let mistakes = &json(ran.ok())["mistakes"];
    assert_eq!(
        (&mistakes[0]["times"], &mistakes[1]["times"]),
        (&4.into(), &2.into()),
        "{mistakes}"
    );
}

/// Commands for packet programs know handlers, and do with them what can be done.
#[test]
fn commands_for_packet_programs_recognise_handlers() {
    let place = Place::new();
    let echo = spin_example("icmp_echo");
    let checked = place.run(&["check", &echo]);
    assert!(checked.ok().contains("icmp_echo.c: sPIN handlers for fpspin: "), "{checked:?}");
    let ping = spin_example("pspin/ping_pong");
    let checked = place.run(&["check", &ping]);
    assert!(checked.ok().contains("ping_pong.c: sPIN handlers for pspin: "), "{checked:?}");
    place.run(&["check", &echo, "--target", "xdp"]).fails(1, &["not on xdp: "]);

    place.file("typo.c", FAILS.replace("hpu_gid)", "hpu_gib)"));
    place.run(&["check", "typo.c"]).fails(1, &["error[NF0902]", "typo.c:7", "no member named"]);
    let found = json(&place.run(&["check", "typo.c", "--json"]).out);
    let first = &found["diagnostics"][0];
    assert_eq!((&found["ok"], &first["primary"]["line"]), (&Value::from(false), &Value::from(7)));
    // The compiler says this of a line of the header.
    let wrong = "uint32_t n; GET_IP_UDP_PLD(args->task->pkt_mem, 5, n);";
    let text = FAILS.replace("    if", &format!("    {wrong}\n    if"));
    place.file("bad.c", format!("#include <packets.h>\n{text}"));
    let checked = place.run(&["check", "bad.c"]);
    checked.fails(1, &["bad.c:5:", "lvalue required"]);
    assert!(!checked.err.contains("spin/include"), "{checked:?}");
    place.file("bad.c", FAILS);
    place.file(
        "far.c",
        FAILS
            .replace("amo_add((", "elsewhere((")
            .replace("__handler__", "void elsewhere(volatile int32_t *, int);\n__handler__"),
    );
    place.run(&["check", "far.c"]).fails(1, &["far.c:6:", "undefined reference to `elsewhere'"]);

    let sim = "Type:\n  nicforge spin sim bad.c --machine pspin -- -DX=1";
    for command in ["plan", "report", "sim", "trace"] {
        place.run(&[command, "bad.c", "-D", "X=1"]).fails(2, &["bad.c: these are sPIN", sim]);
    }
    place.run(&["build", &echo]).fails(2, &["Type:\n  nicforge spin build ", "--machine fpspin"]);
    place
        .run(&["verify", "bad.c"])
        .fails(2, &["Type:\n  nicforge spin verify bad.c --machine pspin"]);
    place.run(&["run", "bad.c", "--pcap", "x.pcap"]).fails(2, &["--machine pspin --pcap x.pcap"]);
    place.run(&["bound", "bad.c"]).fails(2, &["Type:\n  nicforge bound bad.c --target pspin"]);
    let bound = place.run(&["bound", &ping, "--target", "pspin", "--json"]);
    assert_eq!(json(bound.ok())["status"], "exact");
    place.is_clean();
}

/// Counts in a variable beside the context's memory, and writes to any address of the host.
const REACHES: &str = "#include <handler.h>
#include <spin_dma.h>
volatile uint32_t count __attribute__((section(\".l2_handler_data\"))) = 5;
__handler__ void x_ph(handler_args_t *args)
{
    task_t *task = args->task;
    spin_cmd_t command;
    uint32_t now = amo_add((volatile int32_t *)&count, 1) + 1;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_write_to_host(FAR ? 0xdeadbeef : host + 8 * now, now, &command);
    spin_cmd_wait(command);
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)
{ volatile handler_fn all[] = {NULL, x_ph, NULL}; *hh = all[0]; *ph = all[1]; *th = all[2]; *mem = 0; }
";

#[test]
fn memory_reaches_as_far_as_pspins_or_strictly_as_far_as_the_contexts() {
    let place = Place::new();
    place.file("r.c", REACHES);
    let expected = "--expect-host=48=06000000000000000700000000000000";
    for machine in ["pspin", "fpspin"] {
        let all = ["spin", "verify", "r.c", "-p", "2", "--machine", machine, expected];
        let ran = place.run(&[&all[..], &["--", "-DFAR=0"]].concat());
        assert!(ran.ok().contains("no differences"), "{ran:?}");
    }
    let far = |rules: &[&str]| {
        let all =
            [&["spin", "sim", "r.c", "-p", "2", "--json"], rules, &["--", "-DFAR=1"]].concat();
        json(place.run(&all).ok())["commands_refused"].as_u64()
    };
    assert_eq!(far(&["--machine", "pspin"]), Some(0));
    assert_eq!(far(&["--machine", "pspin", "--memory", "strict"]), Some(2));
    assert_eq!(far(&["--machine", "fpspin"]), Some(2));
    assert_eq!(far(&["--machine", "fpspin", "--memory", "pspin"]), Some(0));
}

/// Computes step by step, and writes where nothing is if FAR says so.
const STEPS: &str = "#include <handler.h>
volatile uint32_t total;
__attribute__((noinline)) static uint32_t add(uint32_t sum, uint32_t by)
{
    return sum * 3 + by;
}
__handler__ void x_ph(handler_args_t *args)
{
    uint32_t sum = 7;
    (void)args;
    for (uint32_t by = 0; by < 4; by++)
        sum = add(sum, by);
    total = sum;
    if (FAR)
        *(volatile uint32_t *)0x44 = sum;
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **mem)
{
    volatile handler_fn all[] = {NULL, x_ph, NULL};
    *hh = all[0], *ph = all[1], *th = all[2], *mem = 0;
}
";

#[test]
fn gdb_stops_cores_steps_and_changes_what_they_hold() {
    if !are_there(&["gdb-multiarch"]) {
        return;
    }
    let place = Place::new();
    place.file("s.c", STEPS);
    let session = |far: &str, commands: &[&str]| {
        let said = place.path().join(format!("said{far}"));
        let script = format!(
            "exec {NICFORGE} spin sim s.c -p 1 --gdb --json -- -DFAR={far} 2> {}",
            said.display()
        );
        let simulation = Background::start(place.prepare("sh", &["-c", &script]));
        let mut waits = String::new();
        within("the simulation waits for GDB", || {
            waits = std::fs::read_to_string(&said).unwrap_or_default();
            waits.ends_with('\n')
        });
        let words = waits.strip_prefix("waiting for GDB: gdb-multiarch ").expect("the command");
        let (image, target) = words.trim_end().split_once(" -ex ").expect("the target");
        let mut args = vec!["-nx", "-batch", "-ex", target.trim_matches('\'')];
        commands.iter().for_each(|command| args.extend(["-ex", command]));
        args.push(image);
        let gdb = common::finish(place.prepare("gdb-multiarch", &args));
        let ran = simulation.end();
        assert_eq!(json(ran.ok())["packets"]["arrived"].as_u64().unwrap_or(1), 1, "{ran:?}");
        gdb
    };
    let all = ["break add", "continue", "info args", "continue", "info args", "finish"];
    let more = ["set $a0 = 1000", "continue", "info args", "stepi", "info registers pc"];
    let end = ["delete", "info threads", "continue"];
    let gdb = session("0", &[&all[..], &more, &end].concat());
    for text in [
        "Thread 1 hit Breakpoint 1, add (",
        "\nsum = 7\nby = 0\n",
        "\nsum = 21\nby = 1\n",
        "Value returned is $1 = 64",
        "\nsum = 1000\nby = 2\n",
        "<add+",
        "Thread 1.16",
        "[Inferior 1 (process 1) exited normally]",
    ] {
        assert!(gdb.out.contains(text), "{text}: {gdb:?}");
    }
    let gdb = session("1", &["continue", "info line", "continue"]);
    assert!(gdb.out.contains("received signal SIGSEGV"), "{gdb:?}");
    assert!(gdb.out.contains("of \"s.c\""), "{gdb:?}");
    place
        .run(&["spin", "sim", "s.c", "--gdb", "--engine", "native", "--", "-DFAR=0"])
        .fails(2, &["--gdb is for --engine iss"]);
    place.is_clean();
}
