//! Replacing a running program, be it this process's or one that an earlier process left pinned.
//!
//! The new program is loaded beside the old one, with the old one's maps in place of its own
//! wherever a table stayed the same: both then work on the same entries, nothing is copied and
//! nothing is lost. A table that only changed its capacity or how the generator keeps it gets a map
//! of its own and a copy of the entries; what the old program changes between copy and swap is lost
//! there. A table whose key or value changed starts empty, since its bytes would mean something
//! else.
//!
//! The swap is one update of each interface's BPF link, which the kernel does atomically: every
//! packet is processed by either program. Interfaces follow one another, within microseconds. If
//! one refuses, those before it go back.
//!
//! The old program is let go after a grace period of the kernel, when no CPU runs it any more, so
//! that its counters and what it still wrote for the host side are complete.

use std::os::fd::{BorrowedFd, OwnedFd};

use nicforge_codegen::{XdpArtifact, XdpTable};
use nicforge_ir::timers::Timers;
use nicforge_ir::{Program, Table, TableBackend, TableId, Type};

use super::{DevSession, check_ports, give_ports, received, sender_of};
use crate::compile::Mode;
use crate::xdp::{Attached, LoadOptions, Loaded, Tables, XdpError};

/// Fates of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// Kept: its entries, in the map it has.
    Kept,
    /// So many entries were copied: its capacity, or the way it is kept, is another one.
    Copied(usize),
    /// Starts empty: the old program does not have it.
    New,
    /// Starts empty: its kind, key or value is another one.
    Changed,
    /// The new program does not have it; its entries go.
    Removed,
}

/// A program that is ready to take a running one's place: the moment to fill its new tables.
pub struct Replacement {
    pub(super) loaded: Loaded,
    pub(super) program: Program,
    changes: Vec<(String, TableChange)>,
}

/// Finds a map by its name.
type FindMap<'a> = Box<dyn Fn(&str) -> Option<OwnedFd> + 'a>;

/// A program whose tables another one takes over.
pub(super) struct Old<'a> {
    pub(super) program: &'a Program,
    pub(super) tables: &'a [XdpTable],
    /// An own descriptor of one of its maps.
    pub(super) map: FindMap<'a>,
    pub(super) backend: Tables,
}

impl Replacement {
    /// The program.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Each table by name and what becomes of it.
    pub fn changes(&self) -> &[(String, TableChange)] {
        &self.changes
    }

    /// A program that takes nobody's place: all its tables are new.
    pub(super) fn fresh(
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        ifindex: Vec<u32>,
    ) -> Result<Replacement, XdpError> {
        let options = LoadOptions { mode: Mode::Live, ifindex: ifindex.clone() };
        let loaded = Loaded::load(program, artifact, object, &options)?;
        give_ports(&loaded, &ifindex)?;
        let name = |table: &Table| (table.name.clone(), TableChange::New);
        let changes = program.tables.values().map(name).collect();
        Ok(Replacement { loaded, program: program.clone(), changes })
    }

    /// True if a table starts empty.
    pub fn starts_empty(&self, table: TableId) -> bool {
        let name = &self.program.tables[table].name;
        let change =
            self.changes.iter().find(|(known, _)| known == name).map(|(_, change)| *change);
        matches!(change, Some(TableChange::New | TableChange::Changed))
    }
}

impl DevSession {
    /// Loads a program that is to replace the running one; that one is not touched.
    ///
    /// # Errors
    /// [`XdpError::Gone`] while an interface is gone; [`XdpError::Ports`] if it wants another
    /// number of interfaces; [`XdpError::Kernel`] if a smaller table cannot hold the entries there
    /// are; those of loading.
    pub fn prepare_replacement(
        &self,
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
    ) -> Result<Replacement, XdpError> {
        check_ports(program, &self.names())?;
        if artifact.process.is_some() || self.loaded.process().is_some() {
            return Err(XdpError::NotReplaced);
        }
        if let Some(name) = self.gone() {
            return Err(XdpError::Gone(name.to_string()));
        }
        let ifindex: Vec<u32> = self.interfaces.iter().map(|(index, _)| *index).collect();
        let old = Old {
            program: &self.program,
            tables: &self.loaded.artifact().tables,
            map: Box::new(|name| self.loaded.map_fd(name)),
            backend: self.loaded.tables(),
        };
        old.prepare(program, artifact, object, ifindex)
    }

    /// Puts the replacement in the running program's place, on every interface or on none.
    pub fn replace(&mut self, replacement: Replacement) -> Result<(), XdpError> {
        if self.sender.is_none() {
            self.sender = sender_of(&replacement.program)?;
        }
        // Those whose interface is gone get the new one when it is back.
        let there = |port: &usize| !self.gone.contains(port) && !self.attached[*port].is_gone();
        let list: Vec<(&Attached, &str)> = (0..self.attached.len())
            .filter(there)
            .map(|port| (&self.attached[port], self.interfaces[port].1.as_str()))
            .collect();
        let (old, new) =
            (self.loaded.handler_fd("net_recv")?, replacement.loaded.handler_fd("net_recv")?);
        swap(&list, old, new)?;
        grace_period();
        self.drain()?;
        let (total, here) = (self.stats()?, received::now(&self.names()));
        self.counting.retire(total);
        self.loaded = replacement.loaded;
        self.program = replacement.program;
        self.timers = Timers::armed(&self.program, self.clock());
        self.pin(here)
    }
}

impl Old<'_> {
    /// Loads a program that is to take this one's place on ports with these interfaces.
    pub(super) fn prepare(
        &self,
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        ifindex: Vec<u32>,
    ) -> Result<Replacement, XdpError> {
        let mut reused: Vec<(String, OwnedFd)> = Vec::new();
        let mut changes = Vec::new();
        let mut copied = Vec::new();
        for new in &artifact.tables {
            let name = program.tables[new.table].name.clone();
            let change = match self.table(&name) {
                None => TableChange::New,
                Some(old) if !same_entries((self.program, old.table), (program, new.table)) => {
                    TableChange::Changed
                }
                Some(old) if same_map((self.program, old), (program, new)) => {
                    let map = (self.map)(&old.map);
                    let map = map
                        .ok_or_else(|| XdpError::Contract(format!("map `{}` is gone", old.map)))?;
                    reused.push((new.map.clone(), map));
                    TableChange::Kept
                }
                Some(old) => {
                    copied.push((changes.len(), old.table, new.table));
                    TableChange::Copied(0)
                }
            };
            changes.push((name, change));
        }
        for old in self.tables {
            let name = &self.program.tables[old.table].name;
            if !changes.iter().any(|(known, _)| known == name) {
                changes.push((name.clone(), TableChange::Removed));
            }
        }
        let options = LoadOptions { mode: Mode::Live, ifindex: ifindex.clone() };
        let loaded = Loaded::load_reusing(program, artifact, object, &options, &reused)?;
        give_ports(&loaded, &ifindex)?;
        for (at, from, to) in copied {
            changes[at].1 = TableChange::Copied(self.copy(&loaded, from, to)?);
        }
        Ok(Replacement { loaded, program: program.clone(), changes })
    }

    fn table(&self, name: &str) -> Option<&XdpTable> {
        self.tables.iter().find(|table| self.program.tables[table.table].name == name)
    }

    fn copy(&self, to: &Loaded, from: TableId, table: TableId) -> Result<usize, XdpError> {
        let what = || format!("keep the entries of table `{}`", self.program.tables[from].name);
        let fail = |error| XdpError::Kernel { what: what(), source: std::io::Error::other(error) };
        let entries = self.backend.dump(from).map_err(fail)?;
        let mut target = to.tables();
        entries.iter().try_for_each(|entry| target.set(table, entry)).map_err(fail)?;
        Ok(entries.len())
    }
}

/// Puts a program in another's place wherever that is attached, by interface, or nowhere.
pub(super) fn swap(
    attached: &[(&Attached, &str)],
    old: BorrowedFd,
    new: BorrowedFd,
) -> Result<(), XdpError> {
    for (done, (here, name)) in attached.iter().enumerate() {
        if let Err(error) = here.update(new, name) {
            for (before, name) in &attached[..done] {
                // It was attached there a moment ago, so the kernel takes it; if not, the new one
                // stays.
                let _ = before.update(old, name);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Waits until no CPU runs a program that was replaced before the call: the kernel's membarrier
/// waits for an RCU grace period, which ends no earlier than every program that was running.
pub(super) fn grace_period() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no pointers.
    let status = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if status != 0 {
        // Kernels without it (or with a nohz_full CPU) get time that no program needs.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// True if entries of one table are entries of the other: the same kind, and keys and values of the
/// same form. Members' names count: two that change places keep the layout but not the meaning.
fn same_entries(old: (&Program, TableId), new: (&Program, TableId)) -> bool {
    let (a, b): (&Table, &Table) = (&old.0.tables[old.1], &new.0.tables[new.1]);
    a.kind == b.kind
        && a.buf.is_some() == b.buf.is_some()
        && same_type((old.0, a.key), (new.0, b.key))
        && same_type((old.0, a.value), (new.0, b.value))
}

fn same_type(old: (&Program, Type), new: (&Program, Type)) -> bool {
    match (old.1, new.1) {
        (Type::Struct(a), Type::Struct(b)) => {
            let (a, b) = (&old.0.structs[a], &new.0.structs[b]);
            a.packed == b.packed
                && a.fields.len() == b.fields.len()
                && a.fields.iter().zip(&b.fields).all(|(x, y)| {
                    x.name == y.name
                        && x.bit_width == y.bit_width
                        && x.big_endian == y.big_endian
                        && same_type((old.0, x.ty), (new.0, y.ty))
                })
        }
        (Type::Array(a), Type::Array(b)) => {
            let (a, b) = (&old.0.arrays[a], &new.0.arrays[b]);
            a.len == b.len && same_type((old.0, a.elem), (new.0, b.elem))
        }
        (a, b) => a == b,
    }
}

/// True if equal tables are kept in maps of the same form.
fn same_map(old: (&Program, &XdpTable), new: (&Program, &XdpTable)) -> bool {
    let of = |(program, table): (&Program, &XdpTable)| {
        let table = &program.tables[table.table];
        (table.capacity, table.shared)
    };
    of(old) == of(new)
        && (old.1.shape, old.1.front, old.1.buf) == (new.1.shape, new.1.front, new.1.buf)
}
