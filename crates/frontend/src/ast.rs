//! clang's syntax tree, decoded from its JSON.
//!
//! clang prints a location's `file` and `line` only where they differ from those of the location
//! printed before, in document order, and prints macro locations twice: where the text was spelled
//! and where the macro was expanded. [`decode`] walks the document in order, keeps that state, and
//! gives every node one [`Span`]: the expansion, unless the text is a macro argument that the user
//! wrote, which is then where the user sees it.

use std::collections::{HashMap, HashSet};

use cranelift_entity::PrimaryMap;
use nicforge_ir::{FileId, SourceFile, Span};
use serde_json::{Map, Value};

/// The declaration that a `DeclRefExpr` refers to.
#[derive(Clone, Debug, Default)]
pub struct Referenced {
    pub id: u64,
    pub kind: String,
    pub name: String,
}

/// One node of the syntax tree; fields that a kind lacks are empty.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub id: u64,
    pub kind: String,
    /// From the first to the last token.
    pub span: Span,
    /// A declaration's name.
    pub name_span: Span,
    /// `path:line:column` of a declaration, as clang names unnamed types.
    pub place: String,
    pub name: String,
    /// The type as clang spells it (`qualType`).
    pub ty: String,
    /// `sizeof(type)`'s type.
    pub arg_ty: String,
    /// The type a compound assignment computes in.
    pub compute_ty: String,
    pub value: Option<String>,
    pub opcode: String,
    pub cast: String,
    pub referenced: Option<Referenced>,
    /// The `FieldDecl` of a `MemberExpr`, and of a union's initialiser list; the label of a `goto`
    /// and of a labelled statement.
    pub member: u64,
    /// The record or enum a typedef's type names.
    pub tag_decl: u64,
    pub storage: String,
    pub tag: String,
    pub flags: Flags,
    /// Children; in an initialiser list with a filler the filler is first.
    pub inner: Vec<Node>,
}

/// Truth values of a node.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub arrow: bool,
    pub postfix: bool,
    pub complete: bool,
    pub bit_field: bool,
    pub gnu_range: bool,
    pub has_filler: bool,
    pub implicit: bool,
    pub variadic: bool,
    /// The association of a `_Generic` that its operand's type chose.
    pub selected: bool,
    /// A `MemberExpr` names a union's member.
    pub in_union: bool,
}

impl Node {
    /// Without the parentheses and wrappers that mean nothing.
    pub fn strip(&self) -> &Node {
        let mut node = self;
        while matches!(
            node.kind.as_str(),
            "ParenExpr" | "ConstantExpr" | "GenericSelectionExpr" | "OpaqueValueExpr"
        ) && node.inner.len() == 1
        {
            node = &node.inner[0];
        }
        node
    }

    /// Without parentheses and implicit conversions.
    pub fn strip_casts(&self) -> &Node {
        let mut node = self.strip();
        while node.kind == "ImplicitCastExpr" {
            match node.inner.first() {
                Some(inner) => node = inner.strip(),
                None => break,
            }
        }
        node
    }

    /// Becomes the one of its operands that clang has chosen, in parentheses.
    fn choose(&mut self, operand: Option<Node>) {
        if let Some(operand) = operand {
            (self.kind, self.inner) = ("ParenExpr".to_string(), vec![operand]);
        }
    }

    /// A slot of a statement that the user left empty, such as `for`'s condition.
    pub fn is_absent(&self) -> bool {
        self.kind.is_empty()
    }

    /// True if a child of this kind exists.
    pub fn has(&self, kind: &str) -> bool {
        self.inner.iter().any(|child| child.kind == kind)
    }

    /// Calls `visit` on this node and everything below, parents first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Node)) {
        visit(self);
        for child in &self.inner {
            child.walk(visit);
        }
    }

    /// The function a call names, if it names one.
    pub fn callee(&self) -> Option<&Referenced> {
        if self.kind != "CallExpr" {
            return None;
        }
        let target = self.inner.first()?.strip_casts();
        target.referenced.as_ref().filter(|r| r.kind == "FunctionDecl")
    }

    /// The call behind the marker, if this comma is what `nf_enqueue` leaves.
    pub fn enqueued(&self) -> Option<&Node> {
        let [mark, call] = &self.inner[..] else { return None };
        let marked = self.kind == "BinaryOperator" && self.opcode == ",";
        (marked && mark.callee()?.name == "__nf_enqueue").then_some(call)
    }
}

/// The files of a compilation, read as clang names them.
pub struct Files<'r> {
    pub map: PrimaryMap<FileId, SourceFile>,
    by_path: HashMap<String, FileId>,
    /// Gives the shown path and the text for a path of clang's.
    read: &'r dyn Fn(&str) -> SourceFile,
    /// True if a path belongs to the user, not to the runtime or clang.
    is_user: &'r dyn Fn(&str) -> bool,
}

impl<'r> Files<'r> {
    pub fn new(
        read: &'r dyn Fn(&str) -> SourceFile,
        is_user: &'r dyn Fn(&str) -> bool,
    ) -> Files<'r> {
        Files { map: PrimaryMap::new(), by_path: HashMap::new(), read, is_user }
    }

    /// The files that the user wrote.
    pub fn user_files(&self) -> HashSet<FileId> {
        self.by_path.iter().filter(|(path, _)| (self.is_user)(path)).map(|(_, id)| *id).collect()
    }

    /// The file of a path of clang's, read on first use.
    pub fn open(&mut self, path: &str) -> FileId {
        if let Some(id) = self.by_path.get(path) {
            return *id;
        }
        let id = self.map.push((self.read)(path));
        self.by_path.insert(path.to_string(), id);
        id
    }
}

/// Decodes a whole document.
pub fn decode(document: &Value, files: &mut Files) -> Node {
    let (typedefs, in_unions) = (HashMap::new(), HashSet::new());
    Decoder { files, file: String::new(), line: 0, typedefs, in_unions }.node(document)
}

/// A location of one token.
#[derive(Clone, Debug)]
struct Place {
    file: String,
    line: u64,
    col: u64,
    offset: u32,
    len: u32,
}

/// A location and, inside macros, the other one.
#[derive(Clone, Debug)]
struct Located {
    expansion: Place,
    /// Comes from a macro's own text.
    is_macro: bool,
    /// Set if the text is a macro's argument.
    argument: Option<Place>,
}

struct Decoder<'f, 'r> {
    files: &'f mut Files<'r>,
    file: String,
    line: u64,
    /// Names of typedefs by number.
    typedefs: HashMap<u64, String>,
    /// Members of unions.
    in_unions: HashSet<u64>,
}

impl Decoder<'_, '_> {
    /// A type as clang spells it; in the place of `typeof` what it stands for, a typedef's name
    /// where it is one.
    fn type_text(&self, value: &Value) -> String {
        let part = |name: &str| value.get(name).map(text);
        let spelled = part("qualType").unwrap_or_default();
        if !spelled.contains("typeof") {
            return spelled;
        }
        let alias = value.get("typeAliasDeclId").and_then(|id| self.typedefs.get(&hex(id)));
        let whole = spelled.starts_with("typeof") && spelled.ends_with(')');
        let alias = alias.filter(|_| whole).cloned();
        alias.or_else(|| part("desugaredQualType")).unwrap_or(spelled)
    }

    fn node(&mut self, value: &Value) -> Node {
        let mut node = Node::default();
        let Some(map) = value.as_object() else { return node };
        for (key, value) in map {
            match key.as_str() {
                "id" => node.id = hex(value),
                "kind" => node.kind = text(value),
                "loc" => {
                    if let Some(at) = self.located(value) {
                        let place = &at.expansion;
                        node.place = format!("{}:{}:{}", place.file, place.line, place.col);
                        node.name_span = self.span(&at, &at);
                    }
                }
                "range" => {
                    let begin = value.get("begin").and_then(|v| self.located(v));
                    let end = value.get("end").and_then(|v| self.located(v));
                    if let (Some(begin), Some(end)) = (begin, end) {
                        node.span = self.span(&begin, &end);
                    }
                }
                "name" => node.name = text(value),
                "type" => node.ty = self.type_text(value),
                "argType" => node.arg_ty = self.type_text(value),
                "computeLHSType" => node.compute_ty = self.type_text(value),
                "value" => {
                    node.value =
                        Some(value.as_str().map_or_else(|| value.to_string(), str::to_string))
                }
                "opcode" => node.opcode = text(value),
                "castKind" => node.cast = text(value),
                "referencedDecl" => {
                    let part = |key| value.get(key).map(text).unwrap_or_default();
                    let id = value.get("id").map(hex).unwrap_or_default();
                    node.referenced =
                        Some(Referenced { id, kind: part("kind"), name: part("name") });
                }
                "referencedMemberDecl" | "declId" | "targetLabelDeclId" => node.member = hex(value),
                "field" => node.member = value.get("id").map(hex).unwrap_or_default(),
                "decl" | "ownedTagDecl" => {
                    node.tag_decl = value.get("id").map(hex).unwrap_or_default()
                }
                "storageClass" => node.storage = text(value),
                "tagUsed" => node.tag = text(value),
                "isArrow" => node.flags.arrow = value == true,
                "isPostfix" => node.flags.postfix = value == true,
                "completeDefinition" => node.flags.complete = value == true,
                "isBitfield" => node.flags.bit_field = value == true,
                "isGNURange" => node.flags.gnu_range = value == true,
                "isImplicit" => node.flags.implicit = value == true,
                "variadic" => node.flags.variadic = value == true,
                "selected" => node.flags.selected = value == true,
                "array_filler" | "inner" => {
                    node.flags.has_filler |= key == "array_filler";
                    let children = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    node.inner.extend(children.iter().map(|child| self.node(child)));
                }
                _ => {}
            }
        }
        match node.kind.as_str() {
            "TypedefDecl" => {
                self.typedefs.insert(node.id, node.name.clone());
            }
            "RecordDecl" if node.tag == "union" => {
                let members = node.inner.iter().filter(|member| member.kind == "FieldDecl");
                self.in_unions.extend(members.map(|member| member.id));
            }
            "MemberExpr" => node.flags.in_union = self.in_unions.contains(&node.member),
            "GenericSelectionExpr" => node.choose(selected(&node.inner)),
            "ChooseExpr" => node.choose(chosen(&node.inner)),
            _ => {}
        }
        node
    }

    /// Decodes a location; also called for its effect on the state.
    fn located(&mut self, value: &Value) -> Option<Located> {
        let map = value.as_object()?;
        if map.contains_key("offset") {
            return Some(Located { expansion: self.bare(map), is_macro: false, argument: None });
        }
        let spelling = map.get("spellingLoc")?.as_object().map(|m| self.bare(m))?;
        let expansion_map = map.get("expansionLoc")?.as_object()?;
        let expansion = self.bare(expansion_map);
        let is_argument = expansion_map.get("isMacroArgExpansion").is_some_and(|v| v == true);
        let argument = (is_argument && (self.files.is_user)(&spelling.file)).then_some(spelling);
        Some(Located { expansion, is_macro: !is_argument, argument })
    }

    fn bare(&mut self, map: &Map<String, Value>) -> Place {
        let number = |key| map.get(key).and_then(Value::as_u64);
        if let Some(file) = map.get("file").and_then(Value::as_str) {
            self.file = file.to_string();
        }
        if let Some(line) = number("line") {
            self.line = line;
        }
        Place {
            file: self.file.clone(),
            line: self.line,
            col: number("col").unwrap_or(1),
            offset: number("offset").unwrap_or(0) as u32,
            len: number("tokLen").unwrap_or(0) as u32,
        }
    }

    fn span(&mut self, begin: &Located, end: &Located) -> Span {
        let (first, last) = match (&begin.argument, &end.argument) {
            (Some(first), Some(last)) if first.file == last.file && first.offset <= last.offset => {
                (first, last)
            }
            _ => (&begin.expansion, &end.expansion),
        };
        let file = self.files.open(&first.file);
        let stop =
            if first.file == last.file && last.offset >= first.offset { last } else { first };
        let mut end_offset = stop.offset + stop.len;
        if begin.is_macro && end.is_macro && first.offset == stop.offset {
            end_offset += macro_arguments(self.files.map[file].text.get(end_offset as usize..));
        }
        Span::new(file, first.offset, end_offset)
    }
}

/// The expression of `_Generic` that counts.
fn selected(operands: &[Node]) -> Option<Node> {
    operands.iter().find(|operand| operand.flags.selected)?.inner.last().cloned()
}

/// The expression of `__builtin_choose_expr` that counts.
fn chosen(operands: &[Node]) -> Option<Node> {
    let [condition, then, other] = operands else { return None };
    let so = condition.value.as_ref()? != "0";
    Some(if so { then } else { other }.clone())
}

/// Length of the arguments behind a macro's name, parentheses included; 0 if they do not end on the
/// same line.
fn macro_arguments(rest: Option<&str>) -> u32 {
    let Some(rest) = rest.filter(|rest| rest.starts_with('(')) else { return 0 };
    let mut depth = 0;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'\n' => return 0,
            _ => {}
        }
        if depth == 0 {
            return at as u32 + 1;
        }
    }
    0
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn hex(value: &Value) -> u64 {
    let digits = value.as_str().unwrap_or_default().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decode_json(value: Value) -> (Node, PrimaryMap<FileId, SourceFile>) {
        let read = |path: &str| SourceFile { path: path.to_string(), text: String::new() };
        let is_user = |path: &str| path == "a.c";
        let mut files = Files::new(&read, &is_user);
        let node = decode(&value, &mut files);
        (node, files.map)
    }

    #[test]
    fn file_and_line_carry_over_from_the_location_before() {
        let (node, files) = decode_json(json!({
            "id": "0x1f", "kind": "X",
            "loc": {"offset": 5, "file": "a.c", "line": 2, "col": 3, "tokLen": 1},
            "range": {"begin": {"offset": 4, "col": 2, "tokLen": 1}, "end": {"offset": 9, "col": 7, "tokLen": 2}},
            "inner": [{"kind": "Y", "loc": {"offset": 20, "line": 4, "col": 1, "tokLen": 1}}],
        }));
        assert_eq!(node.id, 31);
        assert_eq!((node.span.start, node.span.end), (4, 11));
        assert_eq!(node.place, "a.c:2:3");
        assert_eq!(node.inner[0].place, "a.c:4:1");
        assert_eq!(files.len(), 1);
    }

    #[test]
    fn a_macro_call_ends_behind_its_arguments() {
        assert_eq!(macro_arguments(Some("(a, (b))) + 1")), 8);
        assert_eq!(macro_arguments(Some(" (a)")), 0);
        assert_eq!(macro_arguments(Some("(a,\n b)")), 0);
        assert_eq!(macro_arguments(None), 0);
    }

    #[test]
    fn macro_text_is_shown_at_its_expansion_and_arguments_where_they_are_spelled() {
        let at = |spelled_in: &str, argument: bool| {
            let loc = json!({
                "spellingLoc": {"offset": 70, "file": spelled_in, "line": 9, "col": 1, "tokLen": 3},
                "expansionLoc": {"offset": 10, "file": "a.c", "line": 1, "col": 11, "tokLen": 4,
                                 "isMacroArgExpansion": argument},
            });
            decode_json(json!({"kind": "X", "range": {"begin": loc, "end": loc}})).0.span
        };
        assert_eq!((at("h.h", false).start, at("h.h", false).end), (10, 14));
        assert_eq!(at("h.h", true).start, 10);
        assert_eq!((at("a.c", true).start, at("a.c", true).end), (70, 73));
    }
}
