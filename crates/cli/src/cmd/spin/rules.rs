//! Which packets are for handlers, as written on the command line.

use nicforge_spin::headers::Field;
use nicforge_spin::matching::{Mode, Place, Rule, Ruleset, Test};

/// Reads `all`, `ipv4`, `icmp`, `udp`, `udp:PORT`, `tcp`, `tcp:PORT` or `slmp`. Rules look at
/// headers wherever they lie.
pub fn parse(text: &str) -> Result<Ruleset, String> {
    let by = |select: [Test; 3]| Ruleset {
        mode: Mode::And,
        select,
        last: Test::NEVER,
        message: Place::Payload(2),
    };
    let always = Test::ALWAYS;
    let protocol = |number: u128| Test::field(Field::Protocol, number);
    let with_port = |number: u128, port: &str| match port.parse::<u16>() {
        Ok(port) => {
            Ok(by([protocol(number), Test::field(Field::DestinationPort, port.into()), always]))
        }
        Err(_) => Err(format!("--match {text}: `{port}` is not a port (0 to 65535)")),
    };
    Ok(match text {
        "all" => by([always; 3]),
        "ipv4" => by([Test::Word(Rule::IPV4), always, always]),
        // Echo requests only: answers are the host's.
        "icmp" => Ruleset {
            message: Place::HARDWARE,
            ..by([Test::Word(Rule::IPV4), protocol(1), Test::Word(Rule::equal(8, 0xff00, 0x0800))])
        },
        "udp" => Ruleset::UDP_BY_HEADERS,
        "tcp" => by([protocol(6), always, always]),
        "slmp" => Ruleset::SLMP_BY_HEADERS,
        _ => match text.split_once(':') {
            Some(("udp", port)) => with_port(17, port)?,
            Some(("tcp", port)) => with_port(6, port)?,
            _ => {
                return Err(format!(
                    "--match {text}: expected all, ipv4, icmp, udp[:PORT], tcp[:PORT] or slmp"
                ));
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use nicforge_run::spin::{Load, Traffic, generate};
    use nicforge_spin::matching::Engine;

    #[test]
    fn rules_choose_what_they_name() {
        let hits = |rule: &str, traffic| {
            let load = Load {
                traffic,
                messages: 1,
                packets: 1,
                bytes: 80,
                packet_delay: 0,
                message_delay: 0,
            };
            let rulesets = [Some(super::parse(rule).unwrap()), None, None, None];
            Engine { rulesets, ..Engine::default() }.find(&generate(&load)[0].frame).is_some()
        };
        for (rule, icmp, udp, slmp) in [
            ("all", true, true, true),
            ("ipv4", true, true, true),
            ("icmp", true, false, false),
            ("udp", false, true, true),
            ("udp:7", false, true, false),
            ("slmp", false, false, true),
            ("tcp:7", false, false, false),
        ] {
            let got =
                [Traffic::Icmp, Traffic::Udp, Traffic::Slmp].map(|traffic| hits(rule, traffic));
            assert_eq!(got, [icmp, udp, slmp], "{rule}");
        }
        assert!(super::parse("udp:99999").unwrap_err().contains("not a port"));
        assert!(super::parse("arp").unwrap_err().contains("expected all"));
    }
}
