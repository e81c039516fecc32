//! The matching engine: which packets handlers get, as which message, and where messages end.
//!
//! A rule compares one masked 32-bit word of the frame's first 128 bytes with a range. Three rules select, joined by "and" or "or"; a
//! fourth tells the last packet of a message. The first ruleset that matches decides; its number is that of the execution
//! context. Words are in network order. Cost: a few comparisons a packet.
//!
//! Source: FPsPIN's matching engine, RTL and host library.

/// Bytes of a frame that rules see. Where a frame is shorter they see zeros.
pub const REACH: usize = 128;
/// Rulesets, and so execution contexts.
pub const RULESETS: usize = 4;
/// Where the message's number stands, which is SLMP's place for it in every matched packet.
const MESSAGE_ID: usize = 44;

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

/// How the three selecting rules are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    And,
    Or,
}

/// What an execution context asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruleset {
    pub mode: Mode,
    pub select: [Rule; 3],
    /// Tells the last packet of a message.
    pub last: Rule,
}

impl Ruleset {
    /// UDP over IPv4; messages never end.
    pub const UDP: Ruleset = Ruleset {
        mode: Mode::And,
        select: [Rule::IPV4, Rule::equal(5, 0xff, 17), Rule::ALWAYS],
        last: Rule::NEVER,
    };
    /// SLMP: UDP to port 9330; the flag EOM ends a message.
    pub const SLMP: Ruleset = Ruleset {
        mode: Mode::And,
        select: [Rule::IPV4, Rule::equal(5, 0xff, 17), Rule::equal(9, 0xffff_0000, 9330 << 16)],
        last: Rule::equal(10, 0x8000, 0x8000),
    };
}

/// Faults of the hardware that can be had on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Ranges compare words with their bytes reversed, so that the last byte counts most. Single values match the same.
    pub reversed_ranges: bool,
    /// "Or" is never programmed, and rules are always joined by "and".
    pub always_and: bool,
}

/// A packet for handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Execution context.
    pub context: usize,
    /// Bytes 44 to 47, read little-endian as the hardware does.
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
    /// What handlers get a frame; `None` if it goes to the host.
    pub fn find(&self, frame: &[u8]) -> Option<Matched> {
        self.rulesets.iter().enumerate().find_map(|(context, ruleset)| {
            let ruleset = ruleset.as_ref()?;
            let hits = |rule: &Rule| self.hits(rule, frame);
            let selected = match ruleset.mode {
                Mode::Or if !self.faults.always_and => ruleset.select.iter().any(hits),
                _ => ruleset.select.iter().all(hits),
            };
            selected.then(|| Matched {
                context,
                message: word(frame, MESSAGE_ID).swap_bytes(),
                last: self.hits(&ruleset.last, frame),
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
                Rule::equal(9, 0xffff_0000, 53 << 16),
                Rule::equal(9, 0xffff_0000, 54 << 16),
                Rule::NEVER,
            ],
            last: Rule::NEVER,
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
            Ruleset { mode: Mode::And, select: [ports, Rule::ALWAYS, Rule::ALWAYS], last: Rule::NEVER };
        let mut engine = engine(&[ruleset, Ruleset::SLMP]);
        assert_eq!(engine.find(&slmp(0x100, 0, 0)).unwrap().context, 0);
        assert!(engine.find(&slmp(0x102, 0, 0)).is_none());
        engine.faults.reversed_ranges = true;
        assert!(engine.find(&slmp(0x100, 0, 0)).is_none(), "0xff00 to 0x0101 is empty");
        assert_eq!(engine.find(&slmp(9330, 0, 0)).unwrap().context, 1, "single values match the same");
    }

    #[test]
    fn rules_see_128_bytes() {
        let rule = |word| Ruleset {
            mode: Mode::And,
            select: [Rule::equal(word, 0xff, 9), Rule::ALWAYS, Rule::ALWAYS],
            last: Rule::NEVER,
        };
        let frame = [9; 256];
        assert!(engine(&[rule(31)]).find(&frame).is_some());
        assert!(engine(&[rule(32)]).find(&frame).is_none());
        assert!(engine(&[rule(255)]).find(&frame).is_none());
    }
}
