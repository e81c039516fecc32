//! Programs whose text depends on the target: `NF_TARGET` and `NF_TARGET_NAME` are defined where it
//! is read for one, and `NF_TARGET_HOST` if that has a host side, or is one, and `NF_TARGET_C` if
//! functions of C can be called there.
//!
//! The reference of a comparison is the program without a target, read and run by the interpreter.
//! What runs on the target is another program then, so what both name by numbers is brought
//! together here.

use nicforge_ir::{Op, Program, ReasonId, Verified};
use nicforge_target::Target;
use nicforge_target::spec::{Device, Feature, UnitGroup};

use crate::options::Source;
use crate::program::{self, Loaded};
use crate::{Failure, Runtime};

impl Source {
    /// The source as it is read for a target: with its macros.
    pub fn on(&self, target: &Target) -> Source {
        let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name: String = target.name.chars().map(word).collect();
        let mut define = self.define.clone();
        define.extend(["NF_TARGET=1".to_string(), format!("NF_TARGET_{name}=1")]);
        let on_host: Vec<&UnitGroup> =
            target.units.iter().filter(|unit| unit.device == Device::Host).collect();
        if !on_host.is_empty() {
            define.push("NF_TARGET_HOST=1".to_string());
        }
        let features = on_host.iter().flat_map(|unit| &unit.features).chain(&target.features);
        if features.into_iter().any(|feature| *feature == Feature::CFunctions) {
            define.push("NF_TARGET_C=1".to_string());
        }
        Source { define, ..self.clone() }
    }
}

/// A program and what it is for each of several targets.
pub struct Programs {
    /// Without a target.
    pub general: Loaded,
    /// In the targets' order; None where nothing depends on the target.
    own: Vec<Option<Loaded>>,
}

impl Programs {
    /// Reads it for each target, and loads what calls of C in any of them need.
    ///
    /// # Errors
    /// Whatever is wrong with it, without a target or for one.
    pub fn load(
        source: &Source,
        targets: &[Target],
        runtime: &Runtime,
    ) -> Result<Programs, Failure> {
        let general = program::parse(source, runtime)?;
        let depends = depends(&general.program);
        let own = targets
            .iter()
            .map(|target| depends.then(|| program::parse(&source.on(target), runtime)).transpose())
            .collect::<Result<Vec<_>, Failure>>()?;
        let mut all: Vec<&Program> = vec![&general.program];
        all.extend(own.iter().flatten().map(|loaded| &*loaded.program));
        program::functions(&all, source, runtime)?;
        Ok(Programs { general, own })
    }

    /// The value for the target of that number.
    pub fn of(&self, target: usize) -> &Loaded {
        self.own[target].as_ref().unwrap_or(&self.general)
    }

    /// The value for the target of that number, and nothing else.
    pub fn into(mut self, target: usize) -> Loaded {
        self.own[target].take().unwrap_or(self.general)
    }

    /// Does something to each of them.
    pub fn each(
        &mut self,
        mut work: impl FnMut(&mut Loaded) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        work(&mut self.general)?;
        self.own.iter_mut().flatten().try_for_each(work)
    }
}

/// True if a program's text may depend on the target.
fn depends(program: &Program) -> bool {
    let user = |path: &str| path != "nicforge.h" && !path.starts_with("nicforge/");
    // A header of macros only is no file of the program.
    let may = |text: &str| text.contains("NF_TARGET") || text.contains("#include \"");
    program.files.values().any(|file| user(&file.path) && may(&file.text))
}

/// A program without a target, and for one: reasons of drops have the same numbers in both, and so
/// have tables.
pub fn pair(
    source: &Source,
    target: &Target,
    runtime: &Runtime,
) -> Result<(Loaded, Verified<Program>), Failure> {
    let mut reference = program::parse(source, runtime)?;
    if !depends(&reference.program) {
        program::functions(&[&reference.program], source, runtime)?;
        let subject = reference.program.clone();
        return Ok((reference, subject));
    }
    let subject = program::parse(&source.on(target), runtime)?.program;
    program::functions(&[&reference.program, &subject], source, runtime)?;
    let (mut first, mut second) = (reference.program.into_inner(), subject.into_inner());
    align(&mut first, &mut second, &target.name)?;
    reference.program = program::check(first)?;
    Ok((reference, program::check(second)?))
}

fn align(reference: &mut Program, subject: &mut Program, target: &str) -> Result<(), Failure> {
    let tables = |of: &Program| -> Vec<_> {
        let form = |key, value| (of.size_of(key), of.size_of(value));
        of.tables
            .values()
            .map(|t| (t.name.clone(), t.kind, t.capacity, form(t.key, t.value)))
            .collect()
    };
    if tables(reference) != tables(subject) || reference.ports != subject.ports {
        let message = format!(
            "for {target} the program has other tables or ports than without a target, so there is nothing to compare; \
             declare them outside of `#if`"
        );
        return Err(Failure::user(message));
    }
    let moved: Vec<ReasonId> = subject
        .reasons
        .values()
        .map(|reason| {
            let known = reference
                .reasons
                .iter()
                .find(|(_, other)| other.text == reason.text)
                .map(|(id, _)| id);
            known.unwrap_or_else(|| reference.reasons.push(reason.clone()))
        })
        .collect();
    subject.reasons = reference.reasons.clone();
    let handlers = subject.handlers.values_mut().map(|handler| &mut handler.body);
    for body in handlers.chain(subject.funcs.values_mut().map(|func| &mut func.body)) {
        for inst in body.insts.values_mut() {
            if let Op::Drop { reason, .. } = &mut inst.op {
                *reason = moved[reason.as_u32() as usize];
            }
        }
    }
    Ok(())
}
