//! What one packet can be of the buffers of a handler.
//!
//! αIR makes no packets: a handler has the one that came in. A buffer of `bufinit` becomes the
//! packet whose rest it takes (`bufemit(out, packet)`), or the handler's own one without its rest.
//! What is emitted to either goes in front of the rest, so only one of the two may be emitted to.
//! Whether the rest was taken is a variable: it may depend on a branch.

use std::collections::{BTreeSet, HashMap};

use nicforge_ir::{Diagnostic, Op, Type, ValueId};

use crate::assigned::root_decl;
use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarIndex, VarKind};
use crate::unit::{Global, Lowered};

/// Buffers of a function, by their declarations.
#[derive(Default)]
pub struct Buffers<'a> {
    /// `bufemit(buffer, other)`, in order.
    joins: Vec<(u64, &'a Node)>,
    /// For each buffer that was made: whether the rest of a packet was emitted to it.
    joined: HashMap<u64, VarIndex>,
    /// What happened on the ways to the place being lowered.
    pub way: Way,
    /// True if bytes of the packet that came in were read.
    pub read: bool,
    /// True if the user was told what that leaves open.
    told: bool,
}

/// Buffers, by what happened to them.
#[derive(Clone, Default)]
pub struct Way {
    made: BTreeSet<u64>,
    /// Something was emitted to them.
    emitted: BTreeSet<u64>,
    /// The rest of a packet was.
    closed: BTreeSet<u64>,
}

impl Way {
    /// Joins what happened on either of two ways.
    pub fn or(mut self, other: Way) -> Way {
        self.made.extend(other.made);
        self.emitted.extend(other.emitted);
        self.closed.extend(other.closed);
        self
    }
}

impl<'a> FnLower<'_, 'a, '_> {
    /// Notes which buffers take the rest of which.
    pub fn scan_buffers(&mut self, body: &'a Node) {
        let mut joins = Vec::new();
        body.walk(&mut |node| {
            if node.callee().is_some_and(|callee| callee.name == "bufemit")
                && let [_, to, from] = &node.inner[..]
                && let Some(decl) = root_decl(to)
            {
                joins.push((decl, from));
            }
        });
        joins.retain(|(_, from)| self.is_buffer(from));
        self.buffers.joins = joins;
    }

    /// True if an argument is a buffer and no address of data.
    pub fn is_buffer(&mut self, node: &Node) -> bool {
        let mut node = node.strip_casts();
        while node.kind == "UnaryOperator" && node.opcode == "&" {
            node = node.inner[0].strip_casts();
        }
        node.kind == "DeclRefExpr" && self.ctype(node) == CType::Packet
    }

    /// Declares a local buffer.
    pub fn local_buffer(&mut self, node: &'a Node) -> Lowered<()> {
        let init = node.inner.iter().find(|n| !n.kind.ends_with("Attr"));
        let fresh = init.is_none_or(|init| {
            init.strip_casts().callee().is_some_and(|callee| callee.name == "bufinit")
        });
        if !fresh {
            self.unit.globals.insert(node.id, Global::Broken);
            return Err(self.packet_copied(node.name_span));
        }
        if init.is_none() {
            let message = format!("`{}` was not made by bufinit", node.name);
            self.report(
                Diagnostic::warning(codes::LEFT_OPEN.id, node.name_span, message)
                    .label("taken as empty")
                    .help("write `buf_t name = bufinit();`"),
            );
        }
        let Some(var) = self.packet_of(node)? else {
            let message = format!("there is no packet that `{}` could be", node.name);
            let help = "make it in the handler whose packet came in";
            self.unit.globals.insert(node.id, Global::Broken);
            return Err(self.refuse(codes::BUFFER, node.name_span, message, help));
        };
        if !self.buffers.way.made.is_empty() {
            self.unit.globals.insert(node.id, Global::Broken);
            let message = format!("`{}` would be a second packet", node.name);
            let help = "send one packet for each that comes in; what the host is to know is a message to it";
            return Err(self.refuse(codes::BUFFER, node.name_span, message, help));
        }
        self.var_of.insert(node.id, var);
        let no = self.b.int(0, Type::BOOL);
        let joined = self.declare(0, "", Type::BOOL, VarKind::Local, no);
        self.buffers.joined.insert(node.id, joined);
        self.buffers.way.made.insert(node.id);
        Ok(())
    }

    /// The packet that a buffer becomes: whose rest it takes, or the only one there is.
    fn packet_of(&mut self, node: &Node) -> Lowered<Option<VarIndex>> {
        let taken = self.buffers.joins.iter().filter(|(to, _)| *to == node.id);
        let taken: Vec<u64> = taken.filter_map(|(_, from)| root_decl(from)).collect();
        if taken.windows(2).any(|pair| pair[0] != pair[1]) {
            let message = format!("`{}` takes the rest of several packets", node.name);
            let help = "emit the rest of one packet";
            return Err(self.refuse(codes::BUFFER, node.name_span, message, help));
        }
        let only = || (0..self.vars.len()).find(|var| self.vars[*var].kind == VarKind::Packet);
        Ok(match taken.first() {
            Some(decl) => self.var_of.get(decl).copied(),
            None => only(),
        })
    }

    /// `bufemit(buffer, other)`: the rest of the other packet.
    pub fn join(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        let (to, from) = (self.packet(&args[0])?, self.packet(&args[1])?);
        let decl = root_decl(&args[0]).unwrap_or_default();
        let joined = self.buffers.joined.get(&decl).copied();
        let open = to == from && !self.buffers.way.closed.contains(&decl);
        let Some(joined) = joined.filter(|_| open) else {
            let message = "one packet cannot hold the rests of two";
            let help = "emit the rest of the packet that came in, once, to a buffer of bufinit";
            return Err(self.refuse(codes::BUFFER, node.span, message, help));
        };
        if !self.controls.is_empty() {
            let message = "the rest of a packet is emitted in a loop";
            let help = "emit it behind the loop";
            return Err(self.refuse(codes::BUFFER, node.span, message, help));
        }
        let yes = self.b.int(1, Type::BOOL);
        self.env[joined] = yes;
        self.buffers.way.closed.insert(decl);
        Ok(())
    }

    /// Checks that what is emitted to a buffer stands in front of its rest, and of that alone.
    pub fn check_emit(&mut self, node: &'a Node, to: &'a Node) -> Lowered<()> {
        let decl = root_decl(to).unwrap_or_default();
        let closed = self.buffers.way.closed.contains(&decl);
        self.buffers.way.emitted.insert(decl);
        let mixed = self.buffers.way.emitted.len() > 1;
        if closed || mixed {
            let message = if closed {
                "nothing can be emitted behind the rest of a packet"
            } else {
                "this is emitted to one packet by two names"
            };
            let help = "emit everything to the buffer that is sent, the rest of the packet last";
            return Err(self.refuse(codes::BUFFER, node.span, message, help));
        }
        if self.buffers.read && !self.buffers.told && !self.buffers.joined.contains_key(&decl) {
            self.buffers.told = true;
            let message = "this is emitted to a packet that was read, which Alkali leaves open";
            self.report(
                Diagnostic::warning(codes::LEFT_OPEN.id, node.span, message)
                    .label("goes in front of what was not read")
                    .note("Alkali's Micro-C writes over what was read last, its Verilog appends to the end")
                    .help("emit to a buffer of bufinit, then the packet's rest to it"),
            );
        }
        Ok(())
    }

    /// The packet that a buffer is when it leaves: without the rest that it did not take.
    pub fn whole(&mut self, arg: &'a Node) -> Lowered<ValueId> {
        let pkt = self.packet(arg)?;
        let joined = root_decl(arg).and_then(|decl| self.buffers.joined.get(&decl).copied());
        if let Some(joined) = joined {
            let cond = self.env[joined];
            self.branch(
                cond,
                None,
                &[],
                |_| Ok(Vec::new()),
                |f| {
                    let len = f.b.int(0, Type::U32);
                    f.op(Op::Trim { pkt, len }, Type::BOOL);
                    Ok(Vec::new())
                },
            )?;
        }
        Ok(pkt)
    }
}
