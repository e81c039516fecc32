//! `nicforge doctor` on this machine, which has everything (`make bootstrap`), and on one whose
//! `PATH` is empty.

mod common;

use common::{Place, can_load, finish};
use serde_json::Value;

fn rows(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The row of a tool.
fn row<'v>(said: &'v Value, name: &str) -> &'v Value {
    let all = said["needs"].as_array().expect("rows");
    all.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {said}"))
}

/// Every tool says its version, and a program goes through the kernel.
#[test]
fn a_bootstrapped_machine_has_everything() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["doctor", "--json"]);
    let said = rows(ran.ok());
    assert_eq!((&said["ready"], &said["install"]), (&true.into(), &Value::Array(vec![])), "{said}");
    for row in said["needs"].as_array().unwrap() {
        assert!(row["missing"].is_null() && row["where"] != "", "{row}");
    }
    // As the tools say themselves.
    let clang = finish(place.prepare("clang-19", &["--version"]));
    let version = row(&said, "clang")["version"].as_str().unwrap();
    assert!(clang.ok().contains(&format!("version {version} ")), "{version}: {clang:?}");
    let dpdk = finish(place.prepare("pkg-config", &["--modversion", "libdpdk"]));
    assert_eq!(row(&said, "DPDK")["version"], dpdk.ok().trim());

    let ran = place.run(&["doctor"]);
    assert!(ran.ok().contains("\nready: nicforge new hello"), "{ran:?}");
    assert!(!ran.out.contains("MISSING") && !ran.out.contains("install"), "{ran:?}");
    place.is_clean();
}

#[test]
fn an_empty_path_is_named_with_the_command_that_helps() {
    let place = Place::new();
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let doctor = |more: &[&str]| {
        let mut command = place.command(&[&["doctor"], more].concat());
        command.env("PATH", &empty).env("NICFORGE_VERILATOR", &empty);
        command.env("NICFORGE_ARM64", &empty);
        finish(command)
    };
    let ran = doctor(&["--json"]);
    let said = rows(&ran.out);
    assert_eq!((ran.code(), &said["ready"]), (3, &false.into()));
    for name in ["clang", "XDP in the kernel", "DPDK", "gcc for RISC-V", "yosys", "qemu"] {
        assert!(row(&said, name)["missing"].is_string(), "{name}: {said}");
    }
    let install = said["install"][0].as_str().unwrap();
    for package in ["clang-19", "libdpdk-dev", "gcc-riscv64-unknown-elf", "yosys", "qemu-user"] {
        assert!(install.split(' ').any(|word| word == package), "{package}: {install}");
    }
    assert!(said["install"].as_array().unwrap().contains(&"scripts/arm64-dpdk.sh".into()));
    let ran = doctor(&[]);
    ran.fails(3, &[]);
    assert!(ran.out.contains("clang                 MISSING"), "{ran:?}");
    assert!(ran.out.contains(&format!("to install what is missing:\n  {install}\n")), "{ran:?}");
    place.is_clean();
}
