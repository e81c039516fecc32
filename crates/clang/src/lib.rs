//! Finds the clang that reads programs and compiles what is generated: Debian 12 has 19, 16, 15 and
//! 14, and all tests pass with 19, the examples with each. And what clang itself starts, for those
//! who compile many files.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Versions that Nicforge is tested with, the preferred one first.
pub const TESTED: [u32; 4] = [19, 16, 15, 14];

/// Versions that exist beside them and are taken, with a warning, if no tested one is there.
const OTHERS: [u32; 5] = [22, 21, 20, 18, 17];

/// Name of the clang on this machine: a tested version, else another, else plain `clang`. Where
/// there is none, the preferred one, so that errors say what to install.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        find(|name| std::env::split_paths(&path).any(|folder| is_program(&folder.join(name))))
    })
}

/// The warning that the clang on this machine is no tested version, if it is none.
pub fn untested() -> Option<String> {
    let name = name();
    let tested = TESTED.iter().any(|version| name == format!("clang-{version}"));
    (!tested).then(|| {
        let versions = TESTED.map(|version| version.to_string()).join(", ");
        format!(
            "{name} is used, which is not tested (tested: {versions}); `apt-get install clang-19` has one"
        )
    })
}

/// The first name that is there.
fn find(is_there: impl Fn(&str) -> bool) -> String {
    let numbered = TESTED.iter().chain(&OTHERS).map(|version| format!("clang-{version}"));
    let mut names = numbered.chain(["clang".to_string()]);
    names.find(|name| is_there(name)).unwrap_or_else(|| format!("clang-{}", TESTED[0]))
}

/// The command of the compiler proper that `clang` starts for C files with these arguments, without
/// files. With several files behind it, it compiles one after the other in one process, and begins
/// each anew. Clang is asked once; nothing if it refuses the arguments.
///
/// # Errors
/// Clang cannot be started.
pub fn proper(clang: &Path, args: &[String]) -> io::Result<Option<Vec<String>>> {
    type Asked = (std::path::PathBuf, Vec<String>);
    static KNOWN: Mutex<Vec<(Asked, Vec<String>)>> = Mutex::new(Vec::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |(asked, _): &&(Asked, Vec<String>)| asked.0 == clang && asked.1 == args;
    if let Some((_, command)) = known().iter().find(same) {
        return Ok(Some(command.clone()));
    }
    let mut ask = Command::new(clang);
    ask.stdin(Stdio::null()).args(args).args(["-x", "c", "-c", "-", "-###"]);
    let shown = String::from_utf8_lossy(&ask.output()?.stderr).into_owned();
    let line = shown.lines().find(|line| line.contains("\"-cc1\""));
    let Some(mut command) = line.and_then(words) else { return Ok(None) };
    // What is of one file, or of the folder in which clang was asked.
    for option in ["-main-file-name", "-o"] {
        if let Some(at) = command.iter().position(|word| word == option) {
            command.drain(at..=at + 1);
        }
    }
    command.retain(|word| !word.contains("-compilation-dir="));
    command.pop();
    known().push(((clang.to_path_buf(), args.to_vec()), command.clone()));
    Ok(Some(command))
}

/// The words of a command as clang shows it: in quotes, in which a backslash keeps the next
/// character.
pub fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, &mut word) {
            ('"', Some(_)) => words.extend(word.take()),
            ('"', None) => word = Some(String::new()),
            ('\\', Some(word)) => word.push(chars.next()?),
            (c, Some(word)) => word.push(c),
            (_, None) => {}
        }
    }
    (word.is_none() && words.len() > 2).then_some(words)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::{find, words};

    #[test]
    fn words_are_read_as_clang_writes_them() {
        let line = r#" "/a b/clang" "-cc1" "-D" "Q=\"x\\y\"""#;
        assert_eq!(words(line).unwrap(), ["/a b/clang", "-cc1", "-D", r#"Q="x\y""#]);
        assert_eq!(words("\"open"), None);
    }

    #[test]
    fn tested_versions_come_first() {
        let among = |there: &'static [&str]| find(move |name| there.contains(&name));
        assert_eq!(among(&["clang", "clang-20", "clang-14", "clang-16"]), "clang-16");
        assert_eq!(among(&["clang", "clang-18"]), "clang-18");
        assert_eq!(among(&["clang"]), "clang");
        assert_eq!(among(&[]), "clang-19");
    }
}
