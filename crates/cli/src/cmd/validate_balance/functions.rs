//! All ten functions: Table II, and the ranges that the text states about Figs. 2 and 3.

use super::sweeps::knee;
use super::*;

const TABLE_II: &str = include_str!("../../../../../docs/validation/hal_table2.csv");

/// Functions of which nothing but Table II and ranges is published: their profiles come from them.
const FROM_TABLE_II: [&str; 4] = ["KVS", "BM25", "Bayes", "Compression"];
/// Those whose Table II is of twice the work per packet of Table V (see the validation's text).
const TWICE: [(&str, &str); 2] = [("EMA", "EMA, 8 items"), ("KNN", "KNN, 16 points")];

/// Ranges: a software function's throughput on the NIC over the host's (Fig. 2), compression's on
/// the host over the NIC's, and the server's power at most (Fig. 3), W.
const SOFTWARE: (f64, f64) = (0.31, 0.76);
const COMPRESSION: (f64, f64) = (0.46, 0.72);
const WATTS: (f64, f64) = (219.0, 336.0);

pub fn rows(rows: &mut Vec<Row>) -> Result<(), Failure> {
    let mut functions = Vec::new();
    for fields in records(TABLE_II) {
        let (Ok(gbps), Ok(efficiency)) = (fields[1].parse::<f64>(), fields[2].parse::<f64>())
        else {
            return Err(Failure::user(format!("internal error: hal_table2.csv: {fields:?}")));
        };
        functions.push((fields[0], gbps, efficiency, profile_of(fields[0])?));
    }
    let all = parallel::each(&functions, |(name, gbps, efficiency, profile)| {
        one(name, *gbps, *efficiency, profile)
    });
    rows.extend(all.into_iter().flatten());
    Ok(())
}

fn one(name: &str, gbps: f64, efficiency: f64, profile: &Profile) -> Vec<Row> {
    let calibrated = FROM_TABLE_II.contains(&name);
    let mut rows = Vec::new();
    let mut push = |source, case: &str, metric, published, ours, calibrated| {
        rows.push(Row { source, case: case.to_string(), metric, published, ours, calibrated });
    };
    let rate = "NIC Gbit/s without drops";
    push("HAL Table II", name, rate, gbps, knee(profile), calibrated);
    if let Some((_, twice)) = TWICE.iter().find(|(known, _)| *known == name) {
        let half = Side { gbps: profile.nic.gbps / 2.0, ..profile.nic.clone() };
        let profile = Profile { nic: half, ..profile.clone() };
        push("HAL Table II", twice, rate, gbps, knee(&profile), false);
    }
    // The same rate on either side: what counts is power.
    let watts = |setup: Setup| setup.run(profile, &constant(gbps, 0.2)).watts;
    let (nic, host) = (watts(Setup::Nic), watts(Setup::Host));
    push("HAL Table II", name, "efficiency over the host", efficiency, host / nic, calibrated);
    if let Some(table_v) = table_v_efficiency(name) {
        let metric = "efficiency over the host, by Table V";
        push("HAL Table V", name, metric, table_v, host / nic, true);
    }
    let within = |value: f64, (least, most): (f64, f64)| f64::from(value >= least && value <= most);
    let ratio = profile.nic.gbps / profile.host.gbps;
    match name {
        "REM" | "Crypto" => {}
        "Compression" => {
            let ours = within(1.0 / ratio, COMPRESSION);
            push("HAL Fig. 2", name, "host over NIC is 0.46 to 0.72", 1.0, ours, calibrated);
        }
        _ => {
            let ours = within(ratio, SOFTWARE);
            push("HAL Fig. 2", name, "NIC over host is 0.31 to 0.76", 1.0, ours, calibrated);
        }
    }
    let (power, metric) = (&profile.power, "server takes 219 to 336 W");
    let ours = within(power.idle_watts + power.host_watts, WATTS);
    push("HAL Fig. 3", name, metric, 1.0, ours, calibrated);
    rows
}

/// Power of the host over the NIC's, mean of Table V's workloads.
fn table_v_efficiency(name: &str) -> Option<f64> {
    let lines = records(TABLE_V).filter(|fields| fields[1] == name);
    let ratios: Vec<f64> = lines
        .filter_map(|fields| {
            Some(fields[12].parse::<f64>().ok()? / fields[11].parse::<f64>().ok()?)
        })
        .collect();
    (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
}
