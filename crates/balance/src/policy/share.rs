//! Several functions share one NIC: which gets how much.
//!
//! A bit of function f takes 1/capacity_f of the NIC's processor for a second, and saves the host
//! energy_f joules. Choose x_f (bit/s on the NIC), 0 ≤ x_f ≤ demand_f (and what f's accelerator
//! takes), to save the most with Σ x_f / capacity_f ≤ budget. This is a continuous knapsack: taking
//! functions by energy saved per unit of NIC time, the best first, is optimal (exchange argument:
//! moving NIC time from a worse to a better function never loses). What it leaves out is that a
//! host with nothing left to do sleeps altogether, which is worth `awake_watts`: so if everything
//! fits, everything is taken, and otherwise that share cannot be saved by any choice.

/// A function that wants to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What arrives, bit/s.
    pub demand: f64,
    /// What the whole NIC does of this function alone, bit/s.
    pub capacity: f64,
    /// What its accelerator takes at most, bit/s; infinite without one.
    pub accelerator: f64,
    /// What the host saves, joule per bit.
    pub saves: f64,
}

/// Thresholds of all functions, bit/s, for a budget (share of the NIC's time, usually 0.9).
pub fn divide(claims: &[Claim], budget: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    let worth = |claim: &Claim| claim.saves * claim.capacity;
    order.sort_by(|a, b| worth(&claims[*b]).total_cmp(&worth(&claims[*a])).then(a.cmp(b)));
    let mut left = budget.max(0.0);
    let mut thresholds = vec![0.0; claims.len()];
    for at in order {
        let claim = &claims[at];
        if claim.capacity <= 0.0 || claim.saves <= 0.0 {
            continue;
        }
        let taken = claim.demand.min(claim.accelerator).min(left * claim.capacity);
        thresholds[at] = taken;
        left -= taken / claim.capacity;
    }
    thresholds
}

/// Joules a second that thresholds save.
pub fn saved(claims: &[Claim], thresholds: &[f64]) -> f64 {
    claims.iter().zip(thresholds).map(|(claim, bits)| claim.saves * bits).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn no_other_division_saves_more() {
        let mut rng = Rng::new(21);
        for _ in 0..200 {
            let claims: Vec<Claim> = (0..3)
                .map(|_| Claim {
                    demand: 50e9 * rng.unit(),
                    capacity: 10e9 + 50e9 * rng.unit(),
                    accelerator: if rng.below(2) == 0 { f64::INFINITY } else { 20e9 },
                    saves: 1e-9 * rng.unit(),
                })
                .collect();
            let ours = divide(&claims, 0.9);
            let used: f64 =
                ours.iter().zip(&claims).map(|(bits, claim)| bits / claim.capacity).sum();
            assert!(used <= 0.9 + 1e-9);
            // Every division of the budget in steps of a fortieth.
            let best = saved(&claims, &ours);
            for a in 0..=40 {
                for b in 0..=40 - a {
                    let parts = [a, b, 40 - a - b].map(|part| 0.9 * f64::from(part) / 40.0);
                    let other: Vec<f64> = claims
                        .iter()
                        .zip(parts)
                        .map(|(claim, part)| {
                            claim.demand.min(claim.accelerator).min(part * claim.capacity)
                        })
                        .collect();
                    assert!(saved(&claims, &other) <= best * (1.0 + 1e-9), "{claims:?}");
                }
            }
        }
    }
}
