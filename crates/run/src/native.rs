//! Functions of C files and libraries that programs call (`extern`, `--with`): compiled and linked
//! to one shared object with a wrapper for each, and loaded so that generated code finds them by
//! name and the interpreter by [`nicforge_ir::native`].
//!
//! What is loaded stays: a function may have state and threads of its own. A function that crashes
//! takes the process with it; the last thing it says is which one that was.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use nicforge_ir::native::{Arg, Native, provide};
use nicforge_ir::{Body, Inst, Op, Passing, Program, Type};

use crate::fault::Fault;
use crate::host::{HostError, fresh_dir, write_files};

/// Why functions of C cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    #[error(
        "--with {0}: there is no such file; name a .c, .o, .a or .so file, or a library as -lNAME"
    )]
    NoFile(String),
    #[error("--with: {clang} refuses what was given: {first}\n{all}", clang = nicforge_clang::name())]
    Refused { first: String, all: String },
    #[error("{place}: nothing given by --with has the C function `{name}`")]
    Missing { name: String, place: String },
    #[error(
        "{place}: the program calls the C function `{name}`; name the file or library that has it: --with FILE.c or --with=-lNAME"
    )]
    NotGiven { name: String, place: String },
    #[error(
        "{place}: `{name}` is called with other types than elsewhere; pass the same types in the same way in every call"
    )]
    Types { name: String, place: String },
    #[error(transparent)]
    Build(#[from] HostError),
}

impl NativeError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            NativeError::Build(error) => error.fault(),
            _ => Fault::User,
        }
    }
}

/// What was loaded: the shared object's bytes, for applications that are processes of their own,
/// and the functions' names.
struct Loaded {
    object: Vec<u8>,
    names: Vec<String>,
}

static LOADED: OnceLock<Loaded> = OnceLock::new();

/// Puts the shared object with the functions into an application's folder; gives what the linker is
/// told there. Nothing if no functions were loaded.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn linked_into(dir: &Path) -> Result<Vec<String>, HostError> {
    let Some(loaded) = LOADED.get() else { return Ok(Vec::new()) };
    let path = dir.join("functions.so");
    std::fs::write(&path, &loaded.object).map_err(|source| HostError::Io { path, source })?;
    // What it needs itself, the application may call too.
    let linking = ["-Wl,--copy-dt-needed-entries", "-L.", "-l:functions.so", "-Wl,-rpath,$ORIGIN"];
    Ok(linking.map(String::from).to_vec())
}

/// A function's prototype: C types of arguments, and of the result.
#[derive(PartialEq, Eq)]
struct Prototype {
    params: Vec<String>,
    result: Option<String>,
    place: String,
}

/// Compiles and loads what programs' calls of C need, from source files, objects and libraries
/// (`-lNAME`). `headers` is the folder with `nicforge.h`, whose types source files may name.
///
/// # Errors
/// [`NativeError::Missing`] for a function that nothing has; the compiler's words if it refuses a
/// file.
pub fn load(programs: &[&Program], with: &[String], headers: &Path) -> Result<(), NativeError> {
    let prototypes = prototypes(programs)?;
    if prototypes.is_empty() && with.is_empty() {
        return Ok(());
    }
    if LOADED.get().is_some() {
        return programs.iter().try_for_each(|program| check(program));
    }
    let dir = fresh_dir()?;
    let object = dir.path().join("functions.so");
    write_files(dir.path(), &[("calls.c", &wrappers(&prototypes))])?;
    run(Command::new(nicforge_clang::name()).current_dir(dir.path()).args([
        "-std=gnu11",
        "-O2",
        "-fPIC",
        "-w",
        "-fno-builtin",
        "-c",
        "calls.c",
    ]))
    .map_err(|(first, all)| NativeError::Refused { first, all })?;
    let mut link = Command::new(nicforge_clang::name());
    link.args([
        "-std=gnu11",
        "-O2",
        "-g",
        "-fPIC",
        "-shared",
        "-fno-color-diagnostics",
        "-Wl,--no-undefined,-Bsymbolic",
    ]);
    link.arg("-I").arg(headers).arg(dir.path().join("calls.o"));
    for one in with {
        if !one.starts_with("-l") && !Path::new(one).is_file() {
            return Err(NativeError::NoFile(one.clone()));
        }
        link.arg(one);
    }
    run(link.arg("-o").arg(&object)).map_err(|(first, all)| {
        let lacks = |(name, _): &(&String, &Prototype)| {
            all.contains(&format!("`{name}'")) || all.contains(&format!("symbol: {name}"))
        };
        match prototypes.iter().find(lacks) {
            Some((name, prototype)) if all.contains("undefined") => {
                NativeError::Missing { name: name.clone(), place: prototype.place.clone() }
            }
            _ => NativeError::Refused { first, all },
        }
    })?;
    let bytes =
        std::fs::read(&object).map_err(|source| HostError::Io { path: object.clone(), source })?;
    let problem = |error: libloading::Error| HostError::Load { reason: error.to_string() };
    let open = |path: &Path, scope| {
        // SAFETY: the user's own code, which the user asked for; initialisers and all.
        unsafe { Library::open(Some(path), RTLD_NOW | scope) }.map_err(problem)
    };
    // Generated code and the interpreter have a copy each, so that state of one is not the other's.
    let copy = dir.path().join("interpreted.so");
    std::fs::write(&copy, &bytes).map_err(|source| HostError::Io { path: copy.clone(), source })?;
    let (generated, library) = (open(&object, RTLD_GLOBAL)?, open(&copy, RTLD_LOCAL)?);
    for name in prototypes.keys() {
        // SAFETY: `wrappers` made it with this type.
        let call = unsafe { library.get::<Wrapper>(format!("nf_call_{name}\0").as_bytes()) };
        provide(name, native(*call.map_err(problem)?));
    }
    // The functions are called as long as the process lives.
    std::mem::forget((generated, library));
    watch_for_crashes();
    let names = prototypes.into_keys().collect();
    // Two threads that load at the same time have loaded the same.
    let _ = LOADED.set(Loaded { object: bytes, names });
    Ok(())
}

/// Checks that everything that a program calls was loaded.
///
/// # Errors
/// [`NativeError::NotGiven`] for the first function that was not.
pub fn check(program: &Program) -> Result<(), NativeError> {
    for (name, prototype) in prototypes(&[program])? {
        if nicforge_ir::native::find(&name).is_none() {
            return Err(NativeError::NotGiven { name, place: prototype.place });
        }
    }
    Ok(())
}

/// Suspicion about a process that crashed: it calls functions of C, if it does.
pub(crate) fn suspects() -> String {
    let names =
        LOADED.get().map(|loaded| loaded.names.join(", ")).filter(|names| !names.is_empty());
    names.map_or(String::new(), |names| {
        format!(
            "; it calls these functions of C, which are the program's author's to look at: {names}"
        )
    })
}

/// What is done before a crash ends the process.
static LAST: OnceLock<fn()> = OnceLock::new();

/// Has `last` called before a crash ends the process: to remove what must not outlive it.
pub fn before_a_crash_ends_it(last: fn()) {
    let _ = LAST.set(last);
}

/// Runs the compiler; its first error and all it said if it fails.
fn run(command: &mut Command) -> Result<(), (String, String)> {
    let ran = command.output().map_err(|error| {
        let text = format!(
            "it cannot be started ({error}); install it with `apt-get install {}`",
            nicforge_clang::name()
        );
        (text, String::new())
    })?;
    if ran.status.success() {
        return Ok(());
    }
    let all = String::from_utf8_lossy(&ran.stderr).into_owned();
    let first = all.lines().find(|line| line.contains("error") || line.contains("undefined"));
    Err((first.unwrap_or("no reason given").to_string(), all))
}

/// Every function of C that programs call.
fn prototypes(programs: &[&Program]) -> Result<BTreeMap<String, Prototype>, NativeError> {
    let mut found: BTreeMap<String, Prototype> = BTreeMap::new();
    let mut wrong = None;
    let bodies = programs.iter().flat_map(|program| {
        let handlers = program.handlers.values().map(|handler| &handler.body);
        let bodies = handlers.chain(program.funcs.values().map(|func| &func.body));
        bodies.map(|body| (*program, body))
    });
    for (program, body) in bodies {
        body.for_each_inst(body.entry(), &mut |inst| {
            let data = &body.insts[inst];
            let Op::Extern { name, passing, args, .. } = &data.op else { return };
            let param = |(arg, passing): (&nicforge_ir::ValueId, &Passing)| match passing {
                Passing::Value => c_type(body.ty(*arg)),
                Passing::Read => "const void *".to_string(),
                Passing::Write => "void *".to_string(),
            };
            let made = Prototype {
                params: args.iter().zip(passing).map(param).collect(),
                result: result_of(body, data, passing),
                place: program.place(data.span),
            };
            let known = found.entry(name.clone()).or_insert_with(|| Prototype {
                params: made.params.clone(),
                result: made.result.clone(),
                place: made.place.clone(),
            });
            if (&known.params, &known.result) != (&made.params, &made.result) {
                wrong.get_or_insert(NativeError::Types { name: name.clone(), place: made.place });
            }
        });
    }
    wrong.map_or(Ok(found), Err)
}

fn result_of(body: &Body, inst: &Inst, passing: &[Passing]) -> Option<String> {
    let written = passing.iter().filter(|passing| **passing == Passing::Write).count();
    let first = inst.results.first().filter(|_| inst.results.len() > written)?;
    Some(c_type(body.ty(*first)))
}

fn c_type(ty: Type) -> String {
    match ty {
        Type::Int { bits: 1, .. } => "_Bool".to_string(),
        Type::Int { bits, signed } => format!("{}int{bits}_t", if signed { "" } else { "u" }),
        _ => "void *".to_string(),
    }
}

/// A function with its arguments as words and addresses, each in its place.
type Wrapper = unsafe extern "C" fn(*const u64, *const *mut c_void) -> u64;

/// C of the wrappers.
fn wrappers(prototypes: &BTreeMap<String, Prototype>) -> String {
    let mut out = "#include <stdint.h>\n".to_string();
    for (name, prototype) in prototypes {
        let params = if prototype.params.is_empty() {
            "void".to_string()
        } else {
            prototype.params.join(", ")
        };
        let list: Vec<String> = prototype
            .params
            .iter()
            .enumerate()
            .map(|(at, ty)| match ty.ends_with('*') {
                true => format!("at[{at}]"),
                false => format!("({ty})words[{at}]"),
            })
            .collect();
        let call = format!("{name}({})", list.join(", "));
        let gives = prototype.result.as_deref().unwrap_or("void");
        let _ = writeln!(out, "extern {gives} {name}({params});");
        let _ =
            writeln!(out, "uint64_t nf_call_{name}(const uint64_t *words, void *const *at)\n{{");
        match prototype.result {
            Some(_) => _ = writeln!(out, "    return (uint64_t){call};\n}}"),
            None => _ = writeln!(out, "    {call};\n    return 0;\n}}"),
        }
    }
    out
}

/// The function behind a wrapper, for the interpreter.
fn native(wrapper: Wrapper) -> Native {
    Arc::new(move |args: &mut [Arg]| {
        let words: Vec<u64> =
            args.iter().map(|arg| if let Arg::Word(word) = arg { *word } else { 0 }).collect();
        let at: Vec<*mut c_void> = args
            .iter_mut()
            .map(|arg| match arg {
                Arg::Bytes(bytes) => bytes.as_mut_ptr().cast(),
                Arg::Word(_) => std::ptr::null_mut(),
            })
            .collect();
        // SAFETY: as many words and addresses as the wrapper has parameters; what the function does
        // is its author's.
        unsafe { wrapper(words.as_ptr(), at.as_ptr()) }
    })
}

/// Signals by which code ends that does something wrong, and what they mean.
const CRASHES: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "invalid address"),
    (libc::SIGBUS, "invalid address"),
    (libc::SIGFPE, "division by zero"),
    (libc::SIGILL, "invalid instruction"),
    (libc::SIGABRT, "it gave up: abort"),
];

/// From now on a crash says where it was and ends the process with status 1.
fn watch_for_crashes() {
    for (signal, _) in CRASHES {
        // SAFETY: all-zero is a valid value; the handler has the type that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = crashed as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn crashed(signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let meaning =
        CRASHES.iter().find(|(known, _)| *known == signal).map_or("?", |(_, meaning)| meaning);
    // SAFETY: the kernel gave the context; names that dladdr finds are C strings of loaded objects.
    let place = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let name =
            libc::dladdr(instruction(context), &raw mut found) != 0 && !found.dli_sname.is_null();
        name.then(|| CStr::from_ptr(found.dli_sname).to_string_lossy().into_owned())
    };
    let place = place.map_or(String::new(), |name| format!(" in `{name}`"));
    let text = format!("error: a crash{place}: {meaning}{}\n", suspects());
    if let Some(last) = LAST.get() {
        last();
    }
    // SAFETY: bytes and their number.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::_exit(1);
    }
}

/// Where the thread was.
///
/// # Safety
/// `context` is what the kernel gives signal handlers.
#[cfg(target_arch = "x86_64")]
unsafe fn instruction(context: *mut c_void) -> *const c_void {
    // SAFETY: as the caller says.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as *const c_void
}

/// Nothing is known here.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn instruction(_context: *mut c_void) -> *const c_void {
    std::ptr::null()
}
