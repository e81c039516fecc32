//! Damaged profiles and traces, by the fuzz target's functions: nothing panics.

use nicforge_balance::profile::{built_in, names};
use nicforge_balance::rng::Rng;
use nicforge_balance::{profile, traffic};

const MUTATIONS: u32 = 2000;

#[test]
fn damaged_files_are_refused_or_mean_something() {
    let mut rng = Rng::new(41);
    let mut files: Vec<Vec<u8>> =
        names().map(|name| built_in(name).unwrap().unwrap().to_toml().into_bytes()).collect();
    files.push(b"1.5\n# rates\n40\n\n1e2\n".to_vec());
    for file in &files {
        for _ in 0..MUTATIONS {
            let mut data = file.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(data.len() as u32) as usize;
                match rng.below(4) {
                    0 => data[at] = rng.bits() as u8,
                    1 => data[at] ^= 1 << rng.below(8),
                    2 => drop(data.remove(at)),
                    _ => data.insert(at, b"0123456789.e-=[]\"\n"[rng.below(18) as usize]),
                }
            }
            profile::fuzz(&data);
            traffic::fuzz(&data);
        }
    }
}
