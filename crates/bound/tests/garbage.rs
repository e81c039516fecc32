//! Damaged objects, programs and listings end cleanly: a few good ones with random bytes changed.

use std::path::Path;
use std::process::Command;

use nicforge_bound::fuzz;
use nicforge_isa::{lower, nfp, object};

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }
}

fn damaged(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(6) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at.max(1)),
            _ => {
                let from = random.below(bytes.len());
                bytes[at] = bytes[from];
            }
        }
    }
    bytes
}

fn compiled(name: &str) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xdp").join(name);
    let asm = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new("clang-19");
    clang
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-idirafter", &asm, "-c"])
        .arg(source)
        .args(["-o", "-"]);
    let ran = clang.output().expect("clang-19 starts (apt-get install clang-19)");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

#[test]
fn damaged_input_ends_cleanly() {
    let mut random = Random(0x0123_4567_89ab_cdef);
    let whole = compiled("quic_lb4.c");
    let parsed = object::parse(&whole).unwrap();
    let program = &parsed.programs[0];
    let raw: Vec<u8> = program
        .insns
        .iter()
        .flat_map(|insn| {
            let mut bytes = vec![insn.code, insn.dst | insn.src << 4];
            bytes.extend(insn.off.to_le_bytes());
            bytes.extend(insn.imm.to_le_bytes());
            bytes
        })
        .collect();
    let text = nfp::print(&lower::lower(program, &parsed.maps).unwrap().insns);
    for _ in 0..60 {
        fuzz::object(&damaged(&mut random, &whole));
        fuzz::program(&damaged(&mut random, &raw));
        fuzz::text(&damaged(&mut random, text.as_bytes()));
    }
    let noise: Vec<u8> = (0..512).map(|_| random.below(256) as u8).collect();
    fuzz::object(&noise);
    fuzz::program(&noise);
    fuzz::text(&noise);
}
