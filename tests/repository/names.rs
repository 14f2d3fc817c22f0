//! A name stands for one type, wherever in the product it is read.

use crate::places::{product, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The name of the type that a line declares, where it declares one.
fn declared(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = match code.strip_prefix("pub") {
        Some(rest) => {
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest)
        }
        None => code,
    };
    let (kind, rest) = code.trim_start().split_once(' ')?;
    let is_type = match kind {
        "struct" | "enum" | "trait" | "union" => true,
        // One that is not at the margin belongs to a trait.
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| is_type && !name.is_empty())
}

/// Twice in one file is once: for two features, or in a macro.
#[test]
fn a_name_stands_for_one_type() {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in product() {
        let text = fs::read_to_string(&path).expect("a readable source");
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        for name in code.lines().filter_map(declared) {
            files.entry(name.to_owned()).or_default().insert(shown.clone());
        }
    }
    assert!(files.len() > 1000, "{} names were found", files.len());
    // The macro that declares it stands in a file of its own.
    files.remove("EngineRules");
    files.retain(|_, files| files.len() > 1);
    assert_eq!(files, BTreeMap::new(), "each of these names more than one type");
}

#[test]
fn declarations_are_found() {
    let found = ["pub(super) struct Row<'a> {", "    enum Row {", "pub type Row = u8;", "trait Row: Sized {"];
    assert!(found.iter().all(|line| declared(line) == Some("Row")));
    let none = ["    type Row = u8;", "impl Row {", "// struct Row", "pub struct $Row {", "structure Row"];
    assert!(none.iter().all(|line| declared(line).is_none()));
}
