//! What replicas are worth when keys choose among them.
//!
//! `F` flows of equal rate are thrown at `n` replicas by a hash. The whole keeps up only as long as
//! the replica with most flows does, so `n` replicas are worth `F / E[M]`, `M` being the flows of
//! the busiest one.
//!
//! The flows of one replica are binomial, `X ~ B(F, 1/n)`. Two replicas cannot both have more than
//! half of the flows, so beyond that `P(M > k) = n P(X > k)` exactly; below, replicas are taken as
//! independent, `P(M > k) = 1 - P(X <= k)^n`, which is a bound from below because counts that add
//! up to `F` are negatively associated (Joag-Dev and Proschan, 1983). `E[M]` is the sum over `k`;
//! the tail is followed until nothing comes any more. Tests compare with counting all ways: 6 % at
//! most, with as many flows as replicas, 2 % with more. Cost: `O(F/n + sqrt(F))` for each `n`.

/// Flows beyond which the busiest replica has hardly more than the mean.
const MANY: u32 = 1 << 20;

/// Worth of 1, 2, ... `most` replicas for so many flows: not more than they are, and never less
/// than fewer would be.
pub fn worth(flows: u32, most: u32) -> Vec<f64> {
    let mut best = 0.0f64;
    let one =
        |n: u32| if flows >= MANY { f64::from(n) } else { f64::from(flows) / busiest(flows, n) };
    (1..=most)
        .map(|n| {
            best = best.max(one(n));
            best
        })
        .collect()
}

/// Worth of 1, 2, ... `most` replicas where each has a range of `instances` that are alike: the one
/// with most decides.
pub fn worth_of_ranges(instances: u32, most: u32) -> Vec<f64> {
    let one = |n: u32| f64::from(instances) / f64::from(instances.div_ceil(n));
    (1..=most).map(one).collect()
}

/// Expected flows of the busiest of `n` replicas.
fn busiest(flows: u32, n: u32) -> f64 {
    if n == 1 {
        return f64::from(flows);
    }
    let share = 1.0 / f64::from(n);
    let odds = share / (1.0 - share);
    let mut ln_p = f64::from(flows) * (1.0 - share).ln();
    let mut below = ln_p.exp();
    let mut sum = 0.0;
    for k in 0..flows {
        let more = if u64::from(k) * u64::from(n) < u64::from(flows) {
            1.0
        } else if 2 * u64::from(k) >= u64::from(flows) {
            (f64::from(n) * (1.0 - below)).clamp(0.0, 1.0)
        } else {
            1.0 - below.min(1.0).powi(n as i32)
        };
        if more < 1e-9 {
            break;
        }
        sum += more;
        ln_p += (f64::from(flows - k) / f64::from(k + 1) * odds).ln();
        below += ln_p.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ways to give `flows` to `n`, by the sizes of the parts: the expected largest.
    fn exactly(flows: u32, n: u32) -> f64 {
        // Ways with at most k each: coefficients of (sum of x^j / j! for j up to k)^n, times
        // flows!.
        let at_most = |k: u32| {
            let mut ways = vec![0.0; flows as usize + 1];
            ways[0] = 1.0;
            for _ in 0..n {
                let mut next = vec![0.0; flows as usize + 1];
                for (had, count) in ways.iter().enumerate() {
                    let mut term = *count;
                    for j in 0..=k as usize {
                        if had + j > flows as usize {
                            break;
                        }
                        if j > 0 {
                            term /= j as f64;
                        }
                        next[had + j] += term;
                    }
                }
                ways = next;
            }
            let factorial: f64 = (1..=flows).map(f64::from).product();
            ways[flows as usize] * factorial / f64::from(n).powi(flows as i32)
        };
        (0..flows).map(|k| 1.0 - at_most(k)).sum()
    }

    #[test]
    fn the_busiest_replica_is_as_busy_as_counting_says() {
        for (flows, n) in
            [(1, 5), (2, 2), (16, 2), (16, 6), (16, 16), (40, 8), (100, 12), (100, 48)]
        {
            let (ours, exact) = (busiest(flows, n), exactly(flows, n));
            let close = ours <= exact * (1.0 + 1e-9) && ours > exact * 0.94;
            assert!(close, "{flows} flows over {n}: {ours} instead of {exact}");
        }
    }

    #[test]
    fn worth_grows_with_replicas_and_flows() {
        for flows in [1, 7, 16, 1000, 100_000] {
            let list = worth(flows, 48);
            assert_eq!(list[0], 1.0);
            assert!(list.windows(2).all(|pair| pair[0] <= pair[1]), "{flows}: {list:?}");
            let more = worth(flows * 4, 48);
            assert!(
                list.iter()
                    .zip(&more)
                    .enumerate()
                    .all(|(n, (a, b))| a <= b && *b <= n as f64 + 1.0)
            );
        }
        assert_eq!(worth(1, 3), [1.0, 1.0, 1.0]);
        assert_eq!(worth(u32::MAX, 3), [1.0, 2.0, 3.0]);
        assert_eq!(worth_of_ranges(4, 5), [1.0, 2.0, 2.0, 4.0, 4.0]);
    }
}
