//! One translation unit while it is lowered: the program so far, the declarations by name and id,
//! and what was reported.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use nicforge_ir::{
    ConstId, Diagnostic, EventId, FileId, FuncId, Param, Program, Span, StructId, TableId, Type,
};

use crate::alkali::source::Alkali;
use crate::assigned::assigned_decls;
use crate::ast::Node;
use crate::ctypes::{self, CType, Names, Refusal};
use crate::diagnostics::codes::{self, Code};
use crate::parts::Returned;
use crate::promises::{Declared, Fires};
use crate::signatures::{Callee, FuncState, Passed};
use crate::storage::{Static, indexed_members};

/// Largest struct or array a value may be, in bytes.
pub const MAX_VALUE_BYTES: u64 = 64 * 1024;

/// An error was reported; the construct has no meaning.
#[derive(Clone, Copy, Debug)]
pub struct Failed;

/// A result whose error is already reported.
pub type Lowered<T> = Result<T, Failed>;

/// A member of a union that the union is not kept as.
#[derive(Clone, Copy, Debug)]
pub struct Over {
    pub ty: Type,
    pub big_endian: bool,
}

/// Declarations of the syntax tree by what uses name them by.
#[derive(Default)]
pub struct Index<'a> {
    pub records: HashMap<u64, &'a Node>,
    record_of_tag: HashMap<String, u64>,
    /// Records by place: NF_TABLE's own one and a struct written inside its parentheses have the
    /// same.
    record_places: HashMap<String, Vec<&'a Node>>,
    typedefs: HashMap<String, &'a Node>,
    /// Typedef names of records without a tag.
    pub record_names: HashMap<u64, String>,
    /// True if the enum of a tag or place has a negative enumerator.
    enum_signed: HashMap<String, bool>,
    pub enumerators: HashMap<u64, i128>,
    /// Enumerators whose values are cast to a type in network order, as `TCP_FLAG_SYN` is.
    pub network_enumerators: HashSet<u64>,
    /// Functions with a body.
    pub functions: HashMap<String, &'a Node>,
    /// Functions that are declared `extern` and have no body here.
    pub declared: HashMap<String, &'a Node>,
}

impl<'a> Index<'a> {
    /// Walks the tree once. `eval` of enumerators needs only what came before them.
    pub fn new(root: &'a Node) -> Index<'a> {
        let mut index = Index::default();
        root.walk(&mut |node| index.add(node));
        index
    }

    /// The record declared at `path:line:column`, as clang names records without a tag: NF_TABLE's
    /// or another.
    pub fn record_at(&self, place: &str, table: bool) -> Option<&'a Node> {
        let records = self.record_places.get(place)?;
        records.iter().copied().find(|record| is_table_record(record) == table)
    }

    /// The record with a tag.
    pub fn record_of(&self, tag: &str) -> Option<&'a Node> {
        self.records.get(self.record_of_tag.get(tag)?).copied()
    }

    /// The declaration of a typedef.
    pub fn typedef(&self, name: &str) -> Option<&'a Node> {
        self.typedefs.get(name).copied()
    }

    fn add(&mut self, node: &'a Node) {
        match node.kind.as_str() {
            "RecordDecl" if node.flags.complete => {
                self.records.insert(node.id, node);
                self.record_places.entry(node.place.clone()).or_default().push(node);
                if !node.name.is_empty() {
                    self.record_of_tag.insert(node.name.clone(), node.id);
                }
            }
            "TypedefDecl" => {
                self.typedefs.insert(node.name.clone(), node);
                let mut tag = 0;
                node.walk(&mut |n| tag = if n.tag_decl != 0 { n.tag_decl } else { tag });
                if self.records.get(&tag).is_some_and(|record| record.name.is_empty()) {
                    self.record_names.entry(tag).or_insert_with(|| node.name.clone());
                    self.record_of_tag.entry(node.name.clone()).or_insert(tag);
                }
            }
            "EnumDecl" => self.add_enum(node),
            "FunctionDecl" if node.has("CompoundStmt") => {
                self.functions.insert(node.name.clone(), node);
            }
            "FunctionDecl" if node.storage == "extern" && !node.flags.implicit => {
                self.declared.insert(node.name.clone(), node);
            }
            _ => {}
        }
    }

    fn add_enum(&mut self, node: &Node) {
        let (mut next, mut negative) = (0, false);
        for constant in node.inner.iter().filter(|n| n.kind == "EnumConstantDecl") {
            let mut explicit = None;
            constant.walk(&mut |n| {
                if matches!(n.ty.as_str(), "__be16" | "__be32" | "__be64") {
                    self.network_enumerators.insert(constant.id);
                }
                if explicit.is_none() && n.kind == "ConstantExpr" {
                    explicit = n.value.as_ref().and_then(|v| v.parse::<i128>().ok());
                }
            });
            let value = explicit.unwrap_or(next);
            self.enumerators.insert(constant.id, value);
            negative |= value < 0;
            next = value + 1;
        }
        let key = if node.name.is_empty() { &node.place } else { &node.name };
        self.enum_signed.insert(key.clone(), negative);
    }
}

/// Things that a global name stands for.
#[derive(Clone, Debug)]
pub enum Global {
    Table(TableId),
    /// An array; `element` is its C element type.
    ConstArray(ConstId),
    /// A struct: the only element of a constant array.
    ConstStruct(ConstId),
    ConstInt(i128),
    /// A variable that changes.
    Static(TableId),
    /// Refused and reported.
    Broken,
}

/// Names of all functions that something is enqueued for.
fn queues(root: &Node) -> HashSet<String> {
    let mut found = HashSet::new();
    root.walk(&mut |node| {
        if let Some(callee) = node.enqueued().and_then(Node::callee) {
            found.insert(callee.name.clone());
        }
    });
    found
}

/// The unit.
pub struct Unit<'a> {
    pub prog: Program,
    /// Files that are the user's, not the runtime's or clang's.
    pub user_files: HashSet<FileId>,
    pub diagnostics: Vec<Diagnostic>,
    pub index: Index<'a>,
    pub globals: HashMap<u64, Global>,
    /// Variables of static storage duration, by their tables; of several by the first.
    pub statics: HashMap<TableId, Rc<Static>>,
    /// Structs of what is left of others without their long arrays.
    pub rests: HashMap<StructId, StructId>,
    /// Members of which elements are taken by a number that varies, by declaration.
    indexed: HashSet<u64>,
    /// Such members, by struct and number.
    pub indexed_fields: HashSet<(StructId, u32)>,
    /// Signatures of called functions; those that are refused have none.
    pub callees: HashMap<String, Option<Rc<Callee>>>,
    /// The parameters of functions that lead to memory which each call knows, by declaration.
    pub memory_params: HashMap<u64, Vec<bool>>,
    /// The parameters of functions that may decide when loops end, by declaration.
    pub ends_loops: HashMap<u64, Vec<bool>>,
    /// Functions by what was passed to them.
    pub funcs: HashMap<String, Vec<(Vec<Passed>, FuncState)>>,
    pub alkali: Alkali,
    /// Functions that are handlers of queues.
    pub queues: HashSet<String>,
    /// Functions that are handlers of timers, found so far.
    pub timers: HashSet<String>,
    /// For each function and parameter: where a packet is given away, if every path does so.
    pub consumes: HashMap<FuncId, Vec<Option<Span>>>,
    /// For each function: what is known of its results.
    pub returned: HashMap<FuncId, Vec<Returned>>,
    /// Variables that something assigns, or that an address is taken of.
    pub written: HashSet<u64>,
    /// Expressions that were found not to be constant, by node.
    pub not_constant: HashSet<u64>,
    /// Structs and members that are to be written before they are read.
    pub write_first: Vec<(String, String)>,
    pub fires_declared: Vec<Declared>,
    pub fires: Vec<Fires>,
    pub structs: HashMap<u64, Option<StructId>>,
    pub fields: HashMap<u64, u32>,
    /// Alignment of structs that is more than the natural one, in bytes.
    pub aligned: HashMap<StructId, u64>,
    /// Members of unions that lie over what the union is kept as.
    pub lies_over: HashMap<u64, Over>,
    types: HashMap<String, CType>,
}

impl<'a> Unit<'a> {
    pub fn new(prog: Program, user_files: HashSet<FileId>, root: &'a Node) -> Unit<'a> {
        let mut written = HashSet::new();
        assigned_decls(root, &mut written);
        Unit {
            written,
            prog,
            user_files,
            diagnostics: Vec::new(),
            index: Index::new(root),
            globals: HashMap::new(),
            statics: HashMap::new(),
            rests: HashMap::new(),
            indexed: indexed_members(root),
            indexed_fields: HashSet::new(),
            callees: HashMap::new(),
            memory_params: HashMap::new(),
            ends_loops: HashMap::new(),
            funcs: HashMap::new(),
            alkali: Alkali::new(root),
            queues: queues(root),
            timers: HashSet::new(),
            consumes: HashMap::new(),
            returned: HashMap::new(),
            not_constant: HashSet::new(),
            write_first: Vec::new(),
            fires_declared: Vec::new(),
            fires: Vec::new(),
            structs: HashMap::new(),
            fields: HashMap::new(),
            aligned: HashMap::new(),
            lies_over: HashMap::new(),
            types: HashMap::new(),
        }
    }

    /// True for the declaration of a member of which elements are taken by a number that varies.
    pub fn is_indexed(&self, member: u64) -> bool {
        self.indexed.contains(&member)
    }

    /// Reports a diagnostic.
    pub fn report(&mut self, diagnostic: Diagnostic) -> Failed {
        self.diagnostics.push(diagnostic);
        Failed
    }

    /// Reports an error with a remedy.
    pub fn refuse(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        help: &str,
    ) -> Failed {
        let mut diagnostic = Diagnostic::error(code.id, span, message);
        if !help.is_empty() {
            diagnostic = diagnostic.help(help);
        }
        self.report(diagnostic)
    }

    /// The C type of clang's spelling.
    pub fn ctype(&mut self, text: &str) -> CType {
        if let Some(known) = self.types.get(text) {
            return known.clone();
        }
        let ty = ctypes::parse(text, self);
        self.types.insert(text.to_string(), ty.clone());
        ty
    }

    /// The αIR type of a C type, if values can have it.
    pub fn ir_type(&mut self, ty: &CType) -> Option<Type> {
        match ty {
            CType::Int { .. } => ty.int_type(),
            CType::Struct(id) => Some(Type::Struct(*id)),
            CType::Array(element, length) => {
                let element = self.ir_type(element)?;
                Some(self.prog.array_of(element, *length))
            }
            _ => None,
        }
    }

    /// The αIR type of a value the user declares at `span`.
    ///
    /// # Errors
    /// Reports types that values cannot have.
    pub fn value_type(&mut self, text: &str, span: Span) -> Lowered<Type> {
        let ty = self.ctype(text);
        self.value_type_of(&ty, span)
    }

    /// As [`Unit::value_type`], for a type already read.
    pub fn value_type_of(&mut self, ty: &CType, span: Span) -> Lowered<Type> {
        match ty {
            CType::Refused(refusal) => Err(self.refuse_type(refusal, span)),
            CType::Pointer { to, .. } if matches!(**to, CType::Function { .. }) => Err(self.refuse(
                codes::FUNCTION_POINTER,
                span,
                "no function is ever given to a pointer in this file",
                "let it lead to functions of this file: `int (*f)(int) = add;`",
            )),
            CType::Pointer { .. } => Err(self.refuse(
                codes::POINTER_TYPE,
                span,
                "it cannot be seen where this pointer leads",
                "it may lead to variables and into arrays that it is set to; elsewhere keep an \
                 index",
            )),
            CType::Packet => Err(self.refuse(
                codes::PACKET_COPIED,
                span,
                "a packet handle cannot be stored",
                "use the handler's parameter, or take it as a parameter; copies and new packets are \
                 sent where they are made: nf_send(nf_new(frame), port)",
            )),
            CType::Void | CType::Function { .. } => {
                Err(self.refuse(codes::NO_VALUE_TYPE, span, "a value cannot have this type", ""))
            }
            CType::Array(element, _) => {
                self.value_type_of(element, span)?;
                let Some(ty) = self.ir_type(ty) else { return Err(Failed) };
                self.check_size(ty, span)?;
                Ok(ty)
            }
            CType::Int { .. } | CType::Struct(_) => self.ir_type(ty).ok_or(Failed),
        }
    }

    /// Size in bytes, counted without overflow.
    pub fn size_of(&self, ty: Type) -> u64 {
        match ty {
            Type::Array(id) => {
                let def = self.prog.arrays[id];
                self.size_of(def.elem).saturating_mul(u64::from(def.len))
            }
            _ => u64::from(self.prog.size_of(ty)),
        }
    }

    pub fn check_size(&mut self, ty: Type, span: Span) -> Lowered<()> {
        let size = self.size_of(ty);
        if size > MAX_VALUE_BYTES {
            let message = format!("this takes {size} bytes; values may take {MAX_VALUE_BYTES}");
            return Err(self.refuse(
                codes::TOO_LARGE,
                span,
                message,
                "keep large data in a table (NF_TABLE)",
            ));
        }
        if size == 0 {
            return Err(self.refuse(
                codes::NO_VALUE_TYPE,
                span,
                "a value cannot be empty",
                "give it a member",
            ));
        }
        Ok(())
    }

    fn refuse_type(&mut self, refusal: &Refusal, span: Span) -> Failed {
        let (code, message, help) = match refusal {
            Refusal::Reported => return Failed,
            Refusal::Table => (
                codes::TABLE_USE,
                "a table cannot be declared inside a function or struct".to_string(),
                "declare it by itself, outside",
            ),
            Refusal::Float => (
                codes::FLOAT,
                "floating point is not available on NICs".to_string(),
                "use integers; scale them (for example count in thousandths)",
            ),
            Refusal::Vla => (
                codes::VLA,
                "an array needs a constant length".to_string(),
                "give it its largest length as a constant",
            ),
            Refusal::Atomic => (
                codes::ATOMIC,
                "only integers may be atomic".to_string(),
                "remove the qualifier: handlers run one at a time",
            ),
            Refusal::WideInt => (
                codes::WIDE_INT,
                "integers have at most 64 bits".to_string(),
                "use two uint64_t members",
            ),
            Refusal::Unknown(name) => (
                codes::NO_VALUE_TYPE,
                format!("a value cannot have the type `{name}`"),
                "use integers and structs",
            ),
        };
        self.refuse(code, span, message, help)
    }

    /// The event of this name, declared on first use.
    pub fn event(
        &mut self,
        name: &str,
        direction: nicforge_ir::Direction,
        params: &[(&str, Type)],
    ) -> EventId {
        if let Some(id) = self.prog.event_named(name) {
            return id;
        }
        let borrowed = matches!(name, "dma_write" | "net_copy" | "host_copy");
        let params = params
            .iter()
            .map(|(name, ty)| Param {
                name: name.to_string(),
                ty: *ty,
                borrowed: borrowed && *ty == Type::Packet,
            })
            .collect();
        self.prog.events.push(nicforge_ir::Event {
            name: name.to_string(),
            direction,
            params,
            zeros: 0,
            period: None,
        })
    }
}

/// True if a struct is what NF_TABLE makes, which is no type of values.
pub fn is_table_record(record: &Node) -> bool {
    let first = record.inner.iter().find(|n| n.kind == "FieldDecl");
    first.is_some_and(|field| field.name.starts_with("nf_kind_"))
}

impl Names for Unit<'_> {
    fn typedef(&mut self, name: &str) -> Option<CType> {
        if let Some(packet) = self.alkali_packet(name) {
            return Some(packet);
        }
        match name {
            "nf_pkt" => return Some(CType::Packet),
            // And as Linux's headers have them.
            "nf_be16" | "__be16" => {
                return Some(CType::Int { bits: 16, signed: false, network: true });
            }
            "nf_be32" | "__be32" => {
                return Some(CType::Int { bits: 32, signed: false, network: true });
            }
            "nf_be64" | "__be64" => {
                return Some(CType::Int { bits: 64, signed: false, network: true });
            }
            _ => {}
        }
        let text = &self.index.typedefs.get(name)?.ty;
        if text == name {
            return None;
        }
        let text = text.clone();
        Some(self.ctype(&text))
    }

    fn tagged(&mut self, keyword: &str, tag: &str) -> CType {
        // `(unnamed struct at a.c:5:1)` names a declaration by its place.
        let place = tag.split_once(" at ").map(|(_, place)| place.trim_end_matches(')'));
        if keyword == "enum" {
            let signed = self.index.enum_signed.get(place.unwrap_or(tag)).copied().unwrap_or(false);
            return CType::int(32, signed);
        }
        if let Some(packet) = self.alkali_packet(tag) {
            return packet;
        }
        if tag == "nf_packet" {
            return CType::Void;
        }
        let id = match place {
            Some(place) => self.index.record_at(place, false).map(|record| record.id),
            None => self.index.record_of_tag.get(tag).copied(),
        };
        match id {
            Some(id) => self.struct_of(id),
            None if place.is_some() => CType::Refused(Refusal::Table),
            None => CType::Refused(Refusal::Unknown(format!("{keyword} {tag}"))),
        }
    }
}
