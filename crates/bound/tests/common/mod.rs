//! What tests of handlers share.

use std::process::Command;

use nicforge_bound::rv::memory::base;
use nicforge_bound::rv::{Program, Surroundings, world::Start};
use nicforge_isa::object::riscv::{Image, Section, Segment, Symbol};

/// Where code is linked: the programs of PsPIN's cores.
pub const TEXT: u32 = 0x1d00_0000;

/// Of a built-in target, with packets of up to 1500 bytes.
pub fn surroundings(target: &str) -> Surroundings {
    Surroundings::of(&nicforge_target::find(target).unwrap(), 1500).unwrap()
}

/// A program of one function.
#[allow(dead_code)]
pub fn image(name: &str, code: &[u8]) -> Image {
    let (bytes, size) = (code.to_vec(), code.len() as u32);
    Image {
        entry: TEXT,
        segments: vec![Segment {
            address: TEXT,
            bytes: bytes.clone(),
            size,
            executable: true,
            writable: false,
        }],
        sections: vec![Section {
            name: ".text".to_string(),
            address: TEXT,
            bytes,
            size,
            executable: true,
            writable: false,
        }],
        symbols: vec![Symbol { name: name.to_string(), address: TEXT, size }],
    }
}

/// Assembly as a linked file, with read-only data at the beginning of L2.
pub fn assembled(source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.s"), format!(".text\n{source}\n")).unwrap();
    let run = |program: &str, args: &[&str]| {
        let ran = Command::new(program).args(args).current_dir(folder.path()).output();
        let ran = ran.unwrap_or_else(|e| {
            panic!("{program}: {e} (apt-get install binutils-riscv64-unknown-elf)")
        });
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    run("riscv64-unknown-elf-as", &["-march=rv32imac_zicsr", "-mabi=ilp32", "a.s", "-o", "a.o"]);
    let data = "--section-start=.rodata=0x1c000000";
    let text = format!("-Ttext={TEXT:#x}");
    run(
        "riscv64-unknown-elf-ld",
        &["-m", "elf32lriscv", "-e", "0", &text, data, "a.o", "-o", "a.elf"],
    );
    std::fs::read(path("a.elf")).unwrap()
}

/// Random surroundings of a run.
#[allow(dead_code)]
pub fn start(program: &Program, packet: Vec<u8>, random: &mut dyn FnMut() -> u64) -> Start {
    let mut bases = vec![0u64; base::COUNT];
    let cluster = random() % 4;
    let l1 = 0x1000_0000 + cluster * 0x40_0000;
    bases[base::CODE as usize] = program.code.base().into();
    bases[base::PACKET as usize] = l1 + 0x4400 + random() % 0x100 * 64;
    bases[base::PACKET_L2 as usize] = 0x1c40_0000 + random() % 0x1000 * 64;
    bases[base::STACK as usize] = l1 + 0x400 * (2 + random() % 7) - 0x80;
    bases[base::ARGS as usize] = l1 + 0x3900;
    bases[base::HANDLER as usize] = 0x1c30_0000;
    for cluster in 0..4 {
        bases[base::SCRATCH as usize + cluster] = 0x1001_4400 + cluster as u64 * 0x40_0000;
    }
    let mut words = |count: usize| (0..count).map(|_| random() as u32).collect::<Vec<u32>>();
    Start {
        packet,
        beyond: Vec::new(),
        stack: Vec::new(),
        bases,
        regs: words(31),
        task: words(18),
        cluster: cluster as u32,
        core: 0,
    }
}
