//! Programs that outlive the process that attached them. What that takes has names in a folder of a
//! BPF file system, and all of it is left to whoever starts the program next:
//!
//! ```text
//! /sys/fs/bpf/nicforge/fw/
//!   state         an array of one value, JSON: what the next process must know
//!   link0 link1   attachment of each port
//!   3/program     handler of net_recv, of the third program since the first start
//!   3/globals     its counters
//!   3/maps/NAME   its tables, and the ring of what is for the host side
//! ```
//!
//! The state is written last and replaced by a rename, so a process that dies meanwhile leaves the
//! one before, or none: then the folder is as good as empty.

mod folder;
mod state;

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nicforge_codegen::XdpTable;
use nicforge_ir::text::{self, PrintOptions};
use nicforge_ir::{Output, Program};

use super::received::{Count, between};
use super::stats::DevStats;
use super::{received, reload::Old};
use crate::ring::Ring;
use crate::xdp::{Attached, Loaded, Place, Tables, XdpError, drain_ring, open_pin, pin};
use folder::{
    clear, clear_but_folder, doing, entries, in_bpffs, is_number, links, lock, ours, remove_all,
    remove_folder,
};
pub use folder::{folder, names};
use state::{FORM, PinnedTable, State, make, put, read_state, uptime};

/// A folder of pins that this process alone works with.
pub struct Pins {
    folder: PathBuf,
    /// Held while this lives.
    _lock: File,
    /// Absent until something is pinned.
    written: Option<(State, MapHandle)>,
}

/// A pinned program, ready to be replaced.
pub(super) struct Kept {
    program: Program,
    tables: Vec<XdpTable>,
    maps: Vec<(String, MapHandle)>,
    backend: Tables,
    globals: Option<MapHandle>,
    handler: OwnedFd,
}

/// What was pinned and is no more.
#[derive(Clone, Debug)]
pub struct Detached {
    pub folder: PathBuf,
    /// Interfaces that it ran on; none if its start had not ended.
    pub interfaces: Vec<String>,
    pub tables: Vec<String>,
}

/// Names the pins of a program that is in the way, if it has some in the usual place.
pub(super) fn named(error: XdpError) -> XdpError {
    let XdpError::Busy { interface, id, name, .. } = error else { return error };
    let attached = |path: PathBuf| Attached::pinned(&path).ok()?.info();
    let pinned = names()
        .into_iter()
        .find(|name| links(&folder(name)).filter_map(attached).any(|(_, of)| of == id));
    XdpError::Busy { interface, id, name, pinned }
}

fn not_pinned(wanted: PathBuf) -> XdpError {
    let whole = |name: &String| folder(name).join("state").exists();
    let known: Vec<String> = names().into_iter().filter(whole).collect();
    XdpError::NotPinned { folder: wanted, known: known.join(", ") }
}

/// Tables and counters of a pinned program, whether a process works with it or not.
pub struct Pinned {
    pub program: Program,
    pub tables: Tables,
    /// Of its ports, by name.
    pub interfaces: Vec<String>,
    pub stats: DevStats,
}

/// Reads a pinned program.
///
/// # Errors
/// [`XdpError::NotPinned`] if there is none.
pub fn read(name: &str) -> Result<Pinned, XdpError> {
    let folder = folder(name);
    let Some((state, _)) = read_state(&folder)? else {
        return Err(not_pinned(folder));
    };
    let kept = Kept::open(&folder, &state)?;
    let stats = kept.counts(&state, &received::now(&state.interfaces));
    Ok(Pinned { program: kept.program, tables: kept.backend, interfaces: state.interfaces, stats })
}

/// Detaches a pinned program and gives its tables up.
///
/// # Errors
/// [`XdpError::NotPinned`] if there is none, [`XdpError::PinsUsed`] while a process works with it,
/// [`XdpError::NotOurs`] if anything else is in the folder.
pub fn detach(name: &str) -> Result<Detached, XdpError> {
    let folder = folder(name);
    if !folder.is_dir() {
        return Err(not_pinned(folder));
    }
    ours(&folder)?;
    let lock = lock(&folder)?;
    let known = read_state(&folder).ok().flatten().map(|(state, _)| state);
    let (interfaces, tables) = known.map_or_else(Default::default, |state| {
        (state.interfaces, state.tables.into_iter().map(|table| table.name).collect())
    });
    clear(&folder)?;
    drop(lock);
    Ok(Detached { folder, interfaces, tables })
}

impl Pins {
    /// Takes the folder, made if need be, for this process.
    ///
    /// # Errors
    /// [`XdpError::PinsUsed`] if another process works with it, [`XdpError::NoBpffs`] if it is in
    /// no BPF file system, [`XdpError::NotOurs`] if anything else is in it.
    pub fn open(name: &str) -> Result<Pins, XdpError> {
        let folder = folder(name);
        in_bpffs(&folder)?;
        let lock = lock(&folder)?;
        let written = read_state(&folder)?;
        match &written {
            None => clear_but_folder(&folder)?,
            // Programs before this one, whose end was cut short, or after it, whose start was.
            Some((state, _)) => {
                let number = state.generation.to_string();
                let others = entries(&folder).filter(|name| is_number(name) && *name != number);
                others.map(|name| folder.join(name)).try_for_each(|path| remove_all(&path))?;
            }
        }
        Ok(Pins { folder, _lock: lock, written })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The program that is pinned, if one is.
    ///
    /// # Errors
    /// [`XdpError::PinnedElsewhere`] if its interfaces are others.
    pub(super) fn kept(&self, interfaces: &[String]) -> Result<Option<Kept>, XdpError> {
        let Some((state, _)) = &self.written else { return Ok(None) };
        if state.interfaces != interfaces {
            let (folder, on) = (self.folder.clone(), state.interfaces.join(", "));
            return Err(XdpError::PinnedElsewhere { folder, on });
        }
        Kept::open(&self.folder, state).map(Some)
    }

    /// The attachment of a port to an interface, if it is pinned and still there.
    pub(super) fn link(&self, port: usize, ifindex: u32) -> Option<Attached> {
        let path = self.link_path(port);
        let attached = Attached::pinned(&path).ok()?;
        if attached.info().is_some_and(|(known, _)| known == ifindex) {
            return Some(attached);
        }
        // The interface is another one of that name, or somebody detached it.
        attached.detach();
        let _ = fs::remove_file(&path);
        None
    }

    /// Gives up what is pinned, after a start that failed.
    pub(super) fn remove(self) {
        // Whoever looks next finds no state and does it again.
        let _ = clear(&self.folder);
    }

    /// Everything counted of what is pinned, whose program runs no more: its packets until
    /// `received` was looked at.
    pub(super) fn counts(&self, kept: &Kept, received: &[Option<Count>]) -> DevStats {
        let known = self.written.as_ref();
        known.map(|(state, _)| kept.counts(state, received)).unwrap_or_default()
    }

    /// What came for the host side and nobody read, oldest first.
    pub(super) fn unread(&self, kept: &Kept) -> Result<Vec<Output>, XdpError> {
        let ring = kept.maps.iter().find(|(name, _)| name == "nf_host");
        let Some(((_, ring), (state, _))) = ring.zip(self.written.as_ref()) else {
            return Ok(Vec::new());
        };
        let mut ring = Ring::map(ring.as_fd(), ring.max_entries() as usize)
            .map_err(|error| XdpError::kernel("map the ring buffer `nf_host`", error))?;
        drain_ring(&mut ring, &state.logs)
    }

    /// Pins a program that is attached now, and forgets the one before. `since` is what was counted
    /// before it, and what the interfaces had received then.
    pub(super) fn commit(
        &mut self,
        program: &Program,
        loaded: &Loaded,
        attached: &mut [Attached],
        interfaces: &[String],
        since: (&DevStats, Vec<Option<Count>>),
    ) -> Result<(), XdpError> {
        let before = self.written.as_ref().map(|(state, _)| state.generation);
        let number = before.map_or(1, |number| number + 1);
        let generation = self.generation(number);
        // A start that was cut short may have left it.
        remove_all(&generation)?;
        let maps = generation.join("maps");
        fs::create_dir_all(&maps).map_err(doing("make the folder", &maps))?;
        let artifact = loaded.artifact();
        let names = artifact.tables.iter().map(|table| table.map.as_str());
        for name in names.chain(["nf_host"]) {
            if let Some(map) = loaded.map_fd(name) {
                pin(map.as_fd(), &maps.join(name))?;
            }
        }
        if let Some(globals) = loaded.globals_fd() {
            pin(globals.as_fd(), &generation.join("globals"))?;
        }
        pin(loaded.handler_fd("net_recv")?, &generation.join("program"))?;
        for (port, attached) in attached.iter_mut().enumerate() {
            self.pin_link(port, attached)?;
        }
        let name = |table: &XdpTable| program.tables[table.table].name.clone();
        let table = |table: &XdpTable| PinnedTable {
            name: name(table),
            map: table.map.clone(),
            shape: table.shape,
            front: table.front,
            buf: table.buf,
        };
        let (drops, refused) = loaded.counter_places();
        let state = State {
            form: FORM,
            generation: number,
            interfaces: interfaces.to_vec(),
            program: text::print(program, PrintOptions::default()),
            tables: artifact.tables.iter().map(table).collect(),
            drops: (drops, artifact.reasons.iter().map(|(_, text)| text.clone()).collect()),
            refused: (refused, program.tables.values().map(|table| table.name.clone()).collect()),
            logs: artifact.logs.clone(),
            earlier: since.0.clone(),
            counts: since.0.clone(),
            received: since.1,
            written: uptime(),
        };
        let map = self.write_state(&state)?;
        self.written = Some((state, map));
        before.map_or(Ok(()), |before| remove_all(&self.generation(before)))
    }

    /// Pins the attachment of a port, unless it is.
    pub(super) fn pin_link(&self, port: usize, attached: &mut Attached) -> Result<(), XdpError> {
        if attached.is_pinned() {
            return Ok(());
        }
        let path = self.link_path(port);
        let _ = fs::remove_file(&path);
        attached.pin(&path)
    }

    /// Notes what was counted so far.
    pub(super) fn save(&mut self, counts: &DevStats) -> Result<(), XdpError> {
        let Some((state, map)) = &mut self.written else { return Ok(()) };
        state.counts = counts.clone();
        state.received = received::now(&state.interfaces);
        state.written = uptime();
        put(map, state)
    }

    /// Writes the state beside the one there is, and puts it in its place.
    fn write_state(&self, state: &State) -> Result<MapHandle, XdpError> {
        let map = make(state)?;
        let (next, place) = (self.folder.join("state_next"), self.folder.join("state"));
        let _ = fs::remove_file(&next);
        pin(map.as_fd(), &next)?;
        fs::rename(&next, &place).map_err(doing("write", &place))?;
        Ok(map)
    }

    fn generation(&self, number: u64) -> PathBuf {
        generation_of(&self.folder, number)
    }

    fn link_path(&self, port: usize) -> PathBuf {
        self.folder.join(format!("link{port}"))
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if self.written.is_none() {
            remove_folder(&self.folder);
        }
    }
}

impl Kept {
    /// The program that a state is about.
    fn open(folder: &Path, state: &State) -> Result<Kept, XdpError> {
        let foreign = || XdpError::PinnedForeign(folder.to_path_buf());
        let program = text::parse(&state.program).map_err(|_| foreign())?;
        let table = |pinned: &PinnedTable| {
            let (table, _) = program.tables.iter().find(|(_, t)| t.name == pinned.name)?;
            let PinnedTable { map, shape, front, buf, .. } = pinned;
            Some(XdpTable { table, map: map.clone(), shape: *shape, front: *front, buf: *buf })
        };
        let tables: Option<Vec<XdpTable>> = state.tables.iter().map(table).collect();
        let tables = tables.ok_or_else(foreign)?;
        let generation = generation_of(folder, state.generation);
        let maps: Vec<(String, MapHandle)> = fs::read_dir(generation.join("maps"))
            .map_err(doing("read the folder", &generation))?
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let map = MapHandle::from_pinned_path(entry.path()).ok()?;
                Some((entry.file_name().into_string().ok()?, map))
            })
            .collect();
        let backend = Tables::new(&program, &tables, &|name| find(&maps, name))?;
        Ok(Kept {
            backend,
            globals: MapHandle::from_pinned_path(generation.join("globals")).ok(),
            handler: open_pin(&generation.join("program"))?,
            program,
            tables,
            maps,
        })
    }

    /// Everything counted until the interfaces' counters were `received`.
    fn counts(&self, state: &State, received: &[Option<Count>]) -> DevStats {
        let mut counts = state.counts.clone();
        counts.seconds += uptime() - state.written;
        counts.packets += between(&state.received, received);
        (counts.drops, counts.refused) =
            (state.earlier.drops.clone(), state.earlier.refused.clone());
        let globals = self
            .globals
            .as_ref()
            .and_then(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        let counters = |(place, names): &(Option<Place>, Vec<String>)| {
            let cell = |at: usize| {
                let at = place.as_ref()?.offset + 8 * at;
                let bytes = globals.as_ref()?.get(at..at + 8)?;
                Some(u64::from_ne_bytes(bytes.try_into().ok()?))
            };
            let names = names.iter().enumerate();
            names.map(|(at, name)| (name.clone(), cell(at).unwrap_or(0))).collect::<Vec<_>>()
        };
        counters(&state.drops).iter().for_each(|(reason, n)| counts.add_drops(reason, *n));
        counters(&state.refused).iter().for_each(|(table, n)| counts.add_refused(table, *n));
        counts
    }

    /// What the next program takes over.
    pub(super) fn old(&self) -> Old<'_> {
        Old {
            program: &self.program,
            tables: &self.tables,
            map: Box::new(|name| find(&self.maps, name)?.as_fd().try_clone_to_owned().ok()),
            backend: self.backend.clone(),
        }
    }

    /// Handler of `net_recv`.
    pub(super) fn handler(&self) -> &OwnedFd {
        &self.handler
    }
}

fn generation_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(number.to_string())
}

fn find(maps: &[(String, MapHandle)], name: &str) -> Option<MapHandle> {
    let (_, map) = maps.iter().find(|(known, _)| known == name)?;
    MapHandle::try_from(map).ok()
}
