//! What leaves beside a packet: messages and DMA writes to the host, and logs. The packet stays where it is.

use super::*;

/// No address.
pub(super) fn nowhere() -> String {
    number(64, 0)
}

impl Walk<'_, '_, '_> {
    fn beside(&mut self, way: &Way, exit: Exit) {
        let given = self.given(way);
        self.dag.exits.push(Exit { when: way.clone(), given, number: number(32, 0), cursor: None, ..exit });
    }

    /// So many bytes that are no part of the packet.
    fn bytes_alone(&self, kind: u64, addr: String, part: Option<(String, u32)>) -> Exit {
        let bytes = part.as_ref().map_or(0, |part| part.1);
        Exit {
            when: None,
            given: Given::new(),
            kind,
            number: number(32, 0),
            addr,
            header: part.into_iter().collect(),
            hlen: number(16, u64::from(bytes)),
            from: number(16, 0),
            end: number(16, 0),
            cursor: None,
            emitted: bytes,
        }
    }

    /// A message to the host side.
    pub(super) fn message(&mut self, value: ValueId, way: &Way) {
        let part = (self.low.bytes_of(value), self.dag.bits.bytes(self.low.ty(value)));
        let exit = self.bytes_alone(kind::HOST_MESSAGE, nowhere(), Some(part));
        self.beside(way, exit);
    }

    /// Writes the first bytes of what is left of the packet into the host's memory.
    pub(super) fn dma_write(&mut self, addr: ValueId, len: ValueId, way: &Way) -> Result<(), NoPipe> {
        let mut packet = self.packet();
        self.settle(&mut packet);
        if packet.edited.is_some() {
            return self.no("bytes that were overwritten in place may be written to the host");
        }
        let width = self.low.width(addr);
        let addr = Lower::resize(&self.low.operand(addr), width, 64);
        let rest = self.rest(&packet);
        let len = self.low.u32(len);
        let len = self.wire("length", 32, len, 0);
        let value = format!("{len} > {{16'h0, {rest}}} ? {rest} : {len}[15:0]");
        let prefix = self.wire("prefix", 16, value, timing::carry(32) + timing::CHOOSE);
        let from = text(&packet.cursor);
        let end = self.wire("end", 16, format!("{from} + {prefix}"), timing::carry(16));
        let exit = self.bytes_alone(kind::DMA_WRITE, addr, None);
        self.beside(way, Exit { from, end, ..exit });
        Ok(())
    }

    /// A log: its number, and its values as words of 64 bits.
    pub(super) fn log(&mut self, format: &str, args: &[ValueId], way: &Way) {
        let signed = args.iter().map(|arg| self.low.ty(*arg).is_signed()).collect();
        let addr = number(64, self.dag.logs.len() as u64);
        self.dag.logs.push(LogFormat { text: format.to_string(), signed });
        let mut words = Vec::new();
        for arg in args {
            let (width, signed) = (self.low.width(*arg), self.low.ty(*arg).is_signed());
            let text = self.low.operand(*arg);
            let text = self.wire("logged", width, text, 0);
            words.push(match width {
                64 => text,
                _ if signed => format!("{{{{{}{{{text}[{}]}}}}, {text}}}", 64 - width, width - 1),
                _ => Lower::resize(&text, width, 64),
            });
        }
        words.reverse();
        let part = (!words.is_empty()).then(|| (format!("{{{}}}", words.join(", ")), 8 * words.len() as u32));
        let exit = self.bytes_alone(kind::LOG, addr, part);
        self.beside(way, exit);
    }
}
