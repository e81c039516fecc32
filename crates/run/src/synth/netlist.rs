//! Counts the cells of a mapped netlist and finds its longest paths.
//!
//! The netlist is BLIF as yosys writes it: a cell is a line `.subckt KIND port=net port=net …`.
//! LUTs, inverters and carry cells are logic; every other cell ends paths (registers, memories,
//! multipliers). The level of a net is the greatest number of LUTs on a way to it from a register
//! or port; levels are settled in topological order, so the time is linear in the netlist. A carry
//! cell adds one to what comes from its sum inputs and nothing to what comes from the cell before
//! it: a chain is fast and counts once. An inverter adds nothing: it is part of the LUT before or
//! behind it, and yosys leaves it where it maps logic and chains one after the other.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{Area, SynthError};

/// The longest path into a group of registers: those of one instance, or of one step of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// Common part of the registers' names.
    pub group: String,
    pub levels: u32,
    /// Where the longest path begins and ends.
    pub from: String,
    pub to: String,
}

struct Cell<'a> {
    kind: &'a str,
    pins: Vec<(&'a str, &'a str)>,
}

impl Cell<'_> {
    fn is_logic(&self) -> bool {
        self.kind.starts_with("LUT")
            || self.kind == "INV"
            || self.kind == "CARRY4"
            || self.kind.starts_with("MUXF")
    }

    fn is_output(&self, pin: &str) -> bool {
        let base = pin.split('[').next().unwrap_or(pin);
        match self.kind {
            "CARRY4" => base == "O" || base == "CO",
            _ if self.is_logic() => base == "O",
            _ => false,
        }
    }

    /// LUT levels from a pin to the outputs.
    fn delay(&self, pin: &str) -> u32 {
        let free = self.kind == "INV" || self.kind.starts_with("MUXF");
        u32::from(!(free || self.kind == "CARRY4" && pin.starts_with("CI")))
    }
}

/// Counts and measures.
pub fn measure(text: &str) -> Result<Area, SynthError> {
    let cells = parse(text)?;
    let mut area = Area::default();
    for cell in &cells {
        count(&mut area, cell.kind);
    }
    (area.depth, area.depths) = depths(&cells);
    Ok(area)
}

/// Entry for fuzzing: any text is a netlist or refused with its line, and no way is longer than
/// there are cells.
pub fn fuzz(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(area) = measure(text) else { return };
    let cells = text.lines().filter(|line| line.starts_with(".subckt ")).count() as u64;
    assert!(area.luts + area.flip_flops <= cells && u64::from(area.depth) <= cells);
    assert_eq!(area.depth, area.depths.iter().map(|depth| depth.levels).max().unwrap_or(0));
}

fn parse(text: &str) -> Result<Vec<Cell<'_>>, SynthError> {
    let mut cells = Vec::new();
    let mut aliases = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| SynthError::Netlist { line: number + 1, what: what.into() };
        let Some(rest) = line.strip_prefix(".subckt ") else {
            if let Some(names) = line.strip_prefix(".names ") {
                let names: Vec<&str> = names.split_whitespace().collect();
                match names[..] {
                    [_] | [] => {}
                    [from, to] => drop(aliases.insert(to, from)),
                    _ => return Err(wrong("logic that is not mapped")),
                }
            }
            continue;
        };
        let mut words = rest.split_whitespace();
        let kind = words.next().ok_or_else(|| wrong("a cell without a kind"))?;
        let pins: Option<Vec<_>> = words.map(|word| word.split_once('=')).collect();
        cells.push(Cell { kind, pins: pins.ok_or_else(|| wrong("a pin without a net"))? });
    }
    for cell in &mut cells {
        for (_, net) in &mut cell.pins {
            *net = aliases.get(net).unwrap_or(net);
        }
    }
    Ok(cells)
}

fn count(area: &mut Area, kind: &str) {
    match kind {
        _ if kind.starts_with("LUT") || kind == "INV" => area.luts += 1,
        _ if kind.starts_with("FD") || kind.starts_with("LD") => area.flip_flops += 1,
        // A RAM32M16 or RAM64M8 is the eight LUTs of half a block; the small ones by their ports.
        "RAM32M16" | "RAM64M8" => area.lut_memory += 8,
        "RAM32M" | "RAM64M" => area.lut_memory += 4,
        _ if kind.starts_with("RAMB18") => area.half_brams += 1,
        _ if kind.starts_with("RAMB36") => area.half_brams += 2,
        _ if kind.starts_with("URAM") => area.urams += 1,
        _ if kind.starts_with("DSP") => area.dsps += 1,
        _ if kind.starts_with("RAM") => area.lut_memory += 2,
        _ => {}
    }
}

fn depths(cells: &[Cell<'_>]) -> (u32, Vec<Depth>) {
    let mut driver: HashMap<&str, usize> = HashMap::new();
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_logic()) {
        for (_, net) in cell.pins.iter().filter(|(pin, _)| cell.is_output(pin)) {
            driver.insert(net, at);
        }
    }
    // For each logic cell its level and the net the longest way comes from; in topological order,
    // cells before what they drive.
    let mut waiting: Vec<usize> = vec![0; cells.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); cells.len()];
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_logic()) {
        for (_, net) in cell.pins.iter().filter(|(pin, _)| !cell.is_output(pin)) {
            if let Some(&from) = driver.get(net) {
                waiting[at] += 1;
                readers[from].push(at);
            }
        }
    }
    let mut levels: Vec<(u32, &str)> = vec![(0, ""); cells.len()];
    let mut ready: Vec<usize> =
        (0..cells.len()).filter(|&at| cells[at].is_logic() && waiting[at] == 0).collect();
    while let Some(at) = ready.pop() {
        for (pin, net) in cells[at].pins.iter().filter(|(pin, _)| !cells[at].is_output(pin)) {
            let before = driver.get(net).map_or(0, |&from| levels[from].0);
            let level = before + cells[at].delay(pin);
            if level > levels[at].0 || levels[at].1.is_empty() {
                levels[at] = (level.max(levels[at].0), net);
            }
        }
        for &reader in &readers[at] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(reader);
            }
        }
    }
    let mut groups: BTreeMap<String, Depth> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| !cell.is_logic()) {
        let name = cell.pins.iter().find(|(pin, _)| *pin == "Q").map_or(cell.kind, |(_, net)| net);
        for (_, net) in &cell.pins {
            let Some(&at) = driver.get(net) else { continue };
            let group = group_of(name);
            let known = groups.get(&group).map_or(0, |depth| depth.levels);
            if levels[at].0 > known {
                let from = start(net, &driver, &levels);
                let depth = Depth {
                    group: group.clone(),
                    levels: levels[at].0,
                    from,
                    to: name.to_string(),
                };
                groups.insert(group, depth);
            }
        }
    }
    let mut depths: Vec<Depth> = groups.into_values().collect();
    depths.sort_by(|a, b| b.levels.cmp(&a.levels).then(a.group.cmp(&b.group)));
    (depths.first().map_or(0, |depth| depth.levels), depths)
}

/// Where the longest way to a net begins.
fn start<'a>(mut net: &'a str, driver: &HashMap<&str, usize>, levels: &[(u32, &'a str)]) -> String {
    while let Some(&at) = driver.get(net) {
        if levels[at].1.is_empty() {
            break;
        }
        net = levels[at].1;
    }
    net.to_string()
}

/// The instance of a register, and its step where the name begins with one, as in
/// `handlers.s3_sum`.
fn group_of(name: &str) -> String {
    let plain = name.split('[').next().unwrap_or(name);
    let (instance, register) = plain.rsplit_once('.').unwrap_or(("top", plain));
    let step = register.split_once('_').map_or("", |(step, _)| step);
    let numbered = step.len() > 1
        && step.starts_with(|c: char| c.is_ascii_lowercase())
        && step[1..].chars().all(|c| c.is_ascii_digit());
    if numbered { format!("{instance}.{step}") } else { instance.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// a -> LUT -> LUT -> register q of stage 3; b -> carry chain of two -> register of the top.
    const SMALL: &str = "\
.model nf_top
.inputs a b
.outputs q
.names $false
.subckt LUT2 I0=a I1=b O=n1
.names n1 other
1 1
.subckt LUT1 I0=other O=n2
.subckt FDRE C=clk CE=$true D=n2 Q=handlers.s3_sum[0] R=$false
.subckt CARRY4 CI=$false S[0]=n1 DI[0]=a O[0]=c1 CO[3]=k1
.subckt CARRY4 CI=k1 S[0]=a DI[0]=a O[0]=c2 CO[3]=k2
.subckt FDRE C=clk CE=$true D=c2 Q=total[4] R=$false
.subckt RAMB36E2 ADDR[0]=n2 DOUT[0]=x
.subckt RAMB18E2 ADDR[0]=a
.subckt RAM32M16 DOA[0]=y
.subckt DSP48E2 A[0]=a P[0]=p
.end
";

    #[test]
    fn cells_are_counted() {
        let area = measure(SMALL).unwrap();
        assert_eq!((area.luts, area.flip_flops, area.half_brams), (2, 2, 3));
        assert_eq!((area.lut_memory, area.dsps, area.urams), (8, 1, 0));
    }

    #[test]
    fn depth_is_that_of_the_longest_path_and_a_carry_chain_counts_once() {
        let area = measure(SMALL).unwrap();
        assert_eq!(area.depth, 2);
        let found: Vec<_> = area
            .depths
            .iter()
            .map(|d| (d.group.as_str(), d.levels, d.from.as_str(), d.to.as_str()))
            .collect();
        assert!(found.contains(&("handlers.s3", 2, "a", "handlers.s3_sum[0]")), "{found:?}");
        // LUT n1, then the chain: k1 and c2 add nothing to the chain's one.
        assert!(found.contains(&("top", 2, "a", "total[4]")), "{found:?}");
    }

    #[test]
    fn logic_that_is_not_mapped_is_refused() {
        let text = ".names a b c\n11 1\n";
        assert!(matches!(measure(text), Err(SynthError::Netlist { line: 1, .. })));
        assert!(measure(".subckt LUT1 I0\n").is_err());
    }
}
