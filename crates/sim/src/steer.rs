//! Which replica an event goes to.

use std::collections::HashMap;

use nicforge_plan::{PortFields, Steering};

use nicforge_util::random::mix;

/// Bytes of a Toeplitz key.
const KEY: usize = 40;
/// Bytes of its input: addresses and ports of IPv4.
const INPUT: usize = 12;
/// Where that input lies in a frame without tags and options.
const INPUT_AT: usize = 26;

/// A plan's steering, ready to be computed per packet.
#[derive(Clone, Debug)]
pub enum Steer {
    One,
    RoundRobin,
    /// By the hash that came with the event.
    Key,
    /// By the number that came with it, of so many.
    Number(u32),
    /// By bytes of the frame, per port.
    Header(Vec<PortFields>),
    /// By receive-side scaling, per port: the key, and the fields that are hashed.
    Rss(Vec<(Toeplitz, PortFields)>),
}

/// Memory of steering about the events of one kind.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// The replica of the last one whose turn it was.
    last: u32,
    /// Replicas by key, where keys are spread evenly.
    keys: Option<HashMap<u32, u32>>,
}

impl Turns {
    /// With `evenly`, every new key goes to the next replica instead of where its hash says.
    pub fn new(evenly: bool) -> Turns {
        Turns { last: 0, keys: evenly.then(HashMap::new) }
    }

    fn next(&mut self, replicas: u32) -> u32 {
        next_turn(&mut self.last, replicas)
    }

    /// The replica of a key: `hashed`, unless keys are spread evenly.
    fn of_key(&mut self, key: u32, hashed: u32, replicas: u32) -> u32 {
        match &mut self.keys {
            None => hashed,
            Some(keys) => *keys.entry(key).or_insert_with(|| next_turn(&mut self.last, replicas)),
        }
    }
}

impl Steer {
    /// # Errors
    /// A Toeplitz key that is not 40 bytes of hexadecimal.
    pub fn new(steering: &Steering) -> Result<Steer, String> {
        Ok(match steering {
            Steering::One => Steer::One,
            Steering::RoundRobin => Steer::RoundRobin,
            Steering::Key { instances, .. } => {
                instances.map_or(Steer::Key, |n| Steer::Number(n.max(1)))
            }
            Steering::Header { fields } => Steer::Header(fields.clone()),
            Steering::Rss { keys, fields } => {
                let ports = keys.iter().zip(fields);
                Steer::Rss(
                    ports
                        .map(|(key, fields)| Ok((Toeplitz::parse(key)?, fields.clone())))
                        .collect::<Result<_, String>>()?,
                )
            }
        })
    }

    /// The replica of a frame that came in, of `replicas`.
    pub fn frame(&self, port: u32, frame: &[u8], replicas: u32, turns: &mut Turns) -> u32 {
        match self {
            Steer::One | Steer::Key | Steer::Number(_) => 0,
            Steer::RoundRobin => turns.next(replicas),
            Steer::Header(ports) => {
                let Some(of_port) = ports.iter().find(|fields| fields.port == port) else {
                    return 0;
                };
                let mut hash = 0u64;
                for field in &of_port.fields {
                    let at = field.offset as usize;
                    let bytes = frame.get(at..at + field.bytes as usize).unwrap_or_default();
                    for byte in bytes {
                        hash = hash << 8 | u64::from(*byte) | hash >> 56;
                    }
                    hash = mix(hash);
                }
                turns.of_key(hash as u32, spread(hash as u32, replicas), replicas)
            }
            // The low bits choose the queue, by the indirection table of a card.
            Steer::Rss(ports) => ports.get(port as usize).map_or(0, |(key, fields)| {
                let hash = key.hash(frame, fields);
                turns.of_key(hash, hash % 128 % replicas, replicas)
            }),
        }
    }

    /// The replica of an internal event whose steering hash, or number, is `hash`.
    pub fn event(&self, hash: u32, replicas: u32, turns: &mut Turns) -> u32 {
        match self {
            Steer::One => 0,
            Steer::RoundRobin => turns.next(replicas),
            Steer::Number(count) => {
                (u64::from(hash % count) * u64::from(replicas) / u64::from(*count)) as u32
            }
            Steer::Key | Steer::Header(_) | Steer::Rss(_) => {
                turns.of_key(hash, spread(mix(u64::from(hash)) as u32, replicas), replicas)
            }
        }
    }
}

fn next_turn(turn: &mut u32, replicas: u32) -> u32 {
    *turn = if *turn + 1 >= replicas { 0 } else { *turn + 1 };
    *turn
}

/// A hash to a number below `replicas`.
fn spread(hash: u32, replicas: u32) -> u32 {
    ((u64::from(hash) * u64::from(replicas)) >> 32) as u32
}

/// A Toeplitz hash with one table per input byte, since exclusive or of the windows under a byte's
/// bits depends on the byte alone (Microsoft's receive-side scaling specification says which
/// windows).
#[derive(Clone, Debug)]
pub struct Toeplitz {
    tables: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// Reads a key as plans write it.
    ///
    /// # Errors
    /// What is no key.
    pub fn parse(text: &str) -> Result<Toeplitz, String> {
        let wrong =
            || format!("`{text}` is no Toeplitz key: it must be {KEY} bytes in hexadecimal");
        if text.len() != 2 * KEY || !text.is_ascii() {
            return Err(wrong());
        }
        let mut key = [0u8; KEY];
        for (n, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).map_err(|_| wrong())?;
        }
        let bit = |n: usize| u32::from(key[n / 8] >> (7 - n % 8) & 1);
        let window = |at: usize| (0..32).fold(0u32, |window, n| window << 1 | bit(at + n));
        let mut tables = vec![[0u32; 256]; INPUT];
        for (n, table) in tables.iter_mut().enumerate() {
            for (byte, entry) in table.iter_mut().enumerate() {
                let ones = (0..8).filter(|b| byte >> (7 - b) & 1 == 1);
                *entry = ones.fold(0, |hash, b| hash ^ window(n * 8 + b));
            }
        }
        Ok(Toeplitz { tables })
    }

    /// The hash of a frame's fields. What is no IPv4 over Ethernet, or a fragment, hashes to 0:
    /// cards give it to the first queue.
    pub fn hash(&self, frame: &[u8], fields: &PortFields) -> u32 {
        let ipv4 = frame.len() >= INPUT_AT + 8 && frame[12..14] == [8, 0];
        if !ipv4 || u16::from_be_bytes([frame[20], frame[21]]) & 0x3fff != 0 {
            return 0;
        }
        let bytes = fields.fields.iter().flat_map(|field| {
            let at = field.offset as usize;
            frame.get(at..at + field.bytes as usize).unwrap_or_default()
        });
        bytes.zip(&self.tables).fold(0, |hash, (byte, table)| hash ^ table[usize::from(*byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nicforge_plan::HeaderField;

    /// The verification suite of Microsoft's specification: 66.9.149.187:2794 to
    /// 161.142.100.80:1766 hashes to 0x51ccc178.
    #[test]
    fn toeplitz_of_the_specification() {
        let key =
            "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";
        let toeplitz = Toeplitz::parse(key).unwrap();
        let mut frame = vec![0u8; 60];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[23] = 6;
        frame[26..30].copy_from_slice(&[66, 9, 149, 187]);
        frame[30..34].copy_from_slice(&[161, 142, 100, 80]);
        frame[34..36].copy_from_slice(&2794u16.to_be_bytes());
        frame[36..38].copy_from_slice(&1766u16.to_be_bytes());
        let field = |offset, bytes| HeaderField { name: String::new(), offset, bytes };
        let all = PortFields {
            port: 0,
            fields: vec![field(26, 4), field(30, 4), field(34, 2), field(36, 2)],
        };
        assert_eq!(toeplitz.hash(&frame, &all), 0x51cc_c178);
        let addresses = PortFields { port: 0, fields: vec![field(26, 4), field(30, 4)] };
        assert_eq!(toeplitz.hash(&frame, &addresses), 0x323e_8fc2);
        assert_eq!(toeplitz.hash(&frame[..20], &all), 0);
    }

    #[test]
    fn header_fields_spread_evenly_and_stay() {
        let field = HeaderField { name: "src".into(), offset: 26, bytes: 4 };
        let steer = Steer::Header(vec![PortFields { port: 0, fields: vec![field] }]);
        let mut count = [0u32; 6];
        for n in 0..6000u32 {
            let mut frame = vec![0u8; 60];
            frame[26..30].copy_from_slice(&n.to_be_bytes());
            let first = steer.frame(0, &frame, 6, &mut Turns::default());
            frame[34] = n as u8;
            assert_eq!(first, steer.frame(0, &frame, 6, &mut Turns::default()));
            count[first as usize] += 1;
        }
        assert!(count.iter().all(|c| (900..1100).contains(c)), "{count:?}");
    }

    #[test]
    fn replicas_have_ranges_of_numbers() {
        let steer =
            Steer::new(&Steering::Key { param: "shard".into(), instances: Some(6) }).unwrap();
        let of = |replicas| -> Vec<u32> {
            (0..7).map(|number| steer.event(number, replicas, &mut Turns::default())).collect()
        };
        assert_eq!(of(6), [0, 1, 2, 3, 4, 5, 0]);
        assert_eq!(of(4), [0, 0, 1, 2, 2, 3, 0]);
        assert_eq!(of(1), [0; 7]);
    }

    #[test]
    fn keys_spread_evenly_stay_where_they_are() {
        let mut turns = Turns::new(true);
        let first: Vec<u32> = (0..12).map(|key| Steer::Key.event(key * 7, 4, &mut turns)).collect();
        let again: Vec<u32> = (0..12).map(|key| Steer::Key.event(key * 7, 4, &mut turns)).collect();
        assert_eq!(first, again);
        assert!(
            (0..4).all(|replica| first.iter().filter(|r| **r == replica).count() == 3),
            "{first:?}"
        );
    }
}
