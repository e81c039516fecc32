//! What functions of C outside the subset do with their state.

use std::path::Path;

use nicforge_frontend::opaque::{self, Opaque};
use nicforge_frontend::{Diagnostics, Options};

fn read(name: &str, body: &str) -> Result<Opaque, Diagnostics> {
    let text = format!(
        "#include <string.h>\n#include <stdlib.h>\n#include <nicforge.h>\n\
         struct pair {{ uint32_t a, b; }};\n\
         struct request {{ uint32_t x, y, n; uint8_t d[8]; struct pair p, q; struct pair list[4]; }};\n\
         void take(struct request *all);\nvoid fill(struct pair *pair);\nuint32_t see(const struct pair *pair);\n\
         void nf_called_out(nf_pkt pkt, uint32_t value);\nvoid nf_called_log(uint32_t value);\n\
         static void body(nf_pkt pkt, uint32_t v, struct request *state)\n{{\n{body}\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.c"));
    std::fs::write(&path, text).unwrap();
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/include");
    opaque::read(&path, "body", &Options::new(headers))
}

/// What is used, as `x=rwk`: read, written, kept on some way.
fn uses(name: &str, body: &str) -> String {
    let found = read(name, body).unwrap_or_else(|e| panic!("{body}\n{e}"));
    let one = |of: &opaque::Use| {
        let flag = |on: bool, letter: &'static str| if on { letter } else { "" };
        format!(
            "{}={}{}{}",
            of.path.join("."),
            flag(of.read.is_some(), "r"),
            flag(of.written.is_some(), "w"),
            flag(of.kept, "k")
        )
    };
    found.uses.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn fields_are_found_along_all_ways() {
    let cases = [
        ("state->x = 1;", "x=w"),
        ("if (v) state->x = 1;", "x=wk"),
        ("if (v) state->x = 1; else state->x = 2;", "x=w"),
        ("if (v) return; state->x = 1;", "x=wk"),
        ("state->x = 1; if (state->x) state->y = state->x;", "x=w y=wk"),
        ("state->x = state->x + 1;", "x=rw"),
        ("state->x++;", "x=rw"),
        ("state->x += v;", "x=rw"),
        ("state->x = 0; state->x += v;", "x=w"),
        ("v && (state->x = 1);", "x=wk"),
        ("v = v ? (state->x = 1) : (state->x = 2);", "x=w"),
        ("(void)sizeof(state->x);", ""),
        ("char text[state->n]; (void)text;", "=r"),
        // Loops may have no trip; endless ones are left by `break`.
        ("for (uint32_t i = 0; i < v; i++) state->x = i;", "x=wk"),
        ("for (;;) { state->x = v; if (v--) break; }", "x=w"),
        ("for (;;) { if (v--) break; state->x = v; }", "x=wk"),
        ("while (1) { if (v--) { state->x = 1; return; } }", "x=w"),
        ("do { if (v) continue; state->x = 1; } while (v--);", "x=wk"),
        ("do { state->x = 1; } while (state->y);", "x=w y=r"),
        ("switch (v) { case 1: state->x = 1; break; default: state->x = 2; }", "x=w"),
        ("switch (v) { case 1: state->x = 1; case 2: state->x = 2; }", "x=wk"),
        ("switch (v) { case 1: v = 3; default: state->x = 2; }", "x=w"),
        // Nobody knows the order.
        ("state->x = 1; if (v) goto end; state->y = 1; end: v = state->x;", "x=rwk y=wk"),
        ("switch (v & 1) { do { case 0: state->x = 1; case 1: v--; } while (v); }", "x=wk"),
        // Parts, and what is known by its address.
        ("state->p.a = 1;", "p.a=w"),
        ("struct pair all = {1, 2}; state->p = all; v = state->p.a;", "p=w"),
        ("state->d[v] = state->d[state->n];", "d=rwk n=r"),
        ("state->list[1].a = 3; v = state->list[0].b;", "list=rwk"),
        ("fill(&state->p); v = see(&state->q);", "p=rwk q=r"),
        ("memcpy(state->d, &state->p, 8);", "d=rwk p=r"),
        ("take(state);", "=rwk"),
        ("struct request *other = state; other->x = 1;", "=rwk"),
        ("struct request new = *state; *state = new; v = state->x;", "=rw"),
        ("nf_called_log(state->x); nf_called_out(pkt, state->y);", "x=r y=r"),
    ];
    for (number, (body, expected)) in cases.into_iter().enumerate() {
        assert_eq!(uses(&number.to_string(), body), expected, "{body}");
    }
}

#[test]
fn what_opaque_code_cannot_do_is_refused_where_it_is() {
    let cases = [
        ("v = nf_len(pkt);", "cannot call `nf_len`"),
        ("nf_pkt other = pkt; (void)other;", "knows nothing of a packet"),
        ("nf_called_log(1); nf_called_log(2);", "output `log` is called a second time on this way"),
        ("v = missing;", "undeclared identifier 'missing'"),
    ];
    for (number, (body, expected)) in cases.into_iter().enumerate() {
        let found = read(&format!("refused{number}"), body).unwrap_err();
        let first = &found.diagnostics[0];
        assert!(first.message.contains(expected), "{body}: {found}");
        let (line, _) =
            first.primary.span.line_col(&found.files[first.primary.span.file.unwrap()].text);
        assert_eq!(line, 13, "{body}");
    }
    // One on each way, and what is only maybe a second time: who runs it sees.
    for body in ["if (v) nf_called_log(1); else nf_called_log(2);", "while (v--) nf_called_log(v);"]
    {
        assert!(read("once", body).is_ok(), "{body}");
    }
    assert!(read("none", "}\nstatic void other(void) {").is_ok());
}

#[test]
fn variables_that_stay_are_named() {
    let found =
        read("statics", "static int calls; static const int limit = 3; calls += limit;").unwrap();
    assert_eq!(found.statics.len(), 1);
}
