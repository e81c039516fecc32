//! `build --synth` and `validate fpga`: what designs take of the device.

mod common;

use common::Place;
use nicforge_filetest::Made;
use serde_json::Value;

const SMALLEST: &str =
    "#include <nicforge.h>\nNF_PORTS(1);\nvoid net_recv(nf_pkt pkt)\n{\n    nf_send(pkt, 0);\n}\n";

/// The number in front of a column of the table of the device's parts.
fn taken(text: &str, part: &str) -> f64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(part));
    let line = line.unwrap_or_else(|| panic!("no `{part}` in {text}"));
    let number =
        line.trim_start().strip_prefix(part).and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number in {line}"))
}

#[test]
fn synth_sizes_a_design() {
    let place = Place::new();
    place.file("small.c", SMALLEST);
    place
        .run(&["build", "small.c", "--synth"])
        .fails(2, &["--synth is for designs: add --target u280"]);

    // The front end's compiler, but no yosys.
    let bin = place.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let name = nicforge_clang::name();
    let clang = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    std::os::unix::fs::symlink(clang.expect("clang is installed"), bin.join(name)).unwrap();
    let mut command = place.command(&["build", "small.c", "--target", "u280", "--synth"]);
    command.env("PATH", &bin);
    common::finish(command).fails(3, &["`yosys` cannot be started", "apt-get install yosys"]);

    if !has_yosys() {
        return;
    }
    let ran = place.run(&["build", "small.c", "--target", "u280", "--synth", "-o", "design"]);
    let text = ran.ok();
    let [luts, flip_flops, brams] =
        ["LUT sites", "flip-flops", "BRAM"].map(|part| taken(text, part));
    // The packet path alone: a buffer of 32 slots is 48 KiB.
    assert!((500.0..20_000.0).contains(&luts), "{text}");
    assert!((500.0..20_000.0).contains(&flip_flops), "{text}");
    assert!((10.7..40.0).contains(&brams), "{text}");
    for part in [
        "logic depth, LUTs between registers",
        "u_ingress",
        "the planner's estimate: ",
        "nothing placed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for file in ["nf_top.sv", "nf_handlers.sv", "nf_egress.sv", "registers.json"] {
        assert!(place.path().join("design").join(file).is_file(), "{file}");
    }
    place.is_clean();
}

#[test]
fn estimates_beside_yosys() {
    let place = Place::new();
    let ran = place.run(&["validate", "fpga", "--json"]);
    let table: Value = serde_json::from_str(ran.ok()).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let of = |case: &str, metric: &str| {
        rows.iter().any(|row| row["case"] == case && row["metric"] == metric)
    };
    for metric in ["LUTs", "flip-flops", "BRAM"] {
        assert!(of("l2_forward", metric), "{rows:?}");
    }
    for row in rows {
        let numbers = ["published", "ours"].map(|part| row[part].as_f64().unwrap_or(f64::NAN));
        assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0), "{row}");
    }
    place
        .run(&["validate", "spin", "--remake"])
        .fails(2, &["--remake is for the suites fpga and spin-rtl"]);
    place.is_clean();
}

/// What cannot be hardware is refused with its place and the number that does not fit:
/// `hardware/NAME.c`, where `// test: ` stands before the command.
#[test]
fn what_cannot_be_hardware_is_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hardware");
    nicforge_filetest::fixtures(&folder, "c", |test| {
        let place = Place::new();
        place.file(test.name, test.text);
        let ran = place.run(&test.words);
        place.is_clean();
        if ran.code() == 1 { Ok(Made::only(ran.err)) } else { Err(format!("{ran:?}")) }
    });
}

/// True if yosys is there; says so if not. In CI it must be.
fn has_yosys() -> bool {
    let path = std::env::var("PATH").unwrap();
    let has = std::env::split_paths(&path).any(|dir| dir.join("yosys").is_file());
    assert!(has || std::env::var_os("CI").is_none(), "yosys is missing: run scripts/bootstrap.sh");
    if !has {
        println!("skipped: yosys is missing: run scripts/bootstrap.sh");
    }
    has
}

#[test]
fn sizes_that_take_too_long_or_are_of_nothing_are_told() {
    if !has_yosys() {
        return;
    }
    let place = Place::new();
    let nothing =
        place.run(&["validate", "fpga", "--remake", "--only", "nf_balance", "--limit", "0"]);
    assert!(
        nothing.ok().lines().count() == 1 && nothing.err.contains("nf_balance: yosys takes longer"),
        "{nothing:?}"
    );
    place
        .run(&["validate", "fpga", "--remake", "--only", "nothing"])
        .fails(2, &["`nothing` is none of l2_forward"]);
    place.is_clean();
}

/// The load balancer at 322 MHz: under 2,000 LUTs; seven levels at 0.4 ns each, wires included, are
/// 2.8 of 3.1 ns.
#[test]
fn the_balancer_is_small_and_shallow() {
    if !common::soak() {
        return println!("skipped: yosys takes half a minute; `make soak` runs it");
    }
    if !has_yosys() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["validate", "fpga", "--remake", "--only", "nf_balance"]);
    let [header, row] = ran.ok().lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    let of = |column: &str| {
        let at = header.split(',').position(|name| name == column).unwrap();
        row.split(',').nth(at).unwrap().parse::<u64>().unwrap()
    };
    assert!((1000..2000).contains(&of("lut_cells")), "{row}");
    assert!((1000..of("lut_cells")).contains(&of("lut_sites")), "{row}");
    assert!((3..=7).contains(&of("depth")), "{row}");
    assert_eq!((of("dsps"), of("urams")), (1, 0), "{row}");
    place.is_clean();
}
