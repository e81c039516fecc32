//! Walking a handler: the origin of every value on the way.
//!
//! Reading a header at a fixed place of the frame is followed through `extract`, with the cursor
//! known along each way through the handler. A value of a failed `extract` is zero, which the bytes
//! of the frame would not say: an origin that rests on an extract that was not yet checked at the
//! place where it is used does not count ([`Site::trusts`]).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use nicforge_ir::interp::arith::bit_field;
use nicforge_ir::verify::MAX_FRAME;
use nicforge_ir::{
    BinOp, BlockId, Body, CmpOp, HandlerId, InstId, Op, Program, Proj, Type, UnOp, ValueId, Words,
};

use super::{MAX_ELEMENTS, Origin, Read, Shape, make, shape_of};

/// A place in a handler that somebody asks about: an access to a table, or a generated event.
#[derive(Clone, Debug)]
pub struct Site {
    pub inst: InstId,
    /// Origins of the op's operands, in order.
    pub operands: Vec<Shape>,
    /// Extracts and loads known to have succeeded here.
    pub checked: BTreeSet<u32>,
}

impl Site {
    /// True if an origin holds here: every read it rests on has succeeded.
    pub fn trusts(&self, origin: &Origin) -> bool {
        origin.reads().is_subset(&self.checked)
    }
}

/// Follows a handler; gives the sites whose op `wanted` picks, in program order.
pub fn sites(program: &Program, handler: HandlerId, wanted: &dyn Fn(&Op) -> bool) -> Vec<Site> {
    let body = &program.handlers[handler].body;
    let entry = body.entry();
    let mut walk = Walk {
        program,
        body,
        handler: handler.as_u32(),
        shapes: BTreeMap::new(),
        oks: BTreeMap::new(),
        wanted,
        found: Vec::new(),
    };
    for (index, param) in body.blocks[entry].params.iter().enumerate() {
        let shape = shape_of(program, body.ty(*param), &mut vec![], &mut |path| Origin::Param {
            index: index as u32,
            path: path.to_vec(),
        });
        walk.shapes.insert(*param, shape);
    }
    // A stage behind the first does not know how far its packet was read.
    let first = program.events[program.handlers[handler].event].name == "net_recv";
    walk.block(entry, Way { cursor: first.then_some(0), pending: None, checked: BTreeSet::new() });
    walk.found
}

/// Facts on one way through a handler.
#[derive(Clone)]
struct Way {
    /// Bytes of the frame before the cursor, if the same for every packet that comes along here.
    cursor: Option<u32>,
    /// The extract that decides the cursor: its number, and the cursor if it succeeded and if not.
    pending: Option<(u32, u32, u32)>,
    checked: BTreeSet<u32>,
}

struct Walk<'a> {
    program: &'a Program,
    body: &'a Body,
    handler: u32,
    shapes: BTreeMap<ValueId, Shape>,
    /// `ok` results, and the reads that succeeded if they hold.
    oks: BTreeMap<ValueId, u32>,
    wanted: &'a dyn Fn(&Op) -> bool,
    found: Vec<Site>,
}

impl Walk<'_> {
    fn shape(&self, value: ValueId) -> Shape {
        self.shapes.get(&value).cloned().unwrap_or(Shape::Other)
    }

    fn origin(&self, value: ValueId) -> Option<Rc<Origin>> {
        match self.shapes.get(&value) {
            Some(Shape::Int(origin)) => Some(Rc::new(origin.clone())),
            _ => None,
        }
    }

    fn opaque(&self, value: ValueId) -> Shape {
        let (handler, number) = (self.handler, value.as_u32());
        shape_of(self.program, self.body.ty(value), &mut vec![], &mut |path| Origin::Value {
            handler,
            value: number,
            path: path.to_vec(),
        })
    }

    /// Nothing if no event gets to the end of the region.
    fn block(&mut self, block: BlockId, mut way: Way) -> Option<Way> {
        let body = self.body;
        for &inst in &body.blocks[block].insts {
            let op = &body.insts[inst].op;
            if (self.wanted)(op) {
                let operands = op.operands().map(|value| self.shape(value)).collect();
                self.found.push(Site { inst, operands, checked: way.checked.clone() });
            }
            match op {
                Op::If { cond, then, other, .. } => {
                    way = self.branch(inst, *cond, *then, *other, way)?
                }
                Op::Loop { body: region, .. } => {
                    let params = body.blocks[*region].params.clone();
                    for param in params {
                        let shape = self.opaque(param);
                        self.shapes.insert(param, shape);
                    }
                    self.block(
                        *region,
                        Way { cursor: None, pending: None, checked: way.checked.clone() },
                    );
                    if moves_cursor(body, *region) {
                        way = Way { cursor: None, pending: None, checked: way.checked };
                    }
                    self.name_results(inst);
                }
                Op::Return(_) | Op::Break { .. } | Op::Continue { .. } => return None,
                _ => self.straight(inst, &mut way),
            }
        }
        Some(way)
    }

    fn name_results(&mut self, inst: InstId) {
        for result in self.body.insts[inst].results.clone() {
            let shape = self.opaque(result);
            self.shapes.insert(result, shape);
        }
    }

    fn branch(
        &mut self,
        inst: InstId,
        cond: ValueId,
        then: BlockId,
        other: BlockId,
        way: Way,
    ) -> Option<Way> {
        let (known, when) = match self.succeeded(cond) {
            Some((read, holds)) => (Some(read), holds),
            None => (None, true),
        };
        let side = |holds: bool| {
            let mut way = way.clone();
            if let Some(read) = known {
                let ok = holds == when;
                if ok {
                    way.checked.insert(read);
                }
                if let Some((pending, success, failure)) = way.pending
                    && pending == read
                {
                    way.cursor = Some(if ok { success } else { failure });
                    way.pending = None;
                }
            }
            way
        };
        let first = self.block(then, side(true));
        let second = self.block(other, side(false));
        let results = self.body.insts[inst].results.clone();
        let yields = |walk: &Self, block: BlockId, n: usize| match &walk.body.terminator(block)?.op
        {
            Op::Yield(values) => values.get(n).map(|value| walk.shape(*value)),
            _ => None,
        };
        let cond = self.origin(cond).filter(|cond| cond.is_pure());
        for (n, result) in results.into_iter().enumerate() {
            let a = first.as_ref().and_then(|_| yields(self, then, n));
            let b = second.as_ref().and_then(|_| yields(self, other, n));
            let shape = match (a, b, &cond) {
                (Some(a), Some(b), _) if a == b => a,
                (Some(a), Some(b), Some(cond)) => self.choose(cond, &a, &b),
                (Some(a), None, _) => a,
                (None, Some(b), _) => b,
                _ => self.opaque(result),
            };
            self.shapes.insert(result, shape);
        }
        match (first, second) {
            (Some(a), Some(b)) => Some(Way {
                cursor: if a.cursor == b.cursor { a.cursor } else { None },
                pending: if a.pending == b.pending { a.pending } else { None },
                checked: a.checked.intersection(&b.checked).copied().collect(),
            }),
            (way, None) | (None, way) => way,
        }
    }

    fn choose(&self, cond: &Rc<Origin>, a: &Shape, b: &Shape) -> Shape {
        match (a, b) {
            (a, b) if a == b => a.clone(),
            (Shape::Int(x), Shape::Int(y)) => {
                let bits = x.width().or(y.width()).unwrap_or(64);
                Shape::Int(make(
                    "select",
                    bits,
                    vec![cond.clone(), Rc::new(x.clone()), Rc::new(y.clone())],
                ))
            }
            (Shape::Members(xs), Shape::Members(ys)) if xs.len() == ys.len() => {
                Shape::Members(xs.iter().zip(ys).map(|(x, y)| self.choose(cond, x, y)).collect())
            }
            _ => Shape::Other,
        }
    }

    /// The read that a condition says succeeded, and whether it did if the condition holds.
    fn succeeded(&self, cond: ValueId) -> Option<(u32, bool)> {
        if let Some(read) = self.oks.get(&cond) {
            return Some((*read, true));
        }
        match self.body.def_op(cond)? {
            Op::Un(UnOp::Not, of) => self.succeeded(*of).map(|(read, holds)| (read, !holds)),
            Op::Cmp(op @ (CmpOp::Eq | CmpOp::Ne), of, with) => {
                let Some(Op::Int(0)) = self.body.def_op(*with) else { return None };
                let (read, holds) = self.succeeded(*of)?;
                Some((read, holds == (*op == CmpOp::Ne)))
            }
            Op::Cast(of) => self.succeeded(*of),
            _ => None,
        }
    }

    fn straight(&mut self, inst: InstId, way: &mut Way) {
        let body = self.body;
        let data = &body.insts[inst];
        let Some(&result) = data.results.first() else {
            if let Op::Reset { .. } = data.op {
                *way = Way {
                    cursor: Some(0),
                    pending: None,
                    checked: std::mem::take(&mut way.checked),
                };
            }
            return;
        };
        let bits = match body.ty(result) {
            Type::Int { bits, .. } => bits,
            _ => 0,
        };
        let of = |walk: &Self, values: &[ValueId]| -> Option<Vec<Rc<Origin>>> {
            values.iter().map(|value| walk.origin(*value)).collect()
        };
        let op = |walk: &Self, name: &'static str, values: &[ValueId]| {
            of(walk, values).map(|parts| Shape::Int(make(name, bits, parts)))
        };
        let shape = match &data.op {
            Op::Int(value) => Some(Shape::Int(Origin::Const(*value))),
            Op::Zero => Some(shape_of(self.program, body.ty(result), &mut vec![], &mut |_| {
                Origin::Const(0)
            })),
            Op::InPort { .. } => Some(Shape::Int(Origin::Port)),
            Op::Cast(a) => {
                let (from, signed) = int(body, *a);
                let name = if bits <= from {
                    "trunc"
                } else if signed {
                    "sext"
                } else {
                    "zext"
                };
                op(self, name, &[*a])
            }
            Op::Bin(kind, a, b) => op(self, bin_name(*kind, int(body, *a).1), &[*a, *b]),
            Op::Cmp(kind, a, b) => op(self, cmp_name(*kind, int(body, *a).1), &[*a, *b]),
            // One value makes one result only, and one result is of one value.
            Op::Un(kind, a) if kind.undoes_itself() => op(self, kind.word(), &[*a]),
            Op::Select { cond, then, other } => {
                let (a, b) = (self.shape(*then), self.shape(*other));
                self.origin(*cond).map(|cond| self.choose(&cond, &a, &b))
            }
            Op::Hash { seed, value } => self.hash(*seed, *value),
            Op::Get { agg, path } => self.part(&self.shape(*agg), path),
            Op::Set { agg, path, value } => {
                let mut shape = self.shape(*agg);
                let (mut value, ty) = (self.shape(*value), body.ty(*value));
                if let Some(width) = self.program.bit_width(body.ty(*agg), path) {
                    value = in_bits(value, width, ty);
                }
                self.replace(&mut shape, path, value).map(|()| shape)
            }
            Op::Extract { .. } => {
                let number = inst.as_u32();
                let ty = body.ty(data.results[1]);
                let size = self.program.size_of(ty);
                let at = self.place(way, 0, ty);
                self.oks.insert(result, number);
                if let Some(at) = at {
                    let shape = self.frame(ty, at, number);
                    self.shapes.insert(data.results[1], shape);
                    way.pending = Some((number, at + size, at));
                } else {
                    let shape = self.opaque(data.results[1]);
                    self.shapes.insert(data.results[1], shape);
                    *way = Way {
                        cursor: None,
                        pending: None,
                        checked: std::mem::take(&mut way.checked),
                    };
                }
                None
            }
            Op::Load { off, .. } => {
                let number = inst.as_u32();
                self.oks.insert(result, number);
                let ty = body.ty(data.results[1]);
                let at = match self.shape(*off) {
                    Shape::Int(Origin::Const(off)) => self.place(way, off, ty),
                    _ => None,
                };
                let shape = at
                    .map_or_else(|| self.opaque(data.results[1]), |at| self.frame(ty, at, number));
                self.shapes.insert(data.results[1], shape);
                None
            }
            // What was written is not what the frame held.
            op if op.moves_cursor() || op.overwrites() => {
                *way =
                    Way { cursor: None, pending: None, checked: std::mem::take(&mut way.checked) };
                None
            }
            _ => None,
        };
        let known = matches!(data.op, Op::Extract { .. } | Op::Load { .. });
        for (n, value) in data.results.iter().enumerate() {
            if known && n == 1 {
                continue;
            }
            let shape = shape.clone().filter(|_| n == 0).unwrap_or_else(|| self.opaque(*value));
            self.shapes.insert(*value, shape);
        }
    }

    /// A hash: of its seed, of how many bytes, and of the value, as a whole if the event has it as
    /// a whole.
    fn hash(&self, seed: ValueId, value: ValueId) -> Option<Shape> {
        let (ty, shape) = (self.body.ty(value), self.shape(value));
        let size = Origin::Const(u64::from(self.program.size_of(ty)));
        let mut of = vec![self.origin(seed)?, Rc::new(size)];
        match self.whole(ty, &shape) {
            Some(origin) => of.push(Rc::new(origin)),
            None if matches!(shape, Shape::Other) => return None,
            None => {
                // Of parts; how they lie is the type's, which makes this never look like a whole.
                let ty = match ty {
                    Type::Struct(id) => u64::from(id.as_u32()),
                    Type::Array(id) => u64::from(id.as_u32()) << 32,
                    Type::Int { .. } | Type::Packet => u64::MAX,
                };
                of.push(Rc::new(Origin::Const(ty)));
                of.extend(shape.leaves().into_iter().map(|leaf| Rc::new(leaf.clone())));
            }
        }
        Some(Shape::Int(make("hash", 32, of)))
    }

    /// The parameter, or the part of one, that a value of a type is.
    fn whole(&self, ty: Type, shape: &Shape) -> Option<Origin> {
        let first = shape.leaves().into_iter().next()?;
        let Origin::Param { index, path } = first else { return None };
        (0..=path.len()).find_map(|long| {
            let prefix = &path[..long];
            let same = shape_of(self.program, ty, &mut prefix.to_vec(), &mut |path| {
                Origin::Param { index: *index, path: path.to_vec() }
            });
            (same == *shape).then(|| Origin::Param { index: *index, path: prefix.to_vec() })
        })
    }

    /// Place in the frame of a value that is read so far behind the cursor; nothing if nobody knows
    /// it, or if it lies behind all frames, where it is never read.
    fn place(&self, way: &Way, behind: u64, ty: Type) -> Option<u32> {
        let cursor = way.cursor.filter(|_| way.pending.is_none())?;
        let at = u64::from(cursor).checked_add(behind)?;
        let end = at.checked_add(u64::from(self.program.size_of(ty)))?;
        (end <= u64::from(MAX_FRAME)).then_some(at as u32)
    }

    /// Shape of a value of a type that lies there in the frame.
    fn frame(&self, ty: Type, at: u32, by: u32) -> Shape {
        match ty {
            Type::Int { bits, .. } => Shape::Int(Origin::Frame {
                offset: at,
                bits: u32::from(bits),
                bit_offset: 0,
                by: Read(by),
            }),
            Type::Struct(id) => {
                let (_, slots) = self.program.struct_layout(id);
                let fields = &self.program.structs[id].fields;
                let each = fields.iter().zip(&slots).map(|(field, slot)| match field.ty {
                    // A bit-field without a name is padding, which reads as zero whatever the frame
                    // has there.
                    _ if field.is_padding() => Shape::Int(Origin::Const(0)),
                    Type::Int { bits, .. } => Shape::Int(Origin::Frame {
                        offset: at + slot.bit_offset / 8,
                        bits: slot.bits.min(u32::from(bits)),
                        bit_offset: slot.bit_offset % 8,
                        by: Read(by),
                    }),
                    ty => self.frame(ty, at + slot.bit_offset / 8, by),
                });
                Shape::Members(each.collect())
            }
            Type::Array(id) => {
                let def = self.program.arrays[id];
                if def.len > MAX_ELEMENTS {
                    return Shape::Other;
                }
                let size = self.program.size_of(def.elem);
                Shape::Members(
                    (0..def.len).map(|n| self.frame(def.elem, at + n * size, by)).collect(),
                )
            }
            Type::Packet => Shape::Other,
        }
    }

    fn step(&self, step: &Proj) -> Option<usize> {
        match step {
            Proj::Field(n) => Some(*n as usize),
            Proj::Index(value) => match self.shape(*value) {
                Shape::Int(Origin::Const(n)) => Some(n as usize),
                _ => None,
            },
        }
    }

    fn part(&self, shape: &Shape, path: &[Proj]) -> Option<Shape> {
        match (shape, path) {
            (shape, []) => Some(shape.clone()),
            (Shape::Members(members), [first, rest @ ..]) => {
                self.part(members.get(self.step(first)?)?, rest)
            }
            _ => None,
        }
    }

    fn replace(&self, shape: &mut Shape, path: &[Proj], value: Shape) -> Option<()> {
        match (shape, path) {
            (shape, []) => {
                *shape = value;
                Some(())
            }
            (Shape::Members(members), [first, rest @ ..]) => {
                let at = self.step(first)?;
                self.replace(members.get_mut(at)?, rest, value)
            }
            _ => None,
        }
    }
}

/// What a bit-field of `width` bits and type `ty` makes of a value: other bits are lost, so different
/// values may be the same key.
fn in_bits(value: Shape, width: u8, ty: Type) -> Shape {
    match value {
        Shape::Int(Origin::Const(value)) => Shape::Int(Origin::Const(bit_field(value, width, ty))),
        Shape::Int(origin) => Shape::Int(make("trunc", width, vec![Rc::new(origin)])),
        other => other,
    }
}

fn moves_cursor(body: &Body, block: BlockId) -> bool {
    let mut moves = false;
    body.for_each_inst(block, &mut |inst| {
        moves |= body.insts[inst].op.moves_cursor();
    });
    moves
}

fn int(body: &Body, value: ValueId) -> (u8, bool) {
    match body.ty(value) {
        Type::Int { bits, signed } => (bits, signed),
        _ => (64, false),
    }
}

fn bin_name(op: BinOp, signed: bool) -> &'static str {
    match (op, signed) {
        (BinOp::Add, _) => "add",
        (BinOp::Sub, _) => "sub",
        (BinOp::Mul, _) => "mul",
        (BinOp::Div, false) => "udiv",
        (BinOp::Div, true) => "sdiv",
        (BinOp::Rem, false) => "urem",
        (BinOp::Rem, true) => "srem",
        (BinOp::And, _) => "and",
        (BinOp::Or, _) => "or",
        (BinOp::Xor, _) => "xor",
        (BinOp::Shl, _) => "shl",
        (BinOp::Shr, false) => "lshr",
        (BinOp::Shr, true) => "ashr",
    }
}

fn cmp_name(op: CmpOp, signed: bool) -> &'static str {
    match (op, signed) {
        (CmpOp::Eq, _) => "eq",
        (CmpOp::Ne, _) => "ne",
        (CmpOp::Lt, false) => "ult",
        (CmpOp::Lt, true) => "slt",
        (CmpOp::Le, false) => "ule",
        (CmpOp::Le, true) => "sle",
        (CmpOp::Gt, false) => "ugt",
        (CmpOp::Gt, true) => "sgt",
        (CmpOp::Ge, false) => "uge",
        (CmpOp::Ge, true) => "sge",
    }
}
