//! Finds the clang that reads programs and compiles what is generated: Debian 12 has 19, 16, 15 and
//! 14, and all tests pass with 19, the examples with each.

use std::path::Path;
use std::sync::OnceLock;

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

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn tested_versions_come_first() {
        let among = |there: &'static [&str]| find(move |name| there.contains(&name));
        assert_eq!(among(&["clang", "clang-20", "clang-14", "clang-16"]), "clang-16");
        assert_eq!(among(&["clang", "clang-18"]), "clang-18");
        assert_eq!(among(&["clang"]), "clang");
        assert_eq!(among(&[]), "clang-19");
    }
}
