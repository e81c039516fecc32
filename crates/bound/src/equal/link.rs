//! Two programs with one list of maps: maps of one name are one map.

use nicforge_isa::ebpf::LDDW;
use nicforge_isa::object::{Map, PSEUDO_MAP, PSEUDO_VALUE, map_type_name};

use super::reference::Reference;
use super::side::Side;
use super::world::{Ended, World};

/// Two programs that name the same maps.
#[derive(Clone, Debug)]
pub struct Pair {
    pub maps: Vec<Map>,
    /// By map: both objects have it, so what it holds afterwards is compared. What one alone has is
    /// taken to hold anything at first, so nothing that it holds can matter later.
    pub compared: Vec<bool>,
    /// Maps that the old program names and its object alone has, and those of the new one.
    pub alone: [Vec<usize>; 2],
    /// The new one was made of the old one's lifted program or αIR, in which all verdicts that
    /// drop a packet are one. Messages of lifted programs go another way and are not compared.
    pub lifted: bool,
    /// An αIR program that stands in the old one's place.
    pub reference: Option<Reference>,
    pub old: Side,
    pub new: Side,
}

impl Pair {
    /// An αIR program and an object that was made of it: what tables hold is compared.
    pub fn made_of(reference: Reference, new: Side) -> Pair {
        let mut compared = vec![false; new.maps.len()];
        reference.kernel.tables.values().for_each(|table| compared[table.map] = true);
        Pair {
            maps: new.maps.clone(),
            compared,
            alone: Default::default(),
            lifted: true,
            reference: Some(reference),
            old: new.clone(),
            new,
        }
    }

    /// What the two are called.
    pub fn sides(&self) -> [&'static str; 2] {
        if self.reference.is_some() { ["program", "object"] } else { ["old", "new"] }
    }

    /// Runs the old program in a world; `None` if it gives something else where memory is
    /// elsewhere.
    ///
    /// # Errors
    /// What the interpreter cannot do.
    pub fn run_old(&self, world: &World) -> Result<Option<Ended>, String> {
        match &self.reference {
            Some(reference) => reference.run(world).map(Some),
            None => world.run_anywhere(&self.old).map_err(|fault| fault.to_string()),
        }
    }

    /// Runs the new program in a world; as [`Pair::run_old`].
    ///
    /// # Errors
    /// What the interpreter cannot do.
    pub fn run_new(&self, world: &World) -> Result<Option<Ended>, String> {
        let ended = world.run_anywhere(&self.new).map_err(|fault| fault.to_string())?;
        Ok(match &self.reference {
            Some(reference) => ended.map(|ended| reference.as_told(&ended, world)),
            None => ended,
        })
    }

    /// The first difference of two results, in words: of the old one and of the new one.
    pub fn difference(&self, old: &Ended, new: &Ended) -> Option<(String, String)> {
        let seen = |ended: &Ended| {
            let mut ended = ended.clone();
            ended.entries.retain(|(map, _), _| self.compared[*map]);
            if self.lifted {
                ended.verdict = dropped(ended.verdict);
                if self.reference.is_none() {
                    ended.messages.clear();
                }
                if ended.verdict == 1 {
                    ended.packet = None;
                }
            }
            ended
        };
        seen(old).difference(&seen(new), &self.maps)
    }
}

/// A verdict, with one for all that drop the packet.
pub fn dropped(verdict: u32) -> u32 {
    // `XDP_DROP`; 2 to 4 are verdicts by which packets go on.
    if (2..=4).contains(&verdict) { verdict } else { 1 }
}

/// Joins two programs.
///
/// # Errors
/// A map of one name that is not the same map in both: nothing can then be said of what it holds.
pub fn link(old: Side, new: Side) -> Result<Pair, String> {
    let mut maps = old.maps.clone();
    let (used_before, used) = (used(&old), used(&new));
    let mut place = Vec::new();
    for (index, map) in new.maps.iter().enumerate() {
        let known = maps.iter().position(|known| known.name == map.name);
        place.push(match known {
            Some(at) if maps[at] == *map => at,
            Some(at) if !used[index] || !used_before.get(at).is_some_and(|used| *used) => {
                if used[index] {
                    maps[at] = map.clone();
                }
                at
            }
            Some(at) if map.constant && maps[at].constant => {
                // Constants are part of their program.
                maps.push(map.clone());
                maps.len() - 1
            }
            Some(at) => return Err(differ(&maps[at], map)),
            None => {
                maps.push(map.clone());
                maps.len() - 1
            }
        });
    }
    let mut compared = vec![false; maps.len()];
    for at in place.iter().filter(|at| **at < old.maps.len()) {
        compared[*at] = true;
    }
    let own = |at: &usize| !compared[*at] && !maps[*at].constant;
    let before = (0..old.maps.len()).filter(|at| used_before[*at]).filter(own).collect();
    let after = place.iter().zip(&used).filter(|(_, used)| **used).map(|(at, _)| *at);
    let alone = [before, after.filter(own).collect()];
    let mut new = new;
    for insn in &mut new.program.insns {
        if insn.code == LDDW && matches!(insn.src, PSEUDO_MAP | PSEUDO_VALUE) {
            let at = usize::try_from(insn.imm).ok().and_then(|map| place.get(map));
            insn.imm = at.map_or(-1, |at| *at as i32);
        }
    }
    new.tails = new.tails.into_iter().map(|(map, slots)| (place[map], slots)).collect();
    let (mut old, mut new) = (old, new);
    (old.maps, new.maps) = (maps.clone(), maps.clone());
    Ok(Pair { maps, compared, alone, lifted: false, reference: None, old, new })
}

/// The maps that a program names.
fn used(side: &Side) -> Vec<bool> {
    let mut used = vec![false; side.maps.len()];
    for insn in &side.program.insns {
        if insn.code == LDDW
            && matches!(insn.src, PSEUDO_MAP | PSEUDO_VALUE)
            && let Some(used) = usize::try_from(insn.imm).ok().and_then(|map| used.get_mut(map))
        {
            *used = true;
        }
    }
    used
}

fn differ(old: &Map, new: &Map) -> String {
    let what = |map: &Map| match map.kind {
        Some(kind) => format!(
            "{}, keys of {} bytes, values of {}, {} entries",
            map_type_name(kind),
            map.key_size,
            map.value_size,
            map.max_entries
        ),
        None => format!("{} bytes of variables", map.data.len()),
    };
    if what(old) == what(new) {
        return format!("map `{}` does not begin as the same in both", old.name);
    }
    format!("map `{}` is not the same in both: {}; {}", old.name, what(old), what(new))
}
