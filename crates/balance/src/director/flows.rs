//! Flow-affine direction: flows hash into buckets, and a bucket is on one side.
//!
//! Moving a bucket must not reorder a flow: packets still queued on the old side would be
//! overtaken. So a moved bucket changes sides only with a packet that comes at least the *drain
//! time* after the one before it, when the old side has sent everything it had. While a bucket
//! waits, each of its packets reads the clock; all others need none.

/// Buckets; a power of two.
pub const BUCKETS: usize = 1024;

/// A bucket's state; 16 bytes in directors that keep it in maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Packets go to the host.
    pub host: bool,
    /// Packets are to go to the host.
    pub wanted: bool,
    /// When the last packet came since the bucket was told to move, ns; 0 before that.
    pub last_ns: u64,
    /// Bytes on the wire so far.
    pub bytes: u64,
}

impl Bucket {
    /// True if a packet of this bucket goes to the host.
    pub fn to_host(&mut self, bytes: u64, drain_ns: u64, now: impl FnOnce() -> u64) -> bool {
        self.bytes += bytes;
        if self.host != self.wanted {
            let now = now();
            if self.last_ns != 0 && now.saturating_sub(self.last_ns) >= drain_ns {
                self.host = self.wanted;
                self.last_ns = 0;
            } else {
                self.last_ns = now;
            }
        } else if self.last_ns != 0 {
            // Told to stay after all: time seen before says nothing about the next move.
            self.last_ns = 0;
        }
        self.host
    }
}

/// Mixes a flow's addresses, ports and protocol: 32-bit multiplications and rotations, cheap in BPF
/// and in hardware. The same flow gives the same bucket in every director.
#[derive(Clone, Copy, Debug)]
pub struct FlowHash(u32);

impl FlowHash {
    /// Begins with the protocol number.
    pub fn new(protocol: u8) -> FlowHash {
        FlowHash(u32::from(protocol).wrapping_add(0x9e37_79b9))
    }

    /// Adds 32 bits, as they lie in the packet, big-endian.
    pub fn mix(self, word: u32) -> FlowHash {
        FlowHash(
            (self.0 ^ word).wrapping_mul(0x85eb_ca6b).rotate_left(13).wrapping_add(0xc2b2_ae35),
        )
    }

    /// The bucket.
    pub fn bucket(self) -> usize {
        let mut mixed = self.0 ^ (self.0 >> 16);
        mixed = mixed.wrapping_mul(0x7feb_352d);
        (mixed >> 16) as usize % BUCKETS
    }
}

/// Which buckets are to be on the host, so that those on the NIC together have no more than
/// `threshold` (same unit as `rates`). Buckets stay where they are unless they must move: while the
/// NIC has too much its largest bucket that fits the excess goes; while there is room, a bucket of
/// the host that fits comes back. Buckets that carry nothing move freely.
pub fn rebalance(host: &mut [bool], rates: &[f64], threshold: f64) {
    let mut nic: f64 =
        host.iter().zip(rates).filter(|(host, _)| !**host).map(|(_, rate)| rate).sum();
    let mut order: Vec<usize> = (0..rates.len()).collect();
    order.sort_by(|a, b| rates[*b].total_cmp(&rates[*a]).then(a.cmp(b)));
    if nic > threshold {
        // The largest that are not larger than the excess; then the smallest that ends it.
        for &bucket in &order {
            if !host[bucket] && rates[bucket] > 0.0 && rates[bucket] <= nic - threshold {
                host[bucket] = true;
                nic -= rates[bucket];
            }
        }
        let rest =
            order.iter().rev().find(|bucket| !host[**bucket] && rates[**bucket] >= nic - threshold);
        if let (true, Some(bucket)) = (nic > threshold, rest) {
            host[*bucket] = true;
            nic -= rates[*bucket];
        }
    }
    for &bucket in &order {
        if host[bucket] && nic + rates[bucket] <= threshold {
            host[bucket] = false;
            nic += rates[bucket];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn rebalancing_keeps_the_threshold_and_moves_little() {
        let mut rng = Rng::new(5);
        let mut host = vec![false; BUCKETS];
        let rates: Vec<f64> = (0..BUCKETS).map(|_| rng.exponential()).collect();
        let nic = |host: &[bool]| {
            host.iter().zip(&rates).filter(|(h, _)| !**h).map(|(_, r)| r).sum::<f64>()
        };
        for threshold in [2000.0, 500.0, 400.0, 700.0, 0.0, 300.0] {
            rebalance(&mut host, &rates, threshold);
            let got = nic(&host);
            assert!(got <= threshold, "{got} > {threshold}");
            assert!(
                got >= (threshold - 1.0).min(nic(&vec![false; BUCKETS])),
                "{got} far below {threshold}"
            );
            let before = host.clone();
            rebalance(&mut host, &rates, threshold);
            assert_eq!(before, host, "nothing moves twice");
        }
    }

    #[test]
    fn a_bucket_moves_only_after_the_drain_time() {
        let mut bucket = Bucket { wanted: true, ..Bucket::default() };
        let mut at = |now| bucket.to_host(100, 1000, || now);
        assert_eq!([at(10_000), at(10_999), at(11_500), at(12_500)], [false, false, false, true]);
        assert!(bucket.to_host(100, 1000, || panic!("the clock is not read without need")));
    }

    #[test]
    fn flows_spread_over_all_buckets() {
        let mut hits = vec![0u32; BUCKETS];
        for port in 0..102_400u32 {
            hits[FlowHash::new(17)
                .mix(0x0a00_0001)
                .mix(0x0a00_0002)
                .mix((port << 16) | 53)
                .bucket()] += 1;
        }
        let (least, most) = (hits.iter().min().unwrap(), hits.iter().max().unwrap());
        assert!(*least > 50 && *most < 170, "{least} to {most} of 100");
    }
}
