//! Local structs with pointers among their members, or in structs that are members: each member
//! becomes a variable.

use std::collections::{HashMap, HashSet};

use super::make::Fresh;
use super::shape::{pointee, variable, variable_read};
use crate::ast::Node;

/// Structs with pointers among their members, by name.
pub type WithPointers = HashMap<String, Struct>;

/// A struct with pointers.
#[derive(Clone)]
pub struct Struct {
    pub members: Vec<Member>,
    /// Structs with pointers, one in the other, down to the pointers.
    depth: usize,
}

/// A member of a struct.
#[derive(Clone)]
pub struct Member {
    pub id: u64,
    pub name: String,
    pub ty: String,
}

/// Variables that are split, with their names and the variables for their members.
type Parts = HashMap<u64, (String, Vec<(Member, u64)>)>;

/// The structs of a file that have pointers among their members, or members with pointers.
pub fn with_pointers(root: &Node) -> WithPointers {
    let mut found = WithPointers::new();
    // A struct stands behind those that are its members.
    root.walk(&mut |node| match node.kind.as_str() {
        "RecordDecl" if node.tag == "struct" => {
            let fields = node.inner.iter().filter(|field| field.kind == "FieldDecl");
            let members: Vec<Member> = fields
                .map(|field| Member {
                    id: field.id,
                    name: field.name.clone(),
                    ty: field.ty.clone(),
                })
                .collect();
            let is_plain = !node.inner.iter().any(|inner| inner.kind == "IndirectFieldDecl");
            let depth = |member: &Member| match found.get(member.ty.trim_start_matches("const ")) {
                Some(inner) => inner.depth + 1,
                None => usize::from(is_data_pointer(&member.ty)),
            };
            let depth = members.iter().map(depth).max().unwrap_or(0);
            if is_plain && depth > 0 {
                let made = Struct { members, depth };
                found.insert(format!("struct {}", node.name), made.clone());
                found.insert(format!("#{}", node.id), made);
            }
        }
        "TypedefDecl" => {
            let mut record = 0;
            node.walk(&mut |inner| {
                record = if inner.tag_decl != 0 { inner.tag_decl } else { record };
            });
            if let Some(made) = found.get(&format!("#{record}")).cloned() {
                found.insert(node.name.clone(), made);
            }
        }
        _ => {}
    });
    found
}

/// True for a pointer to data.
pub fn is_data_pointer(ty: &str) -> bool {
    pointee(ty).is_some_and(|to| !to.contains(['(', '[']) && !is_packet(to))
}

/// True for the handle of a packet, which is no pointer to data, and for a pointer to it.
pub fn is_packet(ty: &str) -> bool {
    ty.contains("nf_pkt") || ty.contains("nf_packet")
}

/// Splits local structs with pointers into variables, one for each member, where a function names
/// only members of them, or copies all. What has others for members comes first.
pub fn split(function: &mut Node, structs: &WithPointers, fresh: &mut Fresh) {
    members_of_commas(function, fresh);
    let deepest = structs.values().map(|made| made.depth).max().unwrap_or(0);
    for depth in (1..=deepest).rev() {
        split_one_level(function, structs, depth, fresh);
    }
}

/// Makes `(a, s).m` `a, s.m`.
fn members_of_commas(node: &mut Node, fresh: &mut Fresh) {
    node.inner.iter_mut().for_each(|child| members_of_commas(child, fresh));
    if node.kind != "MemberExpr" || node.flags.arrow {
        return;
    }
    let base = node.inner[0].strip_casts();
    if base.kind == "BinaryOperator" && base.opcode == "," {
        let [first, last] = [base.inner[0].clone(), base.inner[1].clone()];
        node.inner[0] = match &last.inner[..] {
            [place] if last.cast == "LValueToRValue" => place.clone(),
            _ => last,
        };
        let member = fresh.value(node.clone());
        *node = fresh.comma(first, member);
    }
}

fn split_one_level(function: &mut Node, structs: &WithPointers, depth: usize, fresh: &mut Fresh) {
    let mut found = Parts::new();
    function.walk(&mut |node| {
        let ty = node.ty.trim_start_matches("const ");
        if node.kind == "VarDecl"
            && node.storage.is_empty()
            && let Some(made) = structs.get(ty).filter(|made| made.depth == depth)
        {
            let parts = made.members.iter().map(|member| (member.clone(), fresh.id())).collect();
            found.insert(node.id, (node.name.clone(), parts));
        }
    });
    if found.is_empty() {
        return;
    }
    let candidates = found.keys().copied().collect();
    let mut uses = Uses { candidates: &candidates, whole: HashSet::new(), copies: Vec::new() };
    uses.node(function);
    let Uses { mut whole, copies, .. } = uses;
    // Of two that are copied both are split, or none.
    while let Some((a, b)) = copies.iter().find(|(a, b)| whole.contains(a) != whole.contains(b)) {
        whole.extend([a, b]);
    }
    found.retain(|id, _| !whole.contains(id));
    Splitter { found: &found, structs, fresh }.node(function);
    let mut unnamed: HashSet<u64> =
        found.values().flat_map(|(_, parts)| parts.iter().map(|(_, id)| *id)).collect();
    function.walk(&mut |node| {
        node.referenced.iter().for_each(|of| _ = unnamed.remove(&of.id));
    });
    leave_out(function, &unnamed);
}

/// Takes the declarations of pointers away that nothing names.
fn leave_out(node: &mut Node, unnamed: &HashSet<u64>) {
    if node.kind == "DeclStmt" {
        node.inner.retain(|of| !unnamed.contains(&of.id) || !is_data_pointer(&of.ty));
    }
    node.inner.iter_mut().for_each(|child| leave_out(child, unnamed));
}

/// Uses of structs with pointers in a function.
struct Uses<'u> {
    candidates: &'u HashSet<u64>,
    /// Those that are named otherwise than to take a member, or to copy or set all of one.
    whole: HashSet<u64>,
    copies: Vec<(u64, u64)>,
}

impl Uses<'_> {
    fn named(&self, node: &Node) -> Option<u64> {
        variable(node).map(|of| of.id).filter(|id| self.candidates.contains(id))
    }

    /// True if a variable may be set to a value as its members are.
    fn takes(&mut self, id: u64, value: &Node) -> bool {
        if let Some(from) = variable_read(value).filter(|from| self.candidates.contains(from)) {
            self.copies.push((id, from));
            return true;
        }
        if let Some([first, last]) = in_sequence(value) {
            self.node(first);
            return self.takes(id, last);
        }
        let Some(list) = listed(value) else { return false };
        let mut names_itself = false;
        list.walk(&mut |node| names_itself |= self.named(node) == Some(id));
        list.inner.iter().for_each(|part| self.node(part));
        !names_itself
    }

    fn node(&mut self, node: &Node) {
        match (node.kind.as_str(), &node.inner[..]) {
            ("MemberExpr", [base]) if !node.flags.arrow && self.named(base).is_some() => return,
            ("BinaryOperator", [left, right]) if node.opcode == "=" => {
                if let Some(id) = self.named(left)
                    && self.takes(id, right)
                {
                    return;
                }
            }
            ("VarDecl", [init]) if self.candidates.contains(&node.id) => {
                if !self.takes(node.id, init) {
                    self.whole.insert(node.id);
                    self.node(init);
                }
                return;
            }
            ("DeclRefExpr", _) => self.whole.extend(self.named(node)),
            _ => {}
        }
        node.inner.iter().for_each(|child| self.node(child));
    }
}

/// The two sides of a comma.
fn in_sequence(value: &Node) -> Option<&[Node; 2]> {
    let value = value.strip_casts();
    (value.kind == "BinaryOperator" && value.opcode == ",")
        .then(|| value.inner[..].try_into().ok())?
}

/// The list of members that a value is written as.
fn listed(value: &Node) -> Option<&Node> {
    let value = value.strip_casts();
    match value.kind.as_str() {
        "InitListExpr" => Some(value),
        "CompoundLiteralExpr" => listed(value.inner.first()?),
        _ => None,
    }
}

struct Splitter<'s> {
    found: &'s Parts,
    structs: &'s WithPointers,
    fresh: &'s mut Fresh,
}

impl Splitter<'_> {
    fn node(&mut self, node: &mut Node) {
        if node.kind == "DeclStmt" {
            let declared = std::mem::take(&mut node.inner);
            for declaration in declared {
                match self.found.get(&declaration.id) {
                    Some(_) => node.inner.extend(self.declared(&declaration)),
                    None => node.inner.push(declaration),
                }
            }
        }
        let of = |node: &Node| variable(node).map(|of| of.id);
        if node.kind == "MemberExpr"
            && let Some((name, parts)) = of(&node.inner[0]).and_then(|id| self.found.get(&id))
            && let Some((member, part)) = parts.iter().find(|(member, _)| member.id == node.member)
        {
            *node = self.fresh.named(node, *part, &format!("{name}.{}", member.name), &member.ty);
            return;
        }
        if node.opcode == "="
            && let [left, right] = &node.inner[..]
            && let Some((name, parts)) = of(left).and_then(|id| self.found.get(&id)).cloned()
        {
            let values = self.values(node, right);
            let mut copies = Vec::new();
            for ((member, id), value) in parts.into_iter().zip(values) {
                let to = self.fresh.named(node, id, &format!("{name}.{}", member.name), &member.ty);
                copies.push(self.fresh.assign(to, value));
            }
            let last = copies.into_iter().rev().reduce(|last, copy| self.fresh.comma(copy, last));
            *node = last.unwrap_or_default();
            return;
        }
        node.inner.iter_mut().for_each(|child| self.node(child));
    }

    fn declared(&mut self, of: &Node) -> Vec<Node> {
        let (name, parts) = self.found[&of.id].clone();
        let values = of.inner.first().map(|init| self.values(of, init));
        let mut values = values.unwrap_or_default().into_iter();
        let mut found = Vec::new();
        for (member, id) in parts {
            let value = values.next();
            let declared = self.fresh.variable(of, id, &member.ty, value);
            found.push(Node { name: format!("{name}.{}", member.name), ..declared });
        }
        found
    }

    /// The value of a pointer, or of members with pointers, that is written nowhere.
    fn zero(&mut self, value: &Node) -> Option<Node> {
        if value.kind != "ImplicitValueInitExpr" {
            return None;
        }
        if is_data_pointer(&value.ty) {
            return Some(self.fresh.null(value, &value.ty));
        }
        let made = self.structs.get(value.ty.trim_start_matches("const "))?;
        let zero = |member: &Member| Node { ty: member.ty.clone(), ..value.clone() };
        let inner = made.members.iter().map(zero).collect();
        Some(Node { kind: "InitListExpr".to_string(), inner, ..value.clone() })
    }

    /// The values of members.
    fn values(&mut self, like: &Node, value: &Node) -> Vec<Node> {
        if let Some([first, last]) = in_sequence(value) {
            let mut first = first.clone();
            self.node(&mut first);
            let mut values = self.values(like, last).into_iter();
            let with_first = values.next().map(|value| self.fresh.comma(first, value));
            return with_first.into_iter().chain(values).collect();
        }
        if let Some(list) = listed(value).cloned() {
            let given = |mut value: Node| {
                self.node(&mut value);
                self.zero(&value).unwrap_or(value)
            };
            return list.inner.into_iter().map(given).collect();
        }
        let from = variable_read(value).and_then(|id| self.found.get(&id)).cloned();
        let (name, parts) = from.unwrap_or_default();
        let mut found = Vec::new();
        for (member, id) in parts {
            let name = format!("{name}.{}", member.name);
            let place = self.fresh.named(like, id, &name, &member.ty);
            found.push(self.fresh.value(place));
        }
        found
    }
}
