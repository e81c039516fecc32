//! C for engines joined by queues, run here as threads: micro-engines of an NFP on a shim of the
//! chip's operations, and plain cores.

use nicforge_codegen::dpdk;
use nicforge_codegen::nfp::Engines;
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_run::dpdk::{Difference, DpdkRun};
use nicforge_target::{Generator, Target};

use super::{Build, Pipelined, Product};
use crate::Failure;
use crate::pipelines::{self, Job};

/// A kind of engine.
pub struct Cores {
    word: Generator,
    engines: Engines,
    stands_in: &'static str,
}

pub static NFP: Cores = Cores {
    word: Generator::Nfp,
    engines: Engines::Nfp,
    stands_in: "functional: on a shim of the chip",
};
pub static THREADS: Cores = Cores {
    word: Generator::Threads,
    engines: Engines::Threads,
    stands_in: "functional: on threads",
};

impl Pipelined for Cores {
    fn word(&self) -> Generator {
        self.word
    }

    fn stands_in(&self, target: &Target) -> Option<&'static str> {
        Some(if target.toolchain.is_some() {
            "functional: images run by its toolchain"
        } else {
            self.stands_in
        })
    }

    fn has_images(&self) -> bool {
        true
    }

    fn files(&self, target: &Target, build: &Build, job: &Job) -> Result<Product, Failure> {
        let app = job.engines(self.engines, target)?.with_toolchain(target.toolchain.as_ref());
        if build.text {
            return Ok(super::text(&app.artifact().files));
        }
        let path = super::folder(build, &job.program)?;
        app.image(&path).map_err(|e| pipelines::failure(&job.program, e))?;
        Ok(Product::Written(path, None))
    }

    fn compare(
        &self,
        target: &Target,
        job: &mut Job,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), Failure> {
        // A pipeline's shards of a hash table hold together what the table may hold; an NFP's
        // engines each count for themselves.
        let together = match self.engines {
            Engines::Nfp => Vec::new(),
            Engines::Threads => dpdk::one_room(&job.program, &job.pipeline),
        };
        let reference = job.make_room_beside(&together, source, entries, events)?;
        let app = job.engines(self.engines, target)?.with_toolchain(target.toolchain.as_ref());
        let ran = app.with_exec(job.exec.as_deref()).verify(&reference, entries, events);
        ran.map_err(|e| pipelines::failure(&job.program, e))
    }
}
