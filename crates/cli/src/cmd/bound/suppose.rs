//! `--what-if`: packet fields, bytes and sizes that are supposed, and kinds of maps.

use nicforge_driver::Failure;

/// Suppositions of an analysis.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Suppositions {
    /// Offset in the packet, byte.
    pub bytes: Vec<(u64, u8)>,
    /// Smallest packet.
    pub size: Option<u64>,
    /// Maps that are per CPU or evict are plain ones.
    pub plain_maps: bool,
}

/// Fields of an Ethernet frame without tags, and of IPv4 without options in it: offset, bytes.
const FIELDS: [(&str, u64, usize); 14] = [
    ("eth.dst", 0, 6),
    ("eth.src", 6, 6),
    ("eth.type", 12, 2),
    ("ip.version_ihl", 14, 1),
    ("ip.tos", 15, 1),
    ("ip.length", 16, 2),
    ("ip.ttl", 22, 1),
    ("ip.proto", 23, 1),
    ("ip.src", 26, 4),
    ("ip.dst", 30, 4),
    ("ip6.next", 20, 1),
    ("ip6.hop_limit", 21, 1),
    ("l4.sport", 34, 2),
    ("l4.dport", 36, 2),
];

/// Reads all suppositions.
pub fn parse(list: &[String]) -> Result<Suppositions, Failure> {
    let mut result = Suppositions::default();
    for text in list {
        if text == "plain-maps" {
            result.plain_maps = true;
            continue;
        }
        let (what, value) = text.split_once('=').ok_or_else(|| {
            Failure::usage(format!(
                "--what-if {text}: expected WHAT=VALUE, as eth.type=0x0800, or plain-maps"
            ))
        })?;
        let bad = |reason: &str| Failure::usage(format!("--what-if {text}: {reason}"));
        let number =
            number(value).ok_or_else(|| bad("expected a number, or an address as 10.0.0.1"))?;
        if what == "size" {
            result.size = Some(number.max(60));
            continue;
        }
        let (offset, bytes) = match FIELDS.iter().find(|(name, ..)| *name == what) {
            Some((_, offset, bytes)) => (*offset, *bytes),
            None => {
                let names: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
                let offset = what.parse().map_err(|_| {
                    bad(&format!(
                        "neither a byte's offset, nor `size`, nor one of {}",
                        names.join(", ")
                    ))
                })?;
                (offset, 1)
            }
        };
        if bytes < 8 && number >> (8 * bytes) != 0 {
            return Err(bad(&format!("the value has more than {bytes} bytes")));
        }
        let big_endian = number.to_be_bytes();
        result.bytes.extend((offset..).zip(big_endian[8 - bytes..].iter().copied()));
    }
    Ok(result)
}

fn number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
        return Some(u32::from(address).into());
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_bytes_and_sizes() {
        let list: Vec<String> =
            ["eth.type=0x0800", "size=128", "50=7", "ip.src=10.0.0.1", "plain-maps"]
                .map(String::from)
                .to_vec();
        let found = parse(&list).unwrap();
        assert!(found.plain_maps);
        assert_eq!(found.size, Some(128));
        assert_eq!(found.bytes, [(12, 8), (13, 0), (50, 7), (26, 10), (27, 0), (28, 0), (29, 1)]);
        assert!(parse(&["eth.type=0x12345".to_string()]).is_err());
        assert!(parse(&["nonsense=1".to_string()]).unwrap_err().message.contains("eth.type"));
    }
}
