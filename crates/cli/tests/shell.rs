//! Completions and manual pages, judged by bash and by what the command line has.

mod common;

use common::{NICFORGE, Place, finish};

#[test]
fn bash_completes_commands_and_options() {
    let place = Place::new();
    let complete = |words: &str, last: usize| {
        let script = format!(
            "source <('{NICFORGE}' completions bash) || exit 1\n\
             COMP_WORDS=({words}); COMP_CWORD={last}\n\
             _nicforge nicforge \"${{COMP_WORDS[$last]}}\" \"${{COMP_WORDS[$last-1]}}\"\n\
             echo \"${{COMPREPLY[@]}}\"",
        );
        let script = format!("last={last}; {script}");
        let ran = finish(place.prepare("bash", &["-c", &script]));
        ran.ok().split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(complete("nicforge ver", 1), ["verify"]);
    assert_eq!(complete("nicforge ex", 1), ["explain", "explain-error"]);
    assert_eq!(complete("nicforge verify --tar", 2), ["--target"]);
    assert_eq!(complete("nicforge build --emit p", 3), ["passes"]);
    place.run(&["completions", "tcsh"]).fails(2, &["possible values", "bash"]);
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(place.run(&["completions", shell]).ok().contains("explain-error"), "{shell}");
    }
    place.is_clean();
}

#[test]
fn every_command_has_a_page_for_man() {
    let place = Place::new();
    let ran = place.run(&["man", "pages"]);
    let pages = place.path().join("pages");
    let count = std::fs::read_dir(&pages).unwrap().count();
    assert_eq!(ran.ok(), format!("wrote {count} pages to pages\n"));
    let list = place.run(&["--list"]);
    let commands = list.ok().lines().filter_map(|line| line.strip_prefix("  "));
    let mut seen = 0;
    for command in commands.map(|line| line.split_whitespace().next().unwrap()) {
        let page = std::fs::read_to_string(pages.join(format!("nicforge-{command}.1")));
        let page = page.unwrap_or_else(|e| panic!("{command}: {e}"));
        assert!(page.contains(".TH ") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
        seen += 1;
    }
    assert!(seen > 20 && count > seen, "{seen} of {count}");
    assert!(pages.join("nicforge.1").is_file() && pages.join("nicforge-spin-sim.1").is_file());
    place.is_clean();
}
