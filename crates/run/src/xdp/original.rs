//! A program of somebody else's object in the kernel's test run: what a lifted program is compared
//! with.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::AsRawLibbpf;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ProgramType, libbpf_sys};
use nicforge_isa::object::for_libbpf;

use super::error::XdpError;
use super::messages::{Message, Messages};
use super::object::{load, open};
use super::test_run::{Context, run_with};
use crate::pin::Pinned;

/// Room for a packet that grew, in the kernel's test run.
const LARGEST_OUT: usize = 2 * 4096;

/// Results of a run.
pub struct Ran {
    pub verdict: u32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// What was sent to the host; none where this cannot be read.
    pub messages: Option<Vec<Message>>,
}

/// An object of which one program can run.
pub struct Original {
    // Before the maps that it reads.
    messages: Messages,
    object: Object,
    function: String,
    context: Context,
    /// Per-CPU maps are read where the program ran.
    cpu: usize,
    _pinned: Pinned,
}

/// Decisions of a loader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loader<'a> {
    /// It is a tc program, not one for XDP.
    pub is_tc: bool,
    /// Entries of maps.
    pub sizes: &'a [(String, u32)],
    /// Functions in slots of program arrays.
    pub tail_calls: &'a [(String, u32, String)],
    /// Sections of global data.
    pub data: &'a [(String, Vec<u8>)],
}

/// True if libbpf means the map: it puts the object's name before those of data sections.
fn is_own(found: &str, name: &str) -> bool {
    found == name || name.starts_with('.') && found.ends_with(name)
}

/// Keys and values of a map, sorted by key; of per-CPU maps those of the CPU the program runs on.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

impl Original {
    /// Loads an object with only one program of it.
    ///
    /// # Errors
    /// The kernel or libbpf refuses.
    pub fn load(bytes: &[u8], function: &str, loader: &Loader) -> Result<Original, XdpError> {
        let mut opened = open(&for_libbpf(bytes)).map_err(|error| match error {
            XdpError::Contract(why) if why.contains("BTF") => {
                XdpError::Object(format!("{why} Compile it with -g, which writes BTF."))
            }
            XdpError::Contract(why) => XdpError::Object(why),
            other => other,
        })?;
        let kind = if loader.is_tc { ProgramType::SchedCls } else { ProgramType::Xdp };
        for mut program in opened.progs_mut() {
            let name = program.name().to_str().unwrap_or_default();
            let called = loader.tail_calls.iter().any(|(_, _, callee)| callee == name);
            let own = name == function || called;
            program.set_autoload(own);
            program.set_prog_type(kind);
        }
        for mut map in opened.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let fail = |e: libbpf_rs::Error| XdpError::Object(format!("map `{name}`: {e}"));
            if let Some((_, count)) = loader.sizes.iter().find(|(own, _)| *own == name) {
                map.set_max_entries(*count).map_err(fail)?;
            }
            if let Some((_, data)) = loader.data.iter().find(|(own, _)| is_own(&name, own)) {
                map.set_initial_value(data).map_err(fail)?;
            }
            // SAFETY: a map of an object that is open; no path means that it is not pinned.
            unsafe {
                let map = map.as_libbpf_object().as_ptr();
                libbpf_sys::bpf_map__set_pin_path(map, std::ptr::null());
            }
        }
        let pinned = Pinned::to(0);
        let object = load(opened)?;
        let messages = Messages::of(&object)?;
        let function = function.to_string();
        let context = if loader.is_tc { Context::Tc } else { Context::Xdp };
        let original = Original { messages, object, function, context, cpu: 0, _pinned: pinned };
        for (map, slot, callee) in loader.tail_calls {
            let called = original.object.progs().find(|p| p.name().to_str() == Some(callee));
            let Some(called) = called else { continue };
            let fd = called.as_fd().as_raw_fd().to_ne_bytes();
            original.set(map, &slot.to_ne_bytes(), &fd)?;
        }
        Ok(original)
    }

    /// Runs the program on a frame; nothing where the kernel makes no socket buffer of it, as of
    /// frames that end before the header that their EtherType promises.
    ///
    /// # Errors
    /// The kernel does not run it.
    pub fn run(&self, frame: &[u8]) -> Result<Option<Ran>, XdpError> {
        let own = self.object.progs().find(|p| p.name().to_str() == Some(&self.function));
        let program = own
            .ok_or_else(|| XdpError::Object(format!("there is no program `{}`", self.function)))?;
        let mut out = vec![0; LARGEST_OUT];
        let run = match run_with(self.context, program.as_fd(), frame, Some(&mut out), 1) {
            Err(error) if self.context == Context::Tc && error.is_invalid() => return Ok(None),
            run => run?,
        };
        out.truncate(run.length);
        out.drain(..run.metadata);
        Ok(Some(Ran { verdict: run.verdict, frame: out, messages: self.messages.take()? }))
    }

    fn map(&self, name: &str) -> Result<MapHandle, XdpError> {
        let own = |found: &str| is_own(found, name);
        let map = self.object.maps().find(|map| map.name().to_str().is_some_and(own));
        let map = map.ok_or_else(|| XdpError::Object(format!("there is no map `{name}`")))?;
        MapHandle::try_from(&map).map_err(|e| XdpError::Object(format!("map `{name}`: {e}")))
    }

    /// Sets an entry, for every CPU where there are several values.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set(&self, name: &str, key: &[u8], value: &[u8]) -> Result<(), XdpError> {
        let map = self.map(name)?;
        let done = if map.map_type().is_percpu() {
            let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
            map.update_percpu(key, &vec![value.to_vec(); cpus], MapFlags::ANY)
        } else {
            map.update(key, value, MapFlags::ANY)
        };
        done.map_err(|e| XdpError::Object(format!("map `{name}`: {e}")))
    }

    /// The value of an entry, of this CPU where there are several.
    ///
    /// # Errors
    /// There is no such map.
    pub fn get(&self, name: &str, key: &[u8]) -> Result<Option<Vec<u8>>, XdpError> {
        let map = self.map(name)?;
        Ok(if map.map_type().is_percpu() {
            let all = map.lookup_percpu(key, MapFlags::ANY).ok().flatten();
            all.and_then(|all| all.into_iter().nth(self.cpu))
        } else {
            map.lookup(key, MapFlags::ANY).ok().flatten()
        })
    }

    /// All entries; of arrays those that are not all zero. None of maps that cannot be read.
    ///
    /// # Errors
    /// There is no such map.
    pub fn entries(&self, name: &str) -> Result<Option<Entries>, XdpError> {
        let map = self.map(name)?;
        let array = matches!(map.map_type(), MapType::Array | MapType::PercpuArray);
        let readable = array
            || matches!(
                map.map_type(),
                MapType::Hash
                    | MapType::PercpuHash
                    | MapType::LruHash
                    | MapType::LruPercpuHash
                    | MapType::LpmTrie
            );
        if !readable {
            return Ok(None);
        }
        let mut found = Entries::new();
        for key in map.keys() {
            let Some(value) = self.get(name, &key)? else { continue };
            if !array || value.iter().any(|byte| *byte != 0) {
                found.push((key, value));
            }
        }
        found.sort();
        Ok(Some(found))
    }
}
