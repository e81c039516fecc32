//! Rulesets as the matching engine's registers have them (the head of rtl/spin/nf_spin_match.sv
//! says what is where).
//!
//! Hardware sees the first 128 bytes, compares 32 bits, and payload at even offsets only. What it
//! cannot do is refused with what can be done.

use nicforge_spin::headers::{self, Field};
use nicforge_spin::matching::{Mode, Place, REACH, Rule, Ruleset, Test};

/// The word of a ruleset, and of its four rules.
pub type Words = (u32, [u32; 16]);

const NARROW: u32 = 16;
const SOURCE: u32 = 8;
const DESTINATION: u32 = 12;

/// The registers of a ruleset; an absent one is switched off.
///
/// # Errors
/// Hardware cannot do it.
pub fn words(ruleset: Option<&Ruleset>) -> Result<Words, String> {
    let Some(ruleset) = ruleset else { return Ok((0, [0; 16])) };
    let (in_payload, at) = match ruleset.message {
        Place::Frame(at) => (0, at),
        Place::Payload(at) => (1, at),
    };
    if at % 2 != 0 || usize::from(at) + 4 > REACH {
        return Err(format!(
            "hardware reads a message's number at an even place within {REACH} bytes, not at {at}; use another place, or --datapath software"
        ));
    }
    let set = 1 | u32::from(ruleset.mode == Mode::Or) << 1 | in_payload << 2 | u32::from(at) << 16;
    let mut rules = [0; 16];
    for (to, test) in rules.chunks_exact_mut(4).zip(ruleset.select.iter().chain([&ruleset.last])) {
        to.copy_from_slice(&rule(test)?);
    }
    Ok((set, rules))
}

fn rule(test: &Test) -> Result<[u32; 4], String> {
    match test {
        Test::Word(Rule { word, mask, start, end }) => {
            Ok([u32::from(*word) << 18, *mask, *start, *end])
        }
        Test::Field(rule) => field(rule),
    }
}

fn field(rule: &headers::Rule) -> Result<[u32; 4], String> {
    let headers::Rule { field, mask, start, end } = *rule;
    let address = |kind| address(kind, mask, start, end);
    let kind = match field {
        Field::Vlan => 1,
        Field::EtherType => 2,
        Field::Protocol => 3,
        Field::SourcePort => 4,
        Field::DestinationPort => 5,
        Field::Payload(at) if at % 2 == 0 => 6 | u32::from(at) << 16,
        Field::Payload(at) => {
            return Err(format!(
                "hardware compares payload at even offsets, not at {at}; use another offset, or --datapath software"
            ));
        }
        Field::Source => return address(SOURCE),
        Field::Destination => return address(DESTINATION),
    };
    // Values have at most 32 bits: a start above is never reached, an end above is no bound.
    let most = u128::from(u32::MAX);
    if start > most {
        return Ok(NEVER);
    }
    Ok([kind, mask as u32, start as u32, end.min(most) as u32])
}

const NEVER: [u32; 4] = [0, 0, 1, 0];

/// A rule on an address that looks at one of its four words, the others being masked or zero.
fn address(kind: u32, mask: u128, start: u128, end: u128) -> Result<[u32; 4], String> {
    for word in 0..4 {
        let shift = 96 - 32 * word;
        let part = u128::from(u32::MAX) << shift;
        if mask & !part == 0 && (start | end) & !part == 0 {
            let [mask, start, end] = [mask, start, end].map(|value| (value >> shift) as u32);
            return Ok([kind + word, mask, start, end]);
        }
    }
    if mask >> 32 == u128::MAX >> 32 && (start | end) >> 32 == 0 {
        return Ok([(kind + 3) | NARROW, mask as u32, start as u32, end as u32]);
    }
    Err("hardware compares 32 bits of an address; use an IPv4 address, a mask of one word, or --datapath software"
        .to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_the_words_of_the_module() {
        let (set, rules) = words(Some(&Ruleset::SLMP)).unwrap();
        assert_eq!(set, 1 | 44 << 16);
        assert_eq!(rules[..4], [12 << 16, 0xffff_0000, 0x0800_0000, 0x0800_0000]);
        assert_eq!(rules[12..], [40 << 16, 0x8000, 0x8000, 0x8000]);
        let (set, rules) = words(Some(&Ruleset::SLMP_BY_HEADERS)).unwrap();
        assert_eq!(set, 5 | 2 << 16);
        assert_eq!(
            (rules[0], rules[1], rules[4], rules[5], rules[12]),
            (3, u32::MAX, 5, u32::MAX, 6)
        );
        assert_eq!(words(None), Ok((0, [0; 16])));
    }

    #[test]
    fn addresses_are_one_word() {
        let wide = |mask, value| {
            rule(&Test::Field(headers::Rule {
                field: Field::Source,
                mask,
                start: value,
                end: value,
            }))
        };
        assert_eq!(
            rule(&Test::field(Field::Source, 0x0a00_0001)).unwrap(),
            [27, u32::MAX, 0x0a00_0001, 0x0a00_0001]
        );
        assert_eq!(
            wide(0xffff << 112, 0x2001 << 112),
            Ok([8, 0xffff_0000, 0x2001_0000, 0x2001_0000])
        );
        assert!(wide(u128::MAX, 1 << 64).unwrap_err().contains("32 bits"));
    }

    #[test]
    fn what_hardware_cannot_see_is_refused() {
        let odd = Test::field(Field::Payload(3), 1);
        assert!(
            words(Some(&Ruleset { last: odd, ..Ruleset::UDP }))
                .unwrap_err()
                .contains("even offsets")
        );
        let far = Ruleset { message: Place::Frame(126), ..Ruleset::UDP };
        assert!(words(Some(&far)).unwrap_err().contains("within 128 bytes"));
    }
}
