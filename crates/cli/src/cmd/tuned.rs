//! Plans that were measured, as a table.

use nicforge_driver::tune::Tuned;

use crate::text::table;

/// Prints predicted rates beside measured ones.
pub fn print(tuned: &Tuned) {
    outln!("measured {}:", tuned.how);
    let rows: Vec<Vec<String>> = tuned
        .tried
        .iter()
        .map(|one| {
            let mpps = |rate: f64| format!("{:.2}", rate / 1e6);
            let (measured, note) = match &one.measured {
                Ok(rate) => (mpps(*rate), String::new()),
                Err(why) => (String::new(), format!("; does not run: {}", first_line(why))),
            };
            let mark = if one.number == tuned.best { "*" } else { "" };
            let said = format!("{}{note}", one.stages);
            vec![mark.to_string(), one.number.to_string(), mpps(one.predicted), measured, said]
        })
        .collect();
    outln!("{}", table(&["", "no", "predicted Mpps", "measured Mpps", "stages"], &rows).trim_end());
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}
