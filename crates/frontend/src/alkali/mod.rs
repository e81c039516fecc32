//! Programs in the interface of Alkali (`alkali.h`): which there are, their events and tables.
//!
//! Names decide, as they do there: `NET_RECV__x` handles packets, `EXT__EVENT__x` is an event for
//! the outside, any other `EVENT__x` handles what `generate` says. What calls become is in
//! [`calls`], what one packet can be in [`buffers`], packets that nobody sends in [`ends`].

pub mod buffers;
mod calls;
mod ends;
pub mod source;

use std::path::Path;

use nicforge_ir::{Diagnostic, Direction, EventId, Table, TableKind, Type};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::signatures::{ParamKind, Signature};
use crate::unit::{Global, Lowered, Unit};

/// Headers of Alkali. Its own one forgets the widths of members before a compiler sees them.
const HEADERS: [&str; 2] = ["alkali.h", "generic_handlers.h"];

/// Entries of a table in the form that names no number.
const ENTRIES: u32 = 1024;

/// Words for clang with which headers beside the program are read as those of `include_dir`.
pub fn instead_of_beside(program: &str, include_dir: &Path) -> Vec<String> {
    let folder = Path::new(program).parent().unwrap_or(Path::new(""));
    let beside = HEADERS.iter().map(|name| (folder.join(name), include_dir.join(name)));
    beside
        .filter(|(theirs, ours)| theirs.is_file() && theirs != ours)
        .flat_map(|(theirs, ours)| {
            let pair = format!("{};{}", theirs.display(), ours.display());
            ["-Xclang".into(), "-remap-file".into(), "-Xclang".into(), pair]
        })
        .collect()
}

impl<'a> Unit<'a> {
    /// The type of a name that stands for a packet.
    pub fn alkali_packet(&self, name: &str) -> Option<CType> {
        let packet = self.alkali.is && matches!(name, "buf_t" | "buf_tag");
        packet.then_some(CType::Packet)
    }

    /// The event of a handler.
    ///
    /// # Errors
    /// Reports handlers that take what their event does not bring.
    pub fn alkali_event(&mut self, node: &'a Node, of: &Signature) -> Lowered<EventId> {
        let name = node.name.as_str();
        let packets = of.params.iter().filter(|kind| **kind == ParamKind::Packet).count();
        let receives = self.alkali.receives(name);
        if (receives && of.params != [ParamKind::Packet]) || packets > 1 || of.result.is_some() {
            let message = format!("`{name}` is the handler of an event and must look like it");
            let help = "write `void NET_RECV__name(buf_t packet)`, or `void EVENT__name(buf_t packet, struct T *data)`";
            return Err(self.refuse(codes::HANDLER_TYPE, node.name_span, message, help));
        }
        let event = self.prog.event_named("net_recv").filter(|_| receives);
        if event.is_some_and(|event| self.prog.handler_of(event).is_some()) {
            let message = "there is a handler of what comes in already";
            let help = "do both in one handler, or generate an event for the other";
            return Err(self.refuse(codes::HANDLER_TYPE, node.name_span, message, help));
        }
        if receives {
            // The interface knows one port.
            self.prog.ports = 1;
            return Ok(self.event("net_recv", Direction::In, &[("pkt", Type::Packet)]));
        }
        let decls = node.inner.iter().filter(|n| n.kind == "ParmVarDecl");
        let params: Vec<(String, Type)> = decls
            .zip(&of.params)
            .enumerate()
            .map(|(at, (decl, kind))| {
                let ty = match kind {
                    ParamKind::Packet => Type::Packet,
                    ParamKind::Value(ty) | ParamKind::InOut { ty, .. } => *ty,
                };
                let unnamed = decl.name.is_empty();
                (if unnamed { format!("value_{at}") } else { decl.name.clone() }, ty)
            })
            .collect();
        let params: Vec<(&str, Type)> = params.iter().map(|(n, ty)| (n.as_str(), *ty)).collect();
        Ok(self.event(name, Direction::Internal, &params))
    }

    /// Parameters that handlers take by address: they are theirs alone, and nothing goes back.
    pub fn alkali_parameters(&self, of: Signature) -> Signature {
        let own = |kind| match kind {
            ParamKind::InOut { ty, .. } => ParamKind::InOut { ty, read_only: true },
            kind => kind,
        };
        Signature { params: of.params.into_iter().map(own).collect(), ..of }
    }

    /// The handler that `generate` means.
    ///
    /// # Errors
    /// Reports events with no handler, or with several.
    fn generated_handler(&mut self, event: &str, call: &Node) -> Lowered<&'a Node> {
        let of = |name: &str| name.split_once("__").is_some_and(|(start, _)| start == event);
        let named = self.index.functions.iter().filter(|(name, _)| *name == event || of(name));
        let mut found: Vec<&Node> = named.map(|(_, node)| *node).collect();
        found.sort_by_key(|node| node.name_span.start);
        match found[..] {
            [node] => Ok(node),
            [] => {
                let message = format!("the event `{event}` has no handler");
                let help = format!("define `void {event}__name(buf_t packet)`");
                Err(self.refuse(codes::QUEUE, call.span, message, &help))
            }
            _ => {
                let message = format!("the event `{event}` has several handlers");
                let help = "generate the event by a handler's full name";
                Err(self.refuse(codes::QUEUE, call.span, message, help))
            }
        }
    }

    /// A table in the form of a pointer to an entry, `struct { K key; V value; } *name`.
    pub fn alkali_entry_table(&mut self, node: &'a Node) -> Option<Lowered<Global>> {
        let tag = node.ty.strip_prefix("struct ")?.strip_suffix(" *")?;
        let record = self.index.record_of(tag).filter(|_| self.alkali.is)?;
        let fields: Vec<&Node> = record.inner.iter().filter(|n| n.kind == "FieldDecl").collect();
        let [key, value] = fields[..] else { return None };
        (key.name == "key" && value.name == "value").then(|| self.entry_table(node, key, value))
    }

    fn entry_table(&mut self, node: &'a Node, key: &Node, value: &Node) -> Lowered<Global> {
        let span = node.name_span;
        let key = self.value_type(&key.ty, span)?;
        let value = self.value_type(&value.ty, span)?;
        let message = format!("the table `{}` says no number of entries", node.name);
        self.report(
            Diagnostic::warning(codes::LEFT_OPEN.id, span, message)
                .label(format!("taken as {ENTRIES}"))
                .help("write ak_TABLE(entries, key type, value type) name"),
        );
        Ok(Global::Table(self.prog.tables.push(Table {
            name: node.name.clone(),
            kind: TableKind::Hash,
            key,
            key_big_endian: false,
            value,
            capacity: ENTRIES,
            buf: None,
            max_replicas: None,
            by_number: false,
            shared: false,
            span,
        })))
    }
}
