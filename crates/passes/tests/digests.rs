//! What the default passes make of every program of this repository, as lines and hash of its αIR.
//!
//! A change here is no mistake by itself: it says which programs became other code.

use std::path::Path;

use nicforge_filetest::{digest, expect_table, programs, root};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_passes::PassManager;

#[test]
fn programs_become_the_same_code() {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let mut lines = Vec::new();
    for (name, path) in programs() {
        let Ok(output) = nicforge_frontend::compile(&path, &options) else { continue };
        let program =
            nicforge_ir::verify(output.program).unwrap_or_else(|e| panic!("{name}: {}", e[0]));
        let made =
            PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{name}: {e}"));
        let text = print(&made, PrintOptions { spans: false });
        lines.push(format!("{name:40} {}", digest(&text)));
    }
    expect_table(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests.txt"), &lines);
}
