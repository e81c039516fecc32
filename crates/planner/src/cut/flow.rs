//! Minimum cuts: Dinic's maximum flow (E. A. Dinic, Soviet Math. Doklady 11, 1970).
//!
//! Breadth-first layers from the source, then augmenting paths within the layers until none is
//! left; when the sink is not reached any more the flow is maximal and equals the smallest cut. At
//! most V phases of at most V·E steps; the networks here need a handful of phases. Edges are
//! searched in the order in which they were added, so the same network always gives the same cut.

use std::collections::VecDeque;

/// More than any sum of finite capacities.
pub const INFINITE: i64 = 1 << 40;

struct Edge {
    to: usize,
    room: i64,
}

/// A network; vertex 0 is the source, vertex 1 the sink.
pub struct Network {
    /// Edge 2n and its reverse 2n + 1.
    edges: Vec<Edge>,
    out: Vec<Vec<usize>>,
    capacities: Vec<i64>,
}

pub const SOURCE: usize = 0;
pub const SINK: usize = 1;

impl Network {
    pub fn new() -> Network {
        Network { edges: Vec::new(), out: vec![Vec::new(), Vec::new()], capacities: Vec::new() }
    }

    pub fn vertex(&mut self) -> usize {
        self.out.push(Vec::new());
        self.out.len() - 1
    }

    /// An edge; its number for [`Network::set`].
    pub fn edge(&mut self, from: usize, to: usize, capacity: i64) -> usize {
        let id = self.capacities.len();
        self.out[from].push(self.edges.len());
        self.edges.push(Edge { to, room: capacity });
        self.out[to].push(self.edges.len());
        self.edges.push(Edge { to: from, room: 0 });
        self.capacities.push(capacity);
        id
    }

    /// Changes an edge's capacity for the next [`Network::min_cut`].
    pub fn set(&mut self, edge: usize, capacity: i64) {
        self.capacities[edge] = capacity;
    }

    /// Ends of the edges that no cut may divide, as (if this, then that) of the source's side.
    pub fn implications(&self) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new(); self.out.len()];
        for (id, capacity) in self.capacities.iter().enumerate() {
            if *capacity >= INFINITE {
                found[self.edges[2 * id + 1].to].push(self.edges[2 * id].to);
            }
        }
        found
    }

    /// The value of the smallest cut, or `None` if every cut divides an infinite edge. What
    /// [`Network::near`] and [`Network::far`] tell refers to it.
    pub fn min_cut(&mut self) -> Option<i64> {
        for (id, capacity) in self.capacities.iter().enumerate() {
            self.edges[2 * id].room = *capacity;
            self.edges[2 * id + 1].room = 0;
        }
        let mut total = 0;
        loop {
            let layers = self.layers();
            if layers[SINK] == usize::MAX {
                return Some(total);
            }
            let mut next = vec![0; self.out.len()];
            loop {
                let pushed = self.augment(&layers, &mut next);
                if pushed == 0 {
                    break;
                }
                total += pushed;
                if total >= INFINITE {
                    return None;
                }
            }
        }
    }

    fn layers(&self) -> Vec<usize> {
        let mut layer = vec![usize::MAX; self.out.len()];
        layer[SOURCE] = 0;
        let mut queue = VecDeque::from([SOURCE]);
        while let Some(vertex) = queue.pop_front() {
            for &edge in &self.out[vertex] {
                let Edge { to, room } = self.edges[edge];
                if room > 0 && layer[to] == usize::MAX {
                    layer[to] = layer[vertex] + 1;
                    queue.push_back(to);
                }
            }
        }
        layer
    }

    /// Pushes along one path within the layers; how much, 0 if there is no path left. Without
    /// recursion: paths are as long as programs.
    fn augment(&mut self, layers: &[usize], next: &mut [usize]) -> i64 {
        let mut path: Vec<usize> = Vec::new();
        let mut at = SOURCE;
        loop {
            if at == SINK {
                let most = path.iter().map(|edge| self.edges[*edge].room).min().unwrap_or(0);
                for edge in path {
                    self.edges[edge].room -= most;
                    self.edges[edge ^ 1].room += most;
                }
                return most;
            }
            match self.out[at].get(next[at]) {
                Some(&edge) => {
                    let Edge { to, room } = self.edges[edge];
                    if room > 0 && layers[to] == layers[at].wrapping_add(1) {
                        path.push(edge);
                        at = to;
                    } else {
                        next[at] += 1;
                    }
                }
                None => match path.pop() {
                    Some(edge) => {
                        at = self.edges[edge ^ 1].to;
                        next[at] += 1;
                    }
                    None => return 0,
                },
            }
        }
    }

    /// The smallest source side of a smallest cut: what the source still reaches.
    pub fn near(&self) -> Vec<bool> {
        self.layers().into_iter().map(|layer| layer != usize::MAX).collect()
    }

    /// The largest source side: what does not reach the sink any more.
    pub fn far(&self) -> Vec<bool> {
        let mut side = vec![true; self.out.len()];
        side[SINK] = false;
        let mut queue = VecDeque::from([SINK]);
        while let Some(vertex) = queue.pop_front() {
            for &edge in &self.out[vertex] {
                let from = self.edges[edge].to;
                if side[from] && self.edges[edge ^ 1].room > 0 {
                    side[from] = false;
                    queue.push_back(from);
                }
            }
        }
        side
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cheapest division of a small network, by trying all.
    fn by_trying(vertices: usize, edges: &[(usize, usize, i64)]) -> i64 {
        let cost = |sides: usize| -> i64 {
            let on_source = |v: usize| v == SOURCE || (v != SINK && sides >> v & 1 == 1);
            edges.iter().filter(|(a, b, _)| on_source(*a) && !on_source(*b)).map(|e| e.2).sum()
        };
        (0..1usize << vertices).map(cost).min().unwrap_or(0)
    }

    #[test]
    fn cuts_are_as_small_as_the_best_of_all_divisions() {
        for seed in 0..300u64 {
            let number = |n: u64| nicforge_ir::io::random(seed, n) as usize;
            let vertices = 3 + number(0) % 6;
            let edges: Vec<(usize, usize, i64)> = (0..(3 * vertices) as u64)
                .map(|i| {
                    (
                        number(3 * i + 1) % vertices,
                        number(3 * i + 2) % vertices,
                        (number(3 * i + 3) % 9) as i64,
                    )
                })
                .filter(|(a, b, _)| a != b)
                .collect();
            let mut network = Network::new();
            (2..vertices).for_each(|_| {
                network.vertex();
            });
            edges.iter().for_each(|(a, b, c)| {
                network.edge(*a, *b, *c);
            });
            let found = network.min_cut();
            assert_eq!(found, Some(by_trying(vertices, &edges)), "seed {seed}");
            for side in [network.near(), network.far()] {
                let cost: i64 =
                    edges.iter().filter(|(a, b, _)| side[*a] && !side[*b]).map(|e| e.2).sum();
                assert_eq!(Some(cost), found, "seed {seed}: the side has another cost");
            }
        }
    }

    #[test]
    fn an_infinite_edge_is_never_divided() {
        let mut network = Network::new();
        let middle = network.vertex();
        network.edge(SOURCE, middle, INFINITE);
        network.edge(middle, SINK, INFINITE);
        assert_eq!(network.min_cut(), None);
    }
}
