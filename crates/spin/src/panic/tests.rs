//! The machine with services in assembly: what the scheduler does, and what becomes of mistakes.

use std::process::Command as Tool;

use nicforge_isa::object::riscv;

use super::*;

/// Takes messages, works for as many turns as their second word says, and sends them on: `TO` is
/// where.
const ECHO: &str = "
    .global _start
_start:
    li s0, 0x20000000
    li s1, 0x20010100
    li s2, 0x10000000
    li s3, TO
next:
    lw t0, 0(s0)
    lw t1, 0(s1)
    lw t2, 4(s1)
    sw zero, 8(s0)
work:
    addi t2, t2, -1
    bgtz t2, work
    sw t1, 0(s2)
    csrr t3, mhartid
    sw t3, 4(s2)
    sw s3, 16(s0)
    sw t1, 20(s0)
    li t0, 4
    sw s2, 24(s0)
    sw t0, 28(s0)
    addi t1, s2, 4
    sw t1, 24(s0)
    sw t0, 28(s0)
    sw zero, 32(s0)
    j next
";

const OUT: u32 = map::OUTSIDE | 5;

/// A service's image; nothing where the tools are missing.
fn image(text: &str, to: u32) -> Option<Image> {
    if Tool::new("riscv64-unknown-elf-as").arg("--version").output().is_err() {
        println!("skipped: riscv64-unknown-elf-as is missing: run scripts/bootstrap.sh");
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("image.s"), text.replace("TO\n", &format!("{to:#x}\n")))
        .expect("a file");
    let run = |name: &str, arguments: &[&str]| {
        let output = Tool::new(name).args(arguments).current_dir(dir.path()).output().expect(name);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(
        "riscv64-unknown-elf-as",
        &["-march=rv32imac_zicsr", "-mabi=ilp32", "image.s", "-o", "image.o"],
    );
    let link = [
        "-melf32lriscv",
        "-n",
        "-Ttext=0x1d000000",
        "--no-warn-rwx-segments",
        "image.o",
        "-o",
        "image",
    ];
    run("riscv64-unknown-elf-ld", &link);
    let elf = std::fs::read(dir.path().join("image")).expect("the linked image");
    Some(riscv::parse(&elf).expect("an image"))
}

fn config() -> Config {
    let target = nicforge_target::find("panic").unwrap_or_else(|e| panic!("{e}"));
    Config::from_target(&target).unwrap_or_else(|e| panic!("{e}"))
}

/// Messages with their number and turns, one a cycle, by the core that is to get them.
fn send(machine: &mut Panic, messages: &[(u32, u32)], cores: u32) {
    for (number, (core, turns)) in messages.iter().enumerate() {
        let mut bytes = (number as u32).to_le_bytes().to_vec();
        bytes.extend(turns.to_le_bytes());
        // The middle of the range of bits that choose the core.
        let bits = ((u64::from(*core) << 32 | 1 << 31) / u64::from(cores)) as u32;
        machine.arrive(number as u64, Message { service: 0, bits, bytes });
    }
}

fn words(out: &Out) -> (u32, u32) {
    let word =
        |at: usize| u32::from_le_bytes(out.bytes[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}

#[test]
fn a_core_gets_its_messages_in_order_and_a_busy_one_holds_nobody_up() {
    let Some(image) = image(ECHO, OUT) else { return };
    let mut machine = Panic::new(&config(), &[Service { image: &image, cores: 3 }]).unwrap();
    // Core 0 is slow with its first message; the others go on meanwhile.
    let messages: Vec<(u32, u32)> =
        (0..60).map(|number| (number % 3, if number == 0 { 5000 } else { 10 })).collect();
    send(&mut machine, &messages, 3);
    machine.run().unwrap();
    let out = machine.take_out();
    assert_eq!(out.len(), 60);
    for core in 0..3 {
        let numbers: Vec<u32> =
            out.iter().map(words).filter(|(_, by)| *by == core).map(|(number, _)| number).collect();
        assert_eq!(numbers, (0..20).map(|at| 3 * at + core).collect::<Vec<u32>>(), "core {core}");
    }
    let first = out.iter().position(|out| words(out) == (0, 0)).expect("it ends");
    assert_eq!(first, 40, "all of the other cores' messages are done before");
    assert!(machine.deepest[0] >= 17, "they wait: {:?}", machine.deepest);
    let stays = machine.take_stays();
    let slow = stays.iter().find(|stay| stay.tag == 0).expect("its stay");
    // A turn is an addition and a taken branch.
    assert!((20_000..20_100).contains(&slow.cycles), "{slow:?}");
}

#[test]
fn times_are_those_of_the_network() {
    let Some(image) = image(ECHO, OUT) else { return };
    let config = config();
    let mut machine = Panic::new(&config, &[Service { image: &image, cores: 1 }]).unwrap();
    send(&mut machine, &[(0, 1)], 1);
    machine.run().unwrap();
    let out = machine.take_out();
    let stays = machine.take_stays();
    assert!(matches!(stays[..], [Stay { core: 0, tag: 0, cycles: 10..40 }]), "{stays:?}");
    // Half the way in, the handler, half the way out, and a beat at either end.
    let least = config.latency + 2;
    assert!(
        (least + 8..least + 40).contains(&out[0].time),
        "{} with {least} on the way",
        out[0].time
    );
    assert_eq!(out[0].to, 5);
}

#[test]
fn a_full_queue_holds_senders_up_and_loses_nothing() {
    let (Some(first), Some(second)) = (image(ECHO, 1), image(ECHO, OUT)) else { return };
    let config = Config { depth: 2, ..config() };
    let services = [Service { image: &first, cores: 4 }, Service { image: &second, cores: 1 }];
    let mut machine = Panic::new(&config, &services).unwrap();
    let messages: Vec<(u32, u32)> = (0..200).map(|number| (number % 4, 1)).collect();
    send(&mut machine, &messages, 4);
    machine.run().unwrap();
    let mut numbers: Vec<u32> = machine.take_out().iter().map(|out| words(out).0).collect();
    assert_eq!(machine.deepest, [2, 2]);
    // Whoever stands before the full queue does not work meanwhile.
    let longest = machine.take_stays().iter().map(|stay| stay.cycles).max();
    assert!(longest.is_some_and(|cycles| cycles < 60), "{longest:?}");
    numbers.sort();
    assert_eq!(numbers, (0..200).collect::<Vec<u32>>());
}

#[test]
fn mistakes_are_told_with_their_place() {
    let wild = "
    .global _start
_start:
    li s0, 0x20000000
    lw t0, 0(s0)
spoiled:
    sw zero, 0(zero)
    .word TO
";
    let said = |text: &str, to: u32| {
        let image = image(text, to)?;
        let mut machine = Panic::new(&config(), &[Service { image: &image, cores: 2 }]).unwrap();
        send(&mut machine, &[(1, 1)], 2);
        Some(machine.run().unwrap_err().to_string())
    };
    let Some(wild) = said(wild, 0) else { return };
    assert!(wild.starts_with("core 1 of service 0: ") && wild.ends_with("(spoiled)"), "{wild}");
    assert_eq!(said(ECHO, 7).as_deref(), Some("there is no service 7"));
    let circles = ECHO.replace("bgtz t2, work", "j work");
    assert!(said(&circles, 0).is_some_and(|said| said.contains("has been on one message")));
    let Some(image) = image(ECHO, OUT) else { return };
    let many = Panic::new(&config(), &[Service { image: &image, cores: 33 }]).unwrap_err();
    assert_eq!(many.to_string(), "the services want 33 cores; there are 32");
}

/// A core's DRAM is its own, zero until it is written, and slower than its memory.
#[test]
fn dram_is_a_cores_own() {
    let dram = "
    .global _start
_start:
    li s0, 0x20000000
    li s1, 0x80000100
next:
    lw t0, 0(s0)
    sw zero, 8(s0)
    lw t1, 0(s1)
    addi t1, t1, 1
    sw t1, 0(s1)
    j next
    .word TO
";
    let Some(image) = image(dram, 0) else { return };
    let mut machine = Panic::new(&config(), &[Service { image: &image, cores: 2 }]).unwrap();
    send(&mut machine, &[(0, 0), (1, 0), (1, 0)], 2);
    machine.run().unwrap();
    let counted = |core| machine.read(core, map::DRAM + 0x100, 4).map(<[u8]>::to_vec);
    assert_eq!((counted(0), counted(1)), (Ok(vec![1, 0, 0, 0]), Ok(vec![2, 0, 0, 0])));
    let beyond = machine.write(0, map::DRAM + config().dram_bytes, &[1]).unwrap_err();
    assert_eq!(beyond.to_string(), "1 bytes at 0x84000000 are not in a core's memory");
}
