//! `nicforge report`: one HTML page about a program on some targets, complete by itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use nicforge_driver::by_target::Programs;
use nicforge_driver::program::Loaded;
use nicforge_driver::rates::{self, Guaranteed};
use nicforge_driver::simulation::{self, Offered};
use nicforge_driver::{Failure, Runtime, backend, planning, targets};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{Program, Verified};
use nicforge_plan::{Plan, Replication, Step};
use nicforge_planner::assemble;
use nicforge_target::Target;

use crate::args::Report;
use crate::{interrupt, out};

const PAGE: &str = include_str!("report.html");

/// Time the bound of one stage may take; the page then says `at least`.
const GUARANTEE_TIME: Duration = Duration::from_secs(3);
/// Simulated time of each run that looks for the greatest rate, in seconds.
const SIMULATED: f64 = 0.5e-3;

/// A target and what came of planning for it. A rate that was not asked for is `None`; why there is
/// none is an error.
struct Row {
    target: Target,
    plan: Result<Plan, String>,
    simulated: Option<Result<f64, String>>,
    guaranteed: Option<Result<Guaranteed, String>>,
    measured: Option<Result<f64, String>>,
}

/// Plans for every target and writes the page.
pub fn run(args: Report) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    let targets: Vec<Vec<Target>> =
        args.target.iter().map(|name| targets::named(name)).collect::<Result<_, _>>()?;
    let targets = targets.concat();
    let mut programs = Programs::load(&args.source, &targets, &runtime)?;
    drop(runtime);
    programs.each(|loaded| planning::profile(loaded, &args.planning, &args.inputs))?;
    let loaded = &programs.general;
    out::notes(&loaded.warnings);
    interrupt::stop_in_order();
    let rows = targets.into_iter().enumerate();
    let rows: Vec<Row> =
        rows.map(|(number, target)| row(&args, programs.of(number), target)).collect();
    let page = page(&loaded.program, &rows);
    let path =
        args.output.clone().unwrap_or_else(|| format!("{}.html", loaded.program.name).into());
    std::fs::write(&path, page).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    outln!("wrote {}", path.display());
    Ok(())
}

/// Plans, and finds the rates that were asked for.
fn row(args: &Report, loaded: &Loaded, target: Target) -> Row {
    let plan = planning::find(loaded, &target, &args.planning).map(|(plan, _)| plan);
    let mut row = Row {
        plan: plan.map_err(|failure| failure.reason().to_string()),
        target,
        simulated: None,
        guaranteed: None,
        measured: None,
    };
    let Ok(plan) = &row.plan else { return row };
    let target = &row.target;
    if !args.quick {
        let found = Offered::planned(&args.planning, SIMULATED)
            .and_then(|traffic| simulation::greatest(&traffic, &args.inputs, target, plan, loaded))
            .map_err(|failure| failure.reason().to_string());
        let lossy = || "every rate loses packets".to_string();
        row.simulated = Some(found.and_then(|rate| rate.ok_or_else(lossy)));
        let found = rates::guaranteed(plan, &loaded.program, target, GUARANTEE_TIME);
        row.guaranteed = Some(found.map_err(|failure| failure.reason().to_string()));
    }
    let backend = backend::of(target).ok().filter(|_| args.measure);
    if let Some(found) = backend.and_then(|backend| backend.measured(target, loaded, &args.inputs))
    {
        let found = found.map_err(|failure| failure.reason().to_string());
        row.measured =
            Some(found.and_then(|rate| rate.ok_or_else(|| "no frames to measure on".to_string())));
    }
    row
}

/// A rate in a cell: a number, a dash where none was asked for, or a dash with the reason.
fn cell(rate: Option<Result<String, &String>>) -> String {
    match rate {
        Some(Ok(text)) => format!("<td class=\"n\">{text}</td>"),
        Some(Err(why)) => {
            format!(
                "<td class=\"n\" title=\"{0}\"><span class=\"limit\">none</span></td>",
                escape(why)
            )
        }
        None => "<td class=\"n\">-</td>".to_string(),
    }
}

fn page(program: &Verified<Program>, rows: &[Row]) -> String {
    let mut body = String::new();
    let _ = write!(
        body,
        "<h1>{}</h1>\n<p class=\"lead\">{} handlers, {} tables, {} ports. Predicted: what the cost model says. Simulated: the greatest rate at which the simulated target loses under 0.1 %. Guaranteed: no packets make it slower, even if all are of one flow. Measured: one CPU of this machine, in the kernel's test run.</p>\n",
        escape(&program.name),
        program.handlers.len(),
        program.tables.len(),
        program.ports
    );
    body.push_str(&comparison(rows));
    for row in rows {
        if let Ok(plan) = &row.plan {
            body.push_str(&target_section(row, plan));
        }
    }
    body.push_str("<section id=\"source\"><h2>Source</h2>\n");
    for file in program.files.values() {
        let _ = writeln!(
            body,
            "<h3>{}</h3>\n<pre>{}</pre>",
            escape(&file.path),
            numbered(&file.path, &file.text, rows)
        );
    }
    let air = print(program, PrintOptions { spans: false });
    let _ = writeln!(
        body,
        "<details><summary>αIR</summary><pre>{}</pre></details></section>",
        escape(&air)
    );
    PAGE.replace("@TITLE@", &format!("{} - Nicforge report", escape(&program.name)))
        .replace("@BODY@", &body)
}

/// All targets side by side.
fn comparison(rows: &[Row]) -> String {
    let mut text = "<h2>Targets</h2>\n<div class=\"scroll\"><table id=\"targets\"><thead><tr><th>target</th><th class=\"n\">stages</th><th class=\"n\">units</th><th class=\"n\">predicted Mpps</th><th class=\"n\">simulated</th><th class=\"n\">guaranteed</th><th class=\"n\">measured</th><th class=\"n\">Gbit/s</th><th></th><th class=\"n\">latency</th><th class=\"n\">nJ a packet</th><th>limited by</th></tr></thead><tbody>\n".to_string();
    let most = rows
        .iter()
        .filter_map(|r| r.plan.as_ref().ok())
        .map(|p| p.predicted.rate_pps)
        .fold(1.0, f64::max);
    for row in rows {
        let title = format!("<td><a href=\"#{0}\">{0}</a></td>", escape(&row.target.name));
        match &row.plan {
            Ok(plan) => {
                let p = &plan.predicted;
                let rates = rate_cells(row);
                let _ = writeln!(
                    text,
                    "<tr>{title}<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.2}</td>{rates}<td class=\"n\">{:.1}</td><td><div class=\"bar\"><span style=\"width:{:.0}%\"></span></div></td><td class=\"n\">{:.1} us</td><td class=\"n\">{:.0}</td><td class=\"limit\">{}</td></tr>",
                    plan.stages.len(),
                    plan.workers(),
                    p.rate_pps / 1e6,
                    p.bit_rate_bps / 1e9,
                    100.0 * p.rate_pps / most,
                    p.latency_ns / 1e3,
                    p.nj_per_packet,
                    escape(&p.limit)
                );
            }
            Err(why) => {
                let _ = writeln!(
                    text,
                    "<tr><td>{}</td><td colspan=\"11\">{}</td></tr>",
                    escape(&row.target.name),
                    escape(why)
                );
            }
        }
    }
    text + "</tbody></table></div>\n"
}

fn rate_cells(row: &Row) -> String {
    fn mpps(rate: &Option<Result<f64, String>>) -> Option<Result<String, &String>> {
        rate.as_ref().map(|rate| rate.as_ref().map(|pps| format!("{:.2}", pps / 1e6)))
    }
    let guaranteed = row.guaranteed.as_ref().map(|found| {
        found
            .as_ref()
            .map(|g| format!("{}{:.2}", if g.exact { "" } else { "≥ " }, g.one_flow / 1e6))
    });
    cell(mpps(&row.simulated)) + &cell(guaranteed) + &cell(mpps(&row.measured))
}

fn target_section(row: &Row, plan: &Plan) -> String {
    let target = &row.target;
    let mut text = format!(
        "<section id=\"{0}\"><h2>{1}</h2>\n<p class=\"lead\">{2:.2} Mpps of {3}-byte frames, limited by <span class=\"limit\">{4}</span>. {5} candidates were looked at.</p>\n",
        escape(&target.name),
        escape(&target.title),
        plan.predicted.rate_pps / 1e6,
        plan.frame_bytes,
        escape(&plan.predicted.limit),
        plan.search.len()
    );
    text.push_str(&rates_lines(row));
    let _ = writeln!(text, "<div class=\"scroll\">{}</div>", graph(plan));
    text.push_str("<div class=\"scroll\"><table><thead><tr><th>stage</th><th>units</th><th class=\"n\">cycles</th><th class=\"n\">wait ns</th><th class=\"n\">Mpps</th><th>replicas</th></tr></thead><tbody>\n");
    for stage in &plan.stages {
        let why = match &stage.replication {
            Replication::Free => "any number: it writes no table that must stay whole".to_string(),
            Replication::Sharded { by } => format!("any number, steered by {}", by.join(", ")),
            Replication::Locked { tables } => format!("share {} under locks", tables.join(", ")),
            Replication::Single { reason } => format!("one: {reason}"),
        };
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{} of {}</td><td class=\"n\">{:.0}</td><td class=\"n\">{:.0}</td><td class=\"n\">{:.2}</td><td>{}</td></tr>",
            escape(&stage.name),
            stage.replicas,
            escape(&stage.group),
            stage.cycles,
            stage.wait_ns,
            stage.rate_pps / 1e6,
            escape(&why)
        );
    }
    text.push_str("</tbody></table></div>\n");
    if !plan.tables.is_empty() {
        text.push_str("<div class=\"scroll\"><table><thead><tr><th>table</th><th class=\"n\">bytes</th><th>memory</th><th>why not elsewhere</th></tr></thead><tbody>\n");
        for table in &plan.tables {
            let others: Vec<String> =
                table.rejected.iter().map(|r| format!("{}: {}", r.memory, r.reason)).collect();
            let _ = writeln!(
                text,
                "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                escape(&table.name),
                table.bytes,
                escape(&table.memory),
                others.iter().map(|o| escape(o)).collect::<Vec<_>>().join("<br>")
            );
        }
        text.push_str("</tbody></table></div>\n");
    }
    // Without the places in the source, which are for machines.
    let planned = assemble::program_of(plan).map_or_else(
        |_| plan.air.clone(),
        |program| print(&program, PrintOptions { spans: false }),
    );
    let _ =
        write!(text, "<details><summary>Search</summary>{}</details>", search_tree(&plan.search));
    let _ = writeln!(
        text,
        "<details><summary>Planned program</summary><pre>{}</pre></details></section>",
        escape(&planned)
    );
    text
}

/// Rates of the simulator and the guarantee, in words.
fn rates_lines(row: &Row) -> String {
    let mut text = String::new();
    match &row.guaranteed {
        Some(Ok(g)) => {
            let _ = writeln!(
                text,
                "<p>Guaranteed: {}{:.2} Mpps if all packets are of one flow, {:.2} Mpps if keys spread evenly; <code>{}</code> decides. The source below marks the lines that the slowest stage's slowest packet runs through.</p>",
                if g.exact { "" } else { "at least " },
                g.one_flow / 1e6,
                g.spread / 1e6,
                escape(&g.limit)
            );
        }
        Some(Err(why)) => {
            let _ = writeln!(text, "<p>No guarantee: {}.</p>", escape(why));
        }
        None => {}
    }
    if let Some(Err(why)) = &row.simulated {
        let _ = writeln!(text, "<p>Not simulated: {}.</p>", escape(why));
    }
    if let Some(Err(why)) = &row.measured {
        let _ = writeln!(text, "<p>Not measured: {}.</p>", escape(why));
    }
    text
}

/// The candidates as an indented tree.
fn search_tree(steps: &[Step]) -> String {
    fn below(steps: &[Step], parent: Option<u32>, depth: usize, text: &mut String) {
        for step in steps.iter().filter(|step| step.parent == parent) {
            let replicas: Vec<String> = step.replicas.iter().map(u32::to_string).collect();
            let class = if step.chosen { " class=\"chosen\"" } else { "" };
            let _ = writeln!(
                text,
                "<tr{class}><td style=\"padding-left:{}rem\">{}</td><td class=\"n\">{:.2}</td><td>{}</td><td>{}</td><td class=\"limit\">{}</td></tr>",
                1.2 * depth as f64,
                step.iteration,
                step.rate_pps / 1e6,
                replicas.join("+"),
                escape(&step.action),
                escape(&step.limit)
            );
            below(steps, Some(step.iteration), depth + 1, text);
        }
    }
    let mut text = "<div class=\"scroll\"><table class=\"search\"><thead><tr><th>no</th><th class=\"n\">Mpps</th><th>replicas</th><th>what was done</th><th>limited by</th></tr></thead><tbody>\n".to_string();
    below(steps, None, 0, &mut text);
    text + "</tbody></table></div>"
}

/// Stages as boxes in event order, edges as curves above them.
fn graph(plan: &Plan) -> String {
    const WIDTH: usize = 230;
    const GAP: usize = 70;
    const TOP: usize = 70;
    let x = |n: usize| n * (WIDTH + GAP) + 40;
    let tallest = plan.stages.iter().map(|stage| stage.tables.len()).max().unwrap_or(0);
    let (width, height) = (x(plan.stages.len()), TOP + 70 + 16 * tallest + 20);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" aria-label=\"handler graph\"><defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8\"/></marker></defs>\n"
    );
    let at = |name: &String| plan.stages.iter().position(|stage| &stage.name == name);
    for edge in &plan.edges {
        let Some(to) = at(&edge.to) else { continue };
        let (end, y) = (x(to), TOP + 30);
        if edge.from.is_empty() {
            let _ = writeln!(
                svg,
                "<path d=\"M{} {y}H{end}\" marker-end=\"url(#tip)\"/>",
                end.saturating_sub(36)
            );
            continue;
        }
        for from in edge.from.iter().filter_map(&at) {
            let start = x(from) + WIDTH;
            let lift = if to > from + 1 { TOP - 20 * (to - from) } else { y };
            let middle = (start + end) / 2;
            let _ = writeln!(
                svg,
                "<path d=\"M{start} {y}C{} {lift} {} {lift} {end} {y}\" marker-end=\"url(#tip)\"/>",
                start + 30,
                end - 30
            );
            let _ = writeln!(
                svg,
                "<text class=\"soft\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{} B</text>",
                lift.min(y) - 8,
                edge.bytes
            );
        }
    }
    let slowest = plan.stages.iter().map(|stage| stage.rate_pps).fold(f64::INFINITY, f64::min);
    for (n, stage) in plan.stages.iter().enumerate() {
        let tall = 60 + 16 * stage.tables.len();
        let slow = if stage.rate_pps <= slowest * 1.001 { " class=\"slow\"" } else { "" };
        let _ = writeln!(
            svg,
            "<rect{slow} x=\"{}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{tall}\" rx=\"6\"/>",
            x(n)
        );
        let line = |row: usize| TOP + 20 + 17 * row;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            x(n) + 10,
            line(0),
            escape(&stage.name)
        );
        let detail = format!(
            "{} × {}, {:.0} cycles, {:.1} Mpps",
            stage.replicas,
            stage.group,
            stage.cycles,
            stage.rate_pps / 1e6
        );
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>",
            x(n) + 10,
            line(1),
            escape(&detail)
        );
        for (row, name) in stage.tables.iter().enumerate() {
            let memory =
                plan.tables.iter().find(|t| &t.name == name).map_or("", |t| t.memory.as_str());
            let _ = writeln!(
                svg,
                "<text class=\"soft\" x=\"{}\" y=\"{}\">{} in {}</text>",
                x(n) + 10,
                line(2 + row),
                escape(name),
                escape(memory)
            );
        }
    }
    svg + "</svg>"
}

/// Lines with their numbers; those that a target's slowest packet runs through are marked.
fn numbered(path: &str, text: &str, rows: &[Row]) -> String {
    let mut marks: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    // The bound names files without their folders.
    let name = path.rsplit('/').next().unwrap_or(path);
    for row in rows {
        let Some(Ok(guaranteed)) = &row.guaranteed else { continue };
        for place in guaranteed.lines.iter().filter(|place| place.file == name) {
            marks.entry(place.line).or_default().push(&row.target.name);
        }
    }
    let one = |(n, line): (usize, &str)| match marks.get(&(n as u32 + 1)) {
        None => format!("{:4}  {}\n", n + 1, escape(line)),
        Some(targets) => format!(
            "<span class=\"worst\" title=\"slowest packet on {}\">{:4}  {}</span>\n",
            escape(&targets.join(", ")),
            n + 1,
            escape(line)
        ),
    };
    text.lines().enumerate().map(one).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
