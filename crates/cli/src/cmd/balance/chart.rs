//! Charts over time as one self-contained HTML page.

use std::fmt::Write as _;

use nicforge_balance::sim::Bin;

/// Size of a chart, pixels.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 60.0;

/// A named run.
pub type Series<'a> = (String, &'a [Bin]);

/// The number of a bin that a chart shows.
type Value = fn(&Bin) -> f64;

const COLOURS: [&str; 8] =
    ["#1b6ca8", "#c1440e", "#3a7d44", "#8e44ad", "#b8860b", "#2c3e50", "#d35d9a", "#5c8a8a"];

/// A page with rate, threshold, p99 and watts over time of every run.
pub fn page(title: &str, runs: &[Series], summary: &str) -> String {
    let mut page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{0}</title>\n<style>body{{font:14px system-ui,sans-serif;margin:2em;max-width:60em}}\
         svg{{width:100%;height:auto}}text{{font:11px system-ui,sans-serif;fill:#555}}pre{{overflow-x:auto}}</style>\n<h1>{0}</h1>\n<pre>{1}</pre>\n<p>",
        escape(title),
        escape(summary)
    );
    for ((name, _), colour) in runs.iter().zip(COLOURS) {
        let _ = write!(page, "<span style=\"color:{colour}\">■ {}</span> ", escape(name));
    }
    page.push_str("</p>\n");
    let values: [(&str, Value); 4] = [
        ("rate served, Gbit/s", |bin| bin.served_gbps),
        ("threshold, Gbit/s", |bin| bin.threshold_gbps),
        ("p99 of packets, us", |bin| bin.p99_us),
        ("power, W", |bin| bin.watts),
    ];
    for (what, value) in values {
        page.push_str(&chart(what, runs, value));
    }
    page
}

fn chart(what: &str, runs: &[Series], value: Value) -> String {
    let all = || runs.iter().flat_map(|(_, bins)| bins.iter().map(value));
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    // Power does not begin at zero: what matters is what is above idle.
    let least = if least > 0.5 * most { least * 0.98 } else { 0.0 };
    let span = (most - least).max(1e-9);
    let y = |v: f64| HEIGHT - 20.0 - (v - least) / span * (HEIGHT - 40.0);
    let mut svg = format!(
        "<h2>{0}</h2>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><text x=\"0\" y=\"{1}\">{2:.1}</text><text x=\"0\" y=\"{3}\">{4:.1}</text>\n",
        escape(what),
        y(most) + 4.0,
        most,
        y(least) + 4.0,
        least
    );
    for ((_, bins), colour) in runs.iter().zip(COLOURS) {
        let step = (WIDTH - LEFT) / (bins.len().max(2) - 1) as f64;
        let points: Vec<String> = (bins.iter().enumerate())
            .map(|(at, bin)| format!("{:.1},{:.1}", LEFT + at as f64 * step, y(value(bin))))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1\" opacity=\"0.8\"/>",
            points.join(" ")
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
