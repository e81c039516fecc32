//! How a trip of a loop changes a place: a variable, or a member of one.
//!
//! A trip's way from the condition back to it changes the place by some sum of constants. [`Walk`]
//! walks statements with the interval of that sum: arms of an `if` are joined, what stands behind
//! `&&` may be left out, ways that leave the loop do not count. Whatever else changes the place, or
//! might, has no interval.

use crate::ast::Node;
use crate::intervals::Range;
use crate::labels::{gotos, names};

/// A variable's declaration, and the members that lead to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub decl: u64,
    pub members: Vec<u64>,
}

impl Spot {
    /// The place of an expression, and whether it is all of it: an element of an array is some part
    /// of the array, a member of a union some part of the union, and so is what has another type.
    pub fn of(node: &Node) -> Option<(Spot, bool)> {
        let node = node.strip_casts();
        match node.kind.as_str() {
            "DeclRefExpr" => {
                let decl = node.referenced.as_ref()?.id;
                Some((Spot { decl, members: Vec::new() }, true))
            }
            "MemberExpr" => {
                let (mut spot, whole) = Spot::of(node.inner.first()?)?;
                if node.flags.in_union {
                    return Some((spot, false));
                }
                if whole {
                    spot.members.push(node.member);
                }
                Some((spot, whole))
            }
            "ArraySubscriptExpr" => Some((Spot::of(node.inner.first()?)?.0, false)),
            "UnaryOperator" if matches!(node.opcode.as_str(), "*" | "&") => {
                Spot::of(node.inner.first()?)
            }
            "CStyleCastExpr" => {
                let (spot, whole) = Spot::of(node.inner.first()?)?;
                Some((spot, whole && node.cast != "BitCast"))
            }
            _ => None,
        }
    }

    /// The place that an integer expression reads, if it is one that loops may count in.
    pub fn counted(node: &Node) -> Option<Spot> {
        Spot::of(node).filter(|(_, whole)| *whole).map(|(spot, _)| spot)
    }

    /// True if two places may share bytes.
    pub fn overlaps(&self, other: &Spot) -> bool {
        self.decl == other.decl && self.members.iter().zip(&other.members).all(|(a, b)| a == b)
    }
}

/// True if a `continue` of this loop's own is in its body.
pub fn has_continue(node: &Node) -> bool {
    match node.kind.as_str() {
        "ContinueStmt" => true,
        "ForStmt" | "WhileStmt" | "DoStmt" => false,
        _ => node.inner.iter().any(has_continue),
    }
}

/// Effects of a node itself on a place.
enum Touch {
    Nothing,
    /// It assigns to exactly this place.
    Assigns,
    /// It may write there.
    Other,
}

fn touch(node: &Node, spot: &Spot) -> Touch {
    let overlapping =
        |target: &Node| Spot::of(target).is_some_and(|(target, _)| target.overlaps(spot));
    let assigns = match (node.kind.as_str(), node.opcode.as_str()) {
        ("BinaryOperator", "=")
        | ("CompoundAssignOperator", _)
        | ("UnaryOperator", "++" | "--") => true,
        ("UnaryOperator", "&") => false,
        ("CallExpr", _) => {
            let handed =
                node.inner.iter().skip(1).any(|arg| arg.ty.ends_with('*') && overlapping(arg));
            return if handed { Touch::Other } else { Touch::Nothing };
        }
        _ => return Touch::Nothing,
    };
    let Some(target) = node.inner.first().filter(|target| overlapping(target)) else {
        return Touch::Nothing;
    };
    let exact = Spot::counted(target).is_some_and(|target| target == *spot);
    if assigns && exact { Touch::Assigns } else { Touch::Other }
}

/// True if anything below a node may write to a place.
pub fn touches(node: &Node, spot: &Spot) -> bool {
    let mut found = false;
    node.walk(&mut |n| found |= !matches!(touch(n, spot), Touch::Nothing));
    found
}

/// How often something below a node may write to a place.
pub fn writes(node: &Node, spot: &Spot) -> usize {
    let mut count = 0;
    node.walk(&mut |n| count += usize::from(!matches!(touch(n, spot), Touch::Nothing)));
    count
}

/// Sums of changes by the way through a statement: to its end, to a `continue` of the loop, and to
/// labels.
#[derive(Clone, Default)]
struct Flow {
    end: Option<Range>,
    again: Option<Range>,
    jumps: Vec<(u64, Range)>,
}

impl Flow {
    fn end(sum: Range) -> Flow {
        Flow { end: Some(sum), ..Flow::default() }
    }

    /// Sums behind a change of the place by another sum.
    fn behind(self, sum: Range) -> Flow {
        let jumps = self.jumps.into_iter().map(|(label, more)| (label, add(sum, more)));
        Flow {
            end: self.end.map(|more| add(sum, more)),
            again: self.again.map(|more| add(sum, more)),
            jumps: jumps.collect(),
        }
    }

    /// One way or the other.
    fn or(mut self, other: Flow) -> Flow {
        self.jumps.extend(other.jumps);
        Flow { end: join(self.end, other.end), again: join(self.again, other.again), ..self }
    }

    /// Joins the ways that lead to the labels of the next statement.
    fn comes_to(&mut self, stmt: &Node) {
        let here = self.jumps.iter().filter(|(label, _)| names(stmt, *label));
        self.end = here.fold(self.end, |end, (_, sum)| join(end, Some(*sum)));
    }
}

/// A walk through a loop's body.
pub struct Walk<'s> {
    pub spot: &'s Spot,
    /// The constant by which an assignment changes the place.
    pub by: &'s mut dyn FnMut(&Node) -> Option<i128>,
}

const NOTHING: Range = (0, 0);

fn add(a: Range, b: Range) -> Range {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

fn join(a: Option<Range>, b: Option<Range>) -> Option<Range> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// With a part that may be left out.
fn perhaps(range: Range) -> Range {
    (range.0.min(0), range.1.max(0))
}

impl Walk<'_> {
    /// The change from the start of a trip to that of the next; `None` if there is no next one.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn of_trip(&mut self, body: &Node, step: Option<&Node>) -> Result<Option<Range>, String> {
        let flow = self.statement(body)?;
        let Some(sum) = join(flow.end, flow.again) else { return Ok(None) };
        let step = step.map_or(Ok(NOTHING), |step| self.expression(step))?;
        Ok(Some(add(sum, step)))
    }

    /// The most that the parts of a node sum up to, whichever of them run, each once.
    pub fn at_most(&mut self, node: &Node) -> Result<Range, String> {
        let mut sum = Ok(NOTHING);
        node.walk(&mut |n| {
            let is_loop = matches!(n.kind.as_str(), "ForStmt" | "WhileStmt" | "DoStmt");
            if is_loop && touches(n, self.spot) {
                sum = Err("its variable is changed by a loop inside it".into());
            }
            if let Ok(so_far) = sum {
                sum = self.own(n).map(|own| add(so_far, perhaps(own)));
            }
        });
        sum
    }

    /// The change that a node itself makes.
    fn own(&mut self, node: &Node) -> Result<Range, String> {
        match touch(node, self.spot) {
            Touch::Nothing => Ok(NOTHING),
            Touch::Assigns => {
                let by = (self.by)(node).ok_or("its variable does not change by a constant")?;
                Ok((by, by))
            }
            Touch::Other => Err("its variable is also changed as a part of something else".into()),
        }
    }

    fn expression(&mut self, node: &Node) -> Result<Range, String> {
        let own = self.own(node)?;
        let inner = match (node.kind.as_str(), node.opcode.as_str(), &node.inner[..]) {
            ("BinaryOperator", "&&" | "||", [left, right]) => {
                add(self.expression(left)?, perhaps(self.expression(right)?))
            }
            ("ConditionalOperator", _, [cond, then, other]) => {
                let arms = join(Some(self.expression(then)?), Some(self.expression(other)?));
                add(self.expression(cond)?, arms.unwrap_or(NOTHING))
            }
            ("BinaryConditionalOperator" | "StmtExpr", ..) => perhaps(self.at_most(node)?),
            (_, _, children) => {
                let mut sum = NOTHING;
                for child in children {
                    sum = add(sum, self.expression(child)?);
                }
                sum
            }
        };
        Ok(add(own, inner))
    }

    fn statement(&mut self, node: &Node) -> Result<Flow, String> {
        let jumps = |sum: Range| gotos(node).into_iter().map(|label| (label, sum)).collect();
        Ok(match (node.kind.as_str(), &node.inner[..]) {
            ("CompoundStmt", children) => {
                let mut flow = Flow::end(NOTHING);
                for child in children {
                    flow.comes_to(child);
                    let Some(before) = flow.end.take() else { continue };
                    flow = flow.or(self.statement(child)?.behind(before));
                }
                flow
            }
            ("IfStmt", [cond, arms @ ..]) if (1..=2).contains(&arms.len()) => {
                let cond = self.expression(cond)?;
                let mut joined = if arms.len() == 1 { Flow::end(NOTHING) } else { Flow::default() };
                for arm in arms {
                    joined = joined.or(self.statement(arm)?);
                }
                joined.behind(cond)
            }
            ("BreakStmt" | "ReturnStmt", _) => Flow::default(),
            ("GotoStmt", _) => Flow { jumps: jumps(NOTHING), ..Flow::default() },
            ("LabelStmt", [.., inner]) => self.statement(inner)?,
            ("ContinueStmt", _) => Flow { again: Some(NOTHING), ..Flow::default() },
            ("ForStmt" | "WhileStmt" | "DoStmt", _) if touches(node, self.spot) => {
                return Err("its variable is changed by a loop inside it".into());
            }
            ("ForStmt" | "WhileStmt" | "DoStmt", _) => {
                Flow { jumps: jumps(NOTHING), ..Flow::end(NOTHING) }
            }
            ("SwitchStmt", _) => {
                let sum = self.at_most(node)?;
                let again = has_continue(node).then_some(sum);
                Flow { again, jumps: jumps(sum), ..Flow::end(sum) }
            }
            ("AttributedStmt", [.., inner]) => self.statement(inner)?,
            ("DeclStmt", children) => {
                let mut sum = NOTHING;
                for child in children {
                    sum = add(sum, self.expression(child)?);
                }
                Flow::end(sum)
            }
            _ => Flow::end(self.expression(node)?),
        })
    }
}
