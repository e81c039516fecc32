//! An event's values between kernel and process: the kernel's side has them as [`XdpEdge`] says,
//! the process's as parameters of the host dialect, one after the other with a pointer for the
//! packet.

use nicforge_codegen::{XdpCursor, XdpEdge, XdpSteer};
use nicforge_ir::{Program, Type};

use crate::host::{Passage, Underway};

/// Which event of the run a message comes from, and the way it took; zeroes where nothing is
/// recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trip {
    pub number: u32,
    pub route: u32,
}

/// An edge with the parameters of its event.
pub struct Edge {
    pub lies: XdpEdge,
    /// Offset and bytes of every parameter, as the process has them.
    params: Vec<(usize, usize)>,
    /// Offset of the packet's pointer.
    pub packet_at: Option<usize>,
    /// Bytes of all parameters; an event without any has one byte in C.
    size: usize,
}

impl Edge {
    pub fn new(program: &Program, lies: &XdpEdge) -> Edge {
        let (mut params, mut packet_at, mut at) = (Vec::new(), None, 0);
        for param in &program.events[lies.event].params {
            let bytes = if param.ty == Type::Packet {
                size_of::<usize>()
            } else {
                program.size_of(param.ty) as usize
            };
            if param.ty == Type::Packet {
                packet_at = Some(at);
            }
            params.push((at, bytes));
            at += bytes;
        }
        Edge { lies: lies.clone(), params, packet_at, size: at.max(1) }
    }

    /// Bytes of the values, of whose byte strings so many words cross; a recorded run has the trip
    /// among them.
    pub fn bytes(&self, recorded: bool, words: usize) -> usize {
        self.lies.size as usize + if recorded { 8 } else { 0 } + 8 * words
    }

    /// Words of 8 bytes of each byte string up to the last that is not zero.
    fn used(&self, params: &[u8]) -> Vec<usize> {
        let of = |&(param, bytes): &(usize, u32)| {
            let string = &params[self.params[param].0..][..bytes as usize];
            string.iter().rposition(|byte| *byte != 0).map_or(0, |last| last / 8 + 1)
        };
        self.lies.strings.iter().map(of).collect()
    }

    /// Reads what came from the kernel: values, and the frame with what waits in front of it. None
    /// if it is too short.
    pub fn read(
        &self,
        values: &[u8],
        recorded: bool,
        packet: Option<(u32, &[u8])>,
    ) -> Option<(Passage, Trip)> {
        let word = |at: u32| {
            Some(u32::from_le_bytes(values.get(at as usize..at as usize + 4)?.try_into().ok()?))
        };
        let long = |at: u32| {
            Some(u64::from_le_bytes(values.get(at as usize..at as usize + 8)?.try_into().ok()?))
        };
        let mut passage = Passage { params: vec![0; self.size], ..Passage::default() };
        for (param, at, bytes) in &self.lies.members {
            let (to, size) = self.params[*param];
            let from = values.get(*at as usize..(*at + *bytes) as usize)?;
            passage.params.get_mut(to..to + size)?.copy_from_slice(from);
        }
        let mut from = self.bytes(recorded, 0);
        for (number, (param, bytes)) in self.lies.strings.iter().enumerate() {
            let words = usize::from(*values.get(self.lies.words? as usize + number)?);
            let string = values.get(from..from + 8 * words)?;
            let (to, bytes) = (self.params[*param].0, *bytes as usize);
            let (string, rest) = string.split_at_checked(bytes).unwrap_or((string, &[]));
            if rest.len() >= 8 {
                return None;
            }
            passage.params[to..to + string.len()].copy_from_slice(string);
            from += 8 * words;
        }
        passage.time_ns = self.lies.now.map_or(Some(0), long)?;
        passage.seed = self.lies.seed.map_or(Some(0), long)?;
        passage.draws = u64::from(self.lies.draws.map_or(Some(0), word)?);
        if let Some((in_port, frame)) = packet {
            let staged = self.lies.staged.map_or(Some(0), word)? as usize;
            let cursor = match self.lies.cursor {
                XdpCursor::At(at) => at,
                XdpCursor::Carried(at) => word(at)?,
            };
            let (staged, frame) = frame.split_at_checked(staged)?;
            passage.packet =
                Some(Underway { in_port, frame: frame.to_vec(), cursor, staged: staged.to_vec() });
        }
        let trip = match recorded {
            true => Trip { number: word(self.lies.size)?, route: word(self.lies.size + 4)? },
            false => Trip::default(),
        };
        Some((passage, trip))
    }

    /// Appends what goes to the kernel: values, what waits in front of the frame, and the frame;
    /// where no packet goes along, zeroes, since the kernel keeps an Ethernet header's bytes. Gives
    /// the bytes of the values.
    pub fn write(&self, passage: &Passage, trip: Option<Trip>, to: &mut Vec<u8>) -> usize {
        let start = to.len();
        let used = self.used(&passage.params);
        to.resize(start + self.lies.size as usize, 0);
        let values = &mut to[start..];
        let mut put = |at: Option<u32>, bytes: &[u8]| {
            if let Some(at) = at {
                values[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
            }
        };
        for (param, at, bytes) in &self.lies.members {
            let (from, _) = self.params[*param];
            put(Some(*at), &passage.params[from..from + *bytes as usize]);
        }
        if let Some(kind) = self.lies.kind {
            put(Some(0), &kind.to_le_bytes());
        }
        put(self.lies.now, &passage.time_ns.to_le_bytes());
        put(self.lies.seed, &passage.seed.to_le_bytes());
        put(self.lies.draws, &(passage.draws as u32).to_le_bytes());
        if let Some(at) = self.lies.words {
            for (number, words) in (0..).zip(&used) {
                put(Some(at + number), &[*words as u8]);
            }
        }
        if let Some(packet) = &passage.packet {
            put(self.lies.in_port, &packet.in_port.to_le_bytes());
            put(self.lies.staged, &(packet.staged.len() as u32).to_le_bytes());
            if let XdpCursor::Carried(at) = self.lies.cursor {
                put(Some(at), &packet.cursor.to_le_bytes());
            }
        }
        if let Some(trip) = trip {
            to.extend(trip.number.to_le_bytes());
            to.extend(trip.route.to_le_bytes());
        }
        for ((param, bytes), words) in self.lies.strings.iter().zip(used) {
            let end = to.len() + 8 * words;
            let string = &passage.params[self.params[*param].0..][..*bytes as usize];
            to.extend(&string[..string.len().min(8 * words)]);
            to.resize(end, 0);
        }
        let size = to.len() - start;
        match &passage.packet {
            Some(packet) => {
                to.extend(&packet.staged);
                to.extend(&packet.frame);
            }
            None => to.extend([0; 14]),
        }
        size
    }

    /// The replica that an event goes to, as the kernel's senders choose it; none: any.
    pub fn replica(&self, params: &[u8], replicas: u32) -> Option<u32> {
        let (param, how) = self.lies.steer?;
        let (at, bytes) = self.params[param];
        let value = params.get(at..at + bytes)?;
        let whole = value.iter().rev().fold(0, |key, byte| key << 8 | u64::from(*byte));
        let key = match how {
            XdpSteer::Number(instances) => {
                let (number, count) = (whole as u32 % instances, u64::from(instances));
                return Some((u64::from(number) * u64::from(replicas) / count) as u32);
            }
            XdpSteer::Integer => whole,
            XdpSteer::Bytes => value.iter().fold(0, |key, byte| mix(key, u64::from(*byte))),
        };
        Some(((u64::from((mix(0, key) >> 16) as u32) * u64::from(replicas)) >> 32) as u32)
    }
}

/// `nf_mix_word` of `runtime/xdp/nf_rt.h`.
fn mix(key: u64, word: u64) -> u64 {
    let key = (key ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    key ^ key >> 27
}

#[cfg(test)]
mod tests {
    use nicforge_ir::text;

    use super::*;

    const PROGRAM: &str = "program one ports 1
event go(pkt: packet, hash: u32, port: u16) internal

handler go on go(%pkt: packet, %hash: u32, %port: u16) {
  drop %pkt, \"done\"
  return
}

reason \"done\"
";

    fn edge(carried: bool) -> Edge {
        let program = text::parse(PROGRAM).unwrap();
        let event = program.event_named("go").unwrap();
        let lies = XdpEdge {
            event,
            stage: 1,
            kind: Some(3),
            members: vec![(1, 24, 4), (2, 28, 2)],
            now: Some(4),
            seed: None,
            draws: None,
            in_port: Some(12),
            staged: Some(16),
            cursor: if carried { XdpCursor::Carried(20) } else { XdpCursor::At(14) },
            steer: Some((1, XdpSteer::Integer)),
            size: 32,
            words: None,
            strings: Vec::new(),
            packet: true,
        };
        Edge::new(&program, &lies)
    }

    #[test]
    fn what_is_written_is_read_again() {
        for carried in [true, false] {
            let edge = edge(carried);
            let packet =
                Underway { in_port: 0, frame: vec![7; 60], cursor: 14, staged: vec![1, 2, 3] };
            let mut params = vec![0; 8];
            params.extend([1, 2, 3, 4, 5, 6]);
            let passage = Passage { params, packet: Some(packet), time_ns: 9, seed: 0, draws: 0 };
            let trip = Trip { number: 5, route: 68 };
            let mut bytes = Vec::new();
            edge.write(&passage, Some(trip), &mut bytes);
            assert_eq!(bytes[..4], 3u32.to_le_bytes());
            let (values, frame) = bytes.split_at(edge.bytes(true, 0));
            assert_eq!(edge.read(values, true, Some((0, frame))), Some((passage, trip)));
        }
    }

    /// `go` with a string of 20 bytes behind what the edge above has.
    fn with_string() -> Edge {
        let program = PROGRAM
            .replace("port: u16", "port: u16, text: u8[20]")
            .replace(", text: u8[20]) {", ", %text: u8[20]) {");
        let program = text::parse(&program).unwrap();
        let mut lies = edge(true).lies;
        (lies.event, lies.words, lies.strings) =
            (program.event_named("go").unwrap(), Some(30), vec![(3, 20)]);
        Edge::new(&program, &lies)
    }

    #[test]
    fn of_strings_only_words_that_count_cross() {
        let edge = with_string();
        for length in 0..=20 {
            let mut params = vec![0; 14];
            params.extend((0..20).map(|at| u8::from(at < length) * (at + 1)));
            let packet =
                Underway { in_port: 0, frame: vec![7; 60], cursor: 14, staged: Vec::new() };
            let passage = Passage { params, packet: Some(packet), time_ns: 9, seed: 0, draws: 0 };
            let mut bytes = Vec::new();
            let size = edge.write(&passage, None, &mut bytes);
            assert_eq!(size, 32 + usize::from(length).next_multiple_of(8));
            let (values, frame) = bytes.split_at(size);
            let (read, _) = edge.read(values, false, Some((0, frame))).unwrap();
            assert_eq!(read, passage);
            assert!(
                size == 32 || edge.read(&values[..size - 1], false, Some((0, frame))).is_none()
            );
        }
        let mut values = vec![0; 64];
        values[30] = 4;
        assert_eq!(
            edge.read(&values, false, Some((0, &[0; 60]))),
            None,
            "more words than the string has"
        );
        values[30] = 255;
        assert_eq!(edge.read(&values, false, Some((0, &[0; 60]))), None);
    }

    #[test]
    fn what_is_too_short_is_nothing() {
        let edge = edge(true);
        for length in 0..40 {
            assert_eq!(edge.read(&vec![0; length], true, Some((0, &[]))), None);
        }
        let mut values = vec![0; 40];
        values[16] = 200;
        assert_eq!(
            edge.read(&values, true, Some((0, &[0; 60]))),
            None,
            "more waits in front than there is"
        );
    }

    #[test]
    fn every_replica_gets_some_keys() {
        let edge = edge(false);
        let replica = |key: u32| {
            let params = [&[0; 8][..], &key.to_le_bytes(), &[0, 0]].concat();
            edge.replica(&params, 4)
        };
        let all: Vec<u32> = (0..64).filter_map(replica).collect();
        assert!(all.len() == 64 && (0..4).all(|r| all.contains(&r)), "{all:?}");
        let mut edge = edge;
        edge.lies.steer = Some((1, XdpSteer::Number(4)));
        let replica = |number: u32, replicas| {
            let params = [&[0; 8][..], &number.to_le_bytes(), &[0, 0]].concat();
            edge.replica(&params, replicas).unwrap()
        };
        assert_eq!([0, 1, 2, 3].map(|number| replica(number, 4)), [0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(|number| replica(number, 2)), [0, 0, 1, 1]);
    }
}
