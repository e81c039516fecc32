//! `nicforge balance plan`: what the NIC should get.

use clap::Args;
use nicforge_balance::director::Vip;
use nicforge_balance::policy::share::{Claim, divide, saved};
use nicforge_balance::profile::Profile;
use nicforge_balance::sim::limit::nic_p99_us;
use nicforge_driver::Failure;
use serde_json::json;

use super::rte_flow::{Ports, commands};
use super::{policies, profiles};
use crate::out;
use crate::text::table;

/// `nicforge balance plan`.
#[derive(Args)]
pub struct Plan {
    /// Functions on this NIC: PROFILE or PROFILE=GBPS, the rate that arrives (default: the line's)
    #[arg(required = true, value_name = "PROFILE[=GBPS]")]
    functions: Vec<String>,
    /// p99 that is wanted on the NIC, us
    #[arg(long, default_value_t = 50.0, value_name = "US")]
    objective: f64,
    /// Share of the NIC's time that may be used by all functions together
    #[arg(long, default_value_t = 0.9, value_name = "SHARE")]
    budget: f64,
    /// Print the first function's threshold as commands for a commodity NIC instead (testpmd: a
    /// meter and flow rules; untested on hardware)
    #[arg(long, requires = "vip")]
    emit_rte_flow: bool,
    /// Served addresses for --emit-rte-flow
    #[arg(long, value_parser = super::run::vip, value_name = "ADDRESS,MAC,HOST_ADDRESS,HOST_MAC")]
    vip: Vec<Vip>,
    /// Port numbers for --emit-rte-flow: wire, NIC side, host
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', default_value = "0,1,2")]
    ports: Vec<u16>,
    /// Print the result as JSON
    #[arg(long, conflicts_with = "emit_rte_flow")]
    json: bool,
}

/// Plans and prints.
pub fn run(args: &Plan) -> Result<(), Failure> {
    if !(args.budget > 0.0 && args.budget <= 1.0) {
        return Err(Failure::usage(format!(
            "--budget {} is no share; give one above 0 and at most 1",
            args.budget
        )));
    }
    let mut wanted: Vec<(Profile, f64)> = Vec::new();
    for text in &args.functions {
        let (name, rate) = match text.rsplit_once('=') {
            Some((name, rate)) => {
                let rate = rate.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
                (
                    name,
                    rate.ok_or_else(|| {
                        Failure::usage(format!("`{text}`: the rate is no number above 0, Gbit/s"))
                    })?,
                )
            }
            None => (text.as_str(), nicforge_balance::traffic::LINE_GBPS),
        };
        wanted.push((profiles::find(name)?, rate));
    }
    let mut limits = Vec::new();
    let mut claims = Vec::new();
    for (profile, rate) in &wanted {
        let limit = policies::limit_gbps(profile, args.objective)?;
        // Watts that the awake host takes, over what it does at most: joule per bit.
        let saves = profile.power.host_watts / (profile.host.gbps * 1e9);
        claims.push(Claim {
            demand: rate.min(limit) * 1e9,
            capacity: profile.nic.gbps * 1e9,
            accelerator: f64::INFINITY,
            saves,
        });
        limits.push(limit);
    }
    let thresholds = divide(&claims, args.budget);
    let sleeps = wanted.iter().zip(&thresholds).all(|((_, rate), bits)| bits / 1e9 >= *rate - 1e-9);
    if args.emit_rte_flow {
        nicforge_balance::director::check(&args.vip).map_err(|e| Failure::usage(e.to_string()))?;
        let [wire, nic, host] = args.ports[..] else {
            return Err(Failure::usage("--ports takes three numbers: wire, NIC side, host"));
        };
        out::text(&commands(&args.vip, thresholds[0], Ports { wire, nic, host }));
        return Ok(());
    }
    if args.json {
        let list: Vec<_> = (wanted.iter().zip(&limits).zip(&thresholds))
            .map(|(((profile, rate), limit), bits)| {
                json!({ "function": profile.function, "demand_gbps": rate, "limit_gbps": limit, "threshold_gbps": bits / 1e9 })
            })
            .collect();
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/balance-plan", "version": 1, "objective_us": args.objective, "budget": args.budget,
                "host_sleeps": sleeps, "functions": list, "modelled": true })
        );
        return Ok(());
    }
    let rows: Vec<Vec<String>> = (wanted.iter().zip(&limits).zip(&thresholds))
        .map(|(((profile, rate), limit), bits)| {
            vec![
                profile.function.clone(),
                format!("{rate:.1}"),
                format!("{:.1}", profile.nic.gbps),
                format!("{limit:.1}"),
                format!("{:.1}", nic_p99_us(profile, *limit, 2)),
                format!("{:.2}", bits / 1e9),
            ]
        })
        .collect();
    let header = ["function", "arrives", "NIC can", "alone", "p99 us there", "threshold Gbit/s"];
    out::text(&table(&header, &rows));
    outln!(
        "objective {} us; {:.1} J/s of host work saved; {}",
        args.objective,
        saved(&claims, &thresholds),
        if sleeps { "the host can sleep" } else { "the host stays awake for the rest" }
    );
    Ok(())
}
