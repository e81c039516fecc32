//! Where control goes: successors, where ways meet again, and which registers are read later.
//!
//! Where ways meet is the nearest post-dominator (Cooper, Harvey and Kennedy, "A Simple, Fast
//! Dominance Algorithm", on the graph turned round). Each function of the stream is a graph of its
//! own that ends in one virtual node.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_isa::ebpf::Insn;
use nicforge_isa::ebpf::insn::{LDDW, SOURCE_REGISTER, class};

use crate::few::gcd;
use crate::helpers;
use crate::loops::Loops;

/// `exit`, and a call of a helper or function.
pub const EXIT: u8 = 0x95;
pub const CALL: u8 = 0x85;
/// A call of the function in a register, whose immediate here is how many arguments it has.
pub const CALL_REGISTER: u8 = 0x8d;

/// Facts about every instruction before the walk.
pub struct Flow {
    /// Where the ways of a branch meet again; `None` is the function's end.
    pub meet: Vec<Option<usize>>,
    /// Registers that are read later before they are written, a bit each.
    pub live: Vec<u16>,
    /// Place in an order in which control goes on but for jumps back.
    rank: Vec<usize>,
    next: Vec<[Option<usize>; 2]>,
    loops: Loops,
    headers: BTreeSet<usize>,
    returns: Vec<bool>,
}

/// Where a jump goes, if the instruction is one.
pub fn target(insns: &[Insn], at: usize) -> Option<usize> {
    let insn = insns[at];
    let by = match insn.code {
        EXIT | CALL | CALL_REGISTER => return None,
        0x06 => i64::from(insn.imm),
        code if matches!(code & 7, class::JMP | class::JMP32) => i64::from(insn.off),
        _ => return None,
    };
    usize::try_from(at as i64 + 1 + by).ok()
}

/// True if an instruction only jumps.
pub fn jumps(insn: Insn) -> bool {
    matches!(insn.code, 0x05 | 0x06)
}

fn successors(insns: &[Insn], at: usize) -> [Option<usize>; 2] {
    match insns[at] {
        insn if insn.code == EXIT => [None, None],
        insn if jumps(insn) => [target(insns, at), None],
        insn if insn.code == LDDW => [Some(at + 2), None],
        _ => [Some(at + 1), target(insns, at)],
    }
}

impl Flow {
    /// The flow of programs that begin at `entries`.
    ///
    /// # Errors
    /// A jump that leaves the program.
    pub fn of(insns: &[Insn], entries: &[usize]) -> Result<Flow, String> {
        for at in 0..insns.len() {
            let out = successors(insns, at).into_iter().flatten().find(|to| *to >= insns.len());
            // The second half of a wide instruction is never reached.
            let half = at > 0 && insns[at - 1].code == LDDW;
            if out.is_some() && !half {
                return Err(format!("instruction {at} goes out of the program"));
            }
        }
        let next: Vec<_> = (0..insns.len()).map(|at| successors(insns, at)).collect();
        let (rank, returns) = (rank(&next), returns(insns, entries));
        let (loops, meet) = (Loops::of(&next, &rank), meet(insns, &returns));
        let headers = loops.all.iter().map(|one| one.header).collect();
        Ok(Flow { meet, live: live(insns), rank, next, loops, headers, returns })
    }

    /// The first instruction that two ways share before they come to one of `until`. Both go on in
    /// the order of ranks, no further than to it.
    pub fn shared(&self, ways: [usize; 2], until: &[usize]) -> Option<usize> {
        let mut open = BTreeMap::<(usize, usize), u8>::new();
        let come = |open: &mut BTreeMap<_, _>, at: usize, way: u8| {
            if let Some(rank) = self.rank.get(at).filter(|_| !until.contains(&at)) {
                *open.entry((*rank, at)).or_default() |= way;
            }
        };
        come(&mut open, ways[0], 1);
        come(&mut open, ways[1], 2);
        while let Some(((rank, at), by)) = open.pop_first() {
            if by == 3 && !self.returns[at] {
                return Some(at);
            }
            let on = self.next[at].into_iter().flatten();
            on.filter(|to| self.rank.get(*to) > Some(&rank)).for_each(|to| come(&mut open, to, by));
        }
        None
    }

    /// First instructions of the loops around one, outer ones first.
    pub fn headers(&self, at: usize) -> impl Iterator<Item = usize> {
        self.loops.around(at).iter().map(|one| self.loops.all[*one].header)
    }

    /// True if trips of a loop begin at an instruction.
    pub fn is_header(&self, at: usize) -> bool {
        self.headers.contains(&at)
    }

    /// Instructions behind the loop with this header, to which ways leave it.
    pub fn ways_out(&self, header: usize) -> Vec<usize> {
        let own = self.loops.all.iter().filter(|one| one.header == header);
        let inside = |at: usize| own.clone().any(|one| one.contains(at));
        let all = (0..self.next.len()).filter(|at| inside(*at)).flat_map(|at| self.next[at]);
        all.flatten().filter(|to| !inside(*to)).collect()
    }

    /// Limits that numbers may keep through the trips of a loop: those of types, and beside numbers
    /// that it compares with.
    pub fn limits(&self, insns: &[Insn], header: usize) -> BTreeSet<u64> {
        let own = self.loops.all.iter().filter(|one| one.header == header);
        let inside = |at: &usize| own.clone().any(|one| one.contains(*at));
        let compares = |insn: &Insn| {
            matches!(insn.code & 7, class::JMP | class::JMP32)
                && !jumps(*insn)
                && !matches!(insn.code, EXIT | CALL | CALL_REGISTER)
        };
        let known = (0..insns.len()).filter(inside).map(|at| insns[at]).filter(compares);
        let known = known.filter_map(|insn| u64::try_from(insn.imm).ok());
        let beside = known.flat_map(|number| [number.saturating_sub(1), number]);
        beside.chain([8, 16, 32, 64].map(crate::value::low)).collect()
    }

    /// By how much at least a register is more at each trip of a loop, or less if negative, and
    /// what that is a multiple of: where constants are added to it alone, on every way to the next
    /// trip.
    pub fn step(&self, insns: &[Insn], header: usize, register: usize) -> Option<(i64, u64)> {
        let own = self.loops.all.iter().filter(|one| one.header == header);
        let inside = |at: &usize| own.clone().any(|one| one.contains(*at));
        let mut steps = BTreeMap::new();
        for at in (0..insns.len()).filter(inside) {
            let writes = touched(insns[at], 0).1 >> register & 1 != 0;
            match insns[at].code {
                0x04 | 0x07 if writes => _ = steps.insert(at, i64::from(insns[at].imm)),
                _ if writes => return None,
                _ => {}
            }
        }
        let mut seen = BTreeSet::new();
        let mut open = vec![header];
        while let Some(at) = open.pop() {
            if steps.contains_key(&at) {
                continue;
            }
            for to in self.next[at].into_iter().flatten().filter(inside) {
                if to == header {
                    return None;
                }
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        let (least, most) = (*steps.values().min()?, *steps.values().max()?);
        let stride = steps.values().fold(0, |all, step| gcd(all, step.unsigned_abs()));
        match (least > 0, most < 0) {
            (true, _) => Some((least, stride)),
            (_, true) => Some((most, stride)),
            _ => None,
        }
    }

    /// Sorts instructions by how soon control comes to them from `from`: what is left of a trip of
    /// a loop comes before the next trip, and that before what is behind the loop.
    pub fn sort(&self, from: usize, list: &mut [usize]) {
        list.sort_by_cached_key(|at| {
            let phase = |one: &usize| self.loops.all[*one].phase(*at);
            let phases: Vec<u8> = self.loops.around(from).iter().map(phase).collect();
            (phases, self.rank.get(*at).copied().unwrap_or(usize::MAX))
        });
    }
}

/// An order in which every jump that is not back goes to a later place.
fn rank(next: &[[Option<usize>; 2]]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; next.len()];
    for root in 0..next.len() {
        let mut stack = vec![(root, 0)];
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        while let Some((at, nth)) = stack.pop() {
            match next[at].get(nth) {
                None => order.push(at),
                Some(to) => {
                    stack.push((at, nth + 1));
                    if let Some(to) = to.filter(|to| *to < next.len())
                        && !std::mem::replace(&mut seen[to], true)
                    {
                        stack.push((to, 0));
                    }
                }
            }
        }
    }
    let mut rank = vec![0; next.len()];
    order.iter().rev().enumerate().for_each(|(place, at)| rank[*at] = place);
    rank
}

/// Instructions of the functions that programs begin with from which nothing is left but to say
/// what was decided. Each way does so itself, so ways do not meet there.
fn returns(insns: &[Insn], entries: &[usize]) -> Vec<bool> {
    let mut own = vec![false; insns.len()];
    let mut open = entries.to_vec();
    while let Some(at) = open.pop() {
        if at < insns.len() && !std::mem::replace(&mut own[at], true) {
            open.extend(successors(insns, at).into_iter().flatten());
        }
    }
    let copies = |insn: Insn| matches!(insn.code, 0xb7 | 0xbf | 0xb4 | 0xbc);
    let straight = |from: usize| {
        let mut at = from;
        for _ in 0..6 {
            match insns.get(at) {
                Some(insn) if insn.code == EXIT => return true,
                Some(insn) if jumps(*insn) => at = target(insns, at).unwrap_or(insns.len()),
                Some(insn) if copies(*insn) => at += 1,
                _ => return false,
            }
        }
        false
    };
    (0..insns.len()).map(|at| own[at] && straight(at)).collect()
}

/// Nearest post-dominators, but for ways that only return; with them where nothing else ends.
fn meet(insns: &[Insn], returns: &[bool]) -> Vec<Option<usize>> {
    let end = insns.len();
    let all = post_dominators(insns, &vec![false; end]);
    let found = post_dominators(insns, returns);
    let one = |(found, all): (Option<usize>, Option<usize>)| found.or(all).filter(|at| *at < end);
    found.into_iter().zip(all).map(one).collect()
}

/// Nearest post-dominators without ways to instructions that only return. The number behind the
/// last instruction is the end, `None` a way without end.
fn post_dominators(insns: &[Insn], returns: &[bool]) -> Vec<Option<usize>> {
    let end = insns.len();
    let successors = |insns: &[Insn], at: usize| {
        let next = successors(insns, at);
        let goes = |to: &usize| !returns.get(*to).is_some_and(|returns| *returns);
        if next.iter().flatten().any(goes) { next.map(|to| to.filter(goes)) } else { next }
    };
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); end + 1];
    for at in 0..end {
        let next: Vec<usize> =
            successors(insns, at).into_iter().flatten().filter(|to| *to < end).collect();
        if next.is_empty() {
            before[end].push(at);
        }
        next.into_iter().for_each(|to| before[to].push(at));
    }
    // Nodes behind others come first: an order after which all of them were left, from the end.
    let mut rank = vec![usize::MAX; end + 1];
    let mut order = Vec::new();
    let mut seen = vec![false; end + 1];
    let mut stack = vec![(end, 0)];
    seen[end] = true;
    while let Some((node, next)) = stack.pop() {
        if let Some(&to) = before[node].get(next) {
            stack.push((node, next + 1));
            if !seen[to] {
                seen[to] = true;
                stack.push((to, 0));
            }
        } else {
            rank[node] = order.len();
            order.push(node);
        }
    }
    let mut found: Vec<Option<usize>> = vec![None; end + 1];
    found[end] = Some(end);
    let mut changed = true;
    while changed {
        changed = false;
        for &node in order.iter().rev().skip(1) {
            let mut meets: Option<usize> = None;
            let next = successors(insns, node).into_iter().flatten().filter(|to| *to < end);
            let next: Vec<usize> = next.collect();
            let next = if next.is_empty() { vec![end] } else { next };
            for to in next.into_iter().filter(|to| found[*to].is_some()) {
                meets = Some(meets.map_or(to, |other| common(&found, &rank, other, to)));
            }
            if found[node] != meets {
                found[node] = meets;
                changed = true;
            }
        }
    }
    found.truncate(end);
    found
}

fn common(found: &[Option<usize>], rank: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while rank[a] < rank[b] {
            a = found[a].unwrap_or(b);
        }
        while rank[b] < rank[a] {
            b = found[b].unwrap_or(a);
        }
    }
    a
}

/// Registers that an instruction reads and writes; calls of functions read what these read.
fn touched(insn: Insn, callee: u16) -> (u16, u16) {
    let (dst, src) = (1 << insn.dst.min(10), 1 << insn.src.min(10));
    let second = if insn.code & SOURCE_REGISTER != 0 { src } else { 0 };
    match insn.code & 7 {
        class::LD => (0, dst),
        class::LDX => (src, dst),
        class::ST => (dst, 0),
        class::STX => {
            let compares = insn.code & 0xe0 == 0xc0 && insn.imm & 0xff == 0xf1;
            (dst | src | u16::from(compares), 0)
        }
        class::ALU | class::ALU64 => match insn.code & 0xf0 {
            0xb0 => (second, dst),
            0x80 | 0xd0 => (dst, dst),
            _ => (dst | second, dst),
        },
        _ => match insn.code {
            EXIT => (1, 0),
            0x05 | 0x06 => (0, 0),
            CALL if insn.src == 0 => (helpers::reads(insn.imm), 0x3f),
            CALL if insn.src == 1 => (callee & 0x3e, 0x3f),
            CALL => (0x3e, 0x3f),
            CALL_REGISTER => (dst | ((1 << (insn.imm.clamp(0, 5) + 1)) - 2), 0x3f),
            _ => (dst | second, 0),
        },
    }
}

fn live(insns: &[Insn]) -> Vec<u16> {
    let mut live = vec![0u16; insns.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for at in (0..insns.len()).rev() {
            let insn = insns[at];
            let after = successors(insns, at).into_iter().flatten();
            let after = after.filter_map(|to| live.get(to)).fold(0, |all, one| all | one);
            let callee = usize::try_from(at as i64 + 1 + i64::from(insn.imm)).ok();
            let callee = callee.and_then(|to| live.get(to)).copied().unwrap_or(0);
            let (reads, writes) = touched(insn, callee);
            let before = reads | after & !writes;
            if before != live[at] {
                live[at] = before;
                changed = true;
            }
        }
    }
    live
}
