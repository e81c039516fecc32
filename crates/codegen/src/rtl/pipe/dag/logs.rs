//! Logs: messages to the developer, beside what becomes of the packet.

use super::*;

impl Walk<'_, '_, '_> {
    /// A log: its number, and its values as words of 64 bits.
    pub(super) fn log(&mut self, format: &str, args: &[ValueId], way: &Way) {
        let signed = args.iter().map(|arg| self.low.ty(*arg).is_signed()).collect();
        let id = self.dag.logs.len() as u64;
        self.dag.logs.push(LogFormat { text: format.to_string(), signed });
        let mut words = Vec::new();
        for arg in args {
            let (width, signed) = (self.low.width(*arg), self.low.ty(*arg).is_signed());
            let text = self.low.operand(*arg);
            let text = self.wire("logged", width, text, 0);
            words.push(Lower::word(text, width, signed));
        }
        words.reverse();
        let size = 8 * words.len() as u32;
        let zero = number(16, 0);
        self.dag.exits.push(Exit {
            when: way.clone(),
            given: self.given(way),
            kind: kind::LOG,
            stays: true,
            number: number(32, 0),
            addr: Some(number(64, id)),
            moved: None,
            header: if words.is_empty() {
                Vec::new()
            } else {
                vec![(format!("{{{}}}", words.join(", ")), size)]
            },
            hlen: number(16, u64::from(size)),
            from: zero.clone(),
            end: zero,
            patches: Vec::new(),
            cursor: None,
            emitted: size,
        });
    }
}
