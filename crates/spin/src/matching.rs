//! The matching engine: which packets handlers get, as which message, and where messages end.
//!
//! A rule compares one masked 32-bit word of the frame's first 128 bytes with a range, or, beyond
//! what hardware has, a field of its headers ([`crate::headers`]). Three rules select, joined by
//! "and" or "or"; a fourth tells the last packet of a message. The first ruleset that matches
//! decides; its number is that of the execution context. Words are in network order. Cost: a few
//! comparisons a packet; headers are read at most once, and only for rules that ask for them.
//!
//! Source: FPsPIN's matching engine, RTL and host library.

use std::cell::OnceCell;

use crate::headers::{self, Field, Headers};

/// Bytes of a frame that rules on words see. Where a frame is shorter they see zeros.
pub const REACH: usize = 128;
/// Rulesets, and so execution contexts.
pub const RULESETS: usize = 4;

/// Compares a word of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which word: bytes `4 * word` to `4 * word + 3`.
    pub word: u8,
    pub mask: u32,
    /// Least and largest value under the mask.
    pub start: u32,
    pub end: u32,
}

impl Rule {
    /// Matches nothing.
    pub const NEVER: Rule = Rule { word: 0, mask: 0, start: 1, end: 0 };
    /// Matches everything.
    pub const ALWAYS: Rule = Rule { word: 0, mask: 0, start: 0, end: 0 };
    /// IPv4 in Ethernet.
    pub const IPV4: Rule = Rule::equal(3, 0xffff_0000, 0x0800_0000);

    /// Matches one value.
    pub const fn equal(word: u8, mask: u32, value: u32) -> Rule {
        Rule { word, mask, start: value, end: value }
    }
}

/// Tests of a ruleset on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Word(Rule),
    Field(headers::Rule),
}

impl Test {
    /// Matches nothing.
    pub const NEVER: Test = Test::Word(Rule::NEVER);
    /// Matches everything.
    pub const ALWAYS: Test = Test::Word(Rule::ALWAYS);

    /// A field has one value.
    pub const fn field(field: Field, value: u128) -> Test {
        Test::Field(headers::Rule::equal(field, value))
    }
}

/// Where a message's number stands: four bytes, read little-endian as the hardware does, zeros
/// where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// From a byte of the frame on.
    Frame(u16),
    /// From a byte behind the UDP or TCP header on.
    Payload(u16),
}

impl Place {
    /// The hardware's, which is SLMP's in frames without options and tags.
    pub const HARDWARE: Place = Place::Frame(44);
}

/// Ways to join the three selecting rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    And,
    Or,
}

/// Settings of an execution context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruleset {
    pub mode: Mode,
    pub select: [Test; 3],
    /// Tells the last packet of a message.
    pub last: Test,
    pub message: Place,
}

const IPV4: Test = Test::Word(Rule::IPV4);
const UDP_WORD: Test = Test::Word(Rule::equal(5, 0xff, 17));
const UDP: Test = Test::field(Field::Protocol, 17);

impl Ruleset {
    /// UDP over IPv4 without options and tags; messages never end.
    pub const UDP: Ruleset = Ruleset {
        mode: Mode::And,
        select: [IPV4, UDP_WORD, Test::ALWAYS],
        last: Test::NEVER,
        message: Place::HARDWARE,
    };
    /// SLMP: such UDP to port 9330; the flag EOM ends a message.
    pub const SLMP: Ruleset = Ruleset {
        mode: Mode::And,
        select: [IPV4, UDP_WORD, Test::Word(Rule::equal(9, 0xffff_0000, 9330 << 16))],
        last: Test::Word(Rule::equal(10, 0x8000, 0x8000)),
        message: Place::HARDWARE,
    };
    /// UDP wherever it lies; messages never end, and are told apart as in [`Ruleset::UDP`].
    pub const UDP_BY_HEADERS: Ruleset = Ruleset {
        mode: Mode::And,
        select: [UDP, Test::ALWAYS, Test::ALWAYS],
        last: Test::NEVER,
        message: Place::Payload(2),
    };
    /// SLMP wherever it lies.
    pub const SLMP_BY_HEADERS: Ruleset = Ruleset {
        mode: Mode::And,
        select: [UDP, Test::field(Field::DestinationPort, 9330), Test::ALWAYS],
        last: Test::Field(headers::Rule {
            field: Field::Payload(0),
            mask: 0x8000_0000,
            start: 0x8000_0000,
            end: 0x8000_0000,
        }),
        message: Place::Payload(2),
    };
}

/// Faults of the hardware that can be had on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Ranges compare words with their bytes reversed, so that the last byte counts most. Single
    /// values match the same.
    pub reversed_ranges: bool,
    /// "Or" is never programmed, and rules are always joined by "and".
    pub always_and: bool,
}

/// A packet for handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Execution context.
    pub context: usize,
    /// The message's number.
    pub message: u32,
    /// Last packet of its message.
    pub last: bool,
}

/// The engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// By execution context; those without are passed over.
    pub rulesets: [Option<Ruleset>; RULESETS],
    pub faults: Faults,
}

impl Engine {
    /// Handlers that get a frame; `None` if it goes to the host.
    pub fn find(&self, frame: &[u8]) -> Option<Matched> {
        let headers = OnceCell::new();
        let headers = || headers.get_or_init(|| Headers::read(frame));
        self.rulesets.iter().enumerate().find_map(|(context, ruleset)| {
            let ruleset = ruleset.as_ref()?;
            let hits = |test: &Test| match test {
                Test::Word(rule) => self.hits(rule, frame),
                Test::Field(rule) => rule.hits(headers()),
            };
            let selected = match ruleset.mode {
                Mode::Or if !self.faults.always_and => ruleset.select.iter().any(hits),
                _ => ruleset.select.iter().all(hits),
            };
            selected.then(|| {
                let message = match ruleset.message {
                    Place::Frame(at) => word(frame, at.into()),
                    Place::Payload(at) => word(headers().payload.unwrap_or_default(), at.into()),
                };
                Matched { context, message: message.swap_bytes(), last: hits(&ruleset.last) }
            })
        })
    }

    fn hits(&self, rule: &Rule, frame: &[u8]) -> bool {
        let at = usize::from(rule.word) * 4;
        let seen = &frame[..frame.len().min(REACH)];
        let value = word(seen, at) & rule.mask;
        if self.faults.reversed_ranges {
            let range = rule.start.swap_bytes()..=rule.end.swap_bytes();
            return range.contains(&value.swap_bytes());
        }
        (rule.start..=rule.end).contains(&value)
    }
}

/// A word in network order, zeros where the frame ends.
fn word(frame: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    for (byte, place) in bytes.iter_mut().zip(at..) {
        *byte = frame.get(place).copied().unwrap_or(0);
    }
    u32::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP frame to a port, with SLMP's flags and message number.
    fn slmp(port: u16, flags: u16, message: u32) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame[42..44].copy_from_slice(&flags.to_be_bytes());
        frame[44..48].copy_from_slice(&message.to_le_bytes());
        frame
    }

    fn engine(rulesets: &[Ruleset]) -> Engine {
        let mut engine = Engine::default();
        for (place, ruleset) in engine.rulesets.iter_mut().zip(rulesets) {
            *place = Some(*ruleset);
        }
        engine
    }

    #[test]
    fn slmp_packets_have_messages_and_ends() {
        let engine = engine(&[Ruleset::SLMP]);
        let found = engine.find(&slmp(9330, 0x4000, 7));
        assert_eq!(found, Some(Matched { context: 0, message: 7, last: false }));
        assert!(engine.find(&slmp(9330, 0x8000, 7)).unwrap().last);
        assert_eq!(engine.find(&slmp(9331, 0x8000, 7)), None);
    }

    #[test]
    fn the_first_ruleset_decides() {
        let engine = engine(&[Ruleset::SLMP, Ruleset::UDP]);
        assert_eq!(engine.find(&slmp(9330, 0, 0)).unwrap().context, 0);
        assert_eq!(engine.find(&slmp(53, 0, 0)).unwrap().context, 1);
        assert_eq!(engine.find(&[]), None);
        assert_eq!(Engine::default().find(&slmp(9330, 0, 0)), None);
    }

    #[test]
    fn or_takes_any_rule_unless_the_fault_is_asked_for() {
        let either = Ruleset {
            mode: Mode::Or,
            select: [
                Test::Word(Rule::equal(9, 0xffff_0000, 53 << 16)),
                Test::Word(Rule::equal(9, 0xffff_0000, 54 << 16)),
                Test::NEVER,
            ],
            ..Ruleset::UDP
        };
        let mut engine = engine(&[either]);
        assert!(engine.find(&slmp(54, 0, 0)).is_some());
        assert!(engine.find(&slmp(55, 0, 0)).is_none());
        engine.faults.always_and = true;
        assert!(engine.find(&slmp(54, 0, 0)).is_none());
    }

    #[test]
    fn ranges_are_in_network_order_unless_the_fault_is_asked_for() {
        let ports = Rule { word: 9, mask: 0xffff_0000, start: 0x00ff_0000, end: 0x0101_0000 };
        let ruleset =
            Ruleset { select: [Test::Word(ports), Test::ALWAYS, Test::ALWAYS], ..Ruleset::UDP };
        let mut engine = engine(&[ruleset, Ruleset::SLMP]);
        assert_eq!(engine.find(&slmp(0x100, 0, 0)).unwrap().context, 0);
        assert!(engine.find(&slmp(0x102, 0, 0)).is_none());
        engine.faults.reversed_ranges = true;
        assert!(engine.find(&slmp(0x100, 0, 0)).is_none(), "0xff00 to 0x0101 is empty");
        assert_eq!(
            engine.find(&slmp(9330, 0, 0)).unwrap().context,
            1,
            "single values match the same"
        );
    }

    #[test]
    fn rules_see_128_bytes() {
        let rule = |word| Ruleset {
            select: [Test::Word(Rule::equal(word, 0xff, 9)), Test::ALWAYS, Test::ALWAYS],
            ..Ruleset::UDP
        };
        let frame = [9; 256];
        assert!(engine(&[rule(31)]).find(&frame).is_some());
        assert!(engine(&[rule(32)]).find(&frame).is_none());
        assert!(engine(&[rule(255)]).find(&frame).is_none());
    }

    /// The same SLMP packet with lengths filled in, and bytes put in before IP or behind its
    /// header.
    fn moved(tag: &[u8], options: &[u8]) -> Vec<u8> {
        let mut frame = slmp(9330, 0x8000, 7);
        frame[14] += options.len() as u8 / 4;
        frame[17] = (46 + options.len()) as u8;
        frame[39] = 26;
        [&frame[..12], tag, &frame[12..34], options, &frame[34..]].concat()
    }

    #[test]
    fn rules_on_headers_find_what_rules_on_words_miss() {
        let words = engine(&[Ruleset::SLMP]);
        let fields = engine(&[Ruleset::SLMP_BY_HEADERS]);
        let found = Some(Matched { context: 0, message: 7, last: true });
        assert_eq!((words.find(&moved(&[], &[])), fields.find(&moved(&[], &[]))), (found, found));
        for frame in [
            moved(&[0x81, 0, 0, 1], &[]),
            moved(&[], &[1; 8]),
            moved(&[0x88, 0xa8, 0, 1], &[1; 40]),
        ] {
            assert_eq!((words.find(&frame), fields.find(&frame)), (None, found));
        }
        let mut other = moved(&[], &[1; 8]);
        other[45] += 1;
        assert_eq!(fields.find(&other), None, "another port");
        let udp = engine(&[Ruleset::UDP_BY_HEADERS]);
        assert_eq!(udp.find(&other), Some(Matched { context: 0, message: 7, last: false }));
    }

    #[test]
    fn both_kinds_of_rules_mix() {
        let select = [Test::field(Field::Vlan, 5), IPV4, Test::field(Field::DestinationPort, 9330)];
        let either = Ruleset { mode: Mode::Or, select, ..Ruleset::UDP };
        let all = Ruleset { select, ..Ruleset::UDP };
        let tagged = moved(&[0x81, 0, 0, 5], &[]);
        let context =
            |frame: &[u8]| engine(&[all, either]).find(frame).map(|matched| matched.context);
        assert_eq!(context(&tagged), Some(1), "the word of the type is the tag's");
        assert_eq!(context(&moved(&[], &[])), Some(1));
        assert_eq!(context(&[0; 60]), None);
    }
}
