//! Nodes that clang did not make: indices in the place of pointers, and choices between places.

use std::collections::{HashMap, HashSet};

use super::shape::{INDEX, element_type, is_unary, pointee, unqualified};
use crate::ast::{Node, Referenced};

/// The number that those of clang are below.
const FIRST: u64 = 1 << 62;

/// Numbers for nodes that clang did not make.
pub struct Fresh {
    next: u64,
    /// Variables with indices in the middle of what a pointer leads to, and that pointer: they
    /// change with it only.
    indices: HashMap<u64, u64>,
    /// Pointers to one of several places.
    parts: HashSet<u64>,
}

impl Default for Fresh {
    fn default() -> Fresh {
        Fresh { next: FIRST, indices: HashMap::new(), parts: HashSet::new() }
    }
}

impl Fresh {
    pub fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A variable for an index in the middle of what a pointer leads to.
    pub fn index_of(&mut self, pointer: u64) -> u64 {
        let id = self.id();
        self.indices.insert(id, pointer);
        id
    }

    /// A pointer to one of the places that another leads to.
    pub fn part(&mut self) -> u64 {
        let id = self.id();
        self.parts.insert(id);
        id
    }

    pub fn is_part(&self, pointer: u64) -> bool {
        self.parts.contains(&pointer)
    }

    /// The pointer that an index belongs to.
    pub fn pointer_of(&self, index: u64) -> Option<u64> {
        self.indices.get(&index).copied()
    }

    fn node(&mut self, like: &Node, kind: &str, ty: &str, inner: Vec<Node>) -> Node {
        let (id, span) = (self.id(), like.span);
        Node { id, kind: kind.to_string(), span, ty: ty.to_string(), inner, ..Node::default() }
    }

    pub fn number(&mut self, like: &Node, value: u64, ty: &str) -> Node {
        let number = self.node(like, "IntegerLiteral", ty, Vec::new());
        Node { value: Some(value.to_string()), ..number }
    }

    /// The name of the index that stands for a pointer.
    pub fn name(&mut self, like: &Node, index: u64, name: &str) -> Node {
        let kind = "VarDecl".to_string();
        let referenced = Some(Referenced { id: index, kind, name: name.to_string() });
        Node { referenced, ..self.node(like, "DeclRefExpr", INDEX, Vec::new()) }
    }

    pub fn value(&mut self, place: Node) -> Node {
        let ty = place.ty.clone();
        let read = self.node(&place.clone(), "ImplicitCastExpr", &ty, vec![place]);
        Node { cast: "LValueToRValue".to_string(), ..read }
    }

    pub fn cast(&mut self, value: Node, ty: &str) -> Node {
        if value.ty == ty {
            return value;
        }
        let cast = self.node(&value.clone(), "ImplicitCastExpr", ty, vec![value]);
        Node { cast: "IntegralCast".to_string(), ..cast }
    }

    /// `a + b` or `a - b` of indices; where there is no `a` it is 0.
    pub fn sum(&mut self, a: Option<Node>, opcode: &str, b: Node) -> Node {
        let a = match (a, opcode) {
            (None, "+") => return b,
            (None, _) => self.number(&b, 0, INDEX),
            (Some(a), _) => a,
        };
        let (a, b) = (self.cast(a, INDEX), self.cast(b, INDEX));
        let sum = self.node(&a.clone(), "BinaryOperator", INDEX, vec![a, b]);
        Node { opcode: opcode.to_string(), ..sum }
    }

    pub fn binary(&mut self, like: &Node, opcode: &str, ty: &str, inner: Vec<Node>) -> Node {
        let node = self.node(like, "BinaryOperator", ty, inner);
        Node { opcode: opcode.to_string(), ..node }
    }

    /// `&base[index]`, of the pointer type `ty`.
    pub fn address(&mut self, like: &Node, base: Node, index: Option<Node>, ty: &str) -> Node {
        let Some(index) = index else { return Node { span: like.span, ..base } };
        let place = self.element(like, base, Some(index));
        let address = self.node(like, "UnaryOperator", ty, vec![place]);
        Node { opcode: "&".to_string(), ..address }
    }

    /// `&place`, of the type of a node.
    pub fn address_of(&mut self, like: &Node, place: Node) -> Node {
        let address = self.node(like, "UnaryOperator", &like.ty, vec![place]);
        Node { opcode: "&".to_string(), ..address }
    }

    /// `base[index]`, or `*base`.
    pub fn element(&mut self, like: &Node, base: Node, index: Option<Node>) -> Node {
        let to = element_type(&base.ty);
        match index {
            Some(index) => self.node(like, "ArraySubscriptExpr", &to, vec![base, index]),
            // `*&x` is `x`.
            None if is_unary(unqualified(&base), "&") => {
                Node { span: like.span, ..unqualified(&base).inner[0].clone() }
            }
            None => {
                let node = self.node(like, "UnaryOperator", &to, vec![base]);
                Node { opcode: "*".to_string(), ..node }
            }
        }
    }

    /// An address of `void` as one of bytes.
    pub fn of_bytes(&mut self, base: Node) -> Node {
        match pointee(&base.ty) {
            Some("void") => self.reinterpreted(base, "unsigned char *"),
            Some("const void") => self.reinterpreted(base, "const unsigned char *"),
            _ => base,
        }
    }

    /// An address as one of another type.
    pub fn reinterpreted(&mut self, address: Node, ty: &str) -> Node {
        if address.ty == ty {
            return address;
        }
        let cast = self.node(&address.clone(), "CStyleCastExpr", ty, vec![address]);
        Node { cast: "BitCast".to_string(), ..cast }
    }

    /// A variable's name, of any type.
    pub fn named(&mut self, like: &Node, id: u64, name: &str, ty: &str) -> Node {
        Node { ty: ty.to_string(), ..self.name(like, id, name) }
    }

    /// A function's name, where it is called.
    pub fn function(&mut self, like: &Node, of: Referenced, ty: &str) -> Node {
        let name = Node { referenced: Some(of), ..self.node(like, "DeclRefExpr", ty, Vec::new()) };
        let decayed = self.node(like, "ImplicitCastExpr", ty, vec![name]);
        Node { cast: "FunctionToPointerDecay".to_string(), ..decayed }
    }

    /// `to = value`.
    pub fn assign(&mut self, to: Node, value: Node) -> Node {
        let (like, ty) = (value.clone(), to.ty.clone());
        self.binary(&like, "=", &ty, vec![to, value])
    }

    /// `first, last`.
    pub fn comma(&mut self, first: Node, last: Node) -> Node {
        let (like, ty) = (last.clone(), last.ty.clone());
        self.binary(&like, ",", &ty, vec![first, last])
    }

    /// `cond ? then : other`.
    pub fn conditional(&mut self, cond: Node, then: Node, other: Node) -> Node {
        let (like, ty) = (then.clone(), then.ty.clone());
        self.node(&like, "ConditionalOperator", &ty, vec![cond, then, other])
    }

    /// A null pointer.
    pub fn null(&mut self, like: &Node, ty: &str) -> Node {
        let zero = self.number(like, 0, "int");
        let cast = self.node(like, "ImplicitCastExpr", ty, vec![zero]);
        Node { cast: "NullToPointer".to_string(), ..cast }
    }

    /// `node != NULL` or `node == NULL`.
    pub fn compared_with_null(&mut self, node: Node, opcode: &str) -> Node {
        let null = self.null(&node, &node.ty);
        self.binary(&node.clone(), opcode, "int", vec![node, null])
    }

    /// The declaration of a variable, with what it begins with.
    pub fn variable(&mut self, like: &Node, id: u64, ty: &str, begins: Option<Node>) -> Node {
        Node {
            id,
            name: like.name.clone(),
            name_span: like.name_span,
            inner: begins.into_iter().collect(),
            ..self.node(like, "VarDecl", ty, Vec::new())
        }
    }

    /// An expression of a kind around another.
    pub fn of_kind(&mut self, kind: &str, ty: &str, inner: Node) -> Node {
        self.node(&inner.clone(), kind, ty, vec![inner])
    }

    /// Declares variables at the start of a function.
    pub fn declare(&mut self, function: &mut Node, variables: Vec<Node>) {
        let body = function.inner.iter_mut().find(|node| node.kind == "CompoundStmt");
        if let Some(body) = body.filter(|_| !variables.is_empty()) {
            body.inner.insert(0, self.node(body, "DeclStmt", "", variables));
        }
    }

    /// A statement of a kind.
    pub fn statement(&mut self, like: &Node, kind: &str, inner: Vec<Node>) -> Node {
        self.node(like, kind, "", inner)
    }

    /// True for nodes that clang did not make.
    pub fn is_own(node: &Node) -> bool {
        node.id > FIRST
    }
}
