//! The rules that a division of nodes must keep, and what it costs, as a network whose smallest cut
//! is the best division.
//!
//! Three kinds of variables are vertices; on the source's side they are true:
//!
//! * `x(n)`: node n is computed upstream;
//! * `y(n)`: node n is not computed downstream. For most nodes it is the same vertex as `x(n)`; a
//!   cheap pure op may be computed in both stages (x true, y false), which costs one unit, so that
//!   ties go to fewer repetitions;
//! * `w(v)`: value v is not needed downstream.
//!
//! An infinite edge a → b says "if a then b". The rules:
//!
//! * what a node upstream uses is computed upstream, and so are the conditions under which it runs
//!   (its point);
//! * a node downstream needs what it uses: `w(v) → y(n)`; with effects, also the conditions of the
//!   `if`s around it;
//! * nodes that are ordered (events, logs), or touch the packet and do not both only read, keep
//!   their order;
//! * all accesses of one mutable table lie in one stage, all random numbers are drawn in one, and
//!   functions of C called in one;
//! * a packet is given away upstream only if nothing with effects remains on that path, so wherever
//!   the event is generated the packet is still there to go with it. The same holds for emits: no
//!   event has emitted bytes pending; and for internal events: the downstream part must not run
//!   behind what they cause.
//!
//! The finite edge `y(p) → w(v)`, for the node p that gives v, costs the bytes of v: it is carried
//! if p is upstream only and v is needed downstream, once, however many uses there are. A truth
//! value costs its byte, as it takes one in the event.
//!
//! Where the packet may be read again ([`Reread`]), `extract`, `skip` and `reset` are done in both
//! stages (all of them, or the cursor would be elsewhere), `load` and `len` may be; upstream then
//! must not change the packet.
//!
//! Every rule is an implication and every cost lies on one edge, so a smallest cut is an exact
//! optimum (closures of a graph by minimum cuts: Picard, Management Science 22, 1976).

use cranelift_entity::SecondaryMap;
use nicforge_ir::{Op, Program, TableId, ValueId};

use super::flow::{INFINITE, Network, SINK, SOURCE};
use super::nodes::{Need, NodeId, What, Work, is_mutable};

/// Cost of one byte; smaller costs only decide between equal ones.
pub const BYTE: i64 = 1 << 10;

/// What may be given up when no cut exists otherwise, and whether the packet crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The packet goes with the event; otherwise everything that touches it stays upstream.
    pub packet_crosses: bool,
    /// Emitted bytes may be pending at the event.
    pub pending_emits: bool,
    /// Downstream starts at this byte of the frame and does again what upstream did to the cursor,
    /// instead of being given what was read. Each read counts as so many carried bytes.
    pub reread: Option<Reread>,
}

/// A second reading of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reread {
    /// Bytes of the frame consumed when the handler starts.
    pub from: u32,
    pub bytes_each: u32,
}

pub struct Graph {
    pub network: Network,
    /// Vertices by node.
    pub x: Vec<usize>,
    pub y: Vec<usize>,
    /// Vertices by point.
    pub points: Vec<usize>,
    /// Edges from the source and to the sink, by node that is not repeatable, to put it on a side.
    pub sides: Vec<(NodeId, usize, usize)>,
}

/// A division of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Computed upstream, by node.
    pub up: Vec<bool>,
    /// Computed downstream, by node.
    pub down: Vec<bool>,
    /// True if the conditions of a point are known upstream.
    pub reached: Vec<bool>,
    pub rules: Rules,
}

/// True if a node gives the packet away and does nothing else to it.
fn is_leaf_consumer(work: &Work, node: NodeId) -> bool {
    match work.nodes[node].what {
        What::Inst(inst) => {
            work.nodes[node].touches.consumes
                && !matches!(work.body.insts[inst].op, Op::Loop { .. })
        }
        What::Result(..) => false,
    }
}

impl Graph {
    pub fn new(program: &Program, work: &Work, rules: Rules) -> Graph {
        let mut network = Network::new();
        let points: Vec<usize> = work.points.iter().map(|_| network.vertex()).collect();
        let x: Vec<usize> = work.nodes.iter().map(|_| network.vertex()).collect();
        let y: Vec<usize> = work
            .nodes
            .iter()
            .zip(&x)
            .map(|(node, x)| {
                let repeatable =
                    node.touches.repeatable && (rules.packet_crosses || !node.touches.packet_read);
                let repeatable = repeatable || (node.touches.rereadable && rules.reread.is_some());
                if repeatable { network.vertex() } else { *x }
            })
            .collect();
        let mut graph = Graph { network, x, y, points, sides: Vec::new() };
        graph.points(work);
        graph.values(program, work, rules);
        graph.order(work, rules);
        graph.ties(program, work, rules);
        for (id, node) in work.nodes.iter().enumerate() {
            let vertex = graph.x[id];
            let touches = &node.touches;
            if touches.packet_read && !rules.packet_crosses {
                graph.network.edge(SOURCE, vertex, INFINITE);
            }
            // What changes the packet's bytes or length cannot be done twice, nor come before
            // reading again.
            let changes =
                touches.packet_write && !touches.rereadable && !is_leaf_consumer(work, id);
            if rules.reread.is_some() && changes {
                graph.network.edge(vertex, SINK, INFINITE);
            }
            if graph.y[id] == vertex {
                let first = graph.network.edge(SOURCE, vertex, 0);
                let second = graph.network.edge(vertex, SINK, 0);
                graph.sides.push((id, first, second));
            }
        }
        graph
    }

    fn implies(&mut self, a: usize, b: usize) {
        self.network.edge(a, b, INFINITE);
    }

    /// `a` and `b` lie in one stage.
    fn tie(&mut self, a: usize, b: usize) {
        self.implies(a, b);
        self.implies(b, a);
    }

    fn points(&mut self, work: &Work) {
        for (id, needs) in work.points.iter().enumerate() {
            for need in needs {
                let other = match *need {
                    Need::Point(point) => Some(self.points[point]),
                    Need::Loop(node) => Some(self.x[node]),
                    Need::Condition(value) => work.giver(value).map(|giver| self.x[giver]),
                };
                if let Some(other) = other {
                    self.implies(self.points[id], other);
                }
            }
        }
        for (id, node) in work.nodes.iter().enumerate() {
            self.implies(self.x[id], self.points[node.point]);
        }
    }

    fn values(&mut self, program: &Program, work: &Work, rules: Rules) {
        let mut needed: SecondaryMap<ValueId, Option<usize>> = SecondaryMap::new();
        let mut users: Vec<(ValueId, NodeId)> = Vec::new();
        for (id, node) in work.nodes.iter().enumerate() {
            users.extend(node.uses.iter().map(|value| (*value, id)));
            if node.touches.effect {
                let mut block = node.place.last().map(|(block, _)| *block);
                while let Some((cond, around)) = block.and_then(|block| work.around[block]) {
                    users.push((cond, id));
                    block = Some(around);
                }
            }
        }
        for (value, id) in users {
            let vertex = *needed[value].get_or_insert_with(|| {
                let vertex = self.network.vertex();
                let bytes = program.size_of(work.body.ty(value)) as i64;
                let giver = work.giver(value).map_or(SOURCE, |giver| self.y[giver]);
                self.network.edge(giver, vertex, bytes * BYTE);
                vertex
            });
            self.implies(vertex, self.y[id]);
            if let Some(giver) = work.giver(value) {
                self.implies(self.x[id], self.x[giver]);
            }
        }
        for (id, node) in work.nodes.iter().enumerate() {
            let (x, y) = (self.x[id], self.y[id]);
            if x == y {
                continue;
            }
            self.implies(y, x);
            let reread = rules.reread.filter(|_| node.touches.rereadable);
            let cost = match reread {
                Some(_) if node.gives.is_empty() => 0,
                Some(reread) => reread.bytes_each as i64 * BYTE,
                None => 1,
            };
            self.network.edge(x, y, cost);
            if reread.is_some() && node.touches.packet_write {
                // The cursor goes the whole way again.
                self.network.edge(y, SINK, INFINITE);
            }
        }
    }

    fn order(&mut self, work: &Work, rules: Rules) {
        let ids: Vec<NodeId> = (0..work.nodes.len())
            .filter(|id| {
                let t = &work.nodes[*id].touches;
                t.effect || (t.packet_read && !t.repeatable)
            })
            .collect();
        let holds = |id: NodeId| {
            let t = &work.nodes[id].touches;
            let gives = rules.packet_crosses && (t.consumes || (t.emits && !rules.pending_emits));
            gives || t.hands_on || t.returns
        };
        for (i, &second) in ids.iter().enumerate() {
            for &first in &ids[..i] {
                let (a, b) = (&work.nodes[first], &work.nodes[second]);
                if !work.share_path(&a.place, &b.place) {
                    continue;
                }
                let (s, t) = (&a.touches, &b.touches);
                let packet = s.packet_read && t.packet_read && (s.packet_write || t.packet_write);
                if packet || (s.ordered && t.ordered) || (holds(second) && s.effect) {
                    self.implies(self.x[second], self.x[first]);
                }
                // A loop that returns leaves; what stands behind it shares a path only if it went
                // on.
                let goes_on = s.goes_on || s.hands_on;
                if holds(first) && goes_on && t.effect {
                    self.implies(self.x[first], self.x[second]);
                }
            }
        }
    }

    fn ties(&mut self, program: &Program, work: &Work, rules: Rules) {
        let mut last: SecondaryMap<TableId, Option<usize>> = SecondaryMap::new();
        let mutable: SecondaryMap<TableId, bool> = {
            let mut map = SecondaryMap::new();
            program.tables.keys().for_each(|table| map[table] = is_mutable(program, table));
            map
        };
        let (mut random, mut c_state) = (None, None);
        for (id, node) in work.nodes.iter().enumerate() {
            let x = self.x[id];
            for table in node.touches.tables.iter().filter(|table| mutable[**table]) {
                if let Some(before) = last[*table].replace(x) {
                    self.tie(before, x);
                }
            }
            if node.touches.random
                && let Some(before) = random.replace(x)
            {
                self.tie(before, x);
            }
            if node.touches.c_state
                && let Some(before) = c_state.replace(x)
            {
                self.tie(before, x);
            }
        }
        if !rules.packet_crosses {
            return;
        }
        // At one exit the packet is either there on all paths or on none.
        for exit in &work.exits {
            let mut before = None;
            for (id, node) in work.nodes.iter().enumerate() {
                // A loop that consumes the packet only where it returns does not bring it here.
                if node.touches.consumes
                    && node.touches.goes_on
                    && work.share_path(&node.place, &exit.place)
                    && let Some(before) = before.replace(self.x[id])
                {
                    self.tie(before, self.x[id]);
                }
            }
        }
    }

    /// The cheapest division with these nodes upstream and all others that cannot be repeated
    /// downstream; of the divisions that cost the same, one of those with the least and with the
    /// most upstream.
    pub fn divide(
        &mut self,
        upstream: &dyn Fn(NodeId) -> bool,
        rules: Rules,
    ) -> Option<[(i64, Division); 2]> {
        for (id, first, second) in self.sides.clone() {
            let up = upstream(id);
            self.network.set(first, if up { INFINITE } else { 0 });
            self.network.set(second, if up { 0 } else { INFINITE });
        }
        let cost = self.network.min_cut()?;
        Some([self.network.near(), self.network.far()].map(|side| {
            let pick =
                |vertices: &[usize]| vertices.iter().map(|v| side[*v]).collect::<Vec<bool>>();
            let down = self.y.iter().map(|v| !side[*v]).collect();
            (cost, Division { up: pick(&self.x), down, reached: pick(&self.points), rules })
        }))
    }
}

#[cfg(test)]
mod tests {
    use nicforge_ir::io::random;
    use nicforge_ir::text::parse;
    use nicforge_ir::verify;

    use super::*;

    /// A straight handler: two values read, some computed from these, one table written upstream,
    /// one downstream.
    fn program(seed: u64, computed: u64) -> String {
        let number = |n: u64| random(seed, n) as u64;
        let mut ops = String::new();
        for i in 2..2 + computed {
            let (a, b) = (number(3 * i) % i, number(3 * i + 1) % i);
            ops.push_str(&match number(3 * i + 2) % 3 {
                0 => format!("%v{i}: u64 = mul %v{a}, %v{b}\n"),
                1 => format!("%v{i}: u64 = xor %v{a}, %v{b}\n"),
                _ => format!("%n{i}: u8 = cast %v{a}\n%v{i}: u64 = cast %n{i}\n"),
            });
        }
        let pick = |n| number(n) % (2 + computed);
        format!(
            "program p ports 1
            table up: hash[u64 -> u64] capacity 1 table down: hash[u64 -> u64] capacity 1
            event net_recv(pkt: packet) in event stack_recv(pkt: packet) out
            handler net_recv on net_recv(%pkt: packet) {{
                %ok: u1, %v0: u64 = extract %pkt %ok1: u1, %v1: u64 = extract %pkt
                {ops}
                %a: u1 = update up[%v{}], %v{} %b: u1 = update down[%v{}], %v{}
                generate stack_recv(%pkt) return
            }}",
            pick(900),
            pick(901),
            pick(902),
            pick(903)
        )
    }

    /// The smallest cost of all divisions with these nodes upstream, those that may be repeated
    /// tried in all ways.
    fn by_trying(program: &Program, work: &Work, upstream: &dyn Fn(NodeId) -> bool) -> i64 {
        let free: Vec<NodeId> =
            (0..work.nodes.len()).filter(|id| work.nodes[*id].touches.repeatable).collect();
        let mut best = INFINITE;
        for mut choice in 0..3usize.pow(free.len() as u32) {
            let mut up: Vec<bool> = (0..work.nodes.len()).map(upstream).collect();
            let mut down: Vec<bool> = up.iter().map(|up| !up).collect();
            for node in &free {
                (up[*node], down[*node]) = [(true, false), (false, true), (true, true)][choice % 3];
                choice /= 3;
            }
            let givers = |id: NodeId| {
                work.nodes[id].uses.iter().filter_map(|v| work.giver(*v).map(|giver| (*v, giver)))
            };
            let nodes = || 0..work.nodes.len();
            if nodes().any(|id| up[id] && givers(id).any(|(_, giver)| !up[giver])) {
                continue;
            }
            let mut carried: Vec<ValueId> = nodes()
                .filter(|id| down[*id])
                .flat_map(givers)
                .filter(|(_, giver)| !down[*giver])
                .map(|(v, _)| v)
                .collect();
            carried.sort();
            carried.dedup();
            let bytes: i64 = carried.iter().map(|v| program.size_of(work.body.ty(*v)) as i64).sum();
            let twice = nodes().filter(|id| up[*id] && down[*id]).count() as i64;
            best = best.min(bytes * BYTE + twice);
        }
        best
    }

    #[test]
    fn divisions_carry_as_little_as_the_best_of_all() {
        let mut different = std::collections::BTreeSet::new();
        for seed in 0..60 {
            let program = verify(parse(&program(seed, 4)).unwrap()).unwrap();
            let body = program.handlers.values().next().unwrap().body.clone();
            let work = Work::new(&program, body);
            let rules = Rules { packet_crosses: true, pending_emits: false, reread: None };
            let mut graph = Graph::new(&program, &work, rules);
            let up = program.table_named("up").unwrap();
            // Everything that is read, the first update and what cannot be repeated of what they
            // need.
            let last_fixed = |id: NodeId| {
                let touches = &work.nodes[id].touches;
                !touches.repeatable
                    && !touches.consumes
                    && (touches.tables.is_empty() || touches.tables == [up])
            };
            let [(near, _), (far, _)] = graph.divide(&last_fixed, rules).unwrap();
            let best = by_trying(&program, &work, &last_fixed);
            assert_eq!((near, far), (best, best), "seed {seed}");
            different.insert(best);
        }
        assert!(different.len() > 5, "the programs are too much alike: {different:?}");
    }
}
