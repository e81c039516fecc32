//! What stands outside functions: tables, constants, annotations, handlers.

use std::collections::{HashMap, HashSet};

use nicforge_ir::{
    ConstArray, Diagnostic, Direction, Handler, Room, Side, Span, Table, TableId, TableKind, Type,
};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::functions::{lower_body, parameters, signature};
use crate::signatures::{ParamKind, Signature};
use crate::unit::{Failed, Global, Lowered, Unit};

/// Most ports, replicas: more than any NIC or host has.
const MAX_COUNT: i128 = 65_536;

/// Most entries of a table.
pub const MAX_ENTRIES: u32 = 1 << 30;

/// Annotations that wait for the handler or table they stand before.
#[derive(Default)]
struct Pending {
    max_replicas: Option<(u32, Span)>,
    unordered: Option<Span>,
    side: Option<(Side, Span)>,
    room: Option<(Room, Span)>,
    /// The period in nanoseconds.
    timer: Option<(u64, Span)>,
    by_number: Option<Span>,
    shared: Option<Span>,
}

impl Pending {
    fn places(&self) -> Vec<Span> {
        let replicas = self.max_replicas.map(|(_, span)| span);
        replicas
            .into_iter()
            .chain(self.unordered)
            .chain(self.side.map(|(_, span)| span))
            .chain(self.room.map(|(_, span)| span))
            .chain(self.timer.map(|(_, span)| span))
            .chain(self.by_number)
            .chain(self.shared)
            .collect()
    }
}

impl<'a> Unit<'a> {
    /// Lowers a whole translation unit.
    pub fn lower(&mut self, root: &'a Node) {
        self.prog.ports = 2;
        let mut pending = Pending::default();
        let mut handlers = Vec::new();
        let mentioned = self.mentioned(root);
        for node in &root.inner {
            let is_spare = node.kind == "VarDecl"
                && (node.storage == "extern"
                    || node.name_span.file != first_file()
                    || !node.ty.contains('*') && !self.is_constant(node))
                && !mentioned.contains(&node.id)
                && self.table_record(node).is_none();
            match node.kind.as_str() {
                // Headers have what programs have no use for.
                _ if is_spare => {}
                "StaticAssertDecl" => self.annotation(node, &mut pending),
                "VarDecl" => {
                    let is_table = self.global(node);
                    self.attach(node, is_table, &mut pending);
                }
                "FunctionDecl" if node.has("CompoundStmt") => {
                    let annotations = std::mem::take(&mut pending);
                    if annotations.timer.is_some() {
                        self.timers.insert(node.name.clone());
                    }
                    if self.is_handler_name(&node.name) {
                        handlers.push((node, annotations));
                    } else {
                        self.misplaced(&annotations);
                    }
                }
                "FileScopeAsmDecl" => {
                    let help = "write it with C's operators";
                    self.refuse(
                        codes::ASM,
                        node.span,
                        "inline assembly is outside the subset",
                        help,
                    );
                }
                _ => {}
            }
        }
        self.misplaced(&pending);
        self.check_strangers(root);
        let reached = self.reached(handlers.iter().map(|(node, _)| *node));
        for node in &root.inner {
            let is_user = node.name_span.file.is_some_and(|file| self.user_files.contains(&file));
            let counts = match node.kind.as_str() {
                "FunctionDecl" => node.has("CompoundStmt") && reached.contains(node.name.as_str()),
                kind => kind == "VarDecl" && self.globals.contains_key(&node.id),
            };
            if is_user && counts {
                self.check_byte_order(node);
            }
        }
        let found = !handlers.is_empty();
        for (node, annotations) in handlers {
            // What failed is reported.
            let _ = self.handler(node, &annotations);
        }
        if self.error_count() == 0 {
            self.check_written_first();
            self.check_fires();
        }
        if !found && self.error_count() == 0 {
            let span = root
                .inner
                .iter()
                .rev()
                .find(|n| n.name_span.file == first_file())
                .map(|n| n.name_span);
            let diagnostic = Diagnostic::error(
                codes::NO_HANDLER.id,
                span.unwrap_or_default(),
                "the program has no handler",
            )
            .help("define `void net_recv(nf_pkt pkt)`: it runs for every packet that comes in");
            self.report(diagnostic);
        }
    }

    /// Declarations that the program's own file names, and functions that are called.
    fn mentioned(&self, root: &'a Node) -> HashSet<u64> {
        let (mut found, mut next) = (HashSet::new(), Vec::new());
        for node in &root.inner {
            let may_handle = node.kind == "FunctionDecl" && node.storage != "static";
            if node.name_span.file == first_file() || may_handle {
                next.push(node);
            }
        }
        let variables = root.inner.iter().filter(|node| node.kind == "VarDecl");
        let variables: HashMap<u64, &Node> = variables.map(|node| (node.id, node)).collect();
        while let Some(node) = next.pop() {
            node.walk(&mut |node| {
                let Some(named) = node.referenced.as_ref() else { return };
                if found.insert(named.id) {
                    let function = self.index.functions.get(&named.name);
                    next.extend(function.filter(|_| named.kind == "FunctionDecl"));
                    next.extend(variables.get(&named.id));
                }
            });
        }
        found
    }

    /// Functions that handlers call, with those; headers of systems have others, with types that
    /// values cannot have.
    fn reached(&self, handlers: impl Iterator<Item = &'a Node>) -> HashSet<&'a str> {
        let mut next: Vec<&Node> = handlers.collect();
        let mut found: HashSet<&str> = next.iter().map(|node| node.name.as_str()).collect();
        while let Some(node) = next.pop() {
            node.walk(&mut |inner| {
                let name = inner.callee().map(|callee| callee.name.as_str());
                let known = name.and_then(|name| self.index.functions.get(name)).copied();
                if let Some(callee) = known.filter(|callee| found.insert(callee.name.as_str())) {
                    next.push(callee);
                }
            });
        }
        found
    }

    fn misplaced(&mut self, pending: &Pending) {
        for span in pending.places() {
            let help = "put it directly before a handler or an NF_TABLE";
            self.refuse(
                codes::ANNOTATION,
                span,
                "this annotation belongs to no handler or table",
                help,
            );
        }
    }

    fn annotation(&mut self, node: &'a Node, pending: &mut Pending) {
        let text =
            node.inner.iter().find(|n| n.kind == "StringLiteral").and_then(|n| n.value.as_deref());
        let Some(name) = text.unwrap_or_default().trim_matches('"').strip_prefix("nf.") else {
            return;
        };
        // The macros test `(n) > 0`.
        let condition = node.inner.first().map(Node::strip_casts);
        let count = condition.and_then(|c| c.inner.first()).and_then(|n| self.eval(n)).unwrap_or(1);
        let span = node.name_span;
        if name == "timer" {
            let number = condition.and_then(|c| c.inner.first()).and_then(|n| self.eval(n));
            // A wrong period is reported; the handler is one all the same.
            pending.timer = Some((self.period(number, span).unwrap_or(1), span));
            return;
        }
        if !(1..=MAX_COUNT).contains(&count) {
            let message = format!("{count} is out of range: at most {MAX_COUNT}");
            self.refuse(codes::ANNOTATION, span, message, "give a smaller number");
            return;
        }
        if let Some(first) = name.strip_prefix("write_first.") {
            let first = first.trim_start_matches("struct ").split_once('.');
            self.write_first.extend(first.map(|(of, member)| (of.into(), member.into())));
            return;
        }
        if let Some(text) = name.strip_prefix("fires.") {
            match crate::promises::declared(text, span) {
                Some(declared) => self.fires_declared.push(declared),
                None => {
                    let help = "write NF_FIRES(all, function, outputs…), or one, zero_or_one, together, last, many";
                    self.refuse(codes::ANNOTATION, span, "this says no class, or no outputs", help);
                }
            }
            return;
        }
        match name {
            "ports" => self.prog.ports = count as u32,
            "max_replicas" => pending.max_replicas = Some((count as u32, span)),
            "unordered" => pending.unordered = Some(span),
            "by_number" => pending.by_number = Some(span),
            "shared" => pending.shared = Some(span),
            "on.nic" => pending.side = Some((Side::Nic, span)),
            "queue.waits" | "queue.loses" => {
                let room = Room { entries: count as u32, loses: name == "queue.loses" };
                pending.room = Some((room, span));
            }
            _ if name.starts_with("queue.") => {
                let message =
                    format!("`{}` is nothing a full queue does", name.trim_start_matches("queue."));
                self.refuse(
                    codes::ANNOTATION,
                    span,
                    message,
                    "write NF_QUEUE(entries, waits) or NF_QUEUE(entries, loses)",
                );
            }
            "on.host" => pending.side = Some((Side::Host, span)),
            _ => {
                let message = format!("`{}` is no side", name.trim_start_matches("on."));
                self.refuse(codes::ANNOTATION, span, message, "write NF_ON(nic) or NF_ON(host)");
            }
        }
    }

    /// Gives a table the annotations before it.
    fn attach(&mut self, node: &Node, is_table: bool, pending: &mut Pending) {
        let annotations = std::mem::take(pending);
        match (self.globals.get(&node.id), is_table) {
            (Some(Global::Table(id)), _) => {
                let id = *id;
                let told = annotations.max_replicas.map(|(n, _)| n);
                self.prog.tables[id].max_replicas = told.or(self.prog.tables[id].max_replicas);
                self.by_number(id, annotations.by_number);
                self.shared(id, annotations.shared);
                for span in annotations
                    .unordered
                    .into_iter()
                    .chain(annotations.side.map(|(_, s)| s))
                    .chain(annotations.room.map(|(_, s)| s))
                    .chain(annotations.timer.map(|(_, s)| s))
                {
                    let help = "put it before the handler";
                    self.refuse(
                        codes::ANNOTATION,
                        span,
                        "this annotation is for handlers, not tables",
                        help,
                    );
                }
            }
            (_, true) => {}
            _ => self.misplaced(&annotations),
        }
    }

    /// A variable outside functions (or a static one inside). Returns whether it was meant as a
    /// table.
    pub fn global(&mut self, node: &'a Node) -> bool {
        let table = match self.table_record(node) {
            Some(record) => Some(self.table(node, record)),
            None => self.alkali_entry_table(node),
        };
        let is_table = table.is_some();
        let global = table.unwrap_or_else(|| self.variable(node));
        self.globals.insert(node.id, global.unwrap_or(Global::Broken));
        is_table
    }

    /// The struct that NF_TABLE made, if the variable is a table.
    fn table_record(&self, node: &Node) -> Option<&'a Node> {
        let place = node.ty.strip_prefix("struct (unnamed struct at ")?;
        let place = place.trim_end_matches(" *").strip_suffix(')')?;
        self.index.record_at(place, true)
    }

    fn table(&mut self, node: &'a Node, record: &'a Node) -> Lowered<Global> {
        let span = node.name_span;
        let fields: Vec<&Node> = record.inner.iter().filter(|n| n.kind == "FieldDecl").collect();
        let kind_name = fields[0].name.trim_start_matches("nf_kind_");
        let Some(kind) = TableKind::ALL.into_iter().find(|kind| kind.name() == kind_name) else {
            let known: Vec<&str> = TableKind::ALL.into_iter().map(TableKind::name).collect();
            let message = format!("there is no table kind `{kind_name}`");
            let help = format!("use one of {}", known.join(", "));
            return Err(self.refuse(codes::TABLE_KIND, span, message, &help));
        };
        let field = |name: &str| fields.iter().find(|f| f.name == name).map(|f| f.ty.as_str());
        let key_big_endian = match self.ctype(field("key").unwrap_or_default()) {
            CType::Pointer { to, .. } => matches!(*to, CType::Int { network: true, .. }),
            _ => false,
        };
        let key = self.table_type(field("key"), span);
        let value = self.table_type(field("value"), span);
        let capacity = self.table_count(field("capacity"), span, "entries");
        let buf = match field("buf") {
            Some(text) => self.table_count(Some(text), span, "bytes").map(Some),
            None => Ok(None),
        };
        let max_replicas = match field("max_replicas") {
            Some(text) => self.table_count(Some(text), span, "replicas").map(Some),
            None => Ok(None),
        };
        let (key, value, capacity, buf) = (key?, value?, capacity?, buf?);
        let max_replicas = max_replicas?;
        if kind == TableKind::Array && key != Type::U32 {
            let message =
                format!("the key of an array is a `u32`, not a `{}`", self.prog.type_name(key));
            return Err(self.refuse(
                codes::TABLE_KEY,
                span,
                message,
                "write uint32_t as the key's type",
            ));
        }
        let name = node.name.clone();
        let (by_number, shared) = (false, false);
        let table = Table {
            name,
            kind,
            key,
            key_big_endian,
            value,
            capacity,
            buf,
            max_replicas,
            by_number,
            shared,
            span,
        };
        Ok(Global::Table(self.prog.tables.push(table)))
    }

    /// The type behind NF_TABLE's `type *` member.
    fn table_type(&mut self, text: Option<&str>, span: Span) -> Lowered<Type> {
        match self.ctype(text.unwrap_or_default()) {
            CType::Pointer { to, .. } => self.value_type_of(&to, span),
            ty => self.value_type_of(&ty, span),
        }
    }

    /// The number behind NF_TABLE's `char (*)[number]` member.
    fn table_count(&mut self, text: Option<&str>, span: Span, what: &str) -> Lowered<u32> {
        let CType::Pointer { to, .. } = self.ctype(text.unwrap_or_default()) else {
            return Err(Failed);
        };
        match *to {
            CType::Array(_, count @ 1..=MAX_ENTRIES) => Ok(count),
            CType::Array(_, 0) => {
                let message = format!("a table needs room for at least 1 of its {what}");
                Err(self.refuse(
                    codes::TABLE_CAPACITY,
                    span,
                    message,
                    "give a capacity of at least 1",
                ))
            }
            _ => {
                let message =
                    format!("a table's number of {what} is a constant from 1 to {MAX_ENTRIES}");
                Err(self.refuse(codes::TABLE_CAPACITY, span, message, "give a smaller capacity"))
            }
        }
    }

    /// True for constants, and variables that nothing writes to, which are as good as one.
    fn is_constant(&self, node: &Node) -> bool {
        is_const(&node.ty)
            || node.storage != "extern"
                && !node.ty.contains('*')
                && !self.written.contains(&node.id)
                && node.inner.iter().any(|child| !child.kind.ends_with("Attr"))
    }

    fn variable(&mut self, node: &'a Node) -> Lowered<Global> {
        let span = node.name_span;
        let ty = self.ctype(&node.ty);
        if !matches!(ty, CType::Refused(_) | CType::Packet) && !self.is_constant(node) {
            return self.static_variable(node, &ty);
        }
        let ir = self.value_type_of(&ty, span)?;
        let Some(init) = node.inner.iter().find(|n| !n.kind.ends_with("Attr")) else {
            let help = "write its value here";
            return Err(self.refuse(
                codes::CONST_INIT,
                span,
                "a constant needs an initialiser",
                help,
            ));
        };
        if ir.is_int() {
            return match self.eval(init) {
                Some(value) => Ok(Global::ConstInt(value)),
                None => {
                    self.init_bytes(init, ir)?;
                    Err(Failed)
                }
            };
        }
        let bytes = self.init_bytes(init, ir)?;
        let elem = match ir {
            Type::Array(id) => self.prog.arrays[id].elem,
            ty => ty,
        };
        let array = ConstArray { name: node.name.clone(), elem, bytes, span };
        let id = self.prog.consts.push(array);
        Ok(if ir == elem { Global::ConstStruct(id) } else { Global::ConstArray(id) })
    }

    /// The entries of arrays have numbers.
    fn by_number(&mut self, table: TableId, said: Option<Span>) {
        let Some(span) = said else { return };
        let table = &mut self.prog.tables[table];
        table.by_number = table.kind == TableKind::Array;
        if !table.by_number {
            let message = format!("the entries of {} tables have no numbers", table.kind.name());
            self.refuse(codes::ANNOTATION, span, message, "put it before an array");
        }
    }

    /// What programs map are arrays of whole words: elsewhere an entry takes more room than its
    /// value.
    fn shared(&mut self, table: TableId, said: Option<Span>) {
        let Some(span) = said else { return };
        let Table { kind, value, buf, .. } = self.prog.tables[table];
        let whole =
            kind == TableKind::Array && buf.is_none() && self.prog.size_of(value).is_multiple_of(8);
        self.prog.tables[table].shared = whole;
        if !whole {
            let message = "only arrays of values of a multiple of 8 bytes can be mapped";
            self.refuse(
                codes::ANNOTATION,
                span,
                message,
                "put it before NF_TABLE(array, …) of such values",
            );
        }
    }

    fn handler(&mut self, node: &'a Node, annotations: &Pending) -> Lowered<()> {
        if let Some(span) = annotations.by_number.or(annotations.shared) {
            let help = "put it before the array whose entries it is about";
            self.refuse(
                codes::ANNOTATION,
                span,
                "this annotation is for tables, not handlers",
                help,
            );
        }
        let signature = signature(self, node)?;
        let event = match annotations.timer {
            Some((period, span)) => self.timer_event(node, &signature, period, span)?,
            None => self.handler_event(node, &signature)?,
        };
        if let (Some((_, span)), false) = (annotations.room, self.queues.contains(&node.name)) {
            let message = format!("`{}` is no handler of a queue", node.name);
            return Err(self.refuse(
                codes::ANNOTATION,
                span,
                message,
                "put it before a function that nf_enqueue names",
            ));
        }
        let own = self.alkali.handles(&node.name);
        let signature = if own { self.alkali_parameters(signature) } else { signature };
        let lowered = lower_body(self, node, &signature, &[]);
        if lowered.is_err() && self.error_count() == 0 {
            // Every failure is reported where it happens; this keeps a forgotten report from
            // looking like success.
            let help = "please report this with the program";
            self.refuse(codes::INTERNAL, node.name_span, "this handler could not be lowered", help);
        }
        let (mut body, ..) = lowered?;
        if own {
            self.drop_kept(&mut body, node.name_span);
        }
        let handler = self.prog.handlers.push(Handler {
            name: node.name.clone(),
            event,
            body,
            max_replicas: annotations.max_replicas.map(|(n, _)| n),
            unordered: annotations.unordered.is_some(),
            side: annotations.side.map(|(side, _)| side),
            room: annotations.room.map(|(room, _)| room),
            span: node.name_span,
        });
        self.check_handler_packets(handler);
        Ok(())
    }

    fn handler_event(
        &mut self,
        node: &'a Node,
        signature: &Signature,
    ) -> Lowered<nicforge_ir::EventId> {
        let Signature { params, result } = signature;
        let is_static = node.storage == "static";
        match (node.name.as_str(), &params[..], result) {
            ("net_recv", [ParamKind::Packet], None) if !is_static => {
                Ok(self.event("net_recv", Direction::In, &[("pkt", Type::Packet)]))
            }
            ("host_send", [ParamKind::Value(ty @ Type::Struct(_))], None) if !is_static => {
                Ok(self.event("host_send", Direction::In, &[("msg", *ty)]))
            }
            (name, _, _) if self.queues.contains(name) => self.queue_event(node, signature),
            (name, _, _) if self.alkali.handles(name) => self.alkali_event(node, signature),
            (name, _, _) => {
                let usage = match name {
                    "net_recv" => "void net_recv(nf_pkt pkt)",
                    _ => "void host_send(struct T message)",
                };
                let message = format!("`{name}` is the handler of an event and must look like it");
                Err(self.refuse(
                    codes::HANDLER_TYPE,
                    node.name_span,
                    message,
                    &format!("write `{usage}`"),
                ))
            }
        }
    }

    fn is_handler_name(&self, name: &str) -> bool {
        matches!(name, "net_recv" | "host_send")
            || self.timers.contains(name)
            || self.queues.contains(name)
            || self.alkali.handles(name)
    }

    /// Functions that look like handlers of events that do not exist: not static, never called, in
    /// the program's own file or with a packet. Files that it includes may have functions to spare.
    fn check_strangers(&mut self, root: &'a Node) {
        let mut called = HashSet::new();
        root.walk(&mut |n| {
            let named = n.referenced.as_ref().filter(|of| of.kind == "FunctionDecl");
            called.extend(named.map(|of| of.name.as_str()));
        });
        for node in &root.inner {
            let external =
                node.kind == "FunctionDecl" && node.storage.is_empty() && node.has("CompoundStmt");
            let known = self.is_handler_name(&node.name) || self.alkali.ignores(&node.name);
            if !external || known || called.contains(node.name.as_str()) {
                continue;
            }
            let packet = |param: &Node| self.ctype(&param.ty) == CType::Packet;
            if node.name_span.file != first_file() && !parameters(node).any(packet) {
                continue;
            }
            let message = format!("there is no event `{}`", node.name);
            let help = "handlers are net_recv, host_send, what nf_enqueue names and what NF_TIMER(period) stands before; make a function \
                 of your own `static`";
            self.refuse(codes::HANDLER_NAME, node.name_span, message, help);
        }
    }
}

/// True if a declared type is constant as a whole: `const T`, `const T[4]`; not `const T *`.
fn is_const(text: &str) -> bool {
    text.starts_with("const ") && !text.contains('*')
}

/// The main source file is the first that is opened.
fn first_file() -> Option<nicforge_ir::FileId> {
    Some(nicforge_ir::FileId::from_u32(0))
}
