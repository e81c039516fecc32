//! From an object to a program in the kernel that runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use libbpf_rs::btf::Btf;
use libbpf_rs::{AsRawLibbpf, MapCore, MapHandle, OpenObject};
use nicforge_codegen::XdpArtifact;
use nicforge_ir::Program;

use super::attach::MAX_PORTS;
use super::error::XdpError;
use super::globals::{self, Globals, Place};
use super::loaded::{Loaded, Places};
use super::object::{load, open};
use super::process;
use super::stages;
use super::tables::Tables;
use crate::compile::Mode;
use crate::process::Process;
use crate::ring::Ring;

/// Options of loading.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// What the object was compiled for.
    pub mode: Mode,
    /// Interface of each port, in the network namespace of the interfaces. Empty for test runs.
    pub ifindex: Vec<u32>,
}

impl Loaded {
    /// Loads `object`, which was compiled from `artifact.source` of `program`.
    ///
    /// # Errors
    /// [`XdpError::Refused`] with the user's source line if the verifier refuses;
    /// [`XdpError::Privilege`], [`XdpError::Feature`] if the machine cannot; [`XdpError::Contract`]
    /// if object and artifact do not fit.
    pub fn load(
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        options: &LoadOptions,
    ) -> Result<Loaded, XdpError> {
        Loaded::load_reusing(program, artifact, object, options, &[])
    }

    /// Loads with maps of another program, by the names they have in this one, in place of its own.
    /// They must be of the form this program would make them.
    pub(crate) fn load_reusing(
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        options: &LoadOptions,
        maps: &[(String, OwnedFd)],
    ) -> Result<Loaded, XdpError> {
        if program.ports as usize > MAX_PORTS {
            return Err(XdpError::NoPort { port: program.ports - 1, last: MAX_PORTS as u32 - 1 });
        }
        let mut open = open(object)?;
        let cpus = artifact.pipeline.as_ref().map(stages::place).transpose()?.unwrap_or_default();
        // SAFETY: the BTF is dropped before the object.
        let places = {
            let btf = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() });
            let btf = btf
                .ok()
                .flatten()
                .ok_or_else(|| XdpError::Contract("it has no BTF".to_string()))?;
            if let Some(place) = globals::find(&btf, ".rodata", "nf_config") {
                configure(&mut open, place, program.ports, &options.ifindex)?;
            }
            if let Some(pipeline) = &artifact.pipeline {
                stages::configure(
                    &mut open,
                    pipeline,
                    &cpus,
                    globals::find(&btf, ".rodata", "nf_cpus"),
                )?;
            }
            let bss = |name| globals::find(&btf, ".bss", name);
            Places {
                event: bss("nf_event"),
                drops: bss("nf_drops"),
                refused: bss("nf_refused"),
                recorded: bss("nf_recorded"),
                refusals: bss("nf_refusals_count"),
                order: bss("nf_order"),
                unsent: bss("nf_unsent"),
                asleep: bss("nf_asleep"),
                values: bss("nf_values"),
            }
        };
        for (name, fd) in maps {
            let mut map =
                open.maps_mut().find(|map| map.name() == name.as_str()).ok_or_else(|| {
                    XdpError::Contract(format!(
                        "there is no map `{name}` to keep a table's entries in"
                    ))
                })?;
            map.reuse_fd(fd.as_fd()).map_err(|error| {
                XdpError::kernel(format!("keep map `{name}`"), io::Error::other(error.to_string()))
            })?;
        }
        let object = load(open)?;
        let (mut queues, mut turned_away) = (Vec::new(), None);
        if let Some(pipeline) = &artifact.pipeline {
            stages::connect(&object, pipeline, &cpus)?;
            let (ids, link) = stages::watch_queues(&object, pipeline)?;
            (queues, turned_away) = (ids, Some(link));
        }

        let mut bss = None;
        let mut ring = None;
        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if name.ends_with(".bss") {
                bss = Some(Arc::new(Globals::map(map.as_fd(), map.value_size() as usize)?));
            } else if name == "nf_host" {
                let mapped = Ring::map(map.as_fd(), map.max_entries() as usize);
                ring =
                    Some(mapped.map_err(|error| {
                        XdpError::kernel("map the ring buffer `nf_host`", error)
                    })?);
            }
        }
        let process = Process::build(program, artifact, options.mode == Mode::Record)?;
        let threads = process.as_ref().map_or(0, |process| process.shared.parts.len());
        let rings = process::rings(&object, threads)?;
        let inside = process.as_ref().map(|process| Arc::clone(&process.shared));
        let named = |name: &str| object.maps().find(|map| map.name() == name);
        let tables = Tables::new(program, &artifact.tables, &|name| {
            named(name).and_then(|map| MapHandle::try_from(&map).ok())
        })?;
        let tables = tables.and_of(inside, artifact);
        Ok(Loaded {
            process,
            rings,
            cpus,
            ring: Mutex::new(ring),
            globals: bss,
            places,
            tables,
            artifact: artifact.clone(),
            ports: program.ports,
            mode: options.mode,
            entries: artifact
                .programs
                .iter()
                .map(|entry| (program.events[entry.event].name.clone(), entry.name.clone()))
                .collect(),
            queues,
            _turned_away: turned_away,
            object,
        })
    }
}

/// Sets `nf_config`: `{ u32 ports; u32 ifindex[16]; }`.
fn configure(
    open: &mut OpenObject,
    place: Place,
    ports: u32,
    ifindex: &[u32],
) -> Result<(), XdpError> {
    let contract =
        || XdpError::Contract("`nf_config` is not { u32 ports; u32 ifindex[16]; }".to_string());
    if place.size != 4 + 4 * MAX_PORTS || ifindex.len() > MAX_PORTS {
        return Err(contract());
    }
    let mut words = vec![ports];
    words.extend(ifindex);
    words.resize(1 + MAX_PORTS, 0);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut map = open
        .maps_mut()
        .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
        .ok_or_else(contract)?;
    let value = map.initial_value_mut().ok_or_else(contract)?;
    value
        .get_mut(place.offset..place.offset + place.size)
        .ok_or_else(contract)?
        .copy_from_slice(&bytes);
    Ok(())
}
