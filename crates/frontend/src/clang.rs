//! Running clang: source in, syntax tree or diagnostics out.

use std::collections::HashMap;
use std::env::consts::ARCH;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use nicforge_ir::{Diagnostic, Span};
use serde_json::Value;

use crate::Options;
use crate::alkali;
use crate::ast::{self, Files, Node};
use crate::diagnostics::codes;
use crate::nesting;

/// Words for programs, which have no C library.
const BARE: [&str; 3] = ["--target=x86_64-linux-gnu", "-ffreestanding", "-nostdlibinc"];

/// Inputs of clang.
pub enum Input<'a> {
    /// A file, named to clang as given.
    Path(&'a str),
    /// Text on standard input, which clang names `<stdin>`.
    Text(&'a str),
}

/// Runs clang on one source file.
///
/// # Errors
/// clang's own errors, an error that names the program that could not be started, or output that is
/// not clang's.
pub fn parse(input: &Input, options: &Options, files: &mut Files) -> Result<Node, Vec<Diagnostic>> {
    let output = run(input, &BARE, options, files)?;
    let document = documents(&output, options).next();
    Ok(ast::decode(
        &document.unwrap_or_else(|| Err(fail("clang printed nothing".to_string())))?,
        files,
    ))
}

/// Runs clang on a file of a process, which has the C library; the declarations whose name contains
/// `name`. All would be much.
///
/// # Errors
/// As [`parse`].
pub fn parse_hosted(
    path: &str,
    name: &str,
    options: &Options,
    files: &mut Files,
) -> Result<Vec<Node>, Vec<Diagnostic>> {
    let filter = format!("-ast-dump-filter={name}");
    let output = run(&Input::Path(path), &["-Xclang", &filter], options, files)?;
    documents(&output, options)
        .map(|document| document.map(|document| ast::decode(&document, files)))
        .collect()
}

fn fail(message: String) -> Vec<Diagnostic> {
    vec![Diagnostic::error(codes::CLANG_MISSING.id, Span::default(), message)]
}

/// The trees that clang printed.
fn documents<'o>(
    output: &'o [u8],
    options: &'o Options,
) -> impl Iterator<Item = Result<Value, Vec<Diagnostic>>> + 'o {
    let mut reader = serde_json::Deserializer::from_slice(output);
    reader.disable_recursion_limit();
    let name = options.clang.display();
    reader.into_iter::<Value>().map(move |document| {
        document.map_err(|e| fail(format!("`{name}` printed no syntax tree: {e}")))
    })
}

/// Arguments of clang for an input, without its name.
fn arguments(input: &Input, words: &[&str], options: &Options) -> Vec<String> {
    let mut all: Vec<String> = words.iter().map(ToString::to_string).collect();
    all.extend(["-std=gnu11", "-fsyntax-only", "-Xclang", "-ast-dump=json"].map(String::from));
    // One line per message: the frame is drawn by us. The tag tells this front end to shared
    // headers.
    all.extend(["-fno-color-diagnostics", "-w", "-fno-caret-diagnostics"].map(String::from));
    all.extend(["-ferror-limit=100", "-D__NICFORGE__=1", "-I"].map(String::from));
    all.push(options.include_dir.display().to_string());
    all.extend(options.clang_args.iter().cloned());
    if let Input::Path(path) = input {
        all.extend(alkali::instead_of_beside(path, &options.include_dir));
    }
    all
}

/// Trees that clang printed ahead: by arguments, and the file's name and text.
type Ahead = HashMap<(Vec<String>, String, Vec<u8>), Vec<u8>>;
static AHEAD: Mutex<Option<Ahead>> = Mutex::new(None);

/// Takes what was printed ahead of an input. It is given once.
fn taken(arguments: &[String], name: &str, text: &[u8]) -> Option<Vec<u8>> {
    let mut kept = AHEAD.lock().unwrap_or_else(PoisonError::into_inner);
    kept.as_mut()?.remove(&(arguments.to_vec(), name.to_string(), text.to_vec()))
}

/// See [`crate::ahead`].
pub fn ahead(paths: &[PathBuf], options: &Options) -> io::Result<()> {
    let named = |path: &PathBuf| path.to_string_lossy().into_owned();
    let names: Vec<String> = paths.iter().map(named).collect();
    let Some(first) = names.first() else { return Ok(()) };
    let all = arguments(&Input::Path(first), &BARE, options);
    let texts = paths.iter().map(std::fs::read).collect::<io::Result<Vec<_>>>()?;
    let fits = |(name, text): (&String, &Vec<u8>)| {
        nesting::check(&String::from_utf8_lossy(text), None).is_none()
            && arguments(&Input::Path(name), &BARE, options) == all
    };
    let Some(command) = nicforge_clang::proper(&options.clang, &all)? else { return Ok(()) };
    if !names.iter().zip(&texts).all(fits) {
        return Ok(());
    }
    let ran = Command::new(&command[0]).args(&command[1..]).args(&names).output()?;
    let trees = trees(&ran.stdout);
    if ran.status.success() && ran.stderr.is_empty() && trees.len() == names.len() {
        let printed = trees.into_iter().map(<[u8]>::to_vec);
        let keys = names.into_iter().zip(texts).map(|(name, text)| (all.clone(), name, text));
        let mut kept = AHEAD.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_default().extend(keys.zip(printed));
    }
    Ok(())
}

/// The trees in what clang printed: one ends with a brace at the beginning of a line, and the next
/// begins right behind it.
fn trees(text: &[u8]) -> Vec<&[u8]> {
    let (mut trees, mut from) = (Vec::new(), 0);
    for (at, _) in text.windows(2).enumerate().filter(|(_, two)| two == b"\n}") {
        trees.push(&text[from..at + 2]);
        from = at + 2;
    }
    trees
}

/// Output of clang.
fn run(
    input: &Input,
    words: &[&str],
    options: &Options,
    files: &mut Files,
) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let (name, text) = match input {
        Input::Path(path) => (*path, std::fs::read(path).ok()),
        Input::Text(text) => ("<stdin>", Some(text.as_bytes().to_vec())),
    };
    let deep = text
        .as_ref()
        .and_then(|text| nesting::check(&String::from_utf8_lossy(text), Some(files.open(name))));
    if let Some(deep) = deep {
        return Err(vec![deep]);
    }
    let all = arguments(input, words, options);
    if let Some(printed) = text.and_then(|text| taken(&all, name, &text)) {
        return Ok(printed);
    }
    let mut command = Command::new(&options.clang);
    command.args(all);
    match input {
        Input::Path(path) => command.arg("--").arg(path),
        Input::Text(_) => command.args(["-x", "c", "-"]),
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = options.clang.display();
    let mut child = command.spawn().map_err(|e| {
        let diagnostic = fail(format!("cannot start `{name}`: {e}")).remove(0);
        vec![
            diagnostic
                .help("install clang 19 (`apt-get install clang-19`); 16, 15 and 14 are taken too"),
        ]
    })?;
    let mut stdin = child.stdin.take();
    let text = match input {
        Input::Text(text) => text.as_bytes(),
        Input::Path(_) => &[],
    };
    // Written from a thread of its own: clang may fill its output pipe before it has read all its
    // input.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.as_mut().map(|pipe| pipe.write_all(text)));
        child.wait_with_output()
    });
    let output = output.map_err(|e| fail(format!("cannot read the output of `{name}`: {e}")))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let errors = parse_messages(&messages, files);
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(signal) = output.status.signal() {
        return Err(vec![nesting::crashed(signal)]);
    }
    if !output.status.success() {
        return Err(fail(format!("`{name}` failed ({}): {}", output.status, messages.trim())));
    }
    Ok(output.stdout)
}

/// Reads clang's `path:line:column: error: text` lines; a `note:` joins the error before it.
fn parse_messages(messages: &str, files: &mut Files) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for line in messages.lines() {
        if let Some((place, text)) =
            line.split_once(": error: ").or_else(|| line.split_once(": fatal error: "))
        {
            let span = place_span(place, files);
            found.push(match annotation(text) {
                Some(name) => out_of_range(span, &name),
                None if text.ends_with("file not found") => {
                    Diagnostic::error(codes::CLANG.id, span, text).help(missing_header_help(text))
                }
                None => Diagnostic::error(codes::CLANG.id, span, text),
            });
        } else if let Some((place, text)) = line.split_once(": note: ")
            && let Some(last) = found.last_mut()
        {
            // How an annotation is made is not the user's matter.
            if last.code == codes::ANNOTATION.id {
                continue;
            }
            let span = place_span(place, files);
            if span.file.is_some() {
                last.secondary.push(nicforge_ir::Label { span, text: text.to_string() });
            } else {
                last.notes.push(text.to_string());
            }
        } else if let Some(text) =
            line.strip_prefix("error: ").or(line.split_once("clang: error: ").map(|p| p.1))
        {
            found.push(Diagnostic::error(codes::CLANG.id, Span::default(), text));
        }
    }
    found
}

/// Remedy for a header that clang misses, by its words: `'string.h' file not found`.
fn missing_header_help(text: &str) -> String {
    let system = ["/usr/include".to_string(), format!("/usr/include/{ARCH}-linux-gnu")];
    let name = text.split('\'').nth(1).filter(|name| !name.starts_with('.'));
    let is_there = |name: &str| system.iter().any(|dir| Path::new(dir).join(name).is_file());
    if name.is_some_and(is_there) {
        return format!("it is a header of this system: -I {} -I {}", system[0], system[1]);
    }
    "give its folder with -I; programs have no system headers, and nicforge/headers.h has the \
     usual packet headers"
        .to_string()
}

/// The annotation of which clang says that its number is not above 0, as nicforge.h has it.
fn annotation(text: &str) -> Option<String> {
    // With clang 14 and 15 `static_assert failed … "nf.ports"`.
    if !text.starts_with("static assertion failed") && !text.starts_with("static_assert failed") {
        return None;
    }
    let word = text.trim_end_matches('"').rsplit([' ', '"']).next()?.strip_prefix("nf.")?;
    Some(format!("NF_{}", word.split('.').next()?.to_uppercase()))
}

fn out_of_range(span: Span, name: &str) -> Diagnostic {
    let message = format!("the number of {name} is out of range: at least 1");
    Diagnostic::error(codes::ANNOTATION.id, span, message).help("write a whole number above 0")
}

/// The span of the token at `path:line:column`.
fn place_span(place: &str, files: &mut Files) -> Span {
    let mut parts = place.rsplitn(3, ':');
    let (Some(col), Some(line), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Span::default();
    };
    let (Ok(col), Ok(line)) = (col.parse::<usize>(), line.parse::<usize>()) else {
        return Span::default();
    };
    let file = files.open(path);
    let text = &files.map[file].text;
    let start = line_start(text, line) + col.saturating_sub(1);
    Span::new(file, start as u32, (start + token_len(text, start)) as u32)
}

fn line_start(text: &str, line: usize) -> usize {
    text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
}

/// Length of the word at `start`, or 1; 0 at the end of a line.
fn token_len(text: &str, start: usize) -> usize {
    let rest = text.as_bytes().get(start..).unwrap_or_default();
    let word = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    word.max(usize::from(rest.first().is_some_and(|b| *b != b'\n')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nicforge_ir::SourceFile;

    #[test]
    fn missing_headers_are_looked_for() {
        let told = missing_header_help("'stdio.h' file not found");
        assert_eq!(told.contains("-I /usr/include "), Path::new("/usr/include/stdio.h").is_file());
        for name in ["no/such/header.h", "../include/stdio.h"] {
            let told = missing_header_help(&format!("'{name}' file not found"));
            assert!(told.starts_with("give its folder with -I"), "{told}");
        }
    }

    #[test]
    fn files_read_together_are_read_as_alone() {
        let folder = tempfile::tempdir().unwrap();
        let texts = ["int one;\n", "struct two { int a; };\nint f(void) { return 2; }\n"];
        let written = |(number, text): (usize, &&str)| {
            let path = folder.path().join(format!("{number}.c"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths: Vec<PathBuf> = texts.iter().enumerate().map(written).collect();
        let options = Options::new(".");
        let read = |path: &PathBuf| {
            let text = |path: &str| SourceFile { path: path.into(), text: String::new() };
            let (name, is_user) = (path.to_str().unwrap(), |_: &str| true);
            let mut files = Files::new(&text, &is_user);
            let tree = format!("{:?}", parse(&Input::Path(name), &options, &mut files).unwrap());
            // Nodes are told apart by where clang has them, which is always somewhere else.
            let parts = tree.split(|c: char| !c.is_ascii_digit());
            let places: Vec<&str> = parts.filter(|part| part.len() > 10).collect();
            places.iter().fold(tree.clone(), |tree, place| tree.replace(place, "N"))
        };
        let alone: Vec<String> = paths.iter().map(read).collect();
        ahead(&paths, &options).unwrap();
        let kept = || AHEAD.lock().unwrap().as_ref().map_or(0, HashMap::len);
        assert_eq!(kept(), 2);
        assert_eq!(paths.iter().map(read).collect::<Vec<_>>(), alone);
        assert_eq!(kept(), 0, "each is given once");
    }

    #[test]
    fn messages_become_diagnostics_with_notes() {
        let read =
            |path: &str| SourceFile { path: path.into(), text: "int a;\nint foo = b;\n".into() };
        let is_user = |_: &str| true;
        let mut files = Files::new(&read, &is_user);
        let found = parse_messages(
            "a.c:2:11: error: use of undeclared identifier 'b'\na.c:1:5: note: 'a' declared here\n1 error generated.\n",
            &mut files,
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "use of undeclared identifier 'b'");
        assert_eq!((found[0].primary.span.start, found[0].primary.span.end), (17, 18));
        assert_eq!(found[0].secondary[0].span.start, 4);
    }
}
