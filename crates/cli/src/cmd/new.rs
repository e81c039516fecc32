//! `nicforge new`: a commented program that runs, with a capture.

use std::path::Path;

use nicforge_driver::Failure;
use nicforge_run::pcap::{self, Frame};

use crate::args::New;

const STARTER: &str = include_str!("starter.c");

/// The program to start from, under a name.
pub fn starter(name: &str) -> String {
    STARTER.replace("NAME", name)
}

/// Makes the folder NAME with NAME.c and traffic.pcap.
pub fn run(args: New) -> Result<(), Failure> {
    let name = &args.name;
    let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || !legal {
        return Err(Failure::usage(format!(
            "`{name}` cannot be a program's name: use letters, digits and underscores"
        )));
    }
    let folder = Path::new(name);
    let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", folder.display()));
    if folder.exists() {
        return Err(Failure::user(format!(
            "{} exists already; nothing was changed",
            folder.display()
        )));
    }
    std::fs::create_dir(folder).map_err(fail)?;
    std::fs::write(folder.join(format!("{name}.c")), starter(name)).map_err(fail)?;
    let mut file = std::fs::File::create(folder.join("traffic.pcap")).map_err(fail)?;
    pcap::write(&mut file, &frames()).map_err(fail)?;
    outln!("made {name}/{name}.c and {name}/traffic.pcap; try:");
    outln!("  nicforge run {name}                  in the kernel, as root");
    outln!("  nicforge run {name} --target interp  in the interpreter");
    outln!("  nicforge trace {name} --packet 1");
    Ok(())
}

/// UDP datagrams from four hosts, and one frame that is too short.
fn frames() -> Vec<Frame> {
    let mut all: Vec<Frame> = (0..40u8)
        .map(|i| {
            let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, i % 4, 8, 0];
            data.extend([
                0x45,
                0,
                0,
                46,
                0,
                i,
                0,
                0,
                64,
                17,
                0,
                0,
                10,
                0,
                0,
                i % 4 + 1,
                10,
                0,
                1,
                1,
            ]);
            let sum = nicforge_ir::io::checksum_add(0, &data[14..34]);
            data[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
            data.extend([0x30, i % 4, 0, 53, 0, 26, 0, 0]);
            data.extend([i; 18]);
            Frame { time_ns: i as u64 * 1000, original_length: data.len() as u32, data }
        })
        .collect();
    let data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 9, 8, 0, 0x45, 0];
    all.push(Frame { time_ns: 41_000, original_length: data.len() as u32, data });
    all
}
