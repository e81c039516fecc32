//! Functions that give pointers back. Such a function gives a number back, which says to which of
//! the places that it knows the pointer leads, with the indices in it; where it is called, the
//! number becomes a choice between these places. Number 0 is null.

use std::collections::{HashMap, HashSet};

use super::holes::{fill_indices, take_indices};
use super::make::Fresh;
use super::rewrite::is_null;
use super::shape::{INDEX, is_address_type, is_pointer, same, variable, variable_read};
use crate::ast::Node;
use crate::effects::is_pure;

/// The type of what is given back in the place of a pointer.
const NUMBER: &str = "unsigned long";
/// Bits of it: of a number with which place it is, behind those with the indices.
const WIDTH: u32 = 64;
const PLACE_WIDTH: u32 = 8;
/// Bits of an index into an array of which the length is not seen.
const WIDEST: u32 = 32;
/// The kind of a node that stands for a pointer's number until the function's pointers are known.
const NUMBERED: &str = "PointerNumber";

/// A function that gives pointers back.
pub struct Returned {
    places: Vec<Place>,
    params: Vec<u64>,
    null: bool,
}

/// A place to which pointers lead that a function gives back.
struct Place {
    /// Its address, with holes for indices.
    template: Node,
    /// Bits of the indices, lowest first.
    widths: Vec<u32>,
}

/// Functions that give pointers back, by name.
pub type Returning = HashMap<String, Returned>;

/// Marks what a function gives back, if these are pointers.
pub fn mark(function: &mut Node, fresh: &mut Fresh) -> bool {
    let gives = result_type(&function.ty).is_some_and(is_pointer);
    if gives {
        mark_returns(function, fresh);
    }
    gives
}

/// The type that a function's type gives back.
fn result_type(ty: &str) -> Option<&str> {
    ty.split_once('(').map(|(result, _)| result.trim_end())
}

fn mark_returns(node: &mut Node, fresh: &mut Fresh) {
    if let ("ReturnStmt", [value]) = (node.kind.as_str(), &mut node.inner[..]) {
        *value = fresh.of_kind(NUMBERED, NUMBER, std::mem::take(value));
        return;
    }
    node.inner.iter_mut().for_each(|child| mark_returns(child, fresh));
}

/// Lets a function in which all pointers are known give numbers back; nothing if it is not seen
/// where a pointer leads that it gives back.
pub fn number(function: &mut Node, fresh: &mut Fresh) -> Option<Returned> {
    let is_param = |node: &&Node| node.kind == "ParmVarDecl";
    let params = function.inner.iter().filter(is_param).map(|param| param.id).collect();
    let mut locals = HashSet::new();
    function.walk(&mut |node| {
        let is_static = matches!(node.storage.as_str(), "static" | "extern");
        locals.extend((node.kind == "VarDecl" && !is_static).then_some(node.id));
    });
    let mut numbering = Numbering { places: Vec::new(), null: false, locals, fresh };
    numbering.node(function)?;
    let Numbering { places, null, .. } = numbering;
    let result = result_type(&function.ty)?.len();
    function.ty.replace_range(..result, &format!("{NUMBER} "));
    (!places.is_empty()).then_some(Returned { places, params, null })
}

struct Numbering<'n> {
    places: Vec<Place>,
    null: bool,
    locals: HashSet<u64>,
    fresh: &'n mut Fresh,
}

impl Numbering<'_> {
    fn node(&mut self, node: &mut Node) -> Option<()> {
        if node.kind == NUMBERED {
            let address = std::mem::take(&mut node.inner[0]);
            *node = self.number(address)?;
            return Some(());
        }
        node.inner.iter_mut().try_for_each(|child| self.node(child))
    }

    fn number(&mut self, mut address: Node) -> Option<Node> {
        if is_null(&address) {
            self.null = true;
            return Some(self.fresh.number(&address, 0, NUMBER));
        }
        let widths = widths_of(&address);
        let indices = take_indices(&mut address)?;
        let mut is_local = false;
        address.walk(&mut |node| {
            let local = |id| self.locals.contains(&id);
            is_local |= node.referenced.as_ref().is_some_and(|of| local(of.id));
            // The parameter itself, and not what it points to.
            let names_param = node.kind == "DeclRefExpr" && !is_pointer(&node.ty);
            let param = variable(node).is_some_and(|of| of.kind == "ParmVarDecl");
            is_local |= names_param && param;
        });
        if is_local || widths.len() != indices.len() {
            return None;
        }
        let known = self.places.iter().position(|place| same(&place.template, &address));
        let place = known.unwrap_or_else(|| {
            self.places.push(Place { template: address.clone(), widths: widths.clone() });
            self.places.len() - 1
        });
        if widths.iter().sum::<u32>() + PLACE_WIDTH > WIDTH || place + 1 >= 1 << PLACE_WIDTH {
            return None;
        }
        let front = (place as u64 + 1) << (WIDTH - PLACE_WIDTH);
        let mut number = self.fresh.number(&address, front, NUMBER);
        let mut at = 0;
        for (index, width) in indices.into_iter().zip(widths) {
            let index = self.fresh.cast(index, INDEX);
            let wide = self.fresh.cast(index, NUMBER);
            let moved = self.shifted(wide, "<<", at);
            number = self.fresh.binary(&moved.clone(), "|", NUMBER, vec![number, moved]);
            at += width;
        }
        Some(number)
    }

    fn shifted(&mut self, number: Node, opcode: &str, by: u32) -> Node {
        shifted(number, opcode, by, self.fresh)
    }
}

fn shifted(number: Node, opcode: &str, by: u32, fresh: &mut Fresh) -> Node {
    let like = number.clone();
    let by = fresh.number(&like, by.into(), "int");
    fresh.binary(&like, opcode, NUMBER, vec![number, by])
}

/// The bits that the indices of an address take, which `take_indices` takes out.
fn widths_of(address: &Node) -> Vec<u32> {
    let mut found = Vec::new();
    if let ("ArraySubscriptExpr", [left, right]) = (address.kind.as_str(), &address.inner[..]) {
        let (base, index) = if is_address_type(&left.ty) { (left, right) } else { (right, left) };
        found.extend(widths_of(base));
        if index.strip_casts().kind != "IntegerLiteral" {
            // An array's own type is below its conversion to a pointer.
            let array = base.strip().inner.first().map_or("", |array| array.ty.as_str());
            let len = array.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            let len = len.and_then(|(len, _)| len.trim().parse::<u64>().ok());
            // The end of an array is a place as well.
            found.push(len.map_or(WIDEST, |len| WIDTH - len.leading_zeros()));
        }
        return found;
    }
    address.inner.iter().for_each(|child| found.extend(widths_of(child)));
    found
}

/// Puts choices in the place of calls that give pointers back, with a variable for each number.
pub fn calls(function: &mut Node, returning: &Returning, fresh: &mut Fresh) {
    let mut calls = Calls { returning, fresh, declared: Vec::new() };
    calls.node(function);
    let declared = calls.declared;
    fresh.declare(function, declared);
}

struct Calls<'c> {
    returning: &'c Returning,
    fresh: &'c mut Fresh,
    declared: Vec<Node>,
}

impl Calls<'_> {
    fn node(&mut self, node: &mut Node) {
        node.inner.iter_mut().for_each(|child| self.node(child));
        let Some(name) = node.callee().map(|callee| callee.name.clone()) else { return };
        let Some(returned) = self.returning.get(&name) else { return };
        let ty = std::mem::replace(&mut node.ty, NUMBER.to_string());
        let mut addresses = Vec::new();
        for (number, place) in returned.places.iter().enumerate() {
            addresses.push((number as u64 + 1, self.address(place, returned, node, &ty)));
        }
        let Some(addresses) =
            addresses.into_iter().map(|(n, a)| a.map(|a| (n, a))).collect::<Option<Vec<_>>>()
        else {
            node.ty = ty;
            return;
        };
        let id = self.fresh.id();
        let zero = self.fresh.number(node, 0, NUMBER);
        self.declared.push(self.fresh.variable(node, id, NUMBER, Some(zero)));
        let mut last = returned.null.then(|| self.fresh.null(node, &ty));
        for (number, mut address) in addresses.into_iter().rev() {
            let read = self.read(node, id);
            fill_indices_with(&mut address, place_widths(returned, number), &read, self.fresh);
            last = Some(match last {
                None => address,
                Some(last) => {
                    let which = shifted(read, ">>", WIDTH - PLACE_WIDTH, self.fresh);
                    let wanted = self.fresh.number(node, number, NUMBER);
                    let cond = self.fresh.binary(node, "==", "int", vec![which, wanted]);
                    self.fresh.conditional(cond, address, last)
                }
            });
        }
        let name = self.fresh.named(node, id, &name, NUMBER);
        let set = self.fresh.assign(name, node.clone());
        *node = self.fresh.comma(set, last.unwrap_or_default());
    }

    fn read(&mut self, like: &Node, id: u64) -> Node {
        let name = self.fresh.named(like, id, "pointer", NUMBER);
        self.fresh.value(name)
    }

    /// A place with the arguments in the places of the parameters.
    fn address(&self, place: &Place, of: &Returned, call: &Node, ty: &str) -> Option<Node> {
        let mut address = place.template.clone();
        hand_over(&mut address, &of.params, call)?;
        address.ty = ty.to_string();
        Some(address)
    }
}

fn place_widths(of: &Returned, number: u64) -> &[u32] {
    &of.places[number as usize - 1].widths
}

fn hand_over(node: &mut Node, params: &[u64], call: &Node) -> Option<()> {
    if let Some(id) = variable_read(node) {
        let number = params.iter().position(|param| *param == id)?;
        let arg = call.inner.get(number + 1)?;
        *node = is_pure(arg).then(|| arg.clone())?;
        return Some(());
    }
    node.inner.iter_mut().try_for_each(|child| hand_over(child, params, call))
}

/// Puts the parts of a number in the places of indices.
fn fill_indices_with(address: &mut Node, widths: &[u32], read: &Node, fresh: &mut Fresh) {
    let mut at = 0;
    let mut widths = widths.iter();
    fill_indices(address, fresh, &mut |fresh| {
        let width = widths.next().copied().unwrap_or_default();
        let moved = shifted(read.clone(), ">>", at, fresh);
        let mask = fresh.number(read, (1 << width) - 1, NUMBER);
        let part = fresh.binary(read, "&", NUMBER, vec![moved, mask]);
        at += width;
        fresh.cast(part, INDEX)
    });
}
