//! `nicforge verify OLD --against NEW`: two versions of an XDP program, proved to give the same for
//! every packet, or told apart by one; `nicforge verify PROGRAM --prove`: an object or a program of
//! ours, and what is made of it.

mod kernel;
mod report;
mod version;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernel::Checked;
use nicforge_bound::equal::{self, Report};
use nicforge_driver::{Failure, program, stop};
use nicforge_isa::object::Map;
use nicforge_run::xdp::{LARGEST_TEST_FRAME, SMALLEST_FRAME};
use report::View;

use super::bound;
use crate::args::Verify;
use crate::{interrupt, out};
pub use version::Version;

/// Most time of a proof, if no other is given.
const TIME: Duration = Duration::from_secs(10);

/// Proves, or finds the packet.
pub fn run(args: &Verify) -> Result<(), Failure> {
    if args.target != "xdp" {
        return Err(Failure::usage("programs are proved on --target xdp".to_string()));
    }
    let of_object = program::object_of(&args.source).is_some();
    if of_object && args.proof.object.is_some() {
        let message = "--object is for programs with nicforge.h; of two objects use --against";
        return Err(Failure::usage(message.to_string()));
    }
    let (old, new, pair) = match &args.proof.against {
        Some(new) => {
            let old = Version::read(&args.source, &args.source.program)?;
            let new = Version::read(&args.source, new)?;
            let pair = equal::link(old.side.clone(), new.side.clone());
            (old, new, pair)
        }
        None if of_object => {
            let (mut old, new) = Version::made_again(&args.source)?;
            // A lifted program runs as if alone on one processor.
            old.side.maps.iter_mut().for_each(Map::make_plain);
            let pair = equal::link(old.side.clone(), new.side.clone());
            let pair = pair.map(|pair| equal::Pair { lifted: true, ..pair });
            (old, new, pair)
        }
        None => {
            let (old, new, reference) =
                Version::made_of(&args.source, args.proof.object.as_deref())?;
            let pair = equal::Pair::made_of(reference, new.side.clone());
            (old, new, Ok(pair))
        }
    };
    interrupt::stop_in_order();
    let options = equal::Options {
        sizes: (SMALLEST_FRAME as u64, LARGEST_TEST_FRAME as u64),
        time: args.proof.time.unwrap_or(TIME),
    };
    let result = match &pair {
        Ok(pair) => watched(|stop| equal::compare(pair, &options, stop)),
        Err(reason) => Err(reason.clone()),
    };
    // What is not followed at all is open.
    let mut result =
        result.unwrap_or_else(|reason| Report { open: [(reason, 1)].into(), ..Report::default() });
    let checked = match (&result.example, &pair) {
        (Some(_), Ok(pair)) if pair.reference.is_some() => {
            Checked::Not("the program itself does not run there".to_string())
        }
        (Some(example), Ok(pair)) => kernel::check(example, pair, &old, &new),
        _ => Checked::Not(String::new()),
    };
    if let Some(example) = result.example.take_if(|_| matches!(checked, Checked::Same)) {
        let (before, after) = example.difference;
        let reason = format!(
            "the kernel does the same with a packet of {} bytes that the interpreter tells apart \
             (old: {before}; new: {after})",
            example.world.packet.len()
        );
        *result.open.entry(reason).or_default() += 1;
    }
    if stop::stopped() {
        return Err(Failure { code: nicforge_driver::INTERRUPTED, message: String::new() });
    }
    if let (Some(file), Some(example)) = (&args.proof.out, &result.example) {
        bound::write_pcap(file, vec![example.world.packet.clone()])?;
    }
    let maps = pair.as_ref().map_or(&[][..], |pair| &pair.maps);
    let made = pair.as_ref().is_ok_and(|pair| pair.reference.is_some());
    let rates = [if made { None } else { old.guarantee() }, new.guarantee()];
    let ignored = &args.proof.ignore_map;
    let view = View {
        versions: [&old, &new],
        sides: pair.as_ref().map_or(["old", "new"], equal::Pair::sides),
        maps,
        alone: pair.as_ref().map_or_else(|_| Default::default(), |pair| alone(pair, ignored)),
        result: &result,
        sizes: options.sizes,
        checked,
        rates,
    };
    if args.json {
        outln!("{:#}", view.json());
    } else {
        out::text(&view.text());
    }
    match () {
        () if result.example.is_some() => Err(Failure::rendered(String::new())),
        () if view.proved() => Ok(()),
        () => Err(Failure::open("not proved equal, and no packet tells them apart so far")),
    }
}

/// Maps that one version alone has and uses, but those that nobody cares about. What Nicforge makes
/// of an object has maps of its own.
fn alone(pair: &equal::Pair, ignored: &[String]) -> [Vec<String>; 2] {
    let names = |list: &Vec<usize>| -> Vec<String> {
        let names = list.iter().map(|map| pair.maps[*map].name.clone());
        names.filter(|name| !ignored.contains(name)).collect()
    };
    let [old, new] = pair.alone.each_ref().map(names);
    [old, if pair.lifted { Vec::new() } else { new }]
}

/// Runs something that looks at a flag, which Ctrl-C sets.
fn watched<T: Send>(work: impl FnOnce(&Arc<AtomicBool>) -> T + Send) -> T {
    let (stop, over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                stop.store(stop::stopped(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let _over = bound::Over(&over);
        work(&stop)
    })
}
