//! Expressions on the walk: what they read and write of the state, what they call.

use nicforge_ir::Span;

use super::walk::{Done, Members, Walk, Ways};
use crate::ast::Node;

/// What opaque code may call of Nicforge's: arithmetic, nothing of packets, tables or time.
const ARITHMETIC: [&str; 9] = [
    "nf_ntohs",
    "nf_ntohl",
    "nf_ntohll",
    "nf_htons",
    "nf_htonl",
    "nf_htonll",
    "nf_csum_fold",
    "nf_csum_replace16",
    "nf_csum_replace32",
];

/// What outputs are called that may be called several times.
const COUNTED: &str = "nf_counted_";

/// What outputs are called.
const OUTPUT: &str = "nf_called_";

/// A member of the state that an expression names.
struct Named<'a> {
    path: Members,
    /// An element of it, not all of it.
    part: bool,
    indices: Vec<&'a Node>,
}

impl Walk {
    pub(super) fn evaluate(&mut self, node: Option<&Node>, ways: &mut Ways) {
        let Some(node) = node else { return };
        match ways {
            Some(done) => self.expr(node, done),
            None => self.expr(node, &mut Done::new()),
        }
    }

    /// Effects of what is evaluated in no order that is known: none sees what the others did.
    fn all<'a>(&mut self, nodes: impl IntoIterator<Item = &'a Node>, done: &mut Done) {
        let before = done.clone();
        for node in nodes {
            let mut own = before.clone();
            self.expr(node, &mut own);
            done.extend(own);
        }
    }

    fn expr(&mut self, node: &Node, done: &mut Done) {
        let inner = &node.inner;
        match (node.kind.as_str(), node.opcode.as_str()) {
            // Not evaluated; types whose sizes are are looked for by `function`.
            ("UnaryExprOrTypeTraitExpr", _) => {}
            ("ImplicitCastExpr", _) if node.cast == "LValueToRValue" => match self.named(&inner[0])
            {
                Some(named) => {
                    self.all(named.indices, done);
                    self.reads(named.path, node.span, done);
                }
                None => self.all(inner, done),
            },
            ("CStyleCastExpr", _) if node.cast == "ToVoid" && self.is_packet(&inner[0]) => {}
            ("BinaryOperator", "=") | ("CompoundAssignOperator", _) if inner.len() == 2 => {
                self.assignment(node, done)
            }
            ("UnaryOperator", "++" | "--") => match self.named(&inner[0]) {
                Some(named) => {
                    self.all(named.indices, done);
                    self.reads(named.path.clone(), node.span, done);
                    self.writes(named.path, node.span, !named.part, done);
                }
                None => self.all(inner, done),
            },
            ("BinaryOperator", "&&" | "||") if inner.len() == 2 => {
                self.expr(&inner[0], done);
                self.expr(&inner[1], &mut done.clone());
            }
            ("BinaryOperator", ",") => inner.iter().for_each(|each| self.expr(each, done)),
            ("ConditionalOperator", _) if inner.len() == 3 => {
                self.expr(&inner[0], done);
                let mut other = done.clone();
                self.expr(&inner[1], done);
                self.expr(&inner[2], &mut other);
                done.retain(|path| other.contains(path));
            }
            ("BinaryConditionalOperator", _) => {
                inner.iter().for_each(|each| self.expr(each, &mut done.clone()))
            }
            ("CallExpr", _) => self.call(node, done),
            ("StmtExpr", _) => {
                let mut ways = Some(std::mem::take(done));
                inner.iter().for_each(|each| self.statement(each, &mut ways));
                *done = ways.unwrap_or_default();
            }
            ("DeclRefExpr", _) if self.is_packet(node) => {
                let help = "hand over what it needs as values: an element in front reads them from the packet";
                self.refuse(
                    node.span,
                    "opaque C knows nothing of a packet but which output it takes".to_string(),
                    help,
                );
            }
            // The state as a whole goes somewhere.
            ("DeclRefExpr", _) if self.is_state(node) => {
                self.touched(Members::new(), node.span, done)
            }
            _ => match self.named(node) {
                Some(named) => {
                    self.all(named.indices, done);
                    self.touched(named.path, node.span, done);
                }
                None => self.all(inner, done),
            },
        }
    }

    /// Marks what is known by its address: anything may happen to it.
    fn touched(&mut self, path: Members, span: Span, done: &mut Done) {
        self.reads(path.clone(), span, done);
        self.writes(path, span, false, done);
    }

    fn assignment(&mut self, node: &Node, done: &mut Done) {
        let named = self.named(&node.inner[0]);
        let to = named.as_ref().map_or_else(|| vec![&node.inner[0]], |named| named.indices.clone());
        self.all(to.into_iter().chain([&node.inner[1]]), done);
        let Some(named) = named else { return };
        if node.kind == "CompoundAssignOperator" {
            self.reads(named.path.clone(), node.span, done);
        }
        self.writes(named.path, node.span, !named.part, done);
    }

    fn call(&mut self, node: &Node, done: &mut Done) {
        let name = node.callee().map(|callee| callee.name.as_str()).unwrap_or_default();
        let output = name.strip_prefix(OUTPUT);
        if output.is_none()
            && !name.starts_with(COUNTED)
            && (name.starts_with("nf_") || name.starts_with("__nf_"))
            && !ARITHMETIC.contains(&name)
        {
            let help = "let an element in front of it or behind it do that, and hand over values";
            self.refuse(
                node.span,
                format!("opaque C cannot call `{name}`: that is not a process's"),
                help,
            );
            return;
        }
        let mut rest = Vec::new();
        let mut packet = false;
        for arg in node.inner.iter().skip(usize::from(!name.is_empty())) {
            if output.is_some() && self.is_packet(arg) {
                packet = true;
            } else if let Some(named) = self.lent(arg) {
                rest.extend(named.indices.iter().copied());
                self.reads(named.path, arg.span, done);
            } else {
                rest.push(arg);
            }
        }
        self.all(rest, done);
        let mut once = |walk: &mut Self, what: &str, message: String| {
            // No member has an empty name, so this is none.
            if !walk.jumps && !done.insert(vec![String::new(), what.to_string()]) {
                walk.refuse(
                    node.span,
                    message,
                    "the values of one call are handed on: call it once on each way",
                );
            }
        };
        if let Some(output) = output {
            once(self, output, format!("output `{output}` is called a second time on this way"));
        }
        if packet {
            once(self, "", "the packet is given to a second output on this way".to_string());
        }
    }

    /// A member whose address goes to a parameter that is a pointer to `const`: it is read.
    fn lent<'a>(&self, arg: &'a Node) -> Option<Named<'a>> {
        if !(arg.ty.starts_with("const ")
            && arg.ty.matches('*').count() == 1
            && arg.ty.ends_with('*'))
        {
            return None;
        }
        let mut node = arg.strip();
        while matches!(node.kind.as_str(), "ImplicitCastExpr" | "CStyleCastExpr")
            && node.cast != "ArrayToPointerDecay"
        {
            node = node.inner.first()?.strip();
        }
        let address = node.cast == "ArrayToPointerDecay"
            || node.kind == "UnaryOperator" && node.opcode == "&";
        if address { self.named(&node.inner[0]) } else { None }
    }

    fn is_packet(&self, node: &Node) -> bool {
        node.strip_casts().referenced.as_ref().is_some_and(|of| self.packets.contains(&of.id))
    }

    fn is_state(&self, node: &Node) -> bool {
        self.state != 0
            && node.strip_casts().referenced.as_ref().is_some_and(|of| of.id == self.state)
    }

    /// The member of the state that an expression names, or all of it (`*state`).
    fn named<'a>(&self, node: &'a Node) -> Option<Named<'a>> {
        let node = node.strip();
        let base = node.inner.first();
        match node.kind.as_str() {
            "MemberExpr" if node.flags.arrow && self.is_state(base?) => {
                Some(Named { path: vec![node.name.clone()], part: false, indices: Vec::new() })
            }
            "MemberExpr" if !node.flags.arrow => {
                let mut named = self.named(base?)?;
                if !named.part {
                    named.path.push(node.name.clone());
                }
                Some(named)
            }
            "ArraySubscriptExpr" if base?.cast == "ArrayToPointerDecay" => {
                let mut named = self.named(&base?.inner[0])?;
                named.part = true;
                named.indices.push(&node.inner[1]);
                Some(named)
            }
            "UnaryOperator" if node.opcode == "*" && self.is_state(base?) => {
                Some(Named { path: Vec::new(), part: false, indices: Vec::new() })
            }
            _ => None,
        }
    }
}
