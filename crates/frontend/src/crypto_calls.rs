//! Calls of what works on bytes of a packet: ciphers, digests, searches.

use nicforge_ir::patterns::Patterns;
use nicforge_ir::{CryptoOp, Op, Type, ValueId, Words};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::unit::{Failed, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// `nf_aes_ctr(pkt, len, &key, &iv)` and the like: packet, length, arguments of the op, then
    /// where to write what it gives.
    pub fn crypto_call(
        &mut self,
        name: &str,
        args: &'a [Node],
    ) -> Option<Lowered<Option<ValueId>>> {
        let word = name.strip_prefix("nf_")?;
        let (op, ..) = CryptoOp::ALL.iter().find(|(_, known, _)| *known == word)?;
        Some(self.crypto(*op, args))
    }

    fn crypto(&mut self, op: CryptoOp, args: &'a [Node]) -> Lowered<Option<ValueId>> {
        let pkt = self.packet(&args[0]);
        let len = self.expr(&args[1])?;
        let mut taken = Vec::new();
        for (takes, node) in op.takes().iter().zip(&args[2..]) {
            let place = self.target(node)?;
            let size = self.unit.prog.size_of(place.ty);
            if !takes.fits(size) {
                let message = format!("{} has {} bytes, not {size}", takes.name, takes.sizes());
                return Err(self.sized_wrong(node, message));
            }
            taken.push(self.read(&place));
        }
        let made = Op::Crypto { op, pkt: pkt?, len, args: taken };
        let Some(gives) = op.gives() else { return Ok(Some(self.op(made, Type::BOOL))) };
        let Some(node) = args.get(2 + op.takes().len()) else {
            return Ok(Some(self.b.push2(made, Type::BOOL, Type::U32).1));
        };
        let place = self.target(node)?;
        let size = self.unit.prog.size_of(place.ty);
        if size != gives {
            let message = format!("nf_{} gives {gives} bytes, not {size}", op.word());
            return Err(self.sized_wrong(node, message));
        }
        let (ok, value) = self.b.push2(made, Type::BOOL, place.ty);
        self.write(&place, value, node.span)?;
        // Digests refuse nothing, and so return nothing.
        Ok(op.changes_packet().then_some(ok))
    }

    /// `nf_regex(pkt, len, "patterns")`.
    pub fn regex(&mut self, args: &'a [Node]) -> Lowered<ValueId> {
        let pkt = self.packet(&args[0]);
        let len = self.expr(&args[1])?;
        let example = "nf_regex(pkt, len, \"^GET /admin\\ncmd[.]exe\")";
        let patterns = self.literal(&args[2], "the patterns of nf_regex", example)?;
        let wrong = match patterns.contains(char::REPLACEMENT_CHARACTER) {
            true => Err("bytes that are no text stand in a pattern as `\\\\x90`".to_string()),
            false => Patterns::of(&patterns).and_then(|patterns| patterns.automaton()).map(|_| ()),
        };
        if let Err(message) = wrong {
            let help = "docs/language.md says what a pattern may be";
            return Err(self.refuse(codes::PATTERN, args[2].span, message, help));
        }
        Ok(self.op(Op::Regex { pkt: pkt?, patterns, len }, Type::U32))
    }

    fn sized_wrong(&mut self, node: &Node, message: String) -> Failed {
        let help = "pass the address of an array of bytes or a struct that has as many";
        self.refuse(codes::ARGUMENTS, node.span, message, help)
    }
}
