//! The load balancer's director against one by hand: instructions and ns per packet. Needs root.

use std::process::ExitCode;

use nicforge_bench::balance::{GATE, MODES, count, packets, time};

fn main() -> ExitCode {
    let packets = packets();
    let mut held = true;
    println!(
        "mode           packets   instructions each   by hand   ratio   ns each   by hand   ratio"
    );
    for mode in MODES {
        for kept in [true, false] {
            let row = count(mode, kept, &packets)
                .and_then(|mut row| time(&mut row, &packets).map(|()| row));
            let row = match row {
                Ok(row) => row,
                Err(failure) => {
                    eprintln!("error: {failure}");
                    return ExitCode::from(3);
                }
            };
            held &= row.ratio() <= GATE;
            let each = |instructions: u64| instructions as f64 / row.packets as f64;
            let (ours, by_hand) = row.times.unwrap_or_default();
            println!(
                "{:<14} {:<9} {:>17.1} {:>9.1} {:>7.3} {ours:>9.1} {by_hand:>9.1} {:>7.3}",
                mode.name(),
                if kept { "kept" } else { "diverted" },
                each(row.ours),
                each(row.by_hand),
                row.ratio(),
                ours / by_hand
            );
        }
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
