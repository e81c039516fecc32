//! Names in generated hardware: each that is used is declared. Tools that read Verilog find that
//! too, but take seconds for a design.

use std::collections::BTreeSet;

use nicforge_codegen::rtl::{self, Wanted};
use nicforge_ir::generate::{self, Options};
use nicforge_passes::PassManager;

/// Words of a module that are names of signals: no keywords, no numbers, no ports of others.
fn names(text: &str) -> impl Iterator<Item = &str> {
    const KEYWORDS: &str = "module endmodule input output inout wire logic reg assign always_ff \
        always_comb always posedge negedge begin end if else case casez endcase default for \
        generate endgenerate genvar integer localparam parameter function endfunction automatic \
        signed unsigned return unique int";
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '\'' | '`' | '.');
    text.split(move |c| !part(c)).filter(|word| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && !word.contains(['\'', '.'])
            && !KEYWORDS.split_whitespace().any(|keyword| keyword == *word)
    })
}

/// Names that are used in a module and not declared there.
fn undeclared(text: &str) -> BTreeSet<String> {
    let mut declared = BTreeSet::new();
    let mut used = BTreeSet::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or("");
        let words: Vec<&str> = names(code).collect();
        let first = code.split_whitespace().next().unwrap_or("");
        if first.starts_with(['`', '/']) {
            continue;
        }
        let declares =
            ["input", "output", "logic", "wire", "localparam", "parameter", "integer", "genvar"];
        if declares.contains(&first) {
            // The name stands behind its range, before a value.
            let name = code.split('=').next().unwrap_or("");
            declared
                .extend(name.split(']').next_back().into_iter().flat_map(names).map(String::from));
            let value = code.split_once('=').map_or("", |(_, value)| value);
            used.extend(names(value).map(String::from));
        } else if matches!(first, "module" | "function" | "import") {
            declared.extend(words.into_iter().map(String::from));
        } else {
            used.extend(words.into_iter().map(String::from));
        }
    }
    // Instances of modules, `nf_queue #(...) u_queue (`, and blocks, `begin : g_engine`.
    let module =
        |name: &str| [" #(", " u_"].iter().any(|end| text.contains(&format!("{name}{end}")));
    used.retain(|name| {
        !declared.contains(name)
            && !["u_", "g_"].iter().any(|part| name.starts_with(part))
            && !module(name)
    });
    used
}

#[test]
fn every_name_in_hardware_is_declared() {
    let count = std::env::var("NICFORGE_RANDOM_PROGRAMS").ok().and_then(|n| n.parse().ok());
    for seed in 0..count.unwrap_or(120) {
        // Hardware has no `extend`, which is asked before.
        let bytes = Options { software: false, made: false, ..Options::BYTES };
        let options = if seed % 3 == 2 { bytes } else { Options::ALL };
        let program = generate::generate(seed, options);
        let program = PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{e}"));
        for wanted in [Wanted::Best, Wanted::Engine] {
            let Ok(made) = rtl::generate(&program, wanted, 2) else { continue };
            for (file, text) in made.files.iter().filter(|(file, _)| file.ends_with(".sv")) {
                let missing = undeclared(text);
                assert!(missing.is_empty(), "seed {seed}, {wanted:?}, {file}: {missing:?}");
            }
        }
    }
}
