//! CONTRIBUTING's "How to add" is true: the files it names are there, and a thing that was added by it stands in few.
//!
//! The limits are what the newest additions took. They may go down; one that has to go up shows that an idea is in more
//! than one place.

use kvset::core::engines::profile::Profile;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The section of CONTRIBUTING.md with this heading, up to the next one of its level.
fn section(heading: &str) -> String {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let begin = text.find(heading).unwrap_or_else(|| panic!("no `{heading}`")) + heading.len();
    let end = text[begin..].find("\n## ").map_or(text.len(), |end| begin + end);
    text[begin..end].to_owned()
}

/// Texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_file_that_it_names_is_there() {
    let text = section("## How to add");
    let folders = ["src/", "crates/", "schemas/", "docs/", "tests/", "scripts/", "config/"];
    let is_path = |word: &&str| folders.iter().any(|folder| word.starts_with(folder)) && !word.contains(' ');
    let named: BTreeSet<&str> = quoted(&text).filter(is_path).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        // Of a file that is yet to be written the folder is there.
        let path = name.split("NAME").next().unwrap_or(name).trim_end_matches('/');
        assert!(root().join(path).exists(), "CONTRIBUTING.md names `{name}`, which is not there");
    }
}

/// Files of the product, without its tests.
pub fn product() -> Vec<PathBuf> {
    let mut pending = vec![root().join("src")];
    let crates = fs::read_dir(root().join("crates")).expect("crates");
    pending.extend(crates.map(|entry| entry.expect("an entry").path().join("src")));
    let mut found = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let is_test = name == "tests" || name == "tests.rs";
            if path.is_dir() && !is_test {
                pending.push(path);
            } else if name.ends_with(".rs") && !is_test {
                found.push(path);
            }
        }
    }
    found
}

/// Files outside `own` that name one of these in their code.
fn files_that_name(names: &[&str], own: &str) -> Vec<PathBuf> {
    let is_named = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a readable source");
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.lines().filter_map(|line| line.split("//").next());
        code.into_iter().any(|line| names.iter().any(|name| line.contains(name)))
    };
    product().into_iter().filter(|path| !path.starts_with(root().join(own))).filter(is_named).collect()
}

fn assert_at_most(most: usize, what: &str, names: &[&str], own: &str) {
    let files = files_that_name(names, own);
    assert!(!files.is_empty(), "nothing names {names:?}");
    let list: Vec<_> = files.iter().map(|path| path.strip_prefix(root()).unwrap_or(path).display()).collect();
    assert!(
        files.len() <= most,
        "{what} stands in {} files, of at most {most}:\n{}",
        files.len(),
        list.iter().map(|path| format!("  {path}\n")).collect::<String>()
    );
}

#[test]
fn every_engine_has_a_page_and_is_in_the_table_of_all() {
    let table = fs::read_to_string(root().join("docs/engines.md")).expect("docs/engines.md");
    for spec in Profile::ALL {
        assert!(root().join("docs").join(spec.page).exists(), "{} has no page `{}`", spec.name, spec.page);
        assert!(table.contains(&format!("`{}`", spec.name)), "docs/engines.md does not name `{}`", spec.name);
    }
}

#[test]
fn the_newest_additions_stand_in_few_files() {
    let offload = ["vllm_offload", "VllmOffload", "vllm-offload"];
    // Two of them model it with the pool above it, and five give it its settings.
    assert_at_most(13, "a tier (vLLM's own)", &offload, "crates/core/src/engines/vllm_offload");
    // An engine without options took four, and an option of its own the file where all options are declared.
    assert_at_most(5, "an engine with an option", &["Trtllm", "trtllm"], "crates/core/src/engines/trtllm");
    assert_at_most(
        6,
        "a question",
        &["retention_classes", "RetentionClassEstimate"],
        "crates/core/src/questions/retention_classes",
    );
    assert_at_most(
        5,
        "a field of the request event",
        &["Label::RetentionClass", "\"retention_class\""],
        "crates/core/src/questions/retention_classes",
    );
    assert_at_most(2, "an option of engines", &["hicache_write"], "crates/core/src/engines/sglang");
    // Two define and compute it, a metric and a table show it.
    assert_at_most(4, "a field of the estimate", &["accumulated_bytes"], "schemas");
    assert_at_most(3, "a metric", &["kvset_stalled_partitions", "STALLED_PARTITIONS"], "tests");
    assert_at_most(4, "a setting of the service", &["forget_after"], "crates/core");
    // Beside its own file, its name and its row.
    assert_at_most(2, "a trace format", &["MooncakeDelta"], "crates/formats/src/trace/formats/delta.rs");
}
