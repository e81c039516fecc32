//! What a cut divides: the handler's body in working form, its nodes, and what binds them to each
//! other.
//!
//! *Working form*: where a body ends in `if … { A } else { B }; return`, both arms get a `return`
//! of their own, again and again. Paths that end apart can then end in different stages, and
//! nothing was copied.
//!
//! A *node* is what lies wholly in one stage: an instruction, a whole loop, or one result of an
//! `if`. A *point* stands for the conditions under which control comes to a place: those of the
//! `if`s around it and those that decide about every early `return` before it. An *exit* is a
//! `return` outside of loops.
//!
//! Two places *share a path* if one run of the handler may pass both: their ways from the entry
//! region part at two instructions of one region, and the earlier one does not leave on the way
//! back to that region.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use nicforge_ir::{
    BlockId, Body, Direction, InstId, Op, Program, TableId, TableKind, Type, ValueDef, ValueId, ops,
};
use nicforge_passes::rewrite::new_inst;

/// Number of a node in [`Work::nodes`].
pub type NodeId = usize;
/// Number of a point in [`Work::points`].
pub type PointId = usize;

/// The thing that a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An instruction or a whole loop.
    Inst(InstId),
    /// Result number `.1` of an `if`.
    Result(InstId, usize),
}

/// Accesses of a node, the ops inside a loop included.
#[derive(Clone, Debug, Default)]
pub struct Touches {
    /// Tables it accesses, each once.
    pub tables: Vec<TableId>,
    pub packet_read: bool,
    pub packet_write: bool,
    /// Ordered with every other such node.
    pub ordered: bool,
    pub random: bool,
    /// Calls a function of C that may have state.
    pub c_state: bool,
    /// Gives the packet away.
    pub consumes: bool,
    pub emits: bool,
    /// Generates an internal event.
    pub hands_on: bool,
    /// A loop with a `return` in it.
    pub returns: bool,
    /// Control goes on behind the node after it consumed the packet.
    pub goes_on: bool,
    /// It leaves something: a path without it would mean something else even if nobody uses its
    /// results.
    pub effect: bool,
    /// It may be computed in both stages.
    pub repeatable: bool,
    /// It may be done in both stages if the packet is read again from its start.
    pub rereadable: bool,
}

/// A node: it lies wholly in one stage.
#[derive(Clone, Debug)]
pub struct Node {
    pub what: What,
    /// Values it uses, without the packet.
    pub uses: Vec<ValueId>,
    pub gives: Vec<ValueId>,
    pub touches: Touches,
    pub point: PointId,
    pub place: Place,
    /// How often it runs per event, estimated.
    pub frequency: f64,
}

/// The way from the entry region: which instruction of which region, down to the place itself.
pub type Place = Vec<(BlockId, u32)>;

/// Needs of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Point(PointId),
    Condition(ValueId),
    /// A loop that may return.
    Loop(NodeId),
}

/// A `return` outside of loops.
#[derive(Clone, Debug)]
pub struct Exit {
    pub block: BlockId,
    pub point: PointId,
    pub place: Place,
}

/// A handler's body, taken apart.
pub struct Work {
    pub body: Body,
    pub packet: Option<ValueId>,
    pub nodes: Vec<Node>,
    /// The node that gives a value; none for the entry's parameters and values inside loops.
    pub giver: SecondaryMap<ValueId, PackedOption<Giver>>,
    pub points: Vec<Vec<Need>>,
    /// The point at which an `if` stands.
    pub point_of: SecondaryMap<InstId, PackedOption<Giver>>,
    /// The conditions of the `if`s around a region, by region: the innermost one and the region
    /// around.
    pub around: SecondaryMap<BlockId, Option<(ValueId, BlockId)>>,
    pub exits: Vec<Exit>,
    /// `if`s whose arms got the `return` behind them.
    pub pushed: SecondaryMap<InstId, bool>,
}

/// A number as an entity, so that maps can hold it packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Giver(u32);
cranelift_entity::entity_impl!(Giver);

/// True if any op of the program writes the table (a read of an LRU table decides what is evicted,
/// so it counts).
pub fn is_mutable(program: &Program, table: TableId) -> bool {
    let writes = |body: &Body| {
        let mut found = false;
        body.for_each_inst(body.entry(), &mut |inst| {
            let effects = body.insts[inst].op.effects();
            let lru =
                effects.table_read == Some(table) && program.tables[table].kind == TableKind::Lru;
            found |= effects.table_write == Some(table) || lru;
        });
        found
    };
    program.handlers.values().any(|h| writes(&h.body))
        || program.funcs.values().any(|f| writes(&f.body))
}

/// Gives the arms of every `if` before a `return` their own `return`.
fn push_returns(body: &mut Body, block: BlockId, pushed: &mut SecondaryMap<InstId, bool>) {
    let insts = &body.blocks[block].insts;
    if let [.., last, end] = insts[..]
        && let (Op::If { then, other, .. }, Op::Return(_)) =
            (&body.insts[last].op, &body.insts[end].op)
    {
        let (then, other, span) = (*then, *other, body.insts[end].span);
        pushed[last] = true;
        body.insts[last].results.clear();
        for arm in [then, other] {
            let yields = matches!(body.terminator(arm).map(|t| &t.op), Some(Op::Yield(_)));
            if yields {
                body.blocks[arm].insts.pop();
                let own = new_inst(body, Op::Return(Vec::new()), &[], span);
                body.blocks[arm].insts.push(own);
            }
        }
    }
    for inst in body.blocks[block].insts.clone() {
        if let Op::If { then, other, .. } = body.insts[inst].op {
            push_returns(body, then, pushed);
            push_returns(body, other, pushed);
        }
    }
}

impl Work {
    /// Takes a body apart. Calls must have been inlined.
    pub fn new(program: &Program, mut body: Body) -> Work {
        let mut pushed = SecondaryMap::new();
        let entry = body.entry();
        push_returns(&mut body, entry, &mut pushed);
        let packet =
            body.blocks[entry].params.iter().copied().find(|v| body.ty(*v) == Type::Packet);
        let mut work = Work {
            body,
            packet,
            nodes: Vec::new(),
            giver: SecondaryMap::new(),
            points: vec![Vec::new()],
            point_of: SecondaryMap::new(),
            around: SecondaryMap::new(),
            exits: Vec::new(),
            pushed,
        };
        let mut place = Vec::new();
        work.block(program, entry, 0, 1.0, &mut place);
        work
    }

    /// The node that gives a value.
    pub fn giver(&self, value: ValueId) -> Option<NodeId> {
        self.giver[value].expand().map(|giver| giver.0 as usize)
    }

    /// The point at which an `if` stands.
    pub fn point_of(&self, inst: InstId) -> PointId {
        self.point_of[inst].expand().map_or(0, |point| point.0 as usize)
    }

    /// True if a region ends by giving control to what is behind its owner.
    pub fn falls(&self, block: BlockId) -> bool {
        matches!(self.body.terminator(block).map(|end| &end.op), Some(Op::Yield(_)))
    }

    /// True if one run may pass both places.
    pub fn share_path(&self, a: &Place, b: &Place) -> bool {
        let Some(at) = a.iter().zip(b).position(|(x, y)| x != y) else { return true };
        if a[at].0 != b[at].0 {
            return false;
        }
        let earlier = if a[at].1 < b[at].1 { a } else { b };
        earlier[at + 1..].iter().all(|(block, _)| self.falls(*block))
    }

    fn add(&mut self, node: Node) -> NodeId {
        let id = self.nodes.len();
        for value in &node.gives {
            self.giver[*value] = Giver(id as u32).into();
        }
        self.nodes.push(node);
        id
    }

    /// Takes a region apart; the points of the exits in it.
    fn block(
        &mut self,
        program: &Program,
        block: BlockId,
        mut point: PointId,
        frequency: f64,
        place: &mut Place,
    ) -> Vec<Need> {
        let mut left = Vec::new();
        for (at, inst) in self.body.blocks[block].insts.clone().into_iter().enumerate() {
            place.push((block, at as u32));
            let op = self.body.insts[inst].op.clone();
            let mut leaving = Vec::new();
            match op {
                Op::If { cond, then, other, likely } => {
                    self.point_of[inst] = Giver(point as u32).into();
                    let taken = self.probability(then, other, likely);
                    for (arm, share) in [(then, taken), (other, 1.0 - taken)] {
                        self.around[arm] = Some((cond, block));
                        self.points.push(vec![Need::Point(point), Need::Condition(cond)]);
                        let inner = self.points.len() - 1;
                        leaving.extend(self.block(program, arm, inner, frequency * share, place));
                    }
                    self.results(inst, cond, [then, other], point, place, frequency);
                }
                Op::Return(_) => {
                    left.push(Need::Point(point));
                    self.exits.push(Exit { block, point, place: place.clone() });
                }
                op if op.is_terminator() => {}
                op => {
                    let touches = self.touches(program, inst);
                    let uses = self.uses(inst);
                    let gives = self.body.insts[inst].results.clone();
                    let returns = touches.returns;
                    let what = What::Inst(inst);
                    let node =
                        Node { what, uses, gives, touches, point, place: place.clone(), frequency };
                    let id = self.add(node);
                    debug_assert!(!matches!(op, Op::Call { .. }));
                    if returns {
                        leaving.push(Need::Loop(id));
                    }
                }
            }
            if !leaving.is_empty() {
                let mut needs = vec![Need::Point(point)];
                needs.extend(leaving.iter().copied());
                self.points.push(needs);
                point = self.points.len() - 1;
                left.extend(leaving);
            }
            place.pop();
        }
        left
    }

    /// How probable the first arm is: as annotated; an arm that leaves is taken once in ten times
    /// (static prediction after Ball and Larus, "Branch Prediction for Free", PLDI 1993: guards
    /// rarely fire); else both alike.
    fn probability(&self, then: BlockId, other: BlockId, likely: Option<f32>) -> f64 {
        if let Some(likely) = likely {
            return likely as f64;
        }
        match (self.falls(then), self.falls(other)) {
            (false, true) => 0.1,
            (true, false) => 0.9,
            _ => 0.5,
        }
    }

    /// The results of an `if`, a node each.
    fn results(
        &mut self,
        inst: InstId,
        cond: ValueId,
        arms: [BlockId; 2],
        point: PointId,
        place: &Place,
        frequency: f64,
    ) {
        for (i, result) in self.body.insts[inst].results.clone().into_iter().enumerate() {
            let mut uses = vec![cond];
            for arm in arms {
                if let Some(Op::Yield(values)) = self.body.terminator(arm).map(|end| &end.op) {
                    uses.push(values[i]);
                }
            }
            let touches = Touches { repeatable: true, ..Touches::default() };
            let (what, gives, place) = (What::Result(inst, i), vec![result], place.clone());
            self.add(Node { what, uses, gives, touches, point, place, frequency });
        }
    }

    /// Values from outside that an instruction and its regions use.
    fn uses(&self, inst: InstId) -> Vec<ValueId> {
        let body = &self.body;
        let mut found: Vec<ValueId> = body.insts[inst].op.operands().collect();
        let mut inside = Vec::new();
        for region in body.insts[inst].op.regions() {
            body.for_each_inst(region, &mut |inner| {
                found.extend(body.insts[inner].op.operands());
                inside.push(inner);
            });
        }
        let is_inside = |value: &ValueId| match body.values[*value].def {
            ValueDef::Result(def, _) => inside.contains(&def),
            ValueDef::Param(block, _) => block != body.entry(),
        };
        // Parameters of an outer region cannot be seen here except the entry's: loops are nodes as
        // a whole.
        found.retain(|value| body.ty(*value) != Type::Packet && !is_inside(value));
        found.sort();
        found.dedup();
        found
    }

    fn touches(&self, program: &Program, inst: InstId) -> Touches {
        let body = &self.body;
        let mut all = Touches::default();
        let mut single = |id: InstId, leaves: bool| {
            let op = &body.insts[id].op;
            let effects = op.effects();
            for table in [effects.table_read, effects.table_write].into_iter().flatten() {
                if !all.tables.contains(&table) {
                    all.tables.push(table);
                }
                all.effect |= program.tables[table].kind == TableKind::Lru;
            }
            all.packet_read |= op.packet().is_some();
            all.random |= op.draws();
            all.packet_write |= effects.packet_write.is_some();
            all.ordered |= effects.ordered;
            all.effect |=
                effects.table_write.is_some() || effects.packet_write.is_some() || effects.ordered;
            let mut consumes = op.drops();
            match op {
                Op::Extern { pure: false, .. } => all.c_state = true,
                Op::Emit { .. } => (all.emits, all.goes_on) = (true, true),
                Op::Return(_) => (all.returns, all.effect) = (true, true),
                Op::Generate { event, args } => {
                    let event = &program.events[*event];
                    all.hands_on |= event.direction == Direction::Internal;
                    for (arg, param) in args.iter().zip(&event.params) {
                        if Some(*arg) == self.packet {
                            all.packet_read = true;
                            consumes |= !param.borrowed;
                        }
                    }
                }
                _ => {}
            }
            if consumes {
                (all.packet_read, all.packet_write, all.consumes) = (true, true, true);
                all.goes_on |= !leaves;
            }
        };
        single(inst, false);
        for region in body.insts[inst].op.regions() {
            for_each_with_end(body, region, &mut single);
        }
        let op = &body.insts[inst].op;
        all.repeatable = is_repeatable(op);
        let looks = matches!(op.work(), ops::Work::Read | ops::Work::Cursor);
        all.rereadable = looks && (op.moves_cursor() || op.effects().packet_write.is_none());
        all
    }
}

/// Calls `visit` on every instruction of a region and the regions inside, with whether its own
/// region ends in `return`.
fn for_each_with_end(body: &Body, block: BlockId, visit: &mut impl FnMut(InstId, bool)) {
    let leaves = matches!(body.terminator(block).map(|end| &end.op), Some(Op::Return(_)));
    for &inst in &body.blocks[block].insts {
        visit(inst, leaves);
        for region in body.insts[inst].op.regions() {
            for_each_with_end(body, region, visit);
        }
    }
}

/// Pure ops of a few cycles.
fn is_repeatable(op: &Op) -> bool {
    use nicforge_ir::BinOp;
    match op {
        Op::Bin(op, ..) => !matches!(op, BinOp::Div | BinOp::Rem | BinOp::Mul),
        op => !matches!(op.work(), ops::Work::Hash | ops::Work::Sum) && op.effects().is_pure(),
    }
}
