//! Queues: handlers of the user's own, and `nf_enqueue`.
//!
//! Any function that something is enqueued for is the handler of an internal event of its name. The
//! macro leaves `(__nf_enqueue(), (queue)(arguments))` in the tree, so clang has checked the
//! arguments' types, and names and columns are the user's.

use nicforge_ir::{Direction, EventId, Op, Type};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::functions::signature;
use crate::signatures::{ParamKind, Signature};
use crate::unit::{Failed, Lowered, Unit};

/// Events that targets offer, whose names handlers of the user's own cannot have.
const OFFERED: [&str; 10] = [
    "net_recv",
    "net_send",
    "stack_recv",
    "host_recv",
    "host_send",
    "host_msg",
    "dma_write",
    "dma_read",
    "doorbell",
    "timer",
];

/// True if an event that targets offer has this name.
pub fn is_offered(name: &str) -> bool {
    OFFERED.contains(&name)
}

impl<'a> Unit<'a> {
    /// The event of a queue whose handler this is.
    ///
    /// # Errors
    /// Reports names that targets' events have, and parameters and results that cannot be handed
    /// over.
    pub fn queue_event(&mut self, node: &'a Node, of: &Signature) -> Lowered<EventId> {
        let name = node.name.as_str();
        if let Some(known) = self.prog.event_named(name) {
            return Ok(known);
        }
        if is_offered(name) {
            let message = format!("`{name}` is an event of the NIC, and no queue");
            return Err(self.refuse(
                codes::QUEUE,
                node.name_span,
                message,
                "give the queue another name",
            ));
        }
        let handed = of.params.iter().all(|kind| !matches!(kind, ParamKind::InOut { .. }));
        let packets = of.params.iter().filter(|kind| **kind == ParamKind::Packet).count();
        if !handed || packets > 1 || of.result.is_some() {
            let message = format!("`{name}` cannot be the handler of a queue");
            let help = "write `void name(nf_pkt pkt, struct T message)`: at most one packet, values, no pointers, no result";
            return Err(self.refuse(codes::QUEUE, node.name_span, message, help));
        }
        let decls = node.inner.iter().filter(|n| n.kind == "ParmVarDecl");
        let params: Vec<(String, Type)> = decls
            .zip(&of.params)
            .enumerate()
            .map(|(at, (decl, kind))| {
                let name =
                    if decl.name.is_empty() { format!("value_{at}") } else { decl.name.clone() };
                (name, if let ParamKind::Value(ty) = kind { *ty } else { Type::Packet })
            })
            .collect();
        let params: Vec<(&str, Type)> =
            params.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
        Ok(self.event(name, Direction::Internal, &params))
    }
}

impl<'a> FnLower<'_, 'a, '_> {
    /// `nf_enqueue(queue, arguments)`.
    pub fn enqueue(&mut self, call: &'a Node) -> Lowered<()> {
        let Some(callee) = call.callee() else {
            let help = "write nf_enqueue(handler, arguments) with the handler's name";
            return Err(self.refuse(
                codes::QUEUE,
                call.span,
                "a queue is named by its handler",
                help,
            ));
        };
        let Some(node) = self.unit.index.functions.get(&callee.name).copied() else {
            let message = format!("the queue `{}` has no handler", callee.name);
            let help =
                format!("define `void {}(…)`; it is called for what was enqueued", callee.name);
            return Err(self.refuse(codes::QUEUE, call.span, &message, &help));
        };
        let of = signature(self.unit, node)?;
        let event = self.unit.queue_event(node, &of)?;
        let mut args = Vec::new();
        let mut failed = false;
        for (arg, kind) in call.inner[1..].iter().zip(&of.params) {
            let value = if *kind == ParamKind::Packet { self.packet(arg) } else { self.expr(arg) };
            match value {
                Ok(value) => args.push(value),
                Err(Failed) => failed = true,
            }
        }
        if failed || args.len() != of.params.len() {
            return Err(Failed);
        }
        self.b.push0(Op::Generate { event, args });
        Ok(())
    }
}
