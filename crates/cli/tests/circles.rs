//! Files of a crate that import each other in a circle are few: such files can only be read
//! together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// Files in the largest circle.
const MOST: usize = 3;

/// A file as the module it is, by names from the crate's root.
type Module = Vec<String>;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of a crate, without tests.
fn modules(src: &Path) -> BTreeMap<Module, syn::File> {
    let mut found = BTreeMap::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let inside = path.strip_prefix(src).unwrap().with_extension("");
                let names = inside.iter().map(|name| name.to_str().unwrap().to_string());
                let mut module: Module = names.collect();
                if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
                    module.pop();
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                found.insert(module, file);
            }
        }
    }
    found
}

/// Names of its own crate in a file, as paths from the root.
struct Named<'a> {
    module: &'a Module,
    /// Names of modules below this one.
    below: BTreeSet<String>,
    paths: Vec<Module>,
    /// Imports, by the names that they have here: others may import them from here.
    shown: BTreeMap<String, Module>,
}

impl Named<'_> {
    /// The path from the root of one that names something of this crate.
    fn full(&self, path: &[String]) -> Option<Module> {
        let mut at = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first if self.below.contains(first) => {}
            _ => return None,
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    fn note(&mut self, path: &[String]) {
        self.paths.extend(self.full(path));
    }

    /// Notes what is imported, and how it is called here.
    fn import(&mut self, path: &[String], name: &syn::Ident) {
        if let Some(full) = self.full(path) {
            self.shown.insert(name.to_string(), full.clone());
            self.paths.push(full);
        }
    }

    fn tree(&mut self, front: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [front, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.tree(front, item));
            }
            syn::UseTree::Name(name) if name.ident == "self" => self.note(front),
            syn::UseTree::Name(name) => self.import(&with(&name.ident), &name.ident),
            syn::UseTree::Rename(name) => self.import(&with(&name.ident), &name.rename),
            syn::UseTree::Glob(_) => self.note(front),
        }
    }
}

impl<'ast> Visit<'ast> for Named<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // Tests stand in modules of their own, at the end of a file.
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(&path.segments.iter().map(|one| one.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }
}

/// Which files each file imports from; what a module only hands on comes from where it stands.
fn imports(src: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let files = modules(src);
    let named: BTreeMap<&Module, Named> = files
        .iter()
        .map(|(module, file)| {
            let child =
                |other: &&Module| other.len() == module.len() + 1 && other.starts_with(module);
            let below = files.keys().filter(child).filter_map(|other| other.last().cloned());
            let (below, paths, shown) = (below.collect(), Vec::new(), BTreeMap::new());
            let mut named = Named { module, below, paths, shown };
            named.visit_file(file);
            (module, named)
        })
        .collect();
    let owner = |path: &Module| {
        let mut path = path.clone();
        // Names are handed on a few times at most.
        for _ in 0..4 {
            let depth = (0..=path.len()).rev().find(|depth| files.contains_key(&path[..*depth]));
            let depth = depth.unwrap_or(0);
            let shown = path
                .get(depth)
                .and_then(|name| named.get(&path[..depth].to_vec())?.shown.get(name));
            match shown {
                Some(origin) => path = origin.clone(),
                None => return path[..depth].to_vec(),
            }
        }
        path
    };
    let of = |(module, named): (&&Module, &Named)| {
        let other = |to: &Module| !to.starts_with(module) && !to.is_empty();
        let to = named.paths.iter().map(owner).filter(other);
        ((*module).clone(), to.collect())
    };
    named.iter().map(of).collect()
}

fn reached(graph: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.clone()];
    while let Some(next) = open.pop() {
        for to in graph.get(&next).into_iter().flatten() {
            if seen.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    seen
}

/// Files that import each other, directly or by others.
fn circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<BTreeSet<Module>> {
    let from: BTreeMap<&Module, BTreeSet<Module>> =
        graph.keys().map(|module| (module, reached(graph, module))).collect();
    let circle = |module: &Module| {
        let back = |other: &&Module| from[*other].contains(module);
        from[module].iter().filter(back).cloned().collect()
    };
    let all: BTreeSet<BTreeSet<Module>> = graph.keys().map(circle).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[test]
fn circles_of_imports_are_small() {
    let mut found = Vec::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(crates()).unwrap() {
        let entry = entry.unwrap();
        let graph = imports(&entry.path().join("src"));
        let circles = circles(&graph);
        seen += circles.len();
        for circle in circles.iter().filter(|circle| circle.len() > MOST) {
            let joined = |files: &BTreeSet<Module>| -> String {
                files.iter().map(|module| module.join("/")).collect::<Vec<_>>().join(", ")
            };
            found.push(format!("{}:", entry.file_name().display()));
            for module in circle {
                let to = graph[module].intersection(circle).cloned().collect();
                found.push(format!("  {} imports {}", module.join("/"), joined(&to)));
            }
        }
    }
    assert!(found.is_empty(), "circles of more than {MOST} files:\n{}", found.join("\n"));
    assert!(seen > 0, "there are circles of two files, which the search does not find");
}
