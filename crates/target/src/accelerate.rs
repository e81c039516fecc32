//! Which ops run on accelerators, and what that costs.
//!
//! An accelerator is a server with a queue: an op costs its unit the cycles to hand the op over and
//! take the answer back, costs the thread the accelerator's time and latency, and costs the
//! accelerator the longer of one operation and of its bytes. Every accelerated op has a software
//! reference (what handlers do without one), so results never depend on where an op runs.
//!
//! An op goes to the accelerator if that keeps a unit busy for less than the software would:
//! threads share the wait as they do a memory's, and if all units of the group asked as often as
//! they can, each would get its share of the accelerator's rate. It is decided once, for frames of
//! [`Traffic::default`], since generated code cannot choose by packet. (Accelerators as servers:
//! LogNIC, ISCA'23.)

use nicforge_ir::{Body, CryptoOp, InstId, Op, Program, Work};

use crate::Target;
use crate::cost::{Traffic, op_cycles, payload_bytes, worked_bytes};
use crate::spec::{AcceleratedOp, Accelerator, UnitGroup};

/// An op on an accelerator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Number in [`Target::accelerators`].
    pub accelerator: usize,
    /// Of the unit.
    pub issue_cycles: f64,
    /// From the accelerator's start until the answer is there, with nobody else around.
    pub wait_ns: f64,
    /// For which one of the accelerators is busy.
    pub seconds: f64,
}

/// The kind of an op that accelerators know, and the bytes it goes over.
fn kind(program: &Program, body: &Body, op: &Op, traffic: Traffic) -> Option<(AcceleratedOp, f64)> {
    let size = |value| f64::from(program.size_of(body.ty(value)));
    let last = || op.operands().last().map_or(0.0, size);
    match op.work() {
        Work::PacketSum => Some((AcceleratedOp::PacketChecksum, payload_bytes(traffic))),
        Work::Sum => Some((AcceleratedOp::Checksum, last())),
        Work::Hash => Some((AcceleratedOp::Hash, last())),
        Work::Crypto => {
            let served = match op.crypto()? {
                CryptoOp::Sha256 | CryptoOp::HmacSha256 => AcceleratedOp::Sha,
                CryptoOp::Crc32 => AcceleratedOp::Crc,
                _ => AcceleratedOp::Aes,
            };
            Some((served, worked_bytes(body, op, traffic)))
        }
        Work::Regex => Some((AcceleratedOp::Regex, worked_bytes(body, op, traffic))),
        _ => None,
    }
}

fn on(at: usize, accelerator: &Accelerator, bytes: f64) -> Served {
    let seconds =
        (1.0 / accelerator.operations.value).max(bytes * 8.0 / accelerator.throughput.value);
    Served {
        accelerator: at,
        issue_cycles: accelerator.issue_cycles,
        wait_ns: accelerator.latency.value + seconds * 1e9,
        seconds,
    }
}

/// Busy cycles of a unit per op, as far as this op decides.
fn share(target: &Target, group: &UnitGroup, served: &Served) -> f64 {
    let wait = served.wait_ns * 1e-9 * group.clock.value / f64::from(group.threads);
    let spread =
        f64::from(group.count.max(1)) / f64::from(target.accelerators[served.accelerator].count);
    (served.issue_cycles + wait).max(served.seconds * group.clock.value * spread)
}

/// The accelerator that an op runs on, if units of the group reach one that is better than their
/// instructions.
pub fn served(
    program: &Program,
    body: &Body,
    inst: InstId,
    target: &Target,
    group: &UnitGroup,
    traffic: Traffic,
) -> Option<Served> {
    let op = &body.insts[inst].op;
    let (wanted, bytes) = kind(program, body, op, traffic)?;
    let (_, usual_bytes) = kind(program, body, op, Traffic::default())?;
    // The group's own count: plans that may use fewer units decide alike.
    let group = target.units.iter().find(|known| known.name == group.name)?;
    let software = op_cycles(program, body, inst, &target.costs[&group.costs], Traffic::default());
    let fits =
        |a: &&(usize, &Accelerator)| a.1.ops.contains(&wanted) && a.1.units.contains(&group.name);
    let list: Vec<(usize, &Accelerator)> = target.accelerators.iter().enumerate().collect();
    let priced = list
        .iter()
        .filter(fits)
        .map(|(at, a)| (share(target, group, &on(*at, a, usual_bytes)), *at));
    let (cycles, at) = priced.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (cycles < software).then(|| on(at, &target.accelerators[at], bytes))
}

/// Ops of a program that run on accelerators of a target's first units: name of the accelerator, op
/// and place.
pub fn uses(program: &Program, target: &Target) -> Vec<(String, AcceleratedOp, nicforge_ir::Span)> {
    let group = &target.units[0];
    let mut found = Vec::new();
    for handler in program.handlers.values() {
        let body = &handler.body;
        body.for_each_inst(body.entry(), &mut |inst| {
            let Some(one) = served(program, body, inst, target, group, Traffic::default()) else {
                return;
            };
            let data = &body.insts[inst];
            if let Some((op, _)) = kind(program, body, &data.op, Traffic::default()) {
                found.push((target.accelerators[one.accelerator].name.clone(), op, data.span));
            }
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use nicforge_ir::{text, verify};

    fn on(target: &str) -> Vec<(String, AcceleratedOp)> {
        let source = "program sum
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
handler net_recv on net_recv(%pkt: packet) {
  %zero: u32 = 0
  %all: u32 = 1500
  %sum: u32 = pkt_csum %pkt, %zero, %all
  emit %pkt, %sum
  generate net_send(%pkt, %zero)
  return
}";
        let program = verify(text::parse(source).expect("it parses")).expect("it is right");
        let target = crate::find(target).expect("it is built in");
        uses(&program, &target).into_iter().map(|(name, op, _)| (name, op)).collect()
    }

    /// A core without a CRC instruction gains; one that sums eight bytes a cycle would only wait.
    #[test]
    fn ops_go_where_they_are_cheaper() {
        assert_eq!(on("panic"), [("sums".to_string(), AcceleratedOp::PacketChecksum)]);
        assert_eq!(on("bluefield2"), []);
    }

    #[test]
    fn specs_are_checked() {
        let text = crate::source("panic").expect("it is built in");
        let refused = |from: &str, to: &str| {
            assert!(text.contains(from), "the spec has no `{from}`");
            crate::parse("panic.toml", &text.replace(from, to))
                .expect_err("it is refused")
                .to_string()
        };
        let ops = r#"ops = ["packet-checksum", "checksum", "hash"]"#;
        assert!(refused(ops, r#"ops = ["sort"]"#).contains("sort"));
        let units = format!("{ops}\nunits = [\"core\"]");
        assert!(
            refused(&units, &format!("{ops}\nunits = [\"cores\"]"))
                .contains("`cores`, which do not exist")
        );
        assert!(refused("queue = 16 ", "queue = 0 ").contains("must be more than 0"));
    }
}
