//! No file imports a file that imports it, directly or through others (docs/architecture.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The files that each file of one crate names, by module path.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The modules below `folder`: their path, such as `stack::tree`, and their code without comments and tests.
fn modules(folder: &Path, path: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a source folder") {
        let file = entry.expect("a readable entry").path();
        let name = file.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8").to_owned();
        let is_root = ["mod", "lib", "main"].contains(&name.as_str());
        let module = match (path, is_root) {
            (path, true) => path.to_owned(),
            ("", false) => name.clone(),
            (path, false) => format!("{path}::{name}"),
        };
        if file.is_dir() {
            modules(&file, &module, found);
        } else if file.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            found.insert(module, code_of(&file));
        }
    }
}

/// A file's code: what its own tests import is not part of the layers.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a readable source");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths that begin with `crate`, `super` or `self`, one for each name of a group in braces.
fn paths(code: &str) -> Vec<String> {
    let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(is_path) {
                continue;
            }
            let rest = &code[at..];
            let path = &rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())];
            found.push(path.trim_end_matches(':').to_owned());
            if let Some(group) =
                rest[path.len()..].strip_prefix('{').and_then(|group| group.split('}').next())
            {
                let names = group.split(',').map(str::trim).filter(|name| !name.is_empty());
                found.extend(names.map(|name| format!("{path}{name}")));
            }
        }
    }
    found
}

/// The module that a path names from within `module`: the longest part of it that is a file.
fn resolve(path: &str, module: &str, modules: &BTreeMap<String, String>) -> Option<String> {
    let mut base: Vec<_> = module.split("::").filter(|part| !part.is_empty()).collect();
    for part in path.split("::") {
        match part {
            "crate" => base.clear(),
            "super" => drop(base.pop()),
            "self" => {}
            name => base.push(name.split_whitespace().next().unwrap_or_default()),
        }
    }
    while !base.is_empty() {
        let found = base.join("::");
        if modules.contains_key(&found) {
            return Some(found);
        }
        base.pop();
    }
    None
}

fn imports(folder: &Path) -> Imports {
    let mut found = BTreeMap::new();
    modules(folder, "", &mut found);
    let of = |(module, code): (&String, &String)| {
        let named = paths(code).into_iter().filter_map(|path| resolve(&path, module, &found));
        // A folder's own file gathers what lies in it, so those may name each other.
        let apart = |named: &String| {
            let below = |a: &str, b: &str| a.is_empty() || b.starts_with(&format!("{a}::"));
            named != module && !below(module, named) && !below(named, module)
        };
        (module.clone(), named.filter(apart).collect())
    };
    found.iter().map(of).collect()
}

/// A way from a module back to itself, if there is one.
fn cycle(imports: &Imports) -> Option<Vec<String>> {
    fn visit(at: &String, imports: &Imports, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        if let Some(begin) = way.iter().position(|passed| passed == at) {
            way.drain(..begin);
            way.push(at.clone());
            return true;
        }
        if done.contains(at) {
            return false;
        }
        way.push(at.clone());
        if imports.get(at).is_some_and(|named| named.iter().any(|next| visit(next, imports, way, done))) {
            return true;
        }
        way.pop();
        done.insert(at.clone());
        false
    }
    let (mut way, mut done) = (Vec::new(), BTreeSet::new());
    imports.keys().any(|module| visit(module, imports, &mut way, &mut done)).then_some(way)
}

#[test]
fn no_files_of_a_crate_import_each_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).expect("the layers");
    let mut folders: Vec<_> = crates.map(|layer| layer.expect("a layer").path().join("src")).collect();
    folders.push(root.join("src"));
    for folder in folders {
        let imports = imports(&folder);
        assert!(imports.values().any(|named| !named.is_empty()), "{}: nothing was read", folder.display());
        let found = cycle(&imports);
        assert_eq!(found, None, "{}: files that import each other", folder.display());
    }
}

/// What the files and folders of one folder import of each other; the folder's own file gathers them and is left out.
fn rooms(imports: &Imports, folder: &str) -> Imports {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}::") };
    let room = |module: &String| {
        let inside = module.strip_prefix(&prefix)?;
        Some(inside.split("::").next()?.to_owned()).filter(|name| !name.is_empty())
    };
    let mut rooms = Imports::new();
    for (module, named) in imports {
        let Some(own) = room(module) else { continue };
        let others = named.iter().filter_map(room).filter(|other| *other != own);
        rooms.entry(own.clone()).or_default().extend(others);
    }
    rooms
}

/// At every level: a folder is one room there, and no room imports one that imports it.
#[test]
fn no_rooms_of_a_folder_import_each_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let layers = fs::read_dir(root.join("crates")).expect("the layers");
    let sources = layers.map(|layer| layer.expect("a layer").path().join("src")).chain([root.join("src")]);
    let mut knots = Vec::new();
    for source in sources {
        let imports = imports(&source);
        let parents = |module: &String| {
            module.match_indices("::").map(|(at, _)| module[..at].to_owned()).collect::<Vec<_>>()
        };
        let folders: BTreeSet<String> = imports.keys().flat_map(parents).chain([String::new()]).collect();
        for folder in folders {
            let found = cycle(&rooms(&imports, &folder));
            knots
                .extend(found.map(|found| format!("{}, {folder}: {}", source.display(), found.join(" -> "))));
        }
    }
    assert_eq!(knots, Vec::<String>::new(), "rooms that import each other");
}

/// The core's own page lists its rooms, each of which may import those before it.
#[test]
fn rooms_of_the_core_import_those_before_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/core/src");
    let page = fs::read_to_string(source.join("lib.rs")).expect("the core's page");
    let listed = page.lines().filter_map(|line| line.strip_prefix("//! - [`")?.split_once("`]:"));
    let listed: Vec<&str> = listed.map(|(room, _)| room).collect();
    let rooms = rooms(&imports(&source), "");
    assert!(
        rooms.keys().all(|room| listed.contains(&room.as_str())),
        "{listed:?} lacks one of {:?}",
        rooms.keys()
    );
    for (at, room) in listed.iter().enumerate() {
        let above: Vec<_> =
            rooms[*room].iter().filter(|other| !listed[..at].contains(&other.as_str())).collect();
        assert_eq!(above, Vec::<&String>::new(), "{room} imports what lib.rs names after it");
    }
}

#[test]
fn a_cycle_over_three_files_is_found() {
    let named = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let mut imports = Imports::from([named("a", "b"), named("b", "c"), named("c", "d")]);
    assert_eq!(cycle(&imports), None);
    imports.extend([named("c", "a")]);
    let found = cycle(&imports).expect("a, b and c");
    assert_eq!((found.len(), &found[0]), (4, &found[3]));
}

#[test]
fn a_group_in_braces_names_each_of_its_files() {
    let found = paths("use super::stack::{tree, Slots};\nuse crate::pages::PageIds;\nlet a = not_super::x;");
    let expected = ["crate::pages::PageIds", "super::stack", "super::stack::tree", "super::stack::Slots"]
        .map(str::to_owned);
    assert_eq!(found, expected);
}
