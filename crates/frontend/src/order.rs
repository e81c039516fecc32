//! Warnings where network byte order meets host byte order.
//!
//! `nf_be16`, `nf_be32` and `nf_be64` are ordinary integers to clang, but their names survive in
//! the syntax tree. This pass gives every expression an order: *network* if its type says so, *any*
//! for constants that read the same both ways (0, 0xffff), *host* otherwise. Comparing for
//! equality, `& | ^ ~`, assigning and passing are fine within one order; arithmetic and ordering
//! comparisons make no sense on network order. An explicit conversion says that the author knows
//! better, and so do hashes and keys, which take any bytes.

use nicforge_ir::{Diagnostic, Span};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::unit::Unit;
use nicforge_ir::Type;

/// Byte order of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Any,
    Host,
    Network,
}

struct Checker<'u, 'a> {
    unit: &'u mut Unit<'a>,
    result: Order,
}

impl<'a> Unit<'a> {
    /// Warns about a function's or global variable's mixed byte orders.
    pub fn check_byte_order(&mut self, node: &'a Node) {
        let result = match node.kind.as_str() {
            "FunctionDecl" => self.ctype(&node.ty),
            _ => CType::Void,
        };
        let result = match result {
            CType::Function { result, .. } => order_of_type(&result),
            _ => Order::Host,
        };
        let mut checker = Checker { unit: self, result };
        match node.kind.as_str() {
            "VarDecl" => checker.declaration(node),
            _ => node.inner.iter().filter(|n| n.kind == "CompoundStmt").for_each(|n| {
                checker.order(n);
            }),
        }
    }
}

fn order_of_type(ty: &CType) -> Order {
    match ty {
        CType::Int { network: true, .. } => Order::Network,
        _ => Order::Host,
    }
}

impl<'a> Checker<'_, 'a> {
    fn type_order(&mut self, text: &str) -> Order {
        order_of_type(&self.unit.ctype(text))
    }

    /// The order of an expression; warns about what is inside. Statements have none.
    fn order(&mut self, node: &'a Node) -> Order {
        match node.kind.as_str() {
            "ImplicitCastExpr" if node.cast != "LValueToRValue" => self.inside(node),
            "ParenExpr" | "ConstantExpr" => self.inside(node),
            "CStyleCastExpr" => {
                self.inside(node);
                self.type_order(&node.ty)
            }
            "IntegerLiteral" | "CharacterLiteral" => self.constant(node),
            "ImplicitValueInitExpr" => Order::Any,
            "BinaryOperator" => self.binary(node),
            "CompoundAssignOperator" => {
                let [left, right] = &node.inner[..] else { return Order::Host };
                let (a, b) = (self.order(left), self.order(right));
                let opcode = node.opcode.trim_end_matches('=');
                self.combine(node, opcode, (left, a), (right, b));
                a
            }
            "UnaryOperator" => {
                let order = self.inside(node);
                match node.opcode.as_str() {
                    "-" | "++" | "--" if order == Order::Network => {
                        self.arithmetic(node.span, &node.inner[0], &node.opcode);
                        Order::Host
                    }
                    "!" | "&" => Order::Host,
                    // What a pointer leads to has the order of its own type, not the pointer's.
                    "*" => self.type_order(&node.ty),
                    _ => order,
                }
            }
            "BinaryConditionalOperator" => {
                let [value, .., other] = &node.inner[..] else { return Order::Host };
                let (a, b) = (self.order(value), self.order(other));
                self.mix(node.span, (value, a), (other, b), "chosen together")
            }
            "ConditionalOperator" => {
                let [cond, then, other] = &node.inner[..] else { return Order::Host };
                self.order(cond);
                let (a, b) = (self.order(then), self.order(other));
                self.mix(node.span, (then, a), (other, b), "chosen together")
            }
            "CallExpr" => self.call(node),
            "InitListExpr" => {
                self.initialiser_list(node);
                Order::Host
            }
            "VarDecl" => {
                self.declaration(node);
                Order::Host
            }
            "ReturnStmt" => {
                if let Some(value) = node.inner.first() {
                    let order = self.order(value);
                    self.assign(value, order, self.result, "returned");
                }
                Order::Host
            }
            "SwitchStmt" => {
                let [selector, body] = &node.inner[..] else { return Order::Host };
                let order = self.order(selector);
                self.labels(selector, order, body);
                self.order(body);
                Order::Host
            }
            // Labels were looked at with their switch.
            "CaseStmt" => {
                node.inner.last().map(|stmt| self.order(stmt));
                Order::Host
            }
            "DeclRefExpr" | "MemberExpr" | "ArraySubscriptExpr" | "ImplicitCastExpr" => {
                if let Some(value) = self.unit.eval(node) {
                    let named = node.strip_casts().referenced.as_ref();
                    let network = &self.unit.index.network_enumerators;
                    return match named.is_some_and(|named| network.contains(&named.id)) {
                        true => Order::Network,
                        false => palindrome(value, self.type_order(&node.ty)),
                    };
                }
                node.inner.iter().for_each(|child| {
                    self.order(child);
                });
                self.type_order(&node.ty)
            }
            _ => {
                node.inner.iter().for_each(|child| {
                    self.order(child);
                });
                Order::Host
            }
        }
    }

    fn inside(&mut self, node: &'a Node) -> Order {
        node.inner.first().map_or(Order::Host, |inner| self.order(inner))
    }

    fn constant(&mut self, node: &Node) -> Order {
        self.unit.eval(node).map_or(Order::Host, |value| palindrome(value, Order::Host))
    }

    fn binary(&mut self, node: &'a Node) -> Order {
        let [left, right] = &node.inner[..] else { return Order::Host };
        let (a, b) = (self.order(left), self.order(right));
        match node.opcode.as_str() {
            "=" => {
                self.assign(right, b, a, "assigned");
                a
            }
            "," => b,
            opcode => {
                let combined = self.combine(node, opcode, (left, a), (right, b));
                // A constant from constants, such as `1 << 16`.
                match self.unit.eval(node) {
                    Some(value) if combined == Order::Host => palindrome(value, Order::Host),
                    _ => combined,
                }
            }
        }
    }

    fn combine(
        &mut self,
        node: &Node,
        opcode: &str,
        left: (&Node, Order),
        right: (&Node, Order),
    ) -> Order {
        match opcode {
            "==" | "!=" => {
                self.mix(node.span, left, right, "compared");
                Order::Host
            }
            "&" | "|" | "^" => self.mix(node.span, left, right, "combined"),
            "&&" | "||" => Order::Host,
            _ => {
                let of_zero =
                    matches!(opcode, "<" | ">" | "<=" | ">=") && self.unit.eval(right.0) == Some(0);
                for (side, order) in [left, right] {
                    if order == Order::Network && !of_zero {
                        self.arithmetic(node.span, side, opcode);
                        break;
                    }
                }
                Order::Host
            }
        }
    }

    fn warn(&mut self, span: Span, message: String) -> Diagnostic {
        Diagnostic::warning(codes::BYTE_ORDER.id, span, message)
    }

    fn arithmetic(&mut self, span: Span, side: &Node, opcode: &str) {
        let message = format!("`{opcode}` on an integer in network byte order");
        let help = format!("convert it first: {}(...)", converter(side, false));
        let warning = self.warn(span, message).also(side.span, "network byte order").help(help);
        self.unit.report(warning);
    }

    fn mix(&mut self, span: Span, left: (&Node, Order), right: (&Node, Order), how: &str) -> Order {
        let (network, host) = match (left.1, right.1) {
            (Order::Network, Order::Host) => (left.0, right.0),
            (Order::Host, Order::Network) => (right.0, left.0),
            (Order::Any, order) | (order, Order::Any) => return order,
            (order, _) => return order,
        };
        let message = format!("network and host byte order are {how}");
        let constant = self.unit.eval(host).is_some();
        let help = if constant {
            format!("convert the constant: {}(...)", converter(network, true).to_uppercase())
        } else {
            format!(
                "convert one side: {}(...) or {}(...)",
                converter(network, false),
                converter(network, true)
            )
        };
        let warning = self
            .warn(span, message)
            .also(network.span, "network byte order")
            .also(host.span, "host byte order")
            .help(help);
        self.unit.report(warning);
        Order::Network
    }

    /// A value that goes to a place of order `to`.
    fn assign(&mut self, value: &Node, from: Order, to: Order, how: &str) {
        let (message, help) = match (from, to) {
            (Order::Host, Order::Network) => {
                let constant = self.unit.eval(value).is_some();
                let name = converter(value, true);
                let name = if constant { name.to_uppercase() } else { name.to_string() };
                (
                    format!("a value in host byte order is {how} as one in network order"),
                    format!("write {name}(...)"),
                )
            }
            (Order::Network, Order::Host) => (
                format!("a value in network byte order is {how} as one in host order"),
                format!("write {}(...)", converter(value, false)),
            ),
            _ => return,
        };
        let warning = self.warn(value.span, message).help(help);
        self.unit.report(warning);
    }

    fn declaration(&mut self, node: &'a Node) {
        let Some(init) = node.inner.iter().find(|n| !n.kind.ends_with("Attr")) else { return };
        let order = self.order(init);
        if let CType::Int { .. } = self.unit.ctype(&node.ty) {
            let to = self.type_order(&node.ty);
            self.assign(init, order, to, "assigned");
        }
    }

    fn initialiser_list(&mut self, node: &'a Node) {
        let ty = self.unit.ctype(&node.ty);
        let children = node.inner.iter().skip(node.flags.has_filler.into());
        let order = |big_endian: bool| if big_endian { Order::Network } else { Order::Host };
        let over = self.unit.lies_over.get(&node.member);
        let expected: Vec<Option<Order>> = match &ty {
            CType::Struct(_) if let Some(over) = over => {
                vec![matches!(over.ty, Type::Int { .. }).then(|| order(over.big_endian))]
            }
            CType::Struct(id) => {
                let fields = self.unit.prog.structs[*id].fields.iter().filter(|f| !f.is_padding());
                fields
                    .map(|f| matches!(f.ty, Type::Int { .. }).then(|| order(f.big_endian)))
                    .collect()
            }
            CType::Array(element, length) => {
                let order = matches!(**element, CType::Int { .. }).then(|| order_of_type(element));
                vec![order; *length as usize]
            }
            _ => Vec::new(),
        };
        for (child, to) in children.zip(expected) {
            let order = self.order(child);
            if let Some(to) = to {
                self.assign(child, order, to, "assigned");
            }
        }
    }

    fn labels(&mut self, selector: &'a Node, order: Order, body: &'a Node) {
        let mut labels = Vec::new();
        body.walk(&mut |n| {
            if n.kind == "CaseStmt" {
                labels.extend(n.inner.first());
            }
        });
        for label in labels {
            let label_order = self.order(label);
            self.mix(label.span, (selector, order), (label, label_order), "compared");
        }
    }

    fn call(&mut self, node: &'a Node) -> Order {
        let orders: Vec<Order> = node.inner[1..].iter().map(|arg| self.order(arg)).collect();
        let Some(callee) = node.callee() else { return Order::Host };
        match callee.name.as_str() {
            "__builtin_bswap16" | "__builtin_bswap32" | "__builtin_bswap64" => {
                return match orders.first() {
                    Some(Order::Network) => Order::Host,
                    Some(Order::Host) => Order::Network,
                    _ => Order::Any,
                };
            }
            // Types of the headers they are for say nothing of orders.
            name if is_of_arpa_inet(name) => return Order::Any,
            "__builtin_expect" | "__builtin_expect_with_probability" => {
                return orders.first().copied().unwrap_or(Order::Host);
            }
            _ => {}
        }
        let function = node.inner[0].strip_casts().ty.clone();
        for ((arg, order), param) in node.inner[1..].iter().zip(orders).zip(parameters(&function)) {
            if matches!(self.unit.ctype(param), CType::Int { .. }) && param != "..." {
                let to = self.type_order(param);
                self.assign(arg, order, to, "passed");
            }
        }
        self.type_order(&node.ty)
    }
}

/// True for the functions of arpa/inet.h (POSIX) that change between the orders of bytes.
pub fn is_of_arpa_inet(name: &str) -> bool {
    matches!(name, "htons" | "htonl" | "ntohs" | "ntohl")
}

/// *Any* if an integer's bytes read the same both ways, in 16, 32 or 64 bits.
fn palindrome(value: i128, otherwise: Order) -> Order {
    let small = u16::try_from(value).is_ok_and(|v| v == v.swap_bytes());
    let medium = u32::try_from(value).is_ok_and(|v| v == v.swap_bytes());
    let large = u64::try_from(value).is_ok_and(|v| v == v.swap_bytes());
    if otherwise == Order::Host && (small || medium || large || value == -1) {
        Order::Any
    } else {
        otherwise
    }
}

/// The function that converts to network or to host order.
fn converter(node: &Node, to_network: bool) -> &'static str {
    // Promotion to `int` hides the width; a conversion by assignment shows it.
    let named = |ty: &str| ["16", "32", "64"].iter().any(|bits| ty.contains(bits));
    let ty = if named(&node.ty) { &node.ty } else { &node.strip_casts().ty };
    let wide = |name: &str| ty.contains(name);
    match (to_network, wide("64") || wide("long"), wide("32")) {
        (true, true, _) => "nf_htonll",
        (false, true, _) => "nf_ntohll",
        (true, _, true) => "nf_htonl",
        (false, _, true) => "nf_ntohl",
        (true, _, _) => "nf_htons",
        (false, _, _) => "nf_ntohs",
    }
}

/// The parameter types in a function's type, `...` included.
fn parameters(function: &str) -> Vec<&str> {
    let inner =
        function.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or_default();
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(inner[start..].trim());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_split_at_the_outer_commas() {
        assert_eq!(parameters("bool (nf_pkt, char (*)[2], ...)"), ["nf_pkt", "char (*)[2]", "..."]);
        assert_eq!(parameters("void (void)"), ["void"]);
    }

    #[test]
    fn constants_that_read_the_same_both_ways_have_any_order() {
        for value in [0, 0xffff, 0x0101, 0xffff_ffff, -1] {
            assert_eq!(palindrome(value, Order::Host), Order::Any, "{value:#x}");
        }
        assert_eq!(palindrome(0x0800, Order::Host), Order::Host);
    }
}
