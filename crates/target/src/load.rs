//! Reading spec files, and what their parts must say about one another.

use std::path::Path;

use include_dir::{Dir, include_dir};
use toml::Spanned;

use crate::spec::{Device, Feature, Generator, Scope, Target, UnitGroup};
use crate::spin::Spin;

/// The specs that come with Nicforge.
static BUILTIN: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../targets");

/// Why a spec was refused: the file, the line where there is one, the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {reason}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct SpecError {
    pub file: String,
    pub line: Option<usize>,
    pub reason: String,
}

/// Names of the built-in specs, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        BUILTIN.files().filter_map(|file| file.path().file_stem()?.to_str()).collect();
    names.sort_unstable();
    names
}

/// A built-in spec by name, or a spec file by path (what ends in `.toml` or has a folder in it).
pub fn find(name: &str) -> Result<Target, SpecError> {
    if name.ends_with(".toml") || name.contains('/') {
        let content = std::fs::read_to_string(Path::new(name)).map_err(|e| SpecError {
            file: name.to_string(),
            line: None,
            reason: e.to_string(),
        })?;
        let mut target = parse(name, &content)?;
        if let Some(board) = target.toolchain.as_mut().and_then(|made| made.board.as_mut()) {
            let beside = Path::new(name).parent().unwrap_or(Path::new("")).join(&*board);
            *board = std::fs::canonicalize(&beside).map_err(|e| SpecError {
                file: name.to_string(),
                line: line_with(&content, "board"),
                reason: format!("board: {}: {e}", beside.display()),
            })?;
        }
        return Ok(target);
    }
    match BUILTIN.get_file(format!("{name}.toml")).and_then(|file| file.contents_utf8()) {
        Some(content) => parse(&format!("targets/{name}.toml"), content),
        None => Err(SpecError {
            file: name.to_string(),
            line: None,
            reason: format!(
                "there is no such target; there are {} (or give a .toml file)",
                names().join(", ")
            ),
        }),
    }
}

/// The text of a built-in spec, comments included.
pub fn source(name: &str) -> Option<&'static str> {
    BUILTIN.get_file(format!("{name}.toml"))?.contents_utf8()
}

/// What helps against a key that is wrong or missing.
const REMEDY: &str = "docs/targets.md says what belongs there, and `nicforge targets show NAME` prints a complete spec";

/// Reads and checks a spec.
pub fn parse(file: &str, content: &str) -> Result<Target, SpecError> {
    let target: Spanned<Target> = toml::from_str(content).map_err(|e| SpecError {
        file: file.to_string(),
        line: e.span().map(|span| line_of(content, span.start)),
        reason: format!("{}; {REMEDY}", e.message().trim_end()),
    })?;
    let mut target = target.into_inner();
    if target.toolchain.is_some() {
        // They are compiled for this machine, and its images may be for another.
        let features = target.units.iter_mut().map(|group| &mut group.features);
        features.for_each(|list| list.retain(|feature| *feature != Feature::CFunctions));
        target.features.retain(|feature| *feature != Feature::CFunctions);
    }
    match check(&target) {
        Ok(()) => Ok(target),
        Err(Complaint { near, reason }) => {
            // The first line that has the word; specs name things once before they refer to them.
            let line = line_with(content, &near);
            Err(SpecError { file: file.to_string(), line, reason })
        }
    }
}

/// The first line that has a word, from 1.
fn line_with(content: &str, word: &str) -> Option<usize> {
    content.lines().position(|line| !word.is_empty() && line.contains(word)).map(|line| line + 1)
}

fn line_of(content: &str, offset: usize) -> usize {
    content[..offset.min(content.len())].matches('\n').count() + 1
}

struct Complaint {
    near: String,
    reason: String,
}

fn complaint<T>(near: &str, reason: String) -> Result<T, Complaint> {
    Err(Complaint { near: format!("\"{near}\""), reason })
}

/// Refuses units whose code cannot be in one build with that of the first ones.
fn check_generator(first: &UnitGroup, group: &UnitGroup) -> Result<(), Complaint> {
    let own = first.codegen;
    let beside = first.device == Device::Nic && group.device == Device::Host;
    let takes = if beside { own.beside() } else { std::slice::from_ref(&own) };
    if takes.contains(&group.codegen) {
        return Ok(());
    }
    let word = group.codegen.word();
    let place = match group.device {
        Device::Nic => "on the NIC",
        Device::Host => "on the host",
    };
    let takes: Vec<&str> = takes.iter().map(|one| one.word()).collect();
    let remedy = match takes[..] {
        [] => "leave these units out".to_string(),
        ref words => format!("write {}", words.join(" or ")),
    };
    let reason = format!(
        "units `{}`: no build has code of {word} {place} beside that of {}, which the first units \
         have; {remedy}",
        group.name,
        own.word()
    );
    complaint(&group.name, reason)
}

fn check(target: &Target) -> Result<(), Complaint> {
    if target.units.is_empty() {
        return Err(Complaint {
            near: String::new(),
            reason: "a target needs at least one [[units]]".into(),
        });
    }
    unique("units", target.units.iter().map(|group| group.name.as_str()))?;
    unique("memories", target.memories.iter().map(|memory| memory.name.as_str()))?;
    if target.toolchain.is_some() && target.units[0].codegen != Generator::Threads {
        let word = target.units[0].codegen.word();
        let reason = format!(
            "[toolchain] is for codegen threads, and the first units have {word}; leave it out, or change codegen"
        );
        return Err(Complaint { near: "[toolchain]".into(), reason });
    }
    if let Some(bpf) = &target.bpf {
        if target.units[0].codegen != Generator::Xdp {
            let word = target.units[0].codegen.word();
            let reason =
                format!("[bpf] is for codegen xdp, and the first units have {word}; leave it out");
            return Err(Complaint { near: "[bpf]".into(), reason });
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(bpf.width) || !positive(bpf.window) || !positive(bpf.load) {
            let reason = "[bpf]: width, window and load must be more than 0".to_string();
            return Err(Complaint { near: "[bpf]".into(), reason });
        }
    }
    for group in &target.units {
        check_generator(&target.units[0], group)?;
        let name = &group.name;
        if !target.costs.contains_key(&group.costs) {
            let reason = format!(
                "units `{name}` take their costs from `{}`, but there is no [costs.{0}]",
                group.costs
            );
            return complaint(&group.costs, reason);
        }
        if group.count == 0 || group.threads == 0 || group.clock.value <= 0.0 {
            return complaint(
                name,
                format!("units `{name}`: count, threads and clock must be more than 0"),
            );
        }
        if let Some(cpu) = &group.cpu {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if group.codegen != Generator::Dpdk {
                let reason = format!(
                    "units `{name}`: cpu is for codegen dpdk, not for {}; leave it out",
                    group.codegen.word()
                );
                return complaint(cpu, reason);
            }
            if cpu.is_empty() || cpu.starts_with('-') || !cpu.chars().all(plain) {
                let reason = format!(
                    "units `{name}`: cpu is a compiler's name of Arm cores, as \"cortex-a72\""
                );
                return complaint(cpu, reason);
            }
        }
        if group.per_island.is_some_and(|per| per == 0 || !group.count.is_multiple_of(per)) {
            return complaint(
                name,
                format!("units `{name}`: per_island must divide count, {}", group.count),
            );
        }
    }
    for memory in &target.memories {
        let name = &memory.name;
        if memory.access.is_empty() {
            return complaint(name, format!("memory `{name}` has no access latencies"));
        }
        if !memory.access.is_sorted_by(|a, b| a.bytes < b.bytes) || memory.access[0].bytes == 0 {
            return complaint(
                name,
                format!("memory `{name}`: accesses must be listed by growing size, from 1 byte on"),
            );
        }
        if memory.size.value < 1.0 {
            return complaint(name, format!("memory `{name}` has no size"));
        }
        if memory.search_reads > 0 && !memory.blocking {
            return complaint(
                name,
                format!(
                    "memory `{name}`: search_reads count where units wait: add blocking = true"
                ),
            );
        }
        if memory.operations.is_some() != memory.operation_bytes.is_some()
            || memory.operation_bytes == Some(0)
        {
            return complaint(
                name,
                format!("memory `{name}`: operations and operation_bytes belong together"),
            );
        }
    }
    for link in &target.links {
        for end in [&link.from, &link.to] {
            if !target.units.iter().any(|group| &group.name == end) {
                return complaint(
                    end,
                    format!("a link refers to units `{end}`, which do not exist"),
                );
            }
        }
        if link.depth == 0 {
            return complaint(
                &link.from,
                format!("the link from `{}` to `{}` has a queue of depth 0", link.from, link.to),
            );
        }
    }
    unique(
        "accelerators",
        target.accelerators.iter().map(|accelerator| accelerator.name.as_str()),
    )?;
    for accelerator in &target.accelerators {
        let name = &accelerator.name;
        if let Some(unit) =
            accelerator.units.iter().find(|unit| target.units.iter().all(|g| &g.name != *unit))
        {
            return complaint(
                unit,
                format!("accelerator `{name}` is reached by units `{unit}`, which do not exist"),
            );
        }
        let rates = [accelerator.operations.value, accelerator.throughput.value];
        if accelerator.count == 0 || accelerator.queue == 0 || rates.iter().any(|rate| *rate <= 0.0)
        {
            return complaint(
                name,
                format!("accelerator `{name}`: count, queue and rates must be more than 0"),
            );
        }
    }
    if target.ports.count == 0
        || target.ports.rate.value <= 0.0
        || target.ports.min_frame > target.ports.mtu
    {
        return complaint(
            &target.name,
            "ports need a count and a rate, and min_frame may not exceed mtu".to_string(),
        );
    }
    if let Some(spin) = &target.spin {
        return check_spin(target, spin);
    }
    Ok(())
}

fn check_spin(target: &Target, spin: &Spin) -> Result<(), Complaint> {
    let fail =
        |reason: &str| Err(Complaint { near: "[spin]".to_string(), reason: reason.to_string() });
    let counts = [spin.queues, spin.cluster_tasks, spin.beat_bytes, spin.commands];
    if counts.contains(&0) {
        return fail("[spin]: queues, cluster_tasks, beat_bytes and commands must be more than 0");
    }
    if spin.cache.value < 64.0 {
        return fail("[spin]: the cache must hold four lines of 16 bytes");
    }
    if spin.handler_data.value > spin.handler_memory.value {
        return fail("[spin]: handler_data is a part of handler_memory and cannot be larger");
    }
    let units = &target.units[0];
    if units.per_island.unwrap_or(units.count) > 8 {
        return fail("[spin]: a cluster has 8 units at most (`per_island` of the first units)");
    }
    if units.count / units.per_island.unwrap_or(units.count).max(1) > 8 {
        return fail(
            "[spin]: there are 8 clusters at most (`count` by `per_island` of the first units)",
        );
    }
    // Addresses: each memory has a window of this many bytes.
    let windows = [(spin.l1, "l1", 1 << 20), (spin.program_memory, "program_memory", 1 << 20)];
    for (size, name, most) in windows {
        if size.value > f64::from(most) {
            return fail(&format!(
                "[spin]: {name} is at most {} KiB, its window of addresses",
                most >> 10
            ));
        }
    }
    if spin.handler_memory.value + spin.packet_memory.value > f64::from(16 << 20) {
        return fail(
            "[spin]: handler_memory and packet_memory are at most 16 MiB together, their window of \
             addresses",
        );
    }
    if spin.l1.value < f64::from(SPIN_RUNTIME) {
        return fail(&format!(
            "[spin]: l1 is at least {} KiB, for the runtime and packets",
            SPIN_RUNTIME >> 10
        ));
    }
    if target.memories.iter().all(|memory| memory.scope != Scope::Device) {
        return fail(
            "[spin]: the latency of handler memory is that of the memory with scope `device`; there is none",
        );
    }
    Ok(())
}

/// Bytes of a cluster's memory before the scratchpads.
const SPIN_RUNTIME: u32 = 0x14400;

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Complaint> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return complaint(name, format!("two {what} are called `{name}`"));
        }
        seen.push(name);
    }
    Ok(())
}

/// Fuzz entry: any bytes end with a spec or an error.
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = parse("fuzz", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_spec_is_good_and_has_its_files_name() {
        assert_eq!(names().len(), 10);
        for name in names() {
            let target = find(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(target.name, name);
        }
    }

    #[test]
    fn every_block_of_numbers_names_a_source() {
        for name in names() {
            let text = source(name).unwrap();
            assert!(text.contains("# Sources."), "{name} does not say where its numbers come from");
            // Blocks are separated by empty lines; one with numbers has a comment in it.
            for block in text.split("\n\n") {
                let numbers = block.lines().any(|line| {
                    !line.starts_with('#') && line.contains(|c: char| c.is_ascii_digit())
                });
                let policy = block.starts_with("[ports]") || block.starts_with("[spread]");
                assert!(
                    !numbers || policy || block.contains('#'),
                    "{name}: numbers without a source:\n{block}"
                );
            }
        }
    }

    fn error(change: impl Fn(&str) -> String) -> String {
        parse("spec.toml", &change(source("panic").unwrap())).unwrap_err().to_string()
    }

    /// Where `panic`'s spec has a text.
    fn at(text: &str) -> String {
        let before = source("panic").unwrap().split(text).next().unwrap();
        format!("spec.toml:{}", before.lines().count() + usize::from(before.ends_with('\n')))
    }

    #[test]
    fn images_for_other_machines_call_no_c_of_this_one() {
        let spec = include_str!("../../../examples/targets/rv64-soc/rv64-soc.toml");
        let spec = spec.replacen("features = [", "features = [\"c-functions\", ", 1);
        let target = parse("spec.toml", &spec).unwrap();
        assert!(!target.features.contains(&Feature::CFunctions));
    }

    #[test]
    fn a_cpu_is_a_compilers_name_and_no_option() {
        let with = |cpu: &str| {
            let text =
                source("bluefield2").unwrap().replace("\"cortex-a72\"", &format!("\"{cpu}\""));
            parse("spec.toml", &text)
        };
        with("cortex-a78").unwrap();
        for cpu in ["", "-a", "a72 -o x", "../a"] {
            assert!(
                with(cpu).unwrap_err().reason.contains("a compiler's name of Arm cores"),
                "{cpu}"
            );
        }
    }

    #[test]
    fn prices_of_executed_code_are_for_a_kernel_and_make_sense() {
        let text = source("xdp").unwrap();
        let bpf = text.split("[bpf]").nth(1).unwrap();
        let zero = |name: &str| {
            let line = bpf.lines().find(|line| line.starts_with(name)).unwrap();
            parse("spec.toml", &text.replace(line, &format!("{name} = 0.0"))).unwrap_err()
        };
        for name in ["width", "window", "load"] {
            assert!(zero(name).reason.contains("must be more than 0"), "{name}");
        }
        let elsewhere = error(|text| format!("{text}\n[bpf]{bpf}"));
        assert!(elsewhere.contains("[bpf] is for codegen xdp"), "{elsewhere}");
    }

    #[test]
    fn mistakes_are_refused_with_file_line_and_reason() {
        let unknown = error(|text| text.replace("count = 32 ", "cuont = 32 "));
        assert!(
            unknown.starts_with(&format!(
                "{}: unknown field `cuont`, expected one of",
                at("count = 32 ")
            )),
            "{unknown}"
        );
        let unit = error(|text| text.replace("clock = \"250 MHz\"", "clock = \"250 KiB\""));
        let clock = at("clock = \"250 MHz\"");
        assert!(unit.starts_with(&format!("{clock}: `250 KiB` is not a frequency")), "{unit}");
        let link = error(|text| text.replace("to = \"core\"", "to = \"cores\""));
        let to = at("to = \"core\"");
        assert!(link.starts_with(&format!("{to}: a link refers to units `cores`")), "{link}");
        let capacity = error(|text| text.replace("size = \"224 KiB\"", "size = \"0 B\""));
        assert!(capacity.contains("memory `local` has no size"), "{capacity}");
        let costs = error(|text| text.replace("costs = \"rv32\"", "costs = \"rv64\""));
        assert!(costs.contains("there is no [costs.rv64]"), "{costs}");
        let word = error(|text| text.replace("codegen = \"riscv\"", "codegen = \"risc\""));
        assert!(
            word.starts_with(&format!(
                "{}: unknown variant `risc`, expected one of `xdp`",
                at("codegen = \"riscv\"")
            )),
            "{word}"
        );
        assert!(word.ends_with("prints a complete spec"), "{word}");
        let units = |codegen: &str, device: &str| {
            let group = format!(
                "[[units]]\nname = \"other\"\ncodegen = \"{codegen}\"\ndevice = \"{device}\"\n\
                 count = 1\nclock = \"1 GHz\"\ncosts = \"rv32\"\nactive_power = \"1 W\"\n\
                 idle_power = \"1 W\"\n\n[[memories]]"
            );
            error(|text| text.replacen("[[memories]]", &group, 1))
        };
        let mixed = units("dpdk", "host");
        assert!(mixed.contains("dpdk on the host beside that of riscv"), "{mixed}");
        assert!(mixed.contains("; leave these units out"), "{mixed}");
        let mixed = units("rtl", "nic");
        assert!(mixed.contains("rtl on the NIC beside that of riscv"), "{mixed}");
        assert!(mixed.contains("; write riscv"), "{mixed}");
        let waits = error(|text| text.replace("blocking = true\n", ""));
        assert!(waits.contains("search_reads count where units wait"), "{waits}");
        let cpu =
            error(|text| text.replace("costs = \"rv32\"", "costs = \"rv32\"\ncpu = \"rv32\""));
        assert!(cpu.contains("cpu is for codegen dpdk, not for riscv; leave it out"), "{cpu}");
    }

    #[test]
    fn memories_behind_one_another_share_a_window() {
        let pspin = source("pspin").unwrap();
        let with = |handlers: &str, packets: &str| {
            let text = pspin.replace("handler_memory = \"4 MiB\"", handlers);
            parse("spec.toml", &text.replace("packet_memory = \"4 MiB\"", packets))
        };
        assert!(with("handler_memory = \"14 MiB\"", "packet_memory = \"2 MiB\"").is_ok());
        let error = with("handler_memory = \"14 MiB\"", "packet_memory = \"3 MiB\"").unwrap_err();
        assert!(error.to_string().contains("at most 16 MiB together"), "{error}");
    }
}
