//! A sweep's plot: lines over a parameter, a line per series, a panel per value of a third
//! parameter.

use std::path::Path;

use plotters::prelude::*;

use super::grouped;
use super::spec::{Plot, Spec};
use super::table::{Row, Table};

const PANEL: (u32, u32) = (560, 360);
const COLUMNS: usize = 2;
/// Of series, distinct for people who see colours differently (Okabe, Ito, 2008).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// Draws the rows without errors as SVG.
pub fn draw(plot: &Plot, spec: &Spec, table: &Table, to: &Path) -> Result<(), String> {
    let (x, y) =
        (spec.parameter(&plot.x), spec.columns.iter().position(|(name, _)| *name == plot.y));
    let (Some(x), Some(y)) = (x, y) else {
        return Err("the plot's names are not the sweep's".to_string());
    };
    let rows: Vec<&Row> = table.rows.iter().filter(|row| row.error.is_empty()).collect();
    let at = |name: &Option<String>| name.as_ref().and_then(|name| spec.parameter(name));
    let panels = grouped(&rows, at(&plot.panel));
    let lines = panels.len().div_ceil(COLUMNS).max(1);
    let size = (PANEL.0 * COLUMNS.min(panels.len().max(1)) as u32, PANEL.1 * lines as u32);
    let area = SVGBackend::new(to, size).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    area.fill(&WHITE).map_err(|e| failed(&e))?;
    // Values on the axis that are no numbers are places on it.
    let ticks = &spec.over[x].1;
    let place =
        |row: &Row| ticks.iter().position(|tick| *tick == row.values[x]).unwrap_or(0) as f64;
    let value = |row: &Row| row.columns[y].parse::<f64>().unwrap_or(0.0);
    let most = rows.iter().map(|row| value(row)).fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.05 } else { 1.0 };
    for ((name, rows), area) in
        panels.iter().zip(area.split_evenly((lines, COLUMNS.min(panels.len().max(1)))))
    {
        let mut chart = ChartBuilder::on(&area)
            .caption(name, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(70)
            .build_cartesian_2d(-0.2..ticks.len() as f64 - 0.8, 0.0..most)
            .map_err(|e| failed(&e))?;
        let label = |at: &f64| {
            let near = at.round();
            let tick = ticks.get(near as usize).filter(|_| near >= 0.0 && (at - near).abs() < 0.01);
            tick.cloned().unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(ticks.len() * 5)
            .x_label_formatter(&label)
            .y_label_formatter(&|value| short(*value))
            .x_desc(plot.x.as_str())
            .y_desc(plot.y.as_str())
            .draw()
            .map_err(|e| failed(&e))?;
        for (at, (name, rows)) in grouped(rows, at(&plot.series)).iter().enumerate() {
            let color = COLORS[at % COLORS.len()];
            let points: Vec<(f64, f64)> = rows.iter().map(|row| (place(row), value(row))).collect();
            let line = LineSeries::new(points.clone(), color.stroke_width(2));
            let series = chart.draw_series(line).map_err(|e| failed(&e))?;
            if !name.is_empty() {
                series
                    .label(name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
            }
            let dots = points.into_iter().map(|point| Circle::new(point, 3, color.filled()));
            chart.draw_series(dots).map_err(|e| failed(&e))?;
        }
        if plot.series.is_some() {
            let mut legend = chart.configure_series_labels();
            legend.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3));
            legend.position(SeriesLabelPosition::UpperLeft).draw().map_err(|e| failed(&e))?;
        }
    }
    area.present().map_err(|e| failed(&e))
}

/// A number with k, M or G.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}
