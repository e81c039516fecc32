//! Bytes from anywhere, as rules and a frame, whose match is checked against what must hold, and as
//! an image, which the NIC runs or refuses.

use nicforge_isa::object::riscv::{self, Symbol};

use crate::headers::{self, Field, Headers};
use crate::machine::{Machine, map};
use crate::matching::{Engine, Faults, Matched, Mode, Place, RULESETS, Rule, Ruleset, Test};
use crate::nic::{Arrival, Context, Handlers, HostRegion, Nic, Options, SparseMemory, Until};

/// Fuzz entry: bytes make rules and a frame; what is found is what one look at every ruleset alone
/// says.
pub fn fuzz(data: &[u8]) {
    let (head, frame) = data.split_at(data.len().min(RULESETS * RULESET_BYTES + 1));
    let Some((flags, rules)) = head.split_first() else { return };
    let faults = Faults { reversed_ranges: flags & 1 != 0, always_and: flags & 2 != 0 };
    let mut engine = Engine { faults, ..Engine::default() };
    for (place, bytes) in engine.rulesets.iter_mut().zip(rules.chunks(RULESET_BYTES)) {
        *place = ruleset_from(bytes);
    }
    let alone = |at: usize| {
        let mut one = Engine { faults, ..Engine::default() };
        one.rulesets[at] = engine.rulesets[at];
        one.find(frame)
    };
    let found = engine.find(frame);
    assert_eq!(found, (0..RULESETS).find_map(alone));
    assert!(found.is_none_or(|matched| engine.rulesets[matched.context].is_some()));

    // A tag moves everything and changes no field but its own.
    let headers = Headers::read(frame);
    let tags = |kind: &[u8]| matches!(kind, [0x81, 0] | [0x88, 0xa8]);
    if frame.len() >= 14 && !frame.get(16..18).is_some_and(tags) {
        let tagged = [&frame[..12], &[0x81, 0, 0x20, 5], &frame[12..]].concat();
        assert_eq!(Headers { vlan: headers.vlan, ..Headers::read(&tagged) }, headers);
        assert_eq!(Headers::read(&tagged).vlan, Some(5));
    }
}

/// The loop in which a core waits for tasks: `lui s0`, load of the function, call, doorbell, jump.
const LOOP: [u32; 5] = [0x1b20_5437, 0x0004_2283, 0x0002_80e7, 0x0504_2003, 0xff5f_f06f];

/// Fuzz entry: bytes are an ELF file, or else code behind the loop that waits for tasks. Its
/// handlers get a few packets; whatever they do, the NIC goes on and gives everything back, or says
/// why the image does not run.
pub fn image(data: &[u8]) {
    let mut image = match riscv::parse(data) {
        Ok(image) => image,
        Err(_) => {
            let code: Vec<u8> = LOOP
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .chain(data.iter().copied())
                .collect();
            match riscv::parse(&riscv::write(map::PROGRAM, &code)) {
                Ok(image) => image,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let Ok(target) = nicforge_target::find("fpspin") else { return };
    let Ok(machine) = Machine::from_target(&target) else { return };
    let handler =
        image.symbol("ph").map_or(map::PROGRAM + LOOP.len() as u32 * 4, |symbol| symbol.address);
    image.symbols.push(Symbol { name: "fuzzed".to_string(), address: handler, size: 0 });
    let options = Options { boot_cycles: 5000, watchdog: Some(1000), ..Options::default() };
    let mut nic = Nic::new(&machine, options, Box::new(SparseMemory::default()));
    let name = Some("fuzzed".to_string());
    let handlers = Handlers { header: name.clone(), payload: name.clone(), completion: name };
    let host = HostRegion { address: 0x1000, bytes: 1 << 20 };
    match nic.add_context(Context { host, ..Context::new(&image, handlers) }) {
        Ok(context) => {
            for user in 0..4u64 {
                let matched =
                    Some(Matched { context, message: user as u32 / 2, last: user % 2 == 1 });
                nic.arrive(Arrival {
                    time: user * 50,
                    frame: vec![user as u8; 100],
                    matched,
                    copied: None,
                    user,
                });
            }
            nic.run_until(Until::Cycle(200_000));
            assert!(nic.is_idle(), "handlers of {} bytes are still under way", data.len());
            assert_eq!((nic.packet_memory().packets, nic.stats().feedback), (0, 4));
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Bytes that [`fuzz`] makes a ruleset of: mode, place, and four rules of six.
const RULESET_BYTES: usize = 26;

fn ruleset_from(bytes: &[u8]) -> Option<Ruleset> {
    let &[mode, place, ref rules @ ..] = bytes else { return None };
    let (rules, []) = rules.as_chunks::<6>() else { return None };
    let &[a, b, c, last] = rules else { return None };
    let message =
        if place & 1 == 0 { Place::Frame(place.into()) } else { Place::Payload(place.into()) };
    let mode = match mode % 3 {
        0 => return None,
        1 => Mode::And,
        _ => Mode::Or,
    };
    Some(Ruleset { mode, select: [a, b, c].map(test_from), last: test_from(last), message })
}

fn test_from([kind, at, mask, start, end, shift]: [u8; 6]) -> Test {
    let shift = u32::from(shift % 32);
    let [mask, start, end] = [mask, start, end].map(|value| u32::from(value) << shift);
    let field = match kind % 12 {
        0 => Field::Vlan,
        1 => Field::EtherType,
        2 => Field::Source,
        3 => Field::Destination,
        4 => Field::Protocol,
        5 => Field::SourcePort,
        6 => Field::DestinationPort,
        7 => Field::Payload(at.into()),
        8 => Field::Payload(u16::MAX),
        _ => return Test::Word(Rule { word: at, mask, start, end }),
    };
    Test::Field(headers::Rule { field, mask: mask.into(), start: start.into(), end: end.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutated_rules_and_frames_are_survived() {
        let mut random = nicforge_util::Random::new(1);
        let mut below = |bound: usize| random.index(bound);
        let mut ipv6 = [0xee; 12].to_vec();
        ipv6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, 0, 64]);
        ipv6.extend([7; 32]);
        ipv6.extend([60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 1]);
        ipv6.extend([0, 9, 0x24, 0x72, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let mut ipv4 =
            [[0xee; 12].as_slice(), &[0x81, 0, 0, 5, 8, 0, 0x47, 0, 0, 44, 0, 0, 0, 0, 64, 17]]
                .concat();
        ipv4.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
        ipv4.extend([0, 9, 0x24, 0x72, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]);
        for frame in [&ipv4, &ipv6] {
            assert_eq!(
                Headers::read(frame).ports,
                Some((9, 9330)),
                "mutations start from whole frames"
            );
        }
        let frames = [ipv4, ipv6];
        for round in 0..20_000 {
            let mut data: Vec<u8> =
                (0..=RULESETS * RULESET_BYTES).map(|_| (below(256) * below(2)) as u8).collect();
            data.extend(&frames[round % frames.len()]);
            for _ in 0..below(6) {
                let at = below(data.len());
                data[at] = below(256) as u8;
            }
            data.truncate(data.len() - below(4) * below(40));
            fuzz(&data);
        }
    }
}
