//! `nicforge run --target dpdk --dev`: what it prints, how it ends, what it leaves behind, and what
//! it says where a device is not there.

mod common;

use std::process::Command;

use common::{Background, Place, example, finish, within};
use serde_json::Value;

/// True if there is no DPDK here; says so. In CI everything must run.
fn dpdk_is_missing() -> bool {
    let found = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    if found.is_ok_and(|status| status.success()) {
        return false;
    }
    assert!(std::env::var_os("CI").is_none(), "DPDK is missing: run scripts/bootstrap.sh");
    println!(
        "skipped: DPDK is missing: apt-get install --no-install-recommends libdpdk-dev pkg-config"
    );
    true
}

/// Processes that a process started.
fn children(pid: u32) -> Vec<String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(String::from).collect()
}

/// A run on a port that never ends, from when its application runs. The port takes frames from
/// nowhere.
fn running(place: &Place) -> (Background, String) {
    let program = example("l2_forward");
    let args = ["run", &program, "--target", "dpdk", "--dev", "net_null0,size=64", "--json"];
    let run = Background::start(place.command(&args));
    let is_app = |pid: &String| {
        let name = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        name.ends_with("app") && threads > 2
    };
    let mut app = String::new();
    within("the application runs", || {
        app = children(run.pid()).into_iter().find(is_app).unwrap_or_default();
        !app.is_empty()
    });
    // It polls without pause once it has left the environment's start behind.
    common::worked(app.parse().unwrap(), 2);
    (run, app)
}

#[test]
fn ctrl_c_ends_in_order_and_leaves_nothing() {
    if dpdk_is_missing() {
        return;
    }
    let place = Place::new();
    let (run, app) = running(&place);
    let pid = run.pid();
    run.signal(libc::SIGINT);
    let ran = run.end();
    let value: Value = serde_json::from_str(ran.ok()).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let received = value["packets_in"].as_u64().unwrap_or(0);
    assert!(received > 0, "{value}");
    assert_eq!(value["sent"][0].as_u64(), Some(received), "{value}");
    assert_eq!(value["losses"], serde_json::json!({}), "{value}");
    let stages = value["stages"].as_array().cloned().unwrap_or_default();
    assert!(!stages.is_empty());
    for stage in stages {
        for key in ["events", "cycles_per_event", "queue_depth_max", "dropped", "lost"] {
            assert!(stage[key].is_number(), "{key}: {stage}");
        }
        assert!(stage["cycles_per_event"].as_f64().unwrap_or(0.0) > 0.0, "{stage}");
    }
    place.is_clean();
    assert!(!std::path::Path::new(&format!("/proc/{app}")).exists());
    assert!(!std::path::Path::new(&format!("/var/run/dpdk/nicforge-{pid}-0")).exists());
}

/// Who is killed cannot tell its application to end: the kernel does.
#[test]
fn a_killed_run_takes_its_application_along() {
    if dpdk_is_missing() {
        return;
    }
    let place = Place::new();
    let (run, app) = running(&place);
    let pid = run.pid();
    run.signal(libc::SIGKILL);
    within("the application ends", || !std::path::Path::new(&format!("/proc/{app}")).exists());
    assert!(!std::path::Path::new(&format!("/var/run/dpdk/nicforge-{pid}-0")).exists());
}

/// The machine lacks something: what it is, and exit status 3. The command line is wrong: 2.
#[test]
fn what_is_missing_is_named() {
    if dpdk_is_missing() {
        return;
    }
    let place = Place::new();
    let run = |program: &str, devices: &[&str]| {
        let program = example(program);
        let mut args = vec!["run", &program, "--target", "dpdk"];
        devices.iter().for_each(|device| args.extend(["--dev", device]));
        finish(place.command(&args))
    };
    run("l2_forward", &["nosuch0"]).fails(3, &["net_af_packet0", "0 of 1 ports"]);
    run("l2_forward", &["net_nosuch0"]).fails(3, &["net_nosuch0"]);
    run("l2_forward", &["net_memif0,role=client,socket-abstract=no,socket=/nonexistent/x"])
        .fails(3, &["/nonexistent/x"]);
    run("nf_chain", &["net_null0"]).fails(2, &["the program has 2 ports"]);
    run("l2_forward", &["no such device"]).fails(2, &["net_af_xdp0,iface=eth0"]);
    place.is_clean();
}
