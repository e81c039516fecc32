//! `nicforge trace`: what one packet does in a program, on source lines.

use nicforge_driver::compare::describe;
use nicforge_driver::{Failure, Runtime, events, program};
use nicforge_ir::interp::{Access, BodyOf, Interp, Shapes, Step, Tracer, Val};
use nicforge_ir::{Body, FileId, InstId, Op, Output, Program, Span, json};

use crate::args::Trace;

/// Runs the events before the chosen one silently, then shows that one.
pub fn run(args: Trace) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    let loaded = program::load(&args.source, &runtime)?;
    let events = events::captures(&args.inputs, &loaded.program, &loaded.path)?;
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    if args.packet == 0 || args.packet > events.len() {
        return Err(Failure::usage(format!(
            "--packet {}: the events are numbered 1 to {}",
            args.packet,
            events.len()
        )));
    }
    let mut interp = Interp::new(&loaded.program);
    events::fill(&mut interp, &entries)?;
    for (i, event) in events[..args.packet - 1].iter().enumerate() {
        interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
    }
    let mut printer =
        Printer { program: &loaded.program, shapes: Shapes::new(&loaded.program), last: None };
    let event = &events[args.packet - 1];
    outln!("event {} at {} ns", args.packet, event.time_ns);
    interp.run_traced(event, &mut printer).map_err(|e| Failure::user(e.to_string()))?;
    Ok(())
}

struct Printer<'a> {
    program: &'a Program,
    shapes: Shapes,
    /// File and line printed last.
    last: Option<(u32, u32)>,
}

impl Printer<'_> {
    fn body(&self, of: BodyOf) -> &Body {
        match of {
            BodyOf::Handler(id) => &self.program.handlers[id].body,
            BodyOf::Func(id) => &self.program.funcs[id].body,
        }
    }

    /// Prints the source line of a span, once in a row.
    fn line(&mut self, span: Span) {
        let Some(file) = span.file else { return };
        let source = &self.program.files[file];
        let (line, _) = span.line_col(&source.text);
        if self.last == Some((file.as_u32(), line)) {
            return;
        }
        self.last = Some((file.as_u32(), line));
        let text = source.text.lines().nth(line as usize - 1).unwrap_or("").trim();
        let name = source.path.rsplit('/').next().unwrap_or(&source.path);
        outln!("{name}:{line}: {text}");
    }

    fn show(&self, step: &Step, result: usize) -> String {
        let body = self.body(step.body);
        let id = step.inst.results[result];
        let value = &body.values[id];
        let name = value.name.clone().unwrap_or_else(|| format!("{id}"));
        format!(
            "{name} = {}",
            json::val(self.program, &self.shapes, value.ty, &step.results[result])
        )
    }
}

impl Tracer for Printer<'_> {
    fn op(&mut self, step: &Step) {
        // What the helpers of nicforge.h do inside shows in their results.
        let own = step.inst.span.file.is_none_or(|file| {
            self.program.files[file].path == self.program.files[FileId::from_u32(0)].path
        });
        if !own {
            return;
        }
        self.line(step.inst.span);
        let quiet = matches!(
            step.inst.op,
            Op::Int(_)
                | Op::Zero
                | Op::Yield(_)
                | Op::Break { .. }
                | Op::Continue { .. }
                | Op::If { .. }
                | Op::Loop { .. }
        );
        if quiet || step.results.is_empty() {
            return;
        }
        let shown: Vec<String> = (0..step.results.len()).map(|i| self.show(step, i)).collect();
        outln!("        {}", shown.join(", "));
    }

    fn branch(&mut self, _: BodyOf, _: InstId, taken: bool) {
        outln!("        branch: {}", if taken { "then" } else { "else" });
    }

    fn trip(&mut self, _: BodyOf, _: InstId, trip: u32) {
        outln!("        trip {}", trip + 1);
    }

    fn table(&mut self, access: &Access) {
        let table = &self.program.tables[access.table];
        let what = if access.writes { "writes" } else { "reads" };
        let hit = if access.hit { "hit" } else { "miss" };
        let key = json::key_value(self.program, access.table, access.key);
        outln!("        {what} {}[{key}]: {hit}", table.name);
    }

    fn output(&mut self, output: &Output) {
        outln!("        => {}", describe(self.program, output));
    }

    fn handler(&mut self, handler: nicforge_ir::HandlerId, _: &[Val]) {
        outln!("handler {}", self.program.handlers[handler].name);
    }
}
