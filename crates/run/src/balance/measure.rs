//! What a function costs on one core of this machine: time per call, its variation, and p99 at half
//! the capacity.
//!
//! Times of calls are measured one by one; a call that takes twenty times the median was
//! interrupted by something else and is left out. The queue is computed from them: arrivals at
//! random at half the capacity, one server, service times as they were measured (Lindley's
//! recursion). On a machine that others use too, a queue in real time would show their work. A
//! slower processor is stood for by a factor.

use std::time::{Duration, Instant};

use nicforge_balance::rng::Rng;

/// Measured costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Mean time per call, ns.
    pub mean_ns: f64,
    /// Deviation over mean.
    pub cv: f64,
    /// p99 of latency at half the capacity, ns.
    pub p99_ns: f64,
    pub calls: u64,
}

/// Times the median that mean that a call was interrupted.
const INTERRUPTED: f64 = 20.0;
/// Calls before anything is measured.
const WARM: usize = 200;

/// Measures `call`, which gets payloads of `bytes` bytes, for about `time`; `slowdown` is how many
/// times slower the processor is that this one stands for.
pub fn measure(
    call: &mut dyn FnMut(&[u8]) -> u64,
    bytes: usize,
    slowdown: f64,
    time: Duration,
    seed: u64,
) -> Cost {
    let mut rng = Rng::new(seed);
    let mut payloads: Vec<Vec<u8>> =
        (0..64).map(|_| (0..bytes).map(|_| rng.bits() as u8).collect()).collect();
    // Half of them repeat themselves, as text does.
    for payload in payloads.iter_mut().step_by(2) {
        (16..bytes).for_each(|at| payload[at] = payload[at % 16]);
    }
    let mut sum = 0u64;
    let mut at = 0;
    let mut one = || {
        let begin = Instant::now();
        sum = sum.wrapping_add(call(&payloads[at % payloads.len()]));
        at += 1;
        begin.elapsed().as_nanos() as f64 * slowdown
    };
    (0..WARM).for_each(|_| _ = one());
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < time || times.is_empty() {
        times.push(one());
    }
    std::hint::black_box(sum);
    let middle = times.len() / 2;
    let median = *times.clone().select_nth_unstable_by(middle, f64::total_cmp).1;
    times.retain(|time| *time <= INTERRUPTED * median);
    let mean_ns = times.iter().sum::<f64>() / times.len() as f64;
    let variance =
        times.iter().map(|time| (time - mean_ns).powi(2)).sum::<f64>() / times.len() as f64;

    let p99_ns = p99_at_half(&times, mean_ns, &mut rng);
    Cost { mean_ns, cv: variance.sqrt() / mean_ns, p99_ns, calls: times.len() as u64 }
}

/// p99 of a queue with one server, these service times and random arrivals that load it by half,
/// ns.
fn p99_at_half(services: &[f64], mean_ns: f64, rng: &mut Rng) -> f64 {
    let mut waiting = 0.0f64;
    let mut latencies: Vec<f64> = (services.iter())
        .map(|service| {
            let latency = waiting + service;
            waiting = (latency - rng.exponential() * 2.0 * mean_ns).max(0.0);
            latency
        })
        .collect();
    let at = latencies.len() * 99 / 100;
    *latencies.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_that_of_theory() {
        let mut rng = Rng::new(3);
        // M/M/1 at half load: latency is exponential with twice the mean service, p99 is 4.6 times
        // that.
        let services: Vec<f64> = (0..400_000).map(|_| 1000.0 * rng.exponential()).collect();
        let p99 = p99_at_half(&services, 1000.0, &mut rng);
        assert!((p99 / (2000.0 * 100f64.ln()) - 1.0).abs() < 0.05, "{p99}");
    }

    #[test]
    fn calls_are_counted_and_fed() {
        let mut seen = 0u64;
        let mut call = |payload: &[u8]| {
            assert_eq!(payload.len(), 500);
            seen += 1;
            seen
        };
        let cost = measure(&mut call, 500, 4.0, Duration::from_millis(20), 1);
        assert!(cost.mean_ns > 0.0 && cost.p99_ns > 0.0 && cost.calls > 0, "{cost:?}");
        assert!(seen >= cost.calls + WARM as u64);
    }
}
