//! What leaves: commands to the deparser.

use super::*;

impl<'a> Engine<'a, '_> {
    /// A command to the deparser, recorded. It ends when the deparser takes it.
    pub(super) fn command(
        &mut self,
        kind: u64,
        fields: Vec<(&'static str, String)>,
        record: String,
    ) {
        let mut outputs = vec![
            ("c_valid", "1'b1".to_string()),
            ("c_kind", number(8, kind)),
            ("c_host", number(1, u64::from(kind >= kind::HOST_PACKET))),
            ("rec_kind", number(5, kind + 8)),
            ("rec_data", record),
        ];
        outputs.extend(fields);
        self.states.wait("c_ready".to_string(), outputs, Vec::new());
    }

    /// The packet as it is, which `stays` or is over: emitted headers, then the unread rest.
    fn whole(&mut self, stays: bool) -> Vec<(&'static str, String)> {
        let rest = self.rest();
        vec![
            ("c_hlen", mark(&self.states.packet.emitted)),
            ("c_hdr", mark(&self.states.packet.header)),
            ("c_from", self.at()),
            ("c_rest", rest),
            ("c_line", "slot_line".to_string()),
            ("c_free", number(1, u64::from(!stays))),
        ]
    }

    pub(super) fn generate(&mut self, span: Span, event: nicforge_ir::EventId, args: &[ValueId]) {
        let def = &self.program.events[event];
        if def.direction == Direction::Internal {
            self.hand_on(span, event, args);
            return;
        }
        self.states.note(&def.name);
        let stays = def.params.first().is_some_and(|param| param.borrowed);
        match def.name.as_str() {
            "net_send" | "net_copy" => {
                let port = self.low.u32(args[1]);
                let port = self.wire("out_port", 32, port, 0);
                let mut fields = self.whole(stays);
                fields.push(("c_port", format!("{port}[7:0]")));
                self.command(kind::SEND, fields, format!("{{32'h0, {port}}}"));
            }
            "stack_recv" => {
                let fields = self.whole(false);
                self.command(kind::STACK, fields, number(64, 0));
            }
            "host_recv" | "host_copy" => {
                let fields = self.whole(stays);
                self.command(kind::HOST_PACKET, fields, number(64, 0));
            }
            "host_msg" => {
                let size = self.bits.bytes(self.low.ty(args[0]));
                let bytes = self.low.bytes_of(args[0]);
                let fields = vec![
                    ("c_hlen", number(16, u64::from(size))),
                    ("c_hdr", Lower::resize(&bytes, 8 * size, 8 * self.header_bytes)),
                ];
                self.command(kind::HOST_MESSAGE, fields, number(64, 0));
            }
            "dma_write" => {
                let width = self.low.width(args[1]);
                let text = self.low.operand(args[1]);
                let addr = Lower::resize(&text, width, 64);
                let addr = self.wire("addr", 64, addr, 0);
                let prefix = self.prefix(args[2]);
                let fields = vec![
                    ("c_addr", addr.clone()),
                    ("c_from", self.at()),
                    ("c_rest", prefix),
                    ("c_line", "slot_line".to_string()),
                ];
                self.command(kind::DMA_WRITE, fields, addr);
            }
            name => self.refuse(
                span,
                &format!("hardware has no event `{name}`"),
                "take a NIC with cores; `nicforge check PROG --target all` says which have it",
            ),
        }
        if stays {
            // The packet may change when its bytes have been asked for.
            self.states.wait("c_done".to_string(), Vec::new(), Vec::new());
        }
    }

    /// A packet made from nothing: up to `len` bytes of a value.
    pub(super) fn new_packet(&mut self, value: ValueId, len: ValueId, port: ValueId) {
        self.states.note("new packet");
        let size = self.bits.bytes(self.low.ty(value));
        let len = self.low.u32(len);
        let len = self.wire("length", 32, len, 0);
        let all = number(32, u64::from(size));
        let hlen = format!("{len} > {all} ? {} : {len}[15:0]", number(16, u64::from(size)));
        let hlen = self.wire("hlen", 16, hlen, timing::carry(32) + timing::CHOOSE);
        let port = self.low.u32(port);
        let port = self.wire("out_port", 32, port, 0);
        let bytes = self.low.bytes_of(value);
        let fields = vec![
            ("c_hlen", hlen),
            ("c_hdr", Lower::resize(&bytes, 8 * size, 8 * self.header_bytes)),
            ("c_port", format!("{port}[7:0]")),
        ];
        self.command(kind::SEND, fields, format!("{{32'h0, {port}}}"));
    }

    /// An internal event goes to the next stage, or waits for this one.
    fn hand_on(&mut self, span: Span, event: nicforge_ir::EventId, args: &[ValueId]) {
        let def = &self.program.events[event];
        let Some((row, stage)) = self.row else {
            let message = format!(
                "event `{}` goes to another handler, and the design has only one stage",
                def.name
            );
            self.refuse(span, &message, "call a function in place of generating an event");
            return;
        };
        self.states.note(&format!("to {}", def.name));
        let values: Vec<(u32, String)> = row
            .values(self.program, self.bits, event)
            .into_iter()
            .map(|(number, width, _)| (width, self.low.operand(args[number])))
            .collect();
        let packet = self.states.packet.clone();
        let message = row.event(event, &values, &mark(&packet.header), |part| match part {
            "emitted" => mark(&packet.emitted),
            "cursor" => mark(&packet.at),
            "pkt_end" => mark(&packet.end),
            "stream" => mark(&packet.stream),
            other => other.to_string(),
        });
        let own = row.stage_of(self.program, event) == Some(stage);
        let [valid, data, ready] =
            if own { ["p_valid", "p_data", "p_ready"] } else { ["n_valid", "n_data", "n_ready"] };
        self.states.wait(
            ready.to_string(),
            vec![(valid, "1'b1".to_string()), (data, message)],
            Vec::new(),
        );
    }

    pub(super) fn log(&mut self, format: &str, args: &[ValueId]) {
        let id = self.logs.len() as u64;
        let signed = args.iter().map(|arg| self.low.ty(*arg).is_signed()).collect();
        self.logs.push(LogFormat { text: format.to_string(), signed });
        let mut words = Vec::new();
        for arg in args {
            let (width, signed) = (self.low.width(*arg), self.low.ty(*arg).is_signed());
            let text = self.low.signal(*arg);
            words.push(Lower::word(text, width, signed));
        }
        words.reverse();
        let bits = 64 * words.len() as u32;
        let mut fields =
            vec![("c_addr", number(64, id)), ("c_hlen", number(16, u64::from(bits / 8)))];
        if bits > 0 {
            let all = self.wire("log_words", bits, format!("{{{}}}", words.join(", ")), 0);
            fields.push(("c_hdr", Lower::resize(&all, bits, 8 * self.header_bytes)));
        }
        self.command(kind::LOG, fields, number(64, id));
    }
}
