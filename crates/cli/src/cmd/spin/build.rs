//! `nicforge spin build`: handlers in C become an ELF image.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use nicforge_isa::object::riscv::Image;
use nicforge_run::spin::{self, Api, Built, ImageOptions};

use crate::context::{Failure, Runtime};

/// Whose headers handlers are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ApiArg {
    Pspin,
    Fpspin,
}

impl From<ApiArg> for Api {
    fn from(api: ApiArg) -> Api {
        match api {
            ApiArg::Pspin => Api::Pspin,
            ApiArg::Fpspin => Api::Fpspin,
        }
    }
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
    #[arg(long, value_enum, default_value = "fpspin")]
    machine: ApiArg,
    /// For the compiler: -DNAME=VALUE, -I DIR, -O2 and so on
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Builds and says what the image holds.
pub fn run(args: Build) -> Result<(), Failure> {
    let built = image(&args.sources, args.machine.into(), &args.flags)?;
    let out = match args.out {
        Some(out) => out,
        None => Path::new(args.sources[0].file_name().unwrap_or_default()).with_extension("elf"),
    };
    std::fs::write(&out, &built.elf).map_err(|e| Failure::user(format!("{}: {e}", out.display())))?;
    let api = Api::from(args.machine).name();
    outln!("wrote {} for {api}: {}", out.display(), contents(&built.image));
    Ok(())
}

/// Compiles handlers and shows the compiler's warnings.
pub fn image(sources: &[PathBuf], api: Api, flags: &[String]) -> Result<Built, Failure> {
    for source in sources {
        if let Err(e) = std::fs::File::open(source) {
            return Err(Failure::user(format!("{}: {e}", source.display())));
        }
    }
    let runtime = Runtime::unpack()?;
    let options = ImageOptions { sources: sources.to_vec(), api, flags: flags.to_vec() };
    let built = spin::build(runtime.path(), &options).map_err(|e| Failure::of(e.fault(), e))?;
    if !built.warnings.is_empty() {
        errln!("{}", built.warnings.trim_end());
    }
    Ok(built)
}

/// Sizes and handlers of an image, in words.
fn contents(image: &Image) -> String {
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
