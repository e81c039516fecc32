//! Queues between NIC and host against a copy ring by hand, between two CPUs.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match measure() {
        Ok(text) => {
            println!("bytes   ns, in and out   by hand   ratio");
            for line in text.lines() {
                let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
                if let [bytes, ours, by_hand] = numbers[..] {
                    println!("{bytes:>5}   {ours:>14.1}   {by_hand:>7.1}   {:>5.2}", ours / by_hand);
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
    let mut clang = Command::new("clang-19");
    clang.args(["-std=c11", "-O2", "-fno-strict-aliasing", "-I"]).arg(repository.join("runtime/host"));
    clang.arg(repository.join("bench/handwritten/link.c")).arg("-o").arg(&program).arg("-lpthread");
    let made = clang.status().map_err(|e| format!("clang-19: {e}; install it with scripts/bootstrap.sh"))?;
    if !made.success() {
        return Err("bench/handwritten/link.c does not compile".to_string());
    }
    let ran = Command::new(&program).args(["0", "1"]).output().map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}
