//! The functions of `examples/balance/functions`, against Python's libraries and models, and two processes on one table.

use std::process::Command;

use nicforge_tests::root;

#[test]
fn functions_answer_what_they_should() {
    let build = tempfile::tempdir().unwrap();
    let folder = root().join("examples/balance/functions");
    let make = Command::new("make")
        .arg("-s")
        .arg(format!("BUILD={}", build.path().display()))
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(make.status.success(), "{}", String::from_utf8_lossy(&make.stderr));
    let worker = build.path().join("worker");
    let check = Command::new("python3").arg(folder.join("check.py")).arg(&worker).output().unwrap();
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "{said}{}", String::from_utf8_lossy(&check.stderr));
    assert_eq!(said.matches(" right from two processes (").count(), 3, "{said}");

    // A pipeline's reply is its functions' results, one behind the other.
    let answer = |function: &str| {
        let output = Command::new(&worker).args([function, "--answer", "1"]).output().unwrap().stdout;
        let mut parts = Vec::new();
        let mut at = 0;
        while at < output.len() {
            let size = u32::from_le_bytes(output[at..at + 4].try_into().unwrap()) as usize;
            parts.push(output[at + 4..at + 4 + size].to_vec());
            at += 4 + size;
        }
        parts
    };
    let (count, both) = (answer("count"), answer("count,crypto"));
    assert_eq!((&both[0], &both[2][..64], both[2].len()), (&count[0], &count[2][..], 64 + 32));

    for (arguments, words) in [
        (["nothing", "--bench", "1"], "no function `nothing`; there are\nkvs "),
        (["nat=5", "--bench", "1"], "nat: `5` is neither 1000 nor 10000 flows"),
        (["kvs", "--listen", "here"], "--listen takes ADDRESS:PORT"),
    ] {
        let refused = Command::new(&worker).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(words), "{said}");
    }
}
