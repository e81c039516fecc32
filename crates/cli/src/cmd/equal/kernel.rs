//! The packet that tells two programs apart, in the kernel's test run.

use nicforge_bound::equal::{self, Example, Pair};
use nicforge_isa::ebpf::helper_name;
use nicforge_run::xdp::{LARGEST_TEST_FRAME, Original, SMALLEST_FRAME};

use super::version::Version;

/// Answers of the kernel about the packet.
pub enum Checked {
    /// Both programs ran there, and give different results.
    Differ,
    /// They give the same.
    Same,
    /// It was not asked, and why.
    Not(String),
}

/// Runs both programs in the kernel on the packet that was found.
pub fn check(example: &Example, pair: &Pair, old: &Version, new: &Version) -> Checked {
    if let Some(reason) = beyond(example) {
        return Checked::Not(reason);
    }
    let run = |version: &Version| -> Result<_, String> {
        let loaded = version.load().map_err(|e| e.to_string())?;
        for ((map, key), value) in &example.world.entries {
            let shape = &pair.maps[*map];
            // Both have their own constants, and maps that the other alone has are not here.
            let known = version.side.maps.iter().any(|known| known.name == shape.name);
            if !shape.constant && known {
                loaded.set(&shape.name, key, value).map_err(|e| e.to_string())?;
            }
        }
        let ran = loaded.run(&example.world.packet).map_err(|e| e.to_string())?;
        let ran = ran.ok_or("the kernel does not take the packet")?;
        let verdict = if pair.lifted { equal::dropped(ran.verdict) } else { ran.verdict };
        let packet = (verdict > 1).then_some(ran.frame);
        Ok((verdict, packet, contents(&loaded, pair, version)?))
    };
    match (run(old), run(new)) {
        (Ok(a), Ok(b)) if a != b => Checked::Differ,
        (Ok(_), Ok(_)) => Checked::Same,
        (Err(reason), _) | (_, Err(reason)) => {
            Checked::Not(reason.lines().next().unwrap_or_default().to_string())
        }
    }
}

/// Frames that the kernel's test run cannot be given, or does not show.
fn beyond(example: &Example) -> Option<String> {
    let (old, new) = (&example.old, &example.new);
    let length = example.world.packet.len();
    if !(SMALLEST_FRAME..=LARGEST_TEST_FRAME).contains(&length) {
        return Some(format!("its test run takes no frames of {length} bytes"));
    }
    if let Some((helper, _)) = old.told.iter().chain(&new.told).next() {
        let name = if *helper < 0 { "a full map".to_string() } else { helper_name(*helper) };
        return Some(format!("its test run cannot be told what {name} gives"));
    }
    if example.world.context.values().any(|word| *word != 0) {
        return Some("its test run knows one interface".to_string());
    }
    if example.world.around.values().any(|byte| *byte != 0) {
        return Some("its test run has zeroes around the packet".to_string());
    }
    let shown =
        (old.verdict, &old.packet, &old.entries) != (new.verdict, &new.packet, &new.entries);
    (!shown || old.called.is_some() || new.called.is_some())
        .then(|| "its test run does not show where packets and messages go".to_string())
}

type Contents = Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>;

/// Contents of the maps that both name.
fn contents(loaded: &Original, pair: &Pair, version: &Version) -> Result<Contents, String> {
    let mut found = Contents::new();
    let both = |name: &str| {
        let other =
            |side: &equal::Side| side.maps.iter().any(|map| map.name == name && map.kind.is_some());
        other(&pair.old) && other(&pair.new) && version.side.maps.iter().any(|m| m.name == name)
    };
    for map in pair.maps.iter().filter(|map| both(&map.name) && map.max_entries <= 1 << 16) {
        if let Ok(Some(entries)) = loaded.entries(&map.name) {
            found.push((map.name.clone(), entries));
        }
    }
    Ok(found)
}
