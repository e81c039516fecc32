//! `nicforge spin build`: handlers in C become an ELF image.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use nicforge_driver::{Failure, Runtime};
use nicforge_isa::object::riscv::Image;
use nicforge_run::spin::{self, Built, ImageOptions, Layout, NativeImage};

use super::machine::{self, Chosen};

/// Engines that run handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// RISC-V units, interpreted with their times
    Iss,
    /// The same source compiled for this computer (x86-64): faster, without times of handlers, and
    /// not kept apart
    Native,
}

/// `nicforge spin build`.
#[derive(Args)]
pub struct Build {
    /// Handlers in C, with PsPIN's or FPsPIN's headers
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Where the image goes [default: the first source's name with .elf, here]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Machine the image is laid out for, whose headers are used
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "fpspin")]
    machine: String,
    /// For the compiler: -DNAME=VALUE, -I DIR, -O2 and so on
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Builds and says what the image holds.
pub fn run(args: Build) -> Result<(), Failure> {
    let Chosen { machine, layout } = machine::find(&args.machine)?;
    let built = image(&args.sources, layout, &args.flags)?;
    let out = match args.out {
        Some(out) => out,
        None => Path::new(args.sources[0].file_name().unwrap_or_default()).with_extension("elf"),
    };
    // Whoever runs the image on this computer itself finds it there; one that does not compile for
    // it still runs on RISC-V units.
    let runtime = Runtime::whole()?;
    let options = ImageOptions { sources: args.sources.clone(), layout, flags: args.flags.clone() };
    let elf = match spin::build_native(runtime.path(), &options) {
        Ok((native, _)) => {
            spin::join(&built.elf, &native).map_err(|e| Failure::of(e.fault(), e))?
        }
        Err(_) => built.elf,
    };
    std::fs::write(&out, &elf).map_err(|e| Failure::user(format!("{}: {e}", out.display())))?;
    outln!("wrote {} for {}: {}", out.display(), machine.name, contents(&built.image));
    Ok(())
}

/// Compiles handlers and shows the compiler's warnings.
pub fn image(sources: &[PathBuf], layout: Layout, flags: &[String]) -> Result<Built, Failure> {
    for source in sources {
        if let Err(e) = std::fs::File::open(source) {
            return Err(Failure::user(format!("{}: {e}", source.display())));
        }
    }
    let runtime = Runtime::whole()?;
    let options = ImageOptions { sources: sources.to_vec(), layout, flags: flags.to_vec() };
    let built = spin::build(runtime.path(), &options).map_err(|e| Failure::of(e.fault(), e))?;
    if !built.warnings.is_empty() {
        errln!("{}", built.warnings.trim_end());
    }
    Ok(built)
}

/// Handlers for this computer: compiled, or what `nicforge spin build` has added to an image.
pub fn native(file: &Path, layout: Layout, flags: &[String]) -> Result<NativeImage, Failure> {
    let user = |e: std::io::Error| Failure::user(format!("{}: {e}", file.display()));
    let bytes = std::fs::read(file).map_err(user)?;
    let fail = |e: spin::BuildError| Failure::of(e.fault(), e);
    if file.extension().is_none_or(|ending| ending != "c") {
        return spin::native_of(&bytes).map_err(fail);
    }
    let runtime = Runtime::whole()?;
    let options = ImageOptions { sources: vec![file.to_path_buf()], layout, flags: flags.to_vec() };
    let (elf, warnings) = spin::build_native(runtime.path(), &options).map_err(fail)?;
    if !warnings.is_empty() {
        errln!("{}", warnings.trim_end());
    }
    spin::native_of(&elf).map_err(fail)
}

/// Sizes and handlers of an image, in words.
pub fn contents(image: &Image) -> String {
    let bytes = |executable: bool| -> u32 {
        let of = image.sections.iter().filter(|section| section.executable == executable);
        of.filter(|section| !section.bytes.is_empty()).map(|section| section.size).sum()
    };
    let mut text = format!("{} bytes of code, {} of data", bytes(true), bytes(false));
    for (ending, what) in [("_hh", "header"), ("_ph", "packet"), ("_th", "tail")] {
        let names: Vec<&str> = image.symbols.iter().map(|symbol| symbol.name.as_str()).collect();
        if let Some(name) = names.into_iter().find(|name| name.ends_with(ending)) {
            text.push_str(&format!(", {what} handler {name}"));
        }
    }
    text
}
