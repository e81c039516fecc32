//! Programs to one shared object: wrappers around users' files, clang, and what its debug
//! information says.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::calls::{CALLS, Calls, Value};
use super::machine::{Oracle, RawProgram};
use super::padding;
use super::statics::Statics;
use crate::{root, threads};

/// A program to build.
#[derive(Clone, Debug)]
pub struct Source {
    pub path: PathBuf,
    /// Names at file scope that other programs of the object have too.
    pub names: Vec<String>,
}

/// A loaded object.
pub struct Object {
    _library: Library,
    /// By address in this process.
    masks: HashMap<usize, Vec<u8>>,
    pub statics: Statics,
}

impl Object {
    /// The bits of a value's type that mean something.
    pub fn mask(&self, value: &Value) -> &[u8] {
        self.masks.get(&(value.marker as usize)).map_or(&[], Vec::as_slice)
    }

    pub fn clear_padding(&self, value: &Value, bytes: &mut [u8]) {
        let mask = self.mask(value);
        assert_eq!(mask.len(), bytes.len(), "the type of a value is in the debug information");
        bytes.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
    }
}

/// Compiles programs, each with its files beside it, and loads them. Each CPU compiles a share of
/// them together.
///
/// # Errors
/// clang's messages.
pub fn build(sources: &[Source]) -> Result<Vec<Oracle>, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let shares: Vec<_> = sources.chunks(sources.len().div_ceil(threads()).max(1)).collect();
    let objects: Vec<PathBuf> =
        (0..shares.len()).map(|share| folder.path().join(format!("share_{share}.so"))).collect();
    std::thread::scope(|scope| {
        let running = shares.iter().zip(&objects);
        let running: Vec<_> =
            running.map(|(share, object)| scope.spawn(|| compile(share, object))).collect();
        running.into_iter().try_for_each(|one| one.join().expect("no thread crashed"))
    })?;
    let loaded = shares.iter().zip(&objects).map(|(share, object)| load(object, share.len()));
    Ok(loaded.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The judge of ciphers, digests and patterns: `nf_judge` of tests/oracle/crypto.c.
pub type Judge =
    unsafe extern "C" fn(*const std::ffi::c_char, *mut u8, u32, *const *mut u8, *const u32) -> bool;

/// OpenSSL, zlib and Hyperscan behind one function, compiled at the first call.
pub fn judge() -> Judge {
    static JUDGE: std::sync::OnceLock<Judge> = std::sync::OnceLock::new();
    *JUDGE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let object = folder.path().join("crypto.so");
        let ran = Command::new(nicforge_clang::name())
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared"])
            .args(["crypto.c", "regex.c"].map(|name| root().join("tests/oracle").join(name)))
            .arg("-o")
            .arg(&object)
            .args(["-lcrypto", "-lz", "-lhs"])
            .output()
            .expect("clang runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success(),
            "OpenSSL, zlib or Hyperscan is missing: scripts/bootstrap.sh\n{said}"
        );
        // SAFETY: the object has the function, of this type; it stays loaded.
        unsafe {
            let library = Library::open(Some(&object), RTLD_NOW | RTLD_LOCAL).expect("it loads");
            let judge: Judge = *library.get(b"nf_judge").expect("it has the judge");
            std::mem::forget(library);
            judge
        }
    })
}

/// The number of the pattern, of those that stand one a line, that Hyperscan finds first in bytes.
pub fn first_match(patterns: &str, bytes: &[u8]) -> u32 {
    let lines = CString::new(patterns).expect("patterns without zeros");
    let (mut bytes, mut found) = (bytes.to_vec(), 0u32);
    let args = [lines.as_ptr() as *mut u8, (&raw mut found).cast()];
    let sizes = [lines.as_bytes_with_nul().len() as u32, 4];
    // SAFETY: so many bytes, a text that ends, and a place for a number.
    unsafe {
        let n = bytes.len() as u32;
        judge()(c"regex".as_ptr(), bytes.as_mut_ptr(), n, args.as_ptr(), sizes.as_ptr());
    }
    found
}

/// Compiles programs together to one shared object. Not optimised: that would take twice as long,
/// and only what C means is asked for.
fn compile(sources: &[Source], object: &Path) -> Result<(), String> {
    let text = object.with_extension("c");
    let wrapped: String =
        sources.iter().enumerate().map(|(id, source)| wrapper(id, source)).collect();
    let whole = format!("#include \"nf_oracle.h\"\nNF_ORACLE_OBJECT\n{wrapped}");
    std::fs::write(&text, whole).map_err(|e| e.to_string())?;
    let shim = root().join("tests/oracle");
    let mut clang = Command::new(nicforge_clang::name());
    clang.args([
        "-std=gnu11",
        "-O0",
        "-gdwarf-4",
        "-fPIC",
        "-shared",
        "-w",
        "-fblocks",
        "-ffreestanding",
    ]);
    // In their order: clang 19 crashes on some blocks in static functions that it puts off, where
    // there is debug information (program 2921).
    clang.arg("-femit-all-decls");
    // What C leaves open and the language does not.
    clang.args([
        "-ftrivial-auto-var-init=zero",
        "-fwrapv",
        "-fno-strict-aliasing",
        "-fno-color-diagnostics",
    ]);
    clang.args(["-Wl,-Bsymbolic", "-nostdlib"]);
    clang.arg("-I").arg(&shim).arg("-I").arg(root().join("runtime/include"));
    let ran = clang
        .arg(&text)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("{}: {e}", nicforge_clang::name()))?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into_owned());
    }
    Ok(())
}

/// A program's file with what is around it. Its handlers, and the names it shares with others, get
/// names of their own.
fn wrapper(id: usize, source: &Source) -> String {
    let path = std::fs::canonicalize(&source.path).unwrap_or_else(|_| source.path.clone());
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let timers = timers(&text);
    let own = ["net_recv", "host_send"].map(String::from).into_iter();
    let own: Vec<String> = own.chain(timers.iter().cloned()).collect();
    let names = || source.names.iter().chain(&own);
    let defines: String = names().map(|name| format!("#define {name} {name}_{id}\n")).collect();
    let undefines: String = names().map(|name| format!("#undef {name}\n")).collect();
    let takes_packets = has_handler(&text, "net_recv").is_some();
    let (thunk, host) = match has_handler(&text, "host_send") {
        Some(parameter) => thunk(id, parameter),
        None => (String::new(), "0, 0, 0".to_string()),
    };
    let recv = if takes_packets { "net_recv" } else { "0" };
    let listed: String = timers.iter().map(|name| format!("{{\"{name}\", {name}}}, ")).collect();
    let timers =
        format!("static const struct nf_oracle_timer nf_timers_{id}[] = {{{listed}{{0, 0}}}};\n");
    format!(
        "#define NF_ID {id}\n{defines}#include \"{}\"\n{thunk}{timers}NF_ORACLE_PROGRAM({id}, {recv}, {host})\n{undefines}#undef NF_ID\n",
        path.display()
    )
}

/// Names of the handlers of timers, in order.
fn timers(text: &str) -> Vec<String> {
    let (mut found, mut waits) = (Vec::new(), false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("NF_EXPIRES(") {
            let table = rest.split(',').next().unwrap_or_default();
            found.push(format!("nf_expiry_of_{table}"));
        }
        waits |= line.starts_with("NF_TIMER(");
        let handler = line.strip_prefix("void ").and_then(|rest| rest.split('(').next());
        if let Some(name) = handler.filter(|_| waits) {
            found.push(name.to_string());
            waits = false;
        }
    }
    found
}

/// The parameters of a handler's definition.
fn has_handler<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let start = text.find(&format!("\nvoid {name}("))? + name.len() + 7;
    let end = text[start..].find(')')? + start;
    Some(&text[start..end])
}

/// A function that calls `host_send` with the bytes of its parameter, and what describes it.
fn thunk(id: usize, parameter: &str) -> (String, String) {
    let name = parameter.split_whitespace().last().unwrap_or_default();
    let text = format!(
        "static {parameter}_type_{id};\nstatic void nf_host_send_{id}(struct nf_value message)\n{{\n    \
         {parameter};\n    __builtin_memcpy(&{name}, message.bytes, sizeof {name});\n    host_send({name});\n}}\n"
    );
    (text, format!("nf_host_send_{id}, sizeof {name}_type_{id}, &{name}_type_{id}"))
}

fn load(path: &Path, count: usize) -> Result<Vec<Oracle>, String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    // SAFETY: the object has no initialisers; the symbols are those of the shim.
    unsafe {
        let library =
            Library::open(Some(path), RTLD_NOW | RTLD_LOCAL).map_err(|e| e.to_string())?;
        let calls = library.get::<*mut *const Calls>(b"nf_oracle\0").map_err(|e| e.to_string())?;
        **calls = &CALLS;
        let mut programs = Vec::new();
        for id in 0..count {
            let name = format!("nf_program_{id}\0");
            programs.push(
                *library.get::<*const RawProgram>(name.as_bytes()).map_err(|e| e.to_string())?,
            );
        }
        let base = base(&bytes, *calls as usize);
        let (mut masks, mut statics) = (HashMap::new(), Statics::default());
        for padding::Variable { name, at, mask, changes, shape } in padding::variables(&bytes) {
            let at = base + at as usize;
            // Those of the shim stay as they are.
            if changes && !name.starts_with("nf_") {
                statics.add(name, at, mask.clone(), shape);
            }
            masks.insert(at, mask);
        }
        let object = Rc::new(Object { _library: library, masks, statics });
        let numbered = programs.into_iter().enumerate();
        Ok(numbered.map(|(id, raw)| Oracle::new(id, raw, object.clone())).collect())
    }
}

/// Where the object lies in this process, from the address of `nf_oracle` in both.
fn base(bytes: &[u8], there: usize) -> usize {
    use object::{Object as _, ObjectSymbol};
    let file = object::File::parse(bytes).expect("a shared object");
    let symbol =
        file.dynamic_symbols().find(|s| s.name() == Ok("nf_oracle")).expect("the shim's symbol");
    there - symbol.address() as usize
}
