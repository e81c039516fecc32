use nicforge_balance::director::meter::setting;
use nicforge_balance::director::sample::{checksums_are_right, frame};
use nicforge_balance::director::{Director, sample_vips};
use nicforge_balance::rng::Rng;

use super::*;
use crate::pin::Pinned;

/// True if the kernel can be used here; says loudly if not. In CI it must be.
fn can_load() -> bool {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    let why = "this test loads BPF programs: run it as root";
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
    false
}

/// Kernel and pure director, packet by packet: verdicts, frames and counters, in every mode, lazy
/// or not, while settings change.
#[test]
fn the_kernel_does_what_the_director_does() {
    if !can_load() {
        return;
    }
    // Meters are per processor.
    let _pinned = Pinned::to(0);
    let vips = sample_vips();
    for (mode, name) in Metering::ALL {
        for (lazy, shadow) in [(true, false), (false, false), (true, true)] {
            let config =
                Config { vips: vips.clone(), mode, lazy, shadow, nic_is_stack: false, test: true };
            let kernel = Balancer::load(&config).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut pure = Director::new(vips.clone(), mode).unwrap();
            (pure.lazy, pure.shadow) = (lazy, shadow);
            kernel.set_drain(pure.drain_ns);
            let mut rng = Rng::new(7);
            let mut now = 1_000_000_000;
            let mut seen = [0; 3];
            for packet in 0..6000 {
                if packet % 100 == 0 {
                    pure.set = setting(1e6 * rng.unit(), 1e6, 100_000, 2 * 1524);
                    pure.route =
                        [Route::Metered, Route::Metered, Route::Metered, Route::Nic, Route::Host]
                            [rng.below(5) as usize];
                    kernel.apply(&pure.set, 1, pure.route);
                    let wanted: Vec<bool> = (0..BUCKETS).map(|_| rng.below(2) == 0).collect();
                    kernel.want(&wanted);
                    pure.buckets
                        .iter_mut()
                        .zip(&wanted)
                        .for_each(|(bucket, wanted)| bucket.wanted = *wanted);
                }
                now += u64::from(rng.below(400_000));
                let before = frame(&mut rng, &vips, packet % 4 == 3);
                let (mut got, mut want) = (before.clone(), before.clone());
                if packet % 4 == 3 {
                    let merged = kernel.test_egress(&mut got).unwrap();
                    assert_eq!(
                        (merged, &got),
                        (pure.egress(&mut want), &want),
                        "{name} {packet}: {before:02x?}"
                    );
                } else {
                    let verdict = kernel.test_ingress(&mut got, now).unwrap();
                    let expected = pure.ingress(&mut want, || now);
                    assert_eq!(
                        (verdict, &got),
                        (expected, &want),
                        "{name} {packet}: {before:02x?}"
                    );
                    seen[verdict as usize] += 1;
                }
                assert!(
                    !checksums_are_right(&before) || checksums_are_right(&got),
                    "{name} {packet}"
                );
            }
            assert!(seen.iter().all(|count| *count > 300), "{name}: {seen:?}");
            assert_eq!(kernel.counters().unwrap()[0], pure.counters, "{name}");
            let bytes: Vec<u64> = pure.buckets.iter().map(|bucket| bucket.bytes).collect();
            assert_eq!(kernel.bucket_bytes(), bytes, "{name}");
        }
    }
}
