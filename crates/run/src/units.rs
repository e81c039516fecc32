//! Generated files of C compiled to objects: one by one when they are needed, or many ahead of that
//! by one process.
//!
//! Starting clang costs as much as compiling a small file. Who runs many programs has their files
//! compiled together ([`ahead`]); each is then found where it is needed. An object is the same
//! either way: clang's compiler proper takes several files, and begins each anew.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::cache::{self, Compiled};
use crate::temp::Folder;

/// A file to compile with the generated ones that it includes, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    pub flags: Vec<String>,
    /// Name of the file among `files`.
    pub main: String,
    /// Names and texts.
    pub files: Vec<(String, String)>,
}

/// Files around units: they include these beside their own.
#[derive(Clone, Copy, Default)]
pub struct Around<'a> {
    pub files: &'a [(&'a str, &'a str)],
    /// Headers of others that all units include, worth reading once.
    pub headers: &'a str,
}

/// Compiled ahead and not yet asked for.
static AHEAD: Mutex<Option<HashMap<Unit, Vec<u8>>>> = Mutex::new(None);

/// A unit's object, if it was compiled ahead. Each is given once.
pub(crate) fn taken(unit: &Unit) -> Option<Vec<u8>> {
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.remove(unit)
}

/// Compiles units of the same flags in one process. What clang refuses is not told here: whoever
/// needs that unit compiles it alone. The others come of another process, since after an error the
/// first one makes nothing more.
///
/// # Errors
/// A file cannot be written or read, or clang not be started.
pub fn ahead(units: Vec<Unit>, around: Around) -> io::Result<()> {
    let Some(first) = units.first() else { return Ok(()) };
    let folder = Folder::new("units")?;
    write(folder.path(), around.files.iter().copied())?;
    for (number, unit) in units.iter().enumerate() {
        let own = folder.path().join(number.to_string());
        write(&own, unit.files.iter().map(|(name, text)| (name.as_str(), text.as_str())))?;
    }
    let flags = [&first.flags[..], &["-I.".to_string()]].concat();
    let name = Path::new(nicforge_clang::name());
    let Some(mut command) = nicforge_clang::proper(name, &flags)? else { return Ok(()) };
    if !around.headers.is_empty() {
        write(folder.path(), [("headers.h", around.headers)].into_iter())?;
        let more = ["-x", "c-header", "headers.h", "-o", "headers.pch"];
        if clang(folder.path(), &first.flags, &more)?.status.success() {
            command.extend(["-include-pch", "headers.pch"].map(String::from));
        }
    }
    let paths = units.iter().enumerate();
    let paths = paths.map(|(number, unit)| Path::new(&number.to_string()).join(&unit.main));
    let paths: Vec<PathBuf> = paths.collect();
    let mut from = 0;
    while from < units.len() {
        let mut compiler = Command::new(&command[0]);
        compiler.args(&command[1..]).current_dir(folder.path()).stdin(Stdio::null());
        let succeeded = compiler.args(&paths[from..]).output()?.status.success();
        let mut kept = AHEAD.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get_or_insert_default();
        while let Some(path) = paths.get(from) {
            let object = std::fs::read(folder.path().join(path).with_extension("o"));
            let Ok(object) = object else { break };
            kept.insert(units[from].clone(), object);
            from += 1;
        }
        if succeeded {
            break;
        }
        // This one is refused, or crashed the compiler.
        from += 1;
    }
    Ok(())
}

/// The options by which clang takes headers of others as it read them once. None if they cannot be
/// kept or clang refuses them: then each file reads them itself.
pub(crate) fn read_once(flags: &[String], language: Language, headers: &str) -> Vec<String> {
    kept_headers(flags, language, headers)
        .map(|path| vec!["-include-pch".to_string(), path.display().to_string()])
        .unwrap_or_default()
}

/// Languages of headers, by the word of clang's `-x`.
#[derive(Clone, Copy)]
pub(crate) enum Language {
    C,
    Cpp,
}

impl Language {
    fn word(self) -> &'static str {
        match self {
            Language::C => "c-header",
            Language::Cpp => "c++-header",
        }
    }
}

fn kept_headers(flags: &[String], language: Language, headers: &str) -> Option<PathBuf> {
    let of = (flags, language.word(), headers);
    let kept = Compiled::new("headers", nicforge_clang::name(), &of)?;
    if let Some(path) = kept.found() {
        return Some(path.to_path_buf());
    }
    let folder = Folder::new("headers").ok()?;
    // Clang looks whether the file that was read is still the same, so it stays.
    let source = cache::folder("headers").ok()?.join(format!("{}.h", cache::name(&headers)));
    if !source.is_file() {
        write(folder.path(), [("headers.h", headers)].into_iter()).ok()?;
        cache::install(&folder.path().join("headers.h"), &source).ok()?;
    }
    let more = ["-x", language.word(), "-o", "headers.pch", "-MD", "-MF", "made.d"];
    let more = more.map(String::from);
    let more = [&more[..], &[source.display().to_string()]].concat();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let made = clang(folder.path(), flags, &more).ok()?;
    let path = folder.path();
    let fine =
        made.status.success() && kept.keep(&path.join("headers.pch"), &path.join("made.d")).is_ok();
    fine.then(|| kept.found().map(Path::to_path_buf)).flatten()
}

/// Forgets what was compiled ahead and nobody asked for.
pub fn forget() {
    *AHEAD.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn clang(dir: &Path, flags: &[String], more: &[&str]) -> io::Result<Output> {
    let mut clang = Command::new(nicforge_clang::name());
    clang.current_dir(dir).stdin(Stdio::null()).args(flags).args(more).output()
}

/// Links in a folder as `clang` with these arguments does. What clang would tell the linker it is
/// asked once: files have the same names in every folder.
///
/// # Errors
/// Clang or the linker cannot be started.
pub(crate) fn link(dir: &Path, args: &[String]) -> io::Result<Output> {
    static KNOWN: Mutex<Vec<(Vec<String>, Vec<String>)>> = Mutex::new(Vec::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().iter().find(|(of, _)| of == args).map(|(_, command)| command.clone());
    let command = match found {
        Some(command) => command,
        None => {
            let shown = clang(dir, args, &["-###"])?;
            let text = String::from_utf8_lossy(&shown.stderr).into_owned();
            // Where it would do more than link, it does all of that itself.
            let Some(command) = text
                .lines()
                .rev()
                .find_map(nicforge_clang::words)
                .filter(|_| shown.status.success())
            else {
                return clang(dir, args, &[]);
            };
            known().push((args.to_vec(), command.clone()));
            command
        }
    };
    Command::new(&command[0]).args(&command[1..]).current_dir(dir).stdin(Stdio::null()).output()
}

/// Writes files into a folder, which is made.
fn write<'a>(dir: &Path, files: impl Iterator<Item = (&'a str, &'a str)>) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    files.into_iter().try_for_each(|(name, text)| std::fs::write(dir.join(name), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(text: &str) -> Unit {
        let files = vec![
            ("own.h".to_string(), format!("{text}\n")),
            (
                "unit.c".to_string(),
                "#include <stddef.h>\n#include \"own.h\"\n#include \"common.h\"\n".into(),
            ),
        ];
        Unit {
            flags: vec!["-O2".into(), "-w".into(), "-DQUOTE=\"a b\"".into()],
            main: "unit.c".into(),
            files,
        }
    }

    const AROUND: Around = Around {
        files: &[("common.h", "int common(void) { return N; }\n")],
        headers: "#include <stddef.h>\n",
    };

    #[test]
    fn several_units_are_compiled_as_each_alone() {
        let both = vec![unit("#define N 1"), unit("#define N 2\nconst char text[] = QUOTE;")];
        ahead(both.clone(), AROUND).unwrap();
        for unit in &both {
            let dir = tempfile::tempdir().unwrap();
            let files = unit.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            write(dir.path(), files.chain(AROUND.files.iter().copied())).unwrap();
            let ran = clang(dir.path(), &unit.flags, &["-c", "unit.c", "-o", "alone.o"]).unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            let alone = std::fs::read(dir.path().join("alone.o")).unwrap();
            assert!(taken(unit).unwrap().len() >= alone.len(), "only the file's name is longer");
            assert_eq!(taken(unit), None, "each is given once");
        }
    }

    #[test]
    fn those_around_a_refused_one_are_compiled() {
        let numbers = ["3", "x", "4", "5", "y"];
        let all = numbers.map(|number| unit(&format!("#define N {number}")));
        ahead(all.to_vec(), AROUND).unwrap();
        let there = all.map(|unit| taken(&unit).is_some());
        assert_eq!(there, [true, false, true, true, false]);
    }
}
