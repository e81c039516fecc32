//! Which basic blocks of a program packets come through, in the interpreter of eBPF.

use nicforge_isa::ebpf::insn::{LDDW, class, targets};
use nicforge_isa::ebpf::{Fault, Insn};

use super::side::Side;
use super::world::World;

/// Interface that packets come by, in the context's member.
const CAME_BY: (u64, u32) = (12, 1);

/// Basic blocks by their first instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub reached: Vec<usize>,
    pub missed: Vec<usize>,
}

/// Coverage of packets that go through a program one after the other; maps keep what they hold, at
/// first these entries, by the map's number and the key.
/// What the kernel may refuse it grants (moved ends, records); other questions get zero.
///
/// # Errors
/// What the interpreter cannot do.
pub fn coverage<'p>(
    side: &Side,
    entries: impl IntoIterator<Item = ((usize, Vec<u8>), Vec<u8>)>,
    packets: impl IntoIterator<Item = &'p [u8]>,
) -> Result<Coverage, Fault> {
    let mut all = vec![false; side.program.insns.len()];
    let mut world = World {
        context: [CAME_BY].into_iter().collect(),
        entries: entries.into_iter().collect(),
        ..World::default()
    };
    for packet in packets {
        world.packet = packet.to_vec();
        let (ended, seen) = world.run_seen(side)?;
        world.entries = ended.entries;
        all.iter_mut().zip(seen).for_each(|(all, seen)| *all |= seen);
    }
    let (reached, missed) = leaders(&side.program.insns).into_iter().partition(|at| all[*at]);
    Ok(Coverage { reached, missed })
}

/// First instructions of basic blocks.
fn leaders(insns: &[Insn]) -> Vec<usize> {
    let led_to = targets(insns);
    let (mut found, mut at, mut begins) = (Vec::new(), 0, true);
    while let Some(insn) = insns.get(at) {
        if begins || led_to[at] {
            found.push(at);
        }
        begins = matches!(insn.code & 7, class::JMP | class::JMP32) && insn.code != 0x85;
        at += if insn.code == LDDW { 2 } else { 1 };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::equal::{Options, worlds};
    use nicforge_isa::ebpf::generate::{insn, maps};
    use nicforge_isa::object::Program;
    use std::time::Duration;

    fn side(program: Program) -> Side {
        Side { program, maps: maps(), tails: Default::default() }
    }

    #[test]
    fn blocks_begin_behind_jumps_and_where_they_lead() {
        // Long packets leave with 2, short ones with 1.
        let code = vec![
            insn(0x61, 2, 1, 0, 0),
            insn(0x61, 3, 1, 4, 0),
            insn(0xbf, 4, 2, 0, 0),
            insn(0x07, 4, 0, 0, 100),
            insn(0xb7, 0, 0, 0, 1),
            insn(0x2d, 4, 3, 1, 0),
            insn(0xb7, 0, 0, 0, 2),
            insn(0x95, 0, 0, 0, 0),
        ];
        let lines = vec![None; code.len()];
        let (name, section) = ("short".to_string(), "xdp".to_string());
        let side = side(Program { name, section, insns: code, lines });
        let of = |sizes: &[usize]| {
            let packets: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
            coverage(&side, [], packets.iter().map(Vec::as_slice)).unwrap()
        };
        assert_eq!(of(&[60]), Coverage { reached: vec![0, 7], missed: vec![6] });
        assert_eq!(of(&[60, 100]), Coverage { reached: vec![0, 6, 7], missed: vec![] });
        // Each path has a packet.
        let options = Options { sizes: (60, 1500), time: Duration::from_secs(60) };
        let found = worlds(&side, &options, 10, &Default::default()).unwrap();
        let packets: Vec<&[u8]> = found.iter().map(|world| world.packet.as_slice()).collect();
        assert_eq!(packets.len(), 2);
        assert!(coverage(&side, [], packets).unwrap().missed.is_empty());
    }
}
