//! A handler's body as a control flow graph of straight lines.
//!
//! Regions become blocks with parameters, as in SSA: who goes to a block says what its parameters
//! are. An `if` whose arms only compute becomes straight line itself: both arms are computed and
//! each result is chosen ([`Step::Choose`]), which costs hardware less than a decision. Loops keep
//! one copy of their body and count their trips.

use nicforge_ir::{BlockId, Body, InstId, Op, ValueId};

/// Number of a block in [`Graph::blocks`].
pub type Node = usize;

/// One thing a straight line does.
#[derive(Clone, Debug)]
pub enum Step {
    Inst(InstId),
    /// `result` is `then` or `other`, by `cond`.
    Choose {
        result: ValueId,
        cond: ValueId,
        then: ValueId,
        other: ValueId,
        at: InstId,
    },
}

/// Where a straight line goes, with the values of the parameters there.
#[derive(Clone, Debug)]
pub struct Jump {
    pub to: Node,
    pub args: Vec<ValueId>,
}

/// Ends of a straight line.
#[derive(Clone, Debug)]
pub enum End {
    Jump(Jump),
    Branch {
        cond: ValueId,
        then: Jump,
        other: Jump,
    },
    /// Into loop `number`, whose trips start at 0.
    Enter {
        number: usize,
        head: Jump,
    },
    /// The end of a trip: the next one, or out of the loop after the last.
    Again {
        number: usize,
        head: Jump,
        exit: Jump,
    },
    Return,
}

/// A straight line.
#[derive(Clone, Debug)]
pub struct Line {
    pub params: Vec<ValueId>,
    pub steps: Vec<Step>,
    pub end: End,
}

/// All lines of a body.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub blocks: Vec<Line>,
    pub entry: Node,
    /// Most trips of each loop.
    pub trips: Vec<u32>,
}

struct LoopFrame {
    number: usize,
    head: Node,
    exit: Node,
}

struct Builder<'a> {
    body: &'a Body,
    graph: Graph,
    loops: Vec<LoopFrame>,
    /// Where `yield` of the regions around goes.
    joins: Vec<Node>,
}

/// True if a region only computes: no effects, no way out but its end.
pub fn only_computes(body: &Body, region: BlockId) -> bool {
    body.blocks[region].insts.iter().all(|inst| match &body.insts[*inst].op {
        Op::Yield(_) => true,
        Op::If { then, other, .. } => only_computes(body, *then) && only_computes(body, *other),
        op => op.effects().is_pure(),
    })
}

/// The graph of a body whose calls are all inlined.
pub fn graph(body: &Body) -> Graph {
    let mut builder =
        Builder { body, graph: Graph::default(), loops: Vec::new(), joins: Vec::new() };
    let entry = builder.new_block(body.blocks[body.entry()].params.clone());
    builder.graph.entry = entry;
    builder.region(body.entry(), entry);
    builder.graph
}

impl Builder<'_> {
    fn new_block(&mut self, params: Vec<ValueId>) -> Node {
        self.graph.blocks.push(Line { params, steps: Vec::new(), end: End::Return });
        self.graph.blocks.len() - 1
    }

    /// Writes a region out from block `at` on.
    fn region(&mut self, region: BlockId, mut at: Node) {
        let body = self.body;
        for &inst in &body.blocks[region].insts {
            let data = &body.insts[inst];
            match &data.op {
                Op::If { then, other, .. }
                    if only_computes(body, *then) && only_computes(body, *other) =>
                {
                    self.choice(inst, at);
                }
                Op::If { cond, then, other, .. } => {
                    let arms = [*then, *other].map(|arm| (arm, self.new_block(Vec::new())));
                    let join = self.new_block(data.results.clone());
                    let to = |node| Jump { to: node, args: Vec::new() };
                    self.graph.blocks[at].end =
                        End::Branch { cond: *cond, then: to(arms[0].1), other: to(arms[1].1) };
                    self.joins.push(join);
                    for (arm, node) in arms {
                        self.region(arm, node);
                    }
                    self.joins.pop();
                    at = join;
                }
                Op::Loop { init, max_trips, body: inner } => {
                    let exit = self.new_block(data.results.clone());
                    if *max_trips == 0 {
                        self.graph.blocks[at].end =
                            End::Jump(Jump { to: exit, args: init.clone() });
                    } else {
                        let head = self.new_block(body.blocks[*inner].params.clone());
                        let number = self.graph.trips.len();
                        self.graph.trips.push(*max_trips);
                        self.graph.blocks[at].end =
                            End::Enter { number, head: Jump { to: head, args: init.clone() } };
                        self.loops.push(LoopFrame { number, head, exit });
                        self.region(*inner, head);
                        self.loops.pop();
                    }
                    at = exit;
                }
                Op::Yield(values) => {
                    let to = *self.joins.last().expect("a yield is verified to be in an `if`");
                    self.graph.blocks[at].end = End::Jump(Jump { to, args: values.clone() });
                }
                Op::Break { depth, values } => {
                    let to = self.around(*depth).exit;
                    self.graph.blocks[at].end = End::Jump(Jump { to, args: values.clone() });
                }
                Op::Continue { depth, values } => {
                    let around = self.around(*depth);
                    let jump = |to| Jump { to, args: values.clone() };
                    let end = End::Again {
                        number: around.number,
                        head: jump(around.head),
                        exit: jump(around.exit),
                    };
                    self.graph.blocks[at].end = end;
                }
                Op::Return(_) => self.graph.blocks[at].end = End::Return,
                _ => self.graph.blocks[at].steps.push(Step::Inst(inst)),
            }
        }
    }

    fn around(&self, depth: u32) -> &LoopFrame {
        &self.loops[self.loops.len() - 1 - depth as usize]
    }

    /// An `if` whose arms only compute, as straight line.
    fn choice(&mut self, inst: InstId, at: Node) {
        let body = self.body;
        let data = &body.insts[inst];
        let Op::If { cond, then, other, .. } = &data.op else { return };
        let mut yields = Vec::new();
        for arm in [*then, *other] {
            for &inner in &body.blocks[arm].insts {
                match &body.insts[inner].op {
                    Op::Yield(values) => yields.push(values),
                    Op::If { .. } => self.choice(inner, at),
                    _ => self.graph.blocks[at].steps.push(Step::Inst(inner)),
                }
            }
        }
        for ((result, then), other) in data.results.iter().zip(yields[0]).zip(yields[1]) {
            let step =
                Step::Choose { result: *result, cond: *cond, then: *then, other: *other, at: inst };
            self.graph.blocks[at].steps.push(step);
        }
    }
}
