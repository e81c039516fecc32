//! What passes make, as lines and hash of the αIR: the default pipeline of every program of this
//! repository, and each pass alone of these and of random programs.
//!
//! A change here is no mistake by itself: it says which code became other code.

use std::path::Path;

use nicforge_filetest::{digest, expect_table, programs, root};
use nicforge_ir::generate::{Options, generate};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{Program, Verified};
use nicforge_passes::PassManager;
use nicforge_passes::fuse::fuse;
use nicforge_passes::registry::PASSES;

/// Random programs.
const RANDOM: u64 = 200;

fn text(program: &Verified<Program>) -> String {
    print(program, PrintOptions { spans: false })
}

fn by_default(name: &str, program: Verified<Program>) -> Verified<Program> {
    PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What each pass makes of some programs, before and behind the default pipeline.
#[derive(Default)]
struct Alone {
    programs: Vec<(String, Verified<Program>)>,
}

impl Alone {
    fn add(&mut self, name: &str, program: Verified<Program>, simple: Verified<Program>) {
        let inlined = PassManager::new().run(program.clone(), &["inline"]);
        let inlined = inlined.unwrap_or_else(|e| panic!("{name}: {e}"));
        self.programs.extend([program, inlined, simple].map(|one| (name.to_string(), one)));
    }

    fn lines(&self, what: &str) -> Vec<String> {
        let by = |pass: &str, run: &dyn Fn(Verified<Program>) -> Verified<Program>| {
            let all: String =
                self.programs.iter().map(|(_, one)| text(&run(one.clone()))).collect();
            format!("{what:10} {pass:20} {}", digest(&all))
        };
        let mut lines = Vec::new();
        for pass in PASSES {
            let run = |one: Verified<Program>| {
                let before = text(&one);
                let mut made = one.into_inner();
                let changed = pass.run(&mut made);
                let made = nicforge_ir::verify(made).unwrap_or_else(|e| panic!("{}", e[0]));
                // Else the pipeline would end too early.
                assert!(changed || before == text(&made), "{} keeps quiet\n{before}", pass.name());
                made
            };
            lines.push(by(pass.name(), &run));
        }
        lines.push(by("fuse", &|one| fuse(one).unwrap_or_else(|e| panic!("{e}"))));
        lines
    }
}

fn expect(file: &str, lines: &[String]) {
    expect_table(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file), lines);
}

#[test]
fn programs_become_the_same_code() {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let (mut lines, mut alone) = (Vec::new(), Alone::default());
    for (name, path) in programs() {
        let Ok(output) = nicforge_frontend::compile(&path, &options) else { continue };
        let program =
            nicforge_ir::verify(output.program).unwrap_or_else(|e| panic!("{name}: {}", e[0]));
        let simple = by_default(&name, program.clone());
        lines.push(format!("{name:40} {}", digest(&text(&simple))));
        alone.add(&name, program, simple);
    }
    expect("digests.txt", &lines);
    expect("digests_alone.txt", &alone.lines("programs"));
}

#[test]
fn random_programs_become_the_same_code() {
    let (mut lines, mut alone) = (Vec::new(), Alone::default());
    for (name, options) in [("all", Options::ALL), ("arithmetic", Options::ARITHMETIC)] {
        let mut all = String::new();
        for seed in 0..RANDOM {
            let program = generate(seed, options);
            let simple = by_default(&format!("{name} {seed}"), program.clone());
            all += &text(&simple);
            alone.add(name, program, simple);
        }
        lines.push(format!("{name:10} {:20} {}", "default", digest(&all)));
    }
    lines.extend(alone.lines("random"));
    expect("digests_random.txt", &lines);
}
