//! The results as a table and as JSON, and the gate.

use serde_json::{Value, json};

use crate::count::Counts;
use crate::time::Times;

/// Results of one example.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: &'static str,
    pub counts: Counts,
    /// Absent where only instructions are counted.
    pub times: Option<Times>,
}

impl Row {
    /// Mean instructions per packet, generated and by hand.
    pub fn instructions(&self) -> (f64, f64) {
        let mean = |list: &[u64]| list.iter().sum::<u64>() as f64 / list.len().max(1) as f64;
        (mean(&self.counts.generated), mean(&self.counts.by_hand))
    }

    /// Generated over hand-written instructions.
    pub fn instruction_ratio(&self) -> f64 {
        let (generated, by_hand) = self.instructions();
        generated / by_hand
    }

    fn time_ratio(&self) -> Option<f64> {
        self.times.and_then(|times| times.ratio())
    }
}

/// What generated code must reach, in instructions per packet against hand-written code.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Largest geometric mean of the ratios.
    pub mean: f64,
    /// Largest single ratio.
    pub worst: f64,
    /// Programs with a bar of their own.
    pub others: &'static [(&'static str, f64)],
}

/// The gate of this repository. By hand kv_cache answers in the frame that came; here what leaves
/// is put together beside it and copied.
pub const GATE: Gate = Gate { mean: 1.05, worst: 1.15, others: &[("kv_cache", 1.22)] };

impl Gate {
    /// What the rows break, one sentence each.
    pub fn broken(&self, rows: &[Row]) -> Vec<String> {
        let mut found = Vec::new();
        for row in rows {
            let ratio = row.instruction_ratio();
            let own = self.others.iter().find(|(name, _)| *name == row.name);
            let worst = own.map_or(self.worst, |(_, worst)| *worst);
            if ratio > worst {
                found.push(format!(
                    "{} executes {ratio:.3} times the instructions of hand-written code; at most {worst} are allowed",
                    row.name
                ));
            }
        }
        let mean = geometric_mean(rows.iter().map(Row::instruction_ratio));
        if mean > self.mean {
            found
                .push(format!("the geometric mean is {mean:.3}; at most {} is allowed", self.mean));
        }
        found
    }
}

/// The geometric mean; 1 of nothing.
pub fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        ratios.fold((0.0, 0usize), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    (sum / count.max(1) as f64).exp()
}

/// The table for people.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut line = |cells: [String; 8]| {
        let [name, packets, rest @ ..] = cells;
        let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:>11}")).collect();
        out.push_str(&format!("{name:<14}{packets:>8}{}\n", rest.concat()));
    };
    let text = |cells: [&str; 8]| cells.map(str::to_string);
    line(text(["", "", "insns", "per packet", "", "ns", "per packet", ""]));
    line(text([
        "program",
        "packets",
        "generated",
        "by hand",
        "ratio",
        "generated",
        "by hand",
        "ratio",
    ]));
    for row in rows {
        let (generated, by_hand) = row.instructions();
        let [a, b, c] = match row.times {
            Some(times) => [
                format!("{:.1}", times.generated),
                format!("{:.1}", times.by_hand),
                times.ratio().map_or("-".to_string(), |ratio| format!("{ratio:.3}")),
            ],
            None => std::array::from_fn(|_| "-".to_string()),
        };
        line([
            row.name.to_string(),
            row.counts.generated.len().to_string(),
            format!("{generated:.1}"),
            format!("{by_hand:.1}"),
            format!("{:.3}", row.instruction_ratio()),
            a,
            b,
            c,
        ]);
    }
    let instructions = geometric_mean(rows.iter().map(Row::instruction_ratio));
    let time = geometric_mean(rows.iter().filter_map(Row::time_ratio));
    let (instructions, time) = (format!("{instructions:.3}"), format!("{time:.3}"));
    line(text(["geometric mean", "", "", "", &instructions, "", "", &time]));
    out
}

/// The same for programs.
pub fn to_json(rows: &[Row]) -> Value {
    let list: Vec<Value> = rows
        .iter()
        .map(|row| {
            let (generated, by_hand) = row.instructions();
            json!({
                "program": row.name,
                "packets": row.counts.generated.len(),
                "instructions": {
                    "generated": generated, "by_hand": by_hand, "ratio": row.instruction_ratio(),
                },
                "ns": row.times.map(|times| json!({
                    "generated": times.generated, "by_hand": times.by_hand, "harness": times.harness,
                    "ratio": times.ratio(),
                })),
            })
        })
        .collect();
    json!({
        "schema": "nicforge/bench", "version": 1, "programs": list,
        "geometric_mean": {
            "instructions": geometric_mean(rows.iter().map(Row::instruction_ratio)),
            "ns": geometric_mean(rows.iter().filter_map(Row::time_ratio)),
        },
        "gate": { "mean": GATE.mean, "worst": GATE.worst, "broken": GATE.broken(rows) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(generated: u64, by_hand: u64) -> Row {
        let counts = Counts { generated: vec![generated], by_hand: vec![by_hand] };
        Row { name: "x", counts, times: None }
    }

    #[test]
    fn the_gate_sees_the_mean_and_the_worst() {
        assert_eq!(GATE.broken(&[row(100, 100), row(110, 100)]), Vec::<String>::new());
        let broken = GATE.broken(&[row(120, 100), row(80, 100)]);
        assert_eq!(
            broken,
            [
                "x executes 1.200 times the instructions of hand-written code; at most 1.15 are allowed"
            ]
        );
        assert_eq!(
            GATE.broken(&[row(110, 100), row(110, 100)]),
            ["the geometric mean is 1.100; at most 1.05 is allowed"]
        );
    }
}
