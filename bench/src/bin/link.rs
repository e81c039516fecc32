//! Queues between NIC and host against a copy ring by hand, between two CPUs, and what it gains to
//! transfer only what is used of a message.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A whole message, and how much of it is transferred where only so much is used: ratios 1/5 to
/// 4/5.
const WHOLE: u32 = 1024;
const LIVE: [(u32, f64); 7] =
    [(208, 3.1), (256, 2.5), (344, 2.0), (512, 1.5), (680, 1.3), (768, 1.2), (816, 1.2)];

fn main() -> ExitCode {
    match measure() {
        Ok(text) => {
            println!("bytes   ns, in and out   by hand   ratio");
            let mut ours_of = BTreeMap::new();
            for line in text.lines() {
                let numbers: Vec<f64> =
                    line.split(' ').filter_map(|word| word.parse().ok()).collect();
                if let [bytes, ours, by_hand] = numbers[..] {
                    println!(
                        "{bytes:>5}   {ours:>14.1}   {by_hand:>7.1}   {:>5.2}",
                        ours / by_hand
                    );
                    ours_of.insert(bytes as u32, ours);
                }
            }
            println!("\nlive bytes of {WHOLE}   speed-up   published (Floem, OSDI'18, over PCIe)");
            for (bytes, published) in LIVE {
                if let (Some(whole), Some(part)) = (ours_of.get(&WHOLE), ours_of.get(&bytes)) {
                    println!("{bytes:>18}   {:>8.1}   {published:.1}", whole / part);
                }
            }
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(3)
        }
    }
}

/// Lines of bytes, ns of ours, ns by hand.
fn measure() -> Result<String, String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let place = tempfile::tempdir().map_err(|e| e.to_string())?;
    let program = place.path().join("link");
    let mut clang = Command::new(nicforge_clang::name());
    clang
        .args(["-std=c11", "-O2", "-fno-strict-aliasing", "-I"])
        .arg(repository.join("runtime/host"));
    clang.arg(repository.join("bench/handwritten/link.c")).arg("-o").arg(&program).arg("-lpthread");
    let made = clang
        .status()
        .map_err(|e| format!("clang-19: {e}; install it with scripts/bootstrap.sh"))?;
    if !made.success() {
        return Err("bench/handwritten/link.c does not compile".to_string());
    }
    let ran = Command::new(&program).args(["0", "1"]).output().map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}
