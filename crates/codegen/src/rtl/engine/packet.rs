//! Ops on the packet: bytes through `nf_access`, cursor and emitted headers in registers.

use super::*;

impl<'a> Engine<'a, '_> {
    /// A wait for the packet access module.
    pub(super) fn access(
        &mut self,
        outputs: Vec<(&str, String)>,
        results: Vec<(String, u32, String)>,
    ) {
        let mut all = vec![("a_req", "1'b1".to_string())];
        all.extend(outputs);
        self.states.wait("a_done".to_string(), all, results);
    }

    /// Signal: `size` bytes lie `off` (32 bits) behind the cursor.
    pub(super) fn fits(&mut self, off: &str, size: u32) -> String {
        let rest = self.rest();
        let value =
            format!("{{1'b0, {off}}} + {} <= {{17'h0, {rest}}}", number(33, u64::from(size)));
        self.wire("fits", 1, value, 2 * timing::carry(32))
    }

    pub(super) fn packet_op(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Extract { .. } => {
                let size = self.bits.bytes(self.low.ty(inst.results[1]));
                let off = self.wire("off", 32, number(32, 0), 0);
                let ok = self.fits(&off, size);
                self.read(inst, 0, ("slot_line".to_string(), &ok), &off, size);
                let ok = mark(&self.low.name(inst.results[0]));
                let value = format!(
                    "{ok} ? {} + {} : {}",
                    self.at(),
                    number(16, u64::from(size)),
                    self.at()
                );
                let next = self.low.fresh("cursor_next");
                self.states.wire(Wire {
                    name: next.clone(),
                    width: 16,
                    value,
                    delay: timing::carry(16),
                });
                self.states.packet.at = next;
            }
            Op::Load { off, .. } => {
                let size = self.bits.bytes(self.low.ty(inst.results[1]));
                let off = self.low.u32(*off);
                let off = self.wire("off", 32, off, 0);
                let ok = self.fits(&off, size);
                self.read(inst, 0, ("slot_line".to_string(), &ok), &off, size);
            }
            Op::Store { off, value, .. } => {
                let size = self.bits.bytes(self.low.ty(*value));
                let off = self.low.u32(*off);
                let off = self.wire("off", 32, off, 0);
                let ok = self.fits(&off, size);
                self.result(inst.results[0], ok.clone(), 0);
                let from = self.wire(
                    "from",
                    16,
                    format!("{} + {off}[15:0]", self.at()),
                    timing::carry(16),
                );
                let bytes = self.low.bytes_of(*value);
                let outputs = vec![
                    ("a_op", number(2, 1)),
                    ("a_line", "slot_line".to_string()),
                    ("a_from", from),
                    ("a_length", format!("{ok} ? {} : 16'h0", number(16, u64::from(size)))),
                    ("a_value", Lower::resize(&bytes, 8 * size, 8 * self.access_bytes)),
                ];
                self.access(outputs, Vec::new());
            }
            Op::Skip { len, .. } | Op::Trim { len, .. } => {
                let rest = self.rest();
                let len = self.low.u32(*len);
                let len = self.wire("length", 32, len, 0);
                let ok =
                    self.wire("fits", 1, format!("{len} <= {{16'h0, {rest}}}"), timing::carry(32));
                self.result(inst.results[0], ok.clone(), 0);
                let skip = matches!(inst.op, Op::Skip { .. });
                let old = if skip { self.at() } else { mark(&self.states.packet.end) };
                let value = format!("{ok} ? {} + {len}[15:0] : {old}", self.at());
                let next = self.low.fresh(if skip { "cursor_next" } else { "end_next" });
                self.states.wire(Wire {
                    name: next.clone(),
                    width: 16,
                    value,
                    delay: timing::carry(16),
                });
                if skip {
                    self.states.packet.at = next;
                } else {
                    self.states.packet.end = next;
                }
            }
            Op::Emit { value, .. } => {
                let size = self.bits.bytes(self.low.ty(*value));
                let room = 8 * self.header_bytes;
                let bytes = self.low.bytes_of(*value);
                let bytes = Lower::resize(&bytes, 8 * size, room);
                let (emitted, header) =
                    (mark(&self.states.packet.emitted), mark(&self.states.packet.header));
                let place = format!("{header} | ({bytes} << {{{emitted}, 3'b000}})");
                let delay = timing::mux(self.header_bytes) + 400;
                let next = self.low.fresh("header_next");
                self.states.wire(Wire { name: next.clone(), width: room, value: place, delay });
                // The wire may have begun a new state, where the registers are up to date.
                let emitted = mark(&self.states.packet.emitted);
                let value = format!("{emitted} + {}", number(16, u64::from(size)));
                let length = self.low.fresh("emitted_next");
                self.states.packet.header = next;
                self.states.wire(Wire {
                    name: length.clone(),
                    width: 16,
                    value,
                    delay: timing::carry(16),
                });
                self.states.packet.emitted = length;
            }
            Op::Reset { .. } => {
                let room = 8 * self.header_bytes;
                let zero = [("cursor_next", 16), ("emitted_next", 16), ("header_next", room)].map(
                    |(name, width)| {
                        let name = self.low.fresh(name);
                        self.states.wire(Wire {
                            name: name.clone(),
                            width,
                            value: number(width, 0),
                            delay: 0,
                        });
                        name
                    },
                );
                let [at, emitted, header] = zero;
                self.states.packet.at = at;
                self.states.packet.emitted = emitted;
                self.states.packet.header = header;
            }
            Op::Len { .. } => {
                let rest = self.rest();
                self.result(inst.results[0], format!("{{16'h0, {rest}}}"), 0);
            }
            Op::PktCsum { sum, len, .. } => {
                let prefix = self.prefix(*len);
                let sum = self.low.u32(*sum);
                let result = (self.low.name(inst.results[0]), 32, "a_r_sum".to_string());
                let outputs = vec![
                    ("a_op", number(2, 2)),
                    ("a_line", "slot_line".to_string()),
                    ("a_from", self.at()),
                    ("a_length", prefix),
                    ("a_sum", sum),
                ];
                self.access(outputs, vec![result]);
            }
            _ => {}
        }
    }

    /// Reads `size` bytes at `off` behind the cursor (memory 0) or behind the start of line `line`
    /// into an op's two results.
    pub(super) fn read(
        &mut self,
        inst: &Inst,
        memory: u64,
        (line, ok): (String, &str),
        off: &str,
        size: u32,
    ) {
        let at = if memory == 0 {
            format!("{} + {off}[15:0]", self.at())
        } else {
            format!("{off}[15:0]")
        };
        let from = self.wire("from", 16, at, timing::carry(16));
        let ty = self.low.ty(inst.results[1]);
        let value = self.low.of_bytes(ty, "a_r_value");
        let results = vec![
            (self.low.name(inst.results[0]), 1, ok.to_string()),
            (self.low.name(inst.results[1]), self.bits.width(ty), value),
        ];
        let outputs = vec![
            ("a_op", number(2, 0)),
            ("a_mem", number(4, memory)),
            ("a_line", line),
            ("a_from", from),
            ("a_length", format!("{ok} ? {} : 16'h0", number(16, u64::from(size)))),
        ];
        self.access(outputs, results);
    }
}
